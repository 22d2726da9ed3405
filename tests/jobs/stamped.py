#!/usr/bin/env python3
"""Runs a job of the bench and writes when, by the device's clock, each of its steps was asked for.

    stamped.py JOB FILE [the job's options]      JOB as in bench_JOB.py; FILE: a JSON list of milliseconds from one to the next

The loop asks for a step when it has the loss of the one before the last, so from the third on what lies between two is a step's
time. A stamp is a CUDA event in a stream of its own with nothing else in it: it is there when the host gets to it, and
neither waits for the job nor orders it. On the synthetic GPU with --clock the device's clock is the modelled machine's.
"""

import ctypes
import importlib
import json
import sys

import jax
import rounds

NON_BLOCKING, DEFAULT = 1, 0  # CU_STREAM_NON_BLOCKING, CU_EVENT_DEFAULT


class Stamps:
    def __init__(self):
        jax.devices()  # the job's own context comes first
        self.driver = ctypes.CDLL("libcuda.so.1")
        self.events, self.stream, context = [], ctypes.c_void_p(), ctypes.c_void_p()
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(context), 0)
        self.call("cuCtxSetCurrent", context)
        self.call("cuStreamCreate", ctypes.byref(self.stream), NON_BLOCKING)

    def call(self, name, *arguments):
        status = getattr(self.driver, name)(*arguments)
        if status:
            raise RuntimeError(f"{name} returned {status}")

    def stamp(self):
        event = ctypes.c_void_p()
        self.call("cuEventCreate", ctypes.byref(event), DEFAULT)
        self.call("cuEventRecord", event, self.stream)
        self.events.append(event)

    def between(self):
        self.call("cuStreamSynchronize", self.stream)
        found, milliseconds = [], ctypes.c_float()
        for before, after in zip(self.events, self.events[1:]):
            self.call("cuEventElapsedTime", ctypes.byref(milliseconds), before, after)
            found.append(milliseconds.value)
        return found


def main():
    name, path = sys.argv[1:3]
    del sys.argv[1:3]
    module = importlib.import_module(f"bench_{name}")
    stamps = Stamps()

    def make(scale):
        job = module.make(scale)
        step = job.step

        def stamped(*arguments):
            stamps.stamp()
            return step(*arguments)

        job.step = stamped
        return job

    status = rounds.main(module.__doc__, make)
    with open(path, "w") as file:
        json.dump(stamps.between(), file)
    return status


if __name__ == "__main__":
    sys.exit(main())
