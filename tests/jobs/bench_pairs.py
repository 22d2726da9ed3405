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
    rows = blocks[0].shape[0]
    return [
        jnp.concatenate([b[:, i * rows : (i + 1) * rows].transpose(1, 0, 2) for b in blocks], axis=1)
        for i in range(len(blocks))
    ]


def in_turn(function, *lists):
    """function of each block, one after the other; left free, XLA would merge their products into a large one."""
    done = []
    for blocks in zip(*lists):
        if done:
            blocks, done[-1] = jax.lax.optimization_barrier((blocks, done[-1]))
        done.append(function(*blocks))
    return done


def multiply(pairs, w, way):
    """Triangle multiplication: for i, j over all k, a of i, k times b of j, k."""

    def sides(p):
        p = normalize(p)
        return tuple(jax.nn.sigmoid(p @ w[f"{way}.g{side}"]) * (p @ w[f"{way}.{side}"]) for side in "ab")

    a, b = zip(*in_turn(sides, pairs))
    if way == "in":
        a, b = turned(a), turned(b)

    def update(p, mine):
        both = jnp.concatenate(in_turn(lambda other: jnp.einsum("ikc,jkc->ijc", mine, other), b), axis=1)
        gate = jax.nn.sigmoid(normalize(p) @ w[f"{way}.gate"])
        return p + gate * (normalize(both) @ w[f"{way}.project"])

    return in_turn(update, pairs, a)


def attend(pairs, w, way):
    """Triangle attention within each row, with a bias of the third side."""
    bias = in_turn(lambda p: normalize(p) @ w[f"{way}.bias"], pairs)
    bias = jnp.concatenate(bias, axis=0).transpose(2, 0, 1)

    def update(p):
        z = normalize(p)
        q, k, v = ((z @ w[f"{way}.{name}"]).reshape(*p.shape[:2], HEADS, CHANNELS // HEADS) for name in "qkv")
        scores = jnp.einsum("rqhd,rkhd->rhqk", q, k) * (CHANNELS // HEADS) ** -0.5 + bias
        mixed = jnp.einsum("rhqk,rkhd->rqhd", jax.nn.softmax(scores, axis=-1), v).reshape(p.shape)
        return p + (jax.nn.sigmoid(z @ w[f"{way}.gate"]) * mixed) @ w[f"{way}.project"]

    return in_turn(update, pairs)


def infer(weights, pairs):
    for w in weights:
        pairs = multiply(pairs, w, "out")
        pairs = multiply(pairs, w, "in")
        pairs = attend(pairs, w, "start")
        pairs = turned(attend(turned(pairs), w, "end"))
        pairs = in_turn(lambda p: p + jax.nn.relu(normalize(p) @ w["up"]) @ w["down"], pairs)
    pairs = in_turn(normalize, pairs)
    return pairs, sum(in_turn(lambda p: jnp.sum(jnp.abs(p)), pairs))


def make(scale):
    rng = np.random.default_rng(0)
    # A smaller scale has fewer, larger blocks of rows first, then fewer blocks of layers.
    rows = RESIDUES // rounds.at_least(2, RESIDUES // ROWS, scale)
    weights = [
        {name: (rng.standard_normal(shape) * shape[0] ** -0.5).astype(np.float32) for name, shape in SHAPES.items()}
        for _ in range(rounds.at_least(1, BLOCKS, scale))
    ]
    pairs = [rng.standard_normal((rows, RESIDUES, CHANNELS), dtype=np.float32) for _ in range(RESIDUES // rows)]
    one = rounds.compile_once(infer)

    def step(state, _):
        weights, pairs = state
        pairs, size = one(weights, pairs)
        return (weights, pairs), size

    return rounds.Job(state=(weights, pairs), step=step, batch=lambda number: (number,))


if __name__ == "__main__":
    sys.exit(rounds.main(__doc__, make))
