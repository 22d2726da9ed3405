#!/usr/bin/env python3
"""Train a small transformer on the bytes of a text: plain JAX, Adam, one device, float32.

Everything is a function of the options: the same options give the same losses, parameters and optimizer state
bit for bit on the same kind of device. The layers are unrolled, so each weight is an array of its own. The gradients are clipped
by their global norm, as usual, so that all of them exist before the first weight changes: memory holds
weights, two moments and gradients, four arrays of every weight's size, and the activations.
"""

import argparse
import hashlib
import json
import re
import sys
import time

import jax
import jax.numpy as jnp
import numpy as np

VOCABULARY = 256  # bytes
HEADS = 8


def init(rng, width, layers, tokens):
    """Weights as NumPy arrays, made on the host: {name: array}, in a fixed order."""

    def normal(*shape, scale):
        return (rng.standard_normal(shape) * scale).astype(np.float32)

    weights = {
        "embed": normal(VOCABULARY, width, scale=0.02),
        "position": normal(tokens, width, scale=0.02),
        "unembed": normal(width, VOCABULARY, scale=width**-0.5),
    }
    for i in range(layers):
        for name, rows, columns in (
            ("query", width, width),
            ("key", width, width),
            ("value", width, width),
            ("project", width, width),
            ("up", width, 4 * width),
            ("down", 4 * width, width),
        ):
            weights[f"{i}.{name}"] = normal(rows, columns, scale=rows**-0.5)
    return weights


def normalize(x):
    x = x - x.mean(axis=-1, keepdims=True)
    return x * jax.lax.rsqrt(jnp.mean(x * x, axis=-1, keepdims=True) + 1e-5)


def attention(x, weights, i):
    tokens, width = x.shape
    query, key, value = (
        (x @ weights[f"{i}.{name}"]).reshape(tokens, HEADS, width // HEADS) for name in ("query", "key", "value")
    )
    scores = jnp.einsum("qhd,khd->hqk", query, key) * (width // HEADS) ** -0.5
    scores = jnp.where(jnp.tril(jnp.ones((tokens, tokens), bool)), scores, -1e9)
    mixed = jnp.einsum("hqk,khd->qhd", jax.nn.softmax(scores, axis=-1), value)
    return mixed.reshape(tokens, width) @ weights[f"{i}.project"]


def loss_of(weights, text, layers):
    """Mean cross-entropy, in nats per byte, of each next byte of text (an int array of tokens + 1)."""
    # A product with one-hot rows instead of indexing: its gradient is a product too, in a fixed order of additions.
    x = jax.nn.one_hot(text[:-1], VOCABULARY) @ weights["embed"] + weights["position"]
    for i in range(layers):
        x = x + attention(normalize(x), weights, i)
        x = x + jax.nn.gelu(normalize(x) @ weights[f"{i}.up"]) @ weights[f"{i}.down"]
    scores = jax.nn.log_softmax(normalize(x) @ weights["unembed"], axis=-1)
    return -jnp.mean(jnp.sum(scores * jax.nn.one_hot(text[1:], VOCABULARY), axis=-1))


def make_step(layers, rate):
    def step(state, text):
        """One Adam step: (state, bytes) to (state, loss)."""
        weights, first, second, count = state
        loss, gradients = jax.value_and_grad(loss_of)(weights, text, layers)
        norm = jnp.sqrt(sum(jnp.sum(g * g) for g in gradients.values()))
        scale = jnp.minimum(1.0, 1.0 / norm)
        count = count + 1
        b1, b2 = 0.9, 0.99
        unbias1 = 1 / (1 - b1**count)
        unbias2 = 1 / (1 - b2**count)
        new_weights, new_first, new_second = {}, {}, {}
        for name, g in gradients.items():
            g = g * scale
            m = b1 * first[name] + (1 - b1) * g
            v = b2 * second[name] + (1 - b2) * g * g
            new_weights[name] = weights[name] - rate * (m * unbias1) / (jnp.sqrt(v * unbias2) + 1e-8)
            new_first[name], new_second[name] = m, v
        return (new_weights, new_first, new_second, count), loss

    return step


def program_hash(compiled):
    """A hash of the optimized program, without what only says where in the source an instruction came from."""
    text = compiled.as_text()
    text = re.sub(r",? ?metadata=\{[^{}]*\}", "", text)
    text = re.sub(r"\n(FileNames|FunctionNames|FileLocations|StackFrames)\n(\d+ [^\n]*\n)*", "\n", text)
    return hashlib.sha256(text.encode()).hexdigest(), text


def state_hash(state):
    """sha256 over every array of the state in a fixed order: names, types, shapes and bytes."""
    digest = hashlib.sha256()
    leaves, _ = jax.tree_util.tree_flatten_with_path(state)
    for path, leaf in leaves:
        array = np.asarray(leaf)
        digest.update(f"{jax.tree_util.keystr(path)} {array.dtype} {array.shape}\n".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--steps", type=int, default=20)
    parser.add_argument("--width", type=int, default=544, help=f"a multiple of {HEADS}")
    parser.add_argument("--layers", type=int, default=4)
    parser.add_argument("--tokens", type=int, default=64, help="bytes a step")
    parser.add_argument("--rate", type=float, default=1e-3)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--text", default="/usr/share/common-licenses/GPL-3")
    parser.add_argument("--json", metavar="FILE", help="write what happened there")
    parser.add_argument("--hlo", metavar="FILE", help="write the optimized program there")
    options = parser.parse_args()

    with open(options.text, "rb") as file:
        text = np.frombuffer(file.read(), np.uint8).astype(np.int32)
    rng = np.random.default_rng(options.seed)
    weights = init(rng, options.width, options.layers, options.tokens)
    starts = rng.integers(0, len(text) - options.tokens - 1, options.steps)

    device = jax.devices()[0]
    zeros = {name: np.zeros_like(w) for name, w in weights.items()}
    state = jax.device_put((weights, zeros, zeros, np.float32(0)), device)
    parameters = sum(w.size for w in weights.values())
    print(f"{device.platform}: {parameters / 1e6:.1f} M parameters in {len(weights)} arrays", flush=True)

    begin = time.monotonic()
    window = np.zeros(options.tokens + 1, np.int32)
    step = jax.jit(make_step(options.layers, options.rate), donate_argnums=0)
    compiled = step.lower(state, window).compile()
    hlo_hash, hlo = program_hash(compiled)
    print(f"compiled in {time.monotonic() - begin:.1f} s", flush=True)
    if options.hlo:
        with open(options.hlo, "w") as file:
            file.write(hlo)

    # The loss of a step is fetched when the next one is under way, so the device always has work queued.
    losses, pending, begin = [], None, time.monotonic()

    def note(loss):
        losses.append(float(loss))
        print(f"step {len(losses):3d}  loss {losses[-1]!r}  {time.monotonic() - begin:6.1f} s", flush=True)

    for start in starts:
        state, loss = compiled(state, text[start : start + options.tokens + 1])
        if pending is not None:
            note(pending)
        pending = loss
    if pending is not None:
        note(pending)

    stats = device.memory_stats() or {}
    result = {
        "platform": device.platform,
        "device": device.device_kind,
        "parameters": parameters,
        "steps": options.steps,
        "losses": losses,
        "losses_exact": [value.hex() for value in losses],
        "state_sha256": state_hash(state),
        "hlo_sha256": hlo_hash,
        "memory_stats": {name: value for name, value in stats.items() if isinstance(value, int)},
    }
    print(f"state {result['state_sha256']}\nprogram {hlo_hash}")
    if "peak_bytes_in_use" in stats:
        print(f"peak {stats['peak_bytes_in_use'] / 2**20:.1f} MiB")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(result, file, indent=1)
    return 0


if __name__ == "__main__":
    sys.exit(main())
