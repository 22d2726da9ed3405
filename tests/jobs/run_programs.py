#!/usr/bin/env python3
"""Runs programs of programs.py on whatever device JAX has and writes what each returned.

    run_programs.py DIRECTORY [NAME...]

Each program's arrays go to DIRECTORY/NAME.npz as soon as they are known, so that a program that ends the
process takes no other's result with it; an exception goes to DIRECTORY/NAME.error. Before a program starts
its name is written to DIRECTORY/running.
"""

import os
import sys
import time
import traceback

import jax
import numpy as np

from programs import PROGRAMS


def as_numpy(leaf):
    """16-bit brain floats have no NumPy type that survives a file: they travel as float32, which holds them exactly."""
    array = np.asarray(leaf)
    return array.astype(np.float32) if array.dtype.name == "bfloat16" else array


def main():
    directory, names = sys.argv[1], sys.argv[2:] or list(PROGRAMS)
    os.makedirs(directory, exist_ok=True)
    for name in names:
        with open(os.path.join(directory, "running"), "w") as file:
            file.write(name)
        begin = time.monotonic()
        try:
            leaves = [as_numpy(leaf) for leaf in jax.tree.leaves(PROGRAMS[name][1]())]
        except Exception:
            with open(os.path.join(directory, name + ".error"), "w") as file:
                file.write(traceback.format_exc())
            continue
        arrays = {str(i): leaf for i, leaf in enumerate(leaves)}
        part = os.path.join(directory, name + ".part.npz")
        np.savez(part, seconds=time.monotonic() - begin, **arrays)
        os.rename(part, os.path.join(directory, name + ".npz"))
    with open(os.path.join(directory, "running"), "w") as file:
        file.write("")


if __name__ == "__main__":
    main()
