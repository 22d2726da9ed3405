"""Adam with the gradients clipped by their global norm, over any pytree, as scripts/demo_train.py does it."""

import jax
import jax.numpy as jnp
import numpy as np

B1, B2 = 0.9, 0.99


def state_of(weights):
    """(weights, first moments, second moments, steps done) of NumPy arrays."""
    return weights, jax.tree.map(np.zeros_like, weights), jax.tree.map(np.zeros_like, weights), np.float32(0)


def update(state, gradients, rate):
    weights, first, second, count = state
    norm = jnp.sqrt(sum(jnp.sum(g * g) for g in jax.tree.leaves(gradients)))
    scale = jnp.minimum(1.0, 1.0 / norm)
    count = count + 1
    unbias1, unbias2 = 1 / (1 - B1**count), 1 / (1 - B2**count)
    gradients = jax.tree.map(lambda g: g * scale, gradients)
    first = jax.tree.map(lambda m, g: B1 * m + (1 - B1) * g, first, gradients)
    second = jax.tree.map(lambda v, g: B2 * v + (1 - B2) * g * g, second, gradients)
    weights = jax.tree.map(
        lambda w, m, v: w - rate * (m * unbias1) / (jnp.sqrt(v * unbias2) + 1e-8), weights, first, second
    )
    return weights, first, second, count
