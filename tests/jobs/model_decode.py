#!/usr/bin/env python3
"""Decodes greedily with a key-value cache: weights are read and never written, the cache grows in place.

    model_decode.py --json FILE [--steps N] [--positions N] [--width N] [--layers N]
"""

import argparse
import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from outcome import write

VOCABULARY = 512


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", required=True)
    parser.add_argument("--steps", type=int, default=8, help="tokens to decode")
    parser.add_argument("--positions", type=int, default=512)
    parser.add_argument("--width", type=int, default=512)
    parser.add_argument("--layers", type=int, default=6)
    options = parser.parse_args()

    rng = np.random.default_rng(1)
    d = options.width

    def normal(*shape):
        return jnp.asarray((rng.standard_normal(shape) * d**-0.5).astype(np.float32))

    weights = {
        "embed": normal(VOCABULARY, d) * d**0.5,
        "layers": [
            {"query": normal(d, d), "key": normal(d, d), "value": normal(d, d), "up": normal(d, 2 * d), "down": normal(2 * d, d)}
            for _ in range(options.layers)
        ],
    }
    # A prompt is there already: half of the cache holds something.
    cache = [
        {name: normal(options.positions, d) * d**0.5 for name in ("keys", "values")} for _ in range(options.layers)
    ]

    @functools.partial(jax.jit, donate_argnums=1)
    def step(weights, cache, token, position):
        x = weights["embed"][token]
        new_cache = []
        for w, c in zip(weights["layers"], cache):
            keys = lax.dynamic_update_slice(c["keys"], (x @ w["key"])[None], (position, 0))
            values = lax.dynamic_update_slice(c["values"], (x @ w["value"])[None], (position, 0))
            scores = jnp.where(jnp.arange(keys.shape[0]) <= position, keys @ (x @ w["query"]) * d**-0.5, -1e9)
            x = x + jax.nn.softmax(scores) @ values
            x = x + jax.nn.gelu(x @ w["up"]) @ w["down"]
            x = x * lax.rsqrt(jnp.mean(x * x) + 1e-5)
            new_cache.append({"keys": keys, "values": values})
        return new_cache, jnp.argmax(weights["embed"] @ x), jnp.max(x)

    token, trace = jnp.int32(1), []
    for position in range(options.positions // 2, options.positions // 2 + options.steps):
        cache, token, largest = step(weights, cache, token, np.int32(position))
        trace += [token, largest]
    write(options.json, (weights, cache), trace)


if __name__ == "__main__":
    main()
