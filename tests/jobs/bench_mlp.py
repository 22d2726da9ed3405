#!/usr/bin/env python3
"""Trains a narrow, deep network on a large batch: memory is activations, kept for the backward pass."""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import rounds

WIDTH, LAYERS, BATCH = 64, 40, 8192


def loss_of(weights, x, y):
    for matrix, bias in weights:
        x = x + jax.nn.gelu(x @ matrix + bias)
    return jnp.mean((x - y) ** 2)


def train(state, x, y):
    """One step of gradient descent with momentum."""
    weights, momentum = state
    loss, gradients = jax.value_and_grad(loss_of)(weights, x, y)
    momentum = jax.tree.map(lambda m, g: 0.9 * m + g, momentum, gradients)
    return (jax.tree.map(lambda w, m: w - 0.01 * m, weights, momentum), momentum), loss


def make(scale):
    rng = np.random.default_rng(0)
    weights = [
        (
            (rng.standard_normal((WIDTH, WIDTH)) * (WIDTH * LAYERS) ** -0.5).astype(np.float32),
            np.zeros(WIDTH, np.float32),
        )
        for _ in range(rounds.at_least(3, LAYERS, scale))
    ]
    x = rng.standard_normal((BATCH, WIDTH), dtype=np.float32)

    def batch(number):
        inputs = np.roll(x, 37 * number, axis=0)
        return inputs, np.sin(inputs)

    return rounds.Job(
        state=(weights, jax.tree.map(np.zeros_like, weights)),
        step=rounds.compile_once(train, donate=(0,)),
        batch=batch,
    )


if __name__ == "__main__":
    sys.exit(rounds.main(__doc__, make))
