#!/usr/bin/env python3
"""Trains as people do: evaluates between steps, saves every leaf to a file, and half-way starts again from the file.

    model_saved.py --json FILE [--steps N] [--batch N] [--width N] [--layers N]

At the new start what was compiled is dropped. With JAX_COMPILATION_CACHE_DIR it has to come back from there.
"""

import argparse
import functools
import os
import tempfile

import adam
import jax
import jax.monitoring
import jax.numpy as jnp
import numpy as np
from outcome import write


def save(path, state):
    """Each leaf is copied to the host while the device has other work; the file is whole or not there."""
    leaves = {str(i): np.asarray(leaf) for i, leaf in enumerate(jax.tree.leaves(state))}
    with open(path + ".new", "wb") as file:
        np.savez(file, **leaves)
    os.replace(path + ".new", path)


def restore(path, like):
    with np.load(path) as file:
        leaves = [file[str(i)] for i in range(len(file.files))]
    return jax.device_put(jax.tree.unflatten(jax.tree.structure(like), leaves))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", required=True)
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    options = parser.parse_args()

    rng = np.random.default_rng(2)
    shape = (options.width, options.width)
    weights = [(rng.standard_normal(shape) * options.width**-0.5).astype(np.float32) for _ in range(options.layers)]
    held_out = jnp.asarray(rng.standard_normal((options.batch, options.width), dtype=np.float32))

    def loss_of(w, x):
        y = jnp.sin(x)
        for matrix in w:
            x = jnp.tanh(x @ matrix) + x
        return jnp.mean((x - y) ** 2)

    @functools.partial(jax.jit, donate_argnums=0)
    def step(state, x):
        loss, gradients = jax.value_and_grad(loss_of)(state[0], x)
        return adam.update(state, gradients, 1e-3), loss

    @jax.jit
    def evaluate(state, x):
        return loss_of(state[0], x)

    found = []
    jax.monitoring.register_event_listener(lambda event, **_: found.append(event))
    state, losses = jax.device_put(adam.state_of(weights)), []
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "checkpoint.npz")
        for number in range(options.steps):
            x = rng.standard_normal((options.batch, options.width), dtype=np.float32)
            state, loss = step(state, x)
            losses += [loss, evaluate(state, held_out)]
            save(path, state)
            if number == options.steps // 2:
                structure = state
                for leaf in jax.tree.leaves(state):
                    leaf.delete()
                jax.clear_caches()
                found.clear()
                state = restore(path, structure)
    hits = found.count("/jax/compilation_cache/cache_hits")
    if jax.config.jax_compilation_cache_dir and hits < 2:
        raise SystemExit(f"of what was compiled before {hits} came from the cache")
    write(options.json, state, losses)


if __name__ == "__main__":
    main()
