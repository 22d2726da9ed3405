#!/usr/bin/env python3
"""Infers with a pair representation as protein models have it: a feature vector for each two residues; memory is temporaries.

Blocks of triangle multiplication (outgoing, incoming), triangle attention (starting, ending) and transition. The pair
representation is kept in blocks of rows, as inference code that has to save memory does, so no array holds all of
it. Weights are few; a step takes the representation through all blocks and hands it to the next (recycling).
"""

import sys

import jax
import jax.numpy as jnp
import numpy as np
import rounds
from demo_train import normalize

RESIDUES, CHANNELS, HEADS, ROWS, BLOCKS = 128, 64, 2, 8, 2
SHAPES = {
    **{f"{way}.{name}": (CHANNELS, CHANNELS) for way in ("out", "in") for name in ("a", "ga", "b", "gb", "gate", "project")},
    **{f"{way}.{name}": (CHANNELS, CHANNELS) for way in ("start", "end") for name in ("q", "k", "v", "gate", "project")},
    **{f"{way}.bias": (CHANNELS, HEADS) for way in ("start", "end")},
    "up": (CHANNELS, 4 * CHANNELS),
    "down": (4 * CHANNELS, CHANNELS),
}


def turned(blocks):
    """The transposed representation: residues change places."""
    return [
        jnp.concatenate([b[:, i * ROWS : (i + 1) * ROWS].transpose(1, 0, 2) for b in blocks], axis=1)
        for i in range(len(blocks))
    ]


def multiply(pairs, w, way):
    """Triangle multiplication: for i, j over all k, a of i, k times b of j, k."""
    z = [normalize(p) for p in pairs]
    a = [jax.nn.sigmoid(p @ w[f"{way}.ga"]) * (p @ w[f"{way}.a"]) for p in z]
    b = [jax.nn.sigmoid(p @ w[f"{way}.gb"]) * (p @ w[f"{way}.b"]) for p in z]
    if way == "in":
        a, b = turned(a), turned(b)
    new = []
    for old, p, mine in zip(pairs, z, a):
        both = jnp.concatenate([jnp.einsum("ikc,jkc->ijc", mine, other) for other in b], axis=1)
        gate = jax.nn.sigmoid(p @ w[f"{way}.gate"])
        new.append(old + gate * (normalize(both) @ w[f"{way}.project"]))
    return new


def attend(pairs, w, way):
    """Triangle attention within each row, with a bias of the third side."""
    z = [normalize(p) for p in pairs]
    bias = jnp.concatenate([p @ w[f"{way}.bias"] for p in z], axis=0).transpose(2, 0, 1)
    new = []
    for old, p in zip(pairs, z):
        q, k, v = ((p @ w[f"{way}.{name}"]).reshape(ROWS, -1, HEADS, CHANNELS // HEADS) for name in "qkv")
        scores = jnp.einsum("rqhd,rkhd->rhqk", q, k) * (CHANNELS // HEADS) ** -0.5 + bias
        mixed = jnp.einsum("rhqk,rkhd->rqhd", jax.nn.softmax(scores, axis=-1), v).reshape(p.shape)
        new.append(old + (jax.nn.sigmoid(p @ w[f"{way}.gate"]) * mixed) @ w[f"{way}.project"])
    return new


def infer(weights, pairs):
    for w in weights:
        pairs = multiply(pairs, w, "out")
        pairs = multiply(pairs, w, "in")
        pairs = attend(pairs, w, "start")
        pairs = turned(attend(turned(pairs), w, "end"))
        pairs = [p + jax.nn.relu(normalize(p) @ w["up"]) @ w["down"] for p in pairs]
    pairs = [normalize(p) for p in pairs]
    return pairs, sum(jnp.sum(jnp.abs(p)) for p in pairs)


def make(scale):
    rng = np.random.default_rng(0)
    # A smaller scale has fewer residues first, then one block.
    residues = ROWS * rounds.at_least(3, RESIDUES / ROWS, min(1.0, scale**0.5))
    weights = [
        {name: (rng.standard_normal(shape) * shape[0] ** -0.5).astype(np.float32) for name, shape in SHAPES.items()}
        for _ in range(rounds.at_least(1, BLOCKS, scale))
    ]
    pairs = [rng.standard_normal((ROWS, residues, CHANNELS), dtype=np.float32) for _ in range(residues // ROWS)]
    one = rounds.compile_once(infer)

    def step(state, _):
        weights, pairs = state
        pairs, size = one(weights, pairs)
        return (weights, pairs), size

    return rounds.Job(state=(weights, pairs), step=step, batch=lambda number: (number,))


if __name__ == "__main__":
    sys.exit(rounds.main(__doc__, make))
