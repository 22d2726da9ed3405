"""A job that is told what to do, a line at a time, as a notebook's kernel is: what processes.py drives.

    run N       N steps, says `started' and then the digest of the result
    stubborn N  the same, whatever interrupts it: each interrupted step is done again; and how often it was
    pool HOW    what children made by multiprocessing's spawn, forkserver or fork give
    quit

SIGINT interrupts a cell (KeyboardInterrupt) and leaves the process as it is: as in a notebook also where who started it all ignores
the signal, as a shell without job control has it for what it runs in the background.
"""

import hashlib
import multiprocessing
import os
import signal
import sys

COUNT, SIDE = 14, 1024  # 4 MiB each


def say(text):
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


class Stubborn:
    """Its handler interrupts the step that is being done, and nothing else; how often is counted."""

    def __init__(self):
        self.stepping, self.interrupted = False, 0

    def __call__(self, number, frame):
        if self.stepping:
            self.stepping = False
            self.interrupted += 1
            raise KeyboardInterrupt


def steps(count, stubborn=None):
    """The digest of COUNT arrays after so many steps; more than the device holds. A stubborn one does again what was
    interrupted."""
    import jax
    import jax.numpy as jnp

    @jax.jit
    def update(one, other):
        return jnp.sin(one) * 0.5 + other * 0.25

    @jax.jit
    def begin(number):
        return jnp.arange(SIDE * SIDE, dtype=jnp.float32).reshape(SIDE, SIDE) * 1e-6 + number

    arrays = [begin(float(i)) for i in range(COUNT)]
    done = 0
    while done < count:
        try:
            if stubborn:
                stubborn.stepping = True
            new = [update(arrays[i], arrays[(i + 1) % COUNT]) for i in range(COUNT)]
            jax.block_until_ready(new)
            if stubborn:
                stubborn.stepping = False
        except KeyboardInterrupt:
            if not stubborn:
                raise
            continue
        arrays, done = new, done + 1
    digest = hashlib.sha256()
    for array in arrays:
        digest.update(jax.device_get(array).tobytes())
    return digest.hexdigest()


def in_child(count):
    """What a child of a pool gives: the digest, and whether the library is in it."""
    return steps(count), "libhbmspill" in open("/proc/self/maps").read()


def without_gpu(_):
    """In a forked child CUDA cannot be used."""
    import numpy

    return float(numpy.arange(10).sum()), os.getpid() != os.getppid()


def pool(how):
    context = multiprocessing.get_context(how)
    with context.Pool(2) as children:
        if how == "fork":
            return children.map(without_gpu, range(4)) == [(45.0, True)] * 4
        return sorted(set(children.map(in_child, [2, 2])))


def cells():
    while True:
        try:
            line = sys.stdin.readline().split()
            if not line or line[0] == "quit":
                return
            if line[0] == "run":
                steps(1)
                say("started")
                say(steps(int(line[1])))
            elif line[0] == "stubborn":
                steps(1)
                stubborn = Stubborn()
                before = signal.signal(signal.SIGINT, stubborn)
                say("started")
                say(steps(int(line[1]), stubborn) + f" {stubborn.interrupted}")
                signal.signal(signal.SIGINT, before)
            elif line[0] == "pool":
                say(str(pool(line[1])))
        except KeyboardInterrupt:
            say("interrupted")


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.default_int_handler)
    cells()
