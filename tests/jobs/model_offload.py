#!/usr/bin/env python3
"""Trains a deep network that offloads by itself: Adam's moments and the layers' checkpoints are in pinned host memory.

    model_offload.py --json FILE [--steps N] [--batch N] [--width N] [--layers N]
"""

import argparse
import functools

import adam
import jax
import jax.numpy as jnp
import numpy as np
from jax.ad_checkpoint import checkpoint_name
from outcome import write

POLICY = jax.checkpoint_policies.save_and_offload_only_these_names(
    names_which_can_be_saved=[],
    names_which_can_be_offloaded=["carried"],
    offload_src="device",
    offload_dst="pinned_host",
)


def loss_of(weights, x, y):
    @functools.partial(jax.checkpoint, policy=POLICY, prevent_cse=False)
    def layer(x, w):
        x = checkpoint_name(x, "carried")
        for up, down in w:
            x = x + jnp.tanh(x @ up) @ down
        return x, None

    return jnp.mean((jax.lax.scan(layer, x, weights)[0] - y) ** 2)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", required=True)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--width", type=int, default=256)
    parser.add_argument("--layers", type=int, default=4)
    options = parser.parse_args()

    rng = np.random.default_rng(0)
    shape = (options.layers, options.width, options.width)
    weights = [[(rng.standard_normal(shape) * 0.05).astype(np.float32) for _ in range(2)] for _ in range(6)]
    device, host = (
        jax.sharding.SingleDeviceSharding(jax.devices()[0], memory_kind=kind) for kind in ("device", "pinned_host")
    )
    kept = (device, host, host, device)  # of the state between steps

    @functools.partial(jax.jit, donate_argnums=0, in_shardings=(kept, None, None), out_shardings=(kept, device))
    def step(state, x, y):
        state = jax.device_put(state, device)
        loss, gradients = jax.value_and_grad(loss_of)(state[0], x, y)
        return adam.update(state, gradients, 1e-3), loss

    state, losses = jax.device_put(adam.state_of(weights), kept), []
    for _ in range(options.steps):
        x = rng.standard_normal((options.batch, options.width), dtype=np.float32)
        state, loss = step(state, x, np.sin(x))
        losses.append(loss)
    write(options.json, state, losses)


if __name__ == "__main__":
    main()
