"""The loop that the programs of the bench share: options, steps, what is printed and written at the end.

A program describes itself as a Job. Everything is a function of the options: the same --steps and --scale give the same losses
and the same state, bit for bit, on the same kind of device. --scale 1 is the shape the bench uses; less is the same
program with fewer layers, rows or tokens, for tests. Arrays are made with NumPy, so nothing but the program's own steps is launched.
"""

import argparse
import dataclasses
import json
import os
import sys
import time
from collections.abc import Callable

import jax

sys.path.insert(0, os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "scripts"))

from demo_train import program_hash, state_hash  # noqa: E402


@dataclasses.dataclass
class Job:
    state: object  # any pytree of NumPy arrays
    step: Callable  # (state, *batch) to (state, loss); calls one or more functions compiled by compile_once
    batch: Callable  # number of the step to a tuple of NumPy arrays


_programs = []  # hashes of the optimized programs, in the order they were compiled


def compile_once(function, donate=()):
    """function compiled at its first call, for the shapes of that call. donate: arguments that are given away."""
    jitted, compiled = jax.jit(function, donate_argnums=donate), []

    def call(*arguments):
        if not compiled:
            compiled.append(jitted.lower(*arguments).compile())
            _programs.append(program_hash(compiled[0])[0])
        return compiled[0](*arguments)

    return call


def at_least(least, number, scale):
    """number of layers or rows, scaled."""
    return max(least, round(number * scale))


def shorter(tokens, scale):
    """tokens of a batch: half of them where there are few layers, so that there is less to compute for each byte that is kept."""
    return tokens if scale >= 0.5 else tokens // 2


def main(text, make):
    """text: the program's doc; make: scale to Job."""
    parser = argparse.ArgumentParser(description=text.splitlines()[0])
    parser.add_argument("--steps", type=int, default=8)
    parser.add_argument("--scale", type=float, default=1.0, help="1 is the bench's shape")
    parser.add_argument("--json", metavar="FILE", help="write what happened there")
    options = parser.parse_args()

    device = jax.devices()[0]
    job = make(options.scale)
    state = jax.device_put(job.state, device)
    job.state = None
    begin = time.monotonic()
    losses, pending = [], None

    def note(loss):
        losses.append(float(loss))
        print(f"step {len(losses):3d}  loss {losses[-1]!r}  {time.monotonic() - begin:6.1f} s", flush=True)

    # The loss of a step is fetched when the next one is under way, so the device always has work queued.
    for number in range(options.steps):
        state, loss = job.step(state, *job.batch(number))
        if pending is not None:
            note(pending)
        pending = loss
    if pending is not None:
        note(pending)

    stats = {name: value for name, value in (device.memory_stats() or {}).items() if isinstance(value, int)}
    result = {
        "platform": device.platform,
        "steps": options.steps,
        "scale": options.scale,
        "losses": losses,
        "losses_exact": [value.hex() for value in losses],
        "state_sha256": state_hash(state),
        "hlo_sha256": " ".join(_programs),
        "memory_stats": stats,
    }
    print(f"state {result['state_sha256']}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=1)
    return 0
