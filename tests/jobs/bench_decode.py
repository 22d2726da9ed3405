#!/usr/bin/env python3
"""Decodes with a key-value cache: a step is one token for a few sequences; weights are only read, the cache grows in place.

Every array is used once a step, in the same order.
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import rounds
from demo_train import normalize
from jax import lax

WIDTH, LAYERS, HEADS, BATCH, POSITIONS, VOCABULARY = 256, 24, 8, 4, 512, 512
SHAPES = {"query": 1, "key": 1, "value": 1, "project": 1, "up": 4, "down": 0.25}  # columns over rows


def attend(x, w, cache, position):
    """Its part of x with what is cached, the new entries of this position included; and the cache with them."""
    query, key, value = ((x @ w[name]).reshape(BATCH, HEADS, 1, -1) for name in ("query", "key", "value"))
    keys = lax.dynamic_update_slice(cache["keys"], key, (0, 0, position, 0))
    values = lax.dynamic_update_slice(cache["values"], value, (0, 0, position, 0))
    scores = jnp.sum(query * keys, axis=-1) * query.shape[-1] ** -0.5
    scores = jnp.where(jnp.arange(POSITIONS) <= position, scores, -1e9)
    mixed = jnp.sum(jax.nn.softmax(scores, axis=-1)[..., None] * values, axis=2)
    return mixed.reshape(BATCH, WIDTH) @ w["project"], {"keys": keys, "values": values}


def decode(weights, cache, tokens, position):
    x = weights["embed"][tokens]
    grown = []
    for w, c in zip(weights["layers"], cache):
        mixed, c = attend(normalize(x), w, c, position)
        x = x + mixed
        x = x + jax.nn.gelu(normalize(x) @ w["up"]) @ w["down"]
        grown.append(c)
    scores = normalize(x) @ weights["embed"].T
    return grown, jnp.argmax(scores, axis=-1).astype(jnp.int32), jnp.max(scores)


def make(scale):
    rng = np.random.default_rng(0)
    layers = rounds.at_least(2, LAYERS, scale)

    def normal(*shape, scale=1.0):
        return (rng.standard_normal(shape) * scale).astype(np.float32)

    def matrix(columns_over_rows):
        rows = WIDTH if columns_over_rows >= 1 else round(WIDTH / columns_over_rows)
        return normal(rows, round(rows * columns_over_rows), scale=rows**-0.5)

    weights = {
        "embed": normal(VOCABULARY, WIDTH),
        "layers": [{name: matrix(shape) for name, shape in SHAPES.items()} for _ in range(layers)],
    }
    # A prompt is there already: half of the cache holds something.
    cache = [
        {name: normal(BATCH, HEADS, POSITIONS, WIDTH // HEADS) for name in ("keys", "values")} for _ in range(layers)
    ]
    one = rounds.compile_once(decode, donate=(1,))

    def step(state, position):
        cache, tokens, largest = one(state["weights"], state["cache"], state["tokens"], position)
        return {"weights": state["weights"], "cache": cache, "tokens": tokens}, largest

    return rounds.Job(
        state={"weights": weights, "cache": cache, "tokens": np.arange(BATCH, dtype=np.int32)},
        step=step,
        batch=lambda number: (np.int32(POSITIONS // 2 + number),),
    )


if __name__ == "__main__":
    sys.exit(rounds.main(__doc__, make))
