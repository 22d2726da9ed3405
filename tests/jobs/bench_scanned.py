#!/usr/bin/env python3
"""Trains a transformer with Adam, layers scanned: the weights of all layers are one array each, and so are residuals.

The same layers as bench_transformer.py in a loop. A kernel that needs one layer of a stack is given the whole stack.
"""

import sys

import adam
import jax
import jax.numpy as jnp
import numpy as np
import rounds
from demo_train import VOCABULARY, attention, init, normalize

WIDTH, LAYERS, TOKENS = 256, 12, 128
NAMES = ("query", "key", "value", "project", "up", "down")


def loss_of(weights, text):
    x = jax.nn.one_hot(text[:-1], VOCABULARY) @ weights["embed"] + weights["position"]

    def layer(x, w):
        x = x + attention(normalize(x), {f"0.{name}": w[name] for name in NAMES}, 0)
        return x + jax.nn.gelu(normalize(x) @ w["up"]) @ w["down"], None

    x, _ = jax.lax.scan(layer, x, weights["layers"])
    scores = jax.nn.log_softmax(normalize(x) @ weights["unembed"], axis=-1)
    return -jnp.mean(jnp.sum(scores * jax.nn.one_hot(text[1:], VOCABULARY), axis=-1))


def train(state, text):
    loss, gradients = jax.value_and_grad(loss_of)(state[0], text)
    return adam.update(state, gradients, 1e-3), loss


def make(scale):
    layers = rounds.at_least(2, LAYERS, scale)
    tokens = rounds.shorter(TOKENS, scale)
    single = init(np.random.default_rng(0), WIDTH, layers, tokens)
    weights = {name: single[name] for name in ("embed", "position", "unembed")}
    weights["layers"] = {name: np.stack([single[f"{i}.{name}"] for i in range(layers)]) for name in NAMES}
    return rounds.Job(
        state=adam.state_of(weights),
        step=rounds.compile_once(train, donate=(0,)),
        batch=lambda number: ((np.arange(tokens + 1, dtype=np.int32) * (number + 7)) ** 2 % 251,),
    )


if __name__ == "__main__":
    sys.exit(rounds.main(__doc__, make))
