#!/usr/bin/env python3
"""Trains a transformer with Adam, layers unrolled: memory is weights, moments and gradients, many arrays of one size.

The model of scripts/demo_train.py, deeper and narrower.
"""

import sys

import numpy as np
import rounds
from demo_train import init, make_step

WIDTH, LAYERS, TOKENS = 256, 12, 128


def make(scale):
    rng = np.random.default_rng(0)
    layers = rounds.at_least(2, LAYERS, scale)
    tokens = rounds.shorter(TOKENS, scale)
    weights = init(rng, WIDTH, layers, tokens)
    zeros = {name: np.zeros_like(w) for name, w in weights.items()}
    return rounds.Job(
        state=(weights, zeros, zeros, np.float32(0)),
        step=rounds.compile_once(make_step(layers, 1e-3), donate=(0,)),
        batch=lambda number: ((np.arange(tokens + 1, dtype=np.int32) * (number + 7)) ** 2 % 251,),
    )


if __name__ == "__main__":
    sys.exit(rounds.main(__doc__, make))
