#!/usr/bin/env python3
"""Trains a narrow, deep network on a large batch: its memory is activations, kept for the backward pass.

    model_mlp.py --json FILE [--steps N] [--batch N] [--width N] [--layers N]
"""

import argparse
import functools

import jax
import jax.numpy as jnp
import numpy as np
from outcome import write


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", required=True)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--batch", type=int, default=8192)
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--layers", type=int, default=8)
    options = parser.parse_args()

    rng = np.random.default_rng(0)
    shape = (options.width, options.width)
    weights = [(rng.standard_normal(shape) * options.width**-0.5).astype(np.float32) for _ in range(options.layers)]

    def loss_of(w, x, y):
        for matrix in w:
            x = jnp.tanh(x @ matrix) + x
        return jnp.mean((x - y) ** 2)

    @functools.partial(jax.jit, donate_argnums=0)
    def step(w, x, y):
        loss, gradients = jax.value_and_grad(loss_of)(w, x, y)
        return [a - 0.1 * g for a, g in zip(w, gradients)], loss

    w, losses = jax.device_put(weights), []
    for _ in range(options.steps):
        x = rng.standard_normal((options.batch, options.width), dtype=np.float32)
        w, loss = step(w, x, np.sin(x))
        losses.append(loss)
    write(options.json, w, losses)


if __name__ == "__main__":
    main()
