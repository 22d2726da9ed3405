"""Small JAX programs, each an operation or a pattern that real jobs use.

A program is a function without arguments that returns what it computed (any pytree of arrays). It is traced
nowhere else: each calls jit itself, so that it runs as one executable. Inputs come from NumPy with a fixed seed. The class is
a row of tolerance.py.
"""

import functools

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.ad_checkpoint import checkpoint_name
from jax.experimental.compute_on import compute_on

PROGRAMS = {}  # name: (class, function), in the order of this file


def program(kind):
    def register(function):
        PROGRAMS[function.__name__] = (kind, function)
        return function

    return register


def normal(*shape, seed=0, dtype=np.float32):
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def integers(*shape, low=0, high=100, seed=0, dtype=np.int32):
    return np.random.default_rng(seed).integers(low, high, shape).astype(dtype)


# --- products and convolutions ---


@program("reduction")
def matmul():
    return jax.jit(jnp.matmul)(normal(96, 130), normal(130, 72, seed=1))


@program("reduction")
def matmul_batched():
    return jax.jit(lambda a, b: jnp.einsum("bij,bkj->bik", a, b))(normal(5, 33, 40), normal(5, 17, 40, seed=1))


@program("exact")
def matmul_integers():
    return jax.jit(jnp.matmul)(integers(40, 50), integers(50, 30, seed=1))


@program("reduction")
def convolution():
    def f(x, w):
        return lax.conv_general_dilated(x, w, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))

    return jax.jit(f)(normal(2, 14, 14, 8), normal(3, 3, 8, 16, seed=1))


@program("reduction")
def convolution_strided_gradient():
    def f(x, w):
        y = lax.conv_general_dilated(x, w, (2, 2), "VALID", dimension_numbers=("NCHW", "OIHW", "NCHW"))
        return jnp.sum(jnp.tanh(y))

    return jax.jit(jax.grad(f, argnums=(0, 1)))(normal(2, 4, 15, 15), normal(6, 4, 3, 3, seed=1) * 0.1)


# --- element by element ---


@program("elementwise")
def arithmetic():
    return jax.jit(lambda a, b: (a + b, a * b, a / b, -a, a - 2 * b, jnp.abs(a), jnp.sign(a)))(
        normal(1000), normal(1000, seed=1)
    )


@program("elementwise")
def roots_and_rounding():
    def f(x):
        return jnp.sqrt(jnp.abs(x)), jnp.floor(x), jnp.ceil(x), jnp.round(x), jnp.trunc(x), jnp.square(x)

    return jax.jit(f)(normal(1000) * 10)


@program("reduction")
def exponentials():
    def f(x):
        return jnp.exp(x), jnp.log(jnp.abs(x)), jnp.log1p(jnp.abs(x)), jnp.expm1(x), jnp.tanh(x), jax.nn.sigmoid(x)

    return jax.jit(f)(normal(1000))


@program("reduction")
def trigonometry():
    def f(x):
        return jnp.sin(x), jnp.cos(x), jnp.arctan2(x, x + 1), jnp.sinh(x)

    return jax.jit(f)(normal(1000) * 3)


@program("reduction")
def error_function_and_gelu():
    def f(x):
        return lax.erf(x), jax.nn.gelu(x, approximate=False), jax.nn.gelu(x)

    return jax.jit(f)(normal(1000))


@program("reduction")
def power():
    return jax.jit(lambda x, y: (jnp.power(jnp.abs(x), y), x**3, lax.rsqrt(jnp.abs(x) + 1)))(
        normal(500), normal(500, seed=1)
    )


@program("exact")
def integer_operations():
    def f(a, b):
        return (a + b, a * b, a // b, a % b, a & b, a | b, a ^ b, ~a, a << 3, a >> 2, lax.population_count(a), lax.clz(a))

    return jax.jit(f)(integers(777, low=-(2**31), high=2**31), integers(777, low=1, high=1000, seed=1))


@program("exact")
def small_integers():
    def f(a, b):
        wide = a.astype(jnp.int32) * b.astype(jnp.int32)
        return a + b, wide.astype(jnp.int16), wide.astype(jnp.uint8), (a > b).astype(jnp.int8)

    return jax.jit(f)(integers(500, dtype=np.int8), integers(500, seed=1, dtype=np.int8))


@program("exact")
def booleans():
    def f(a, b):
        return a & b, a | b, a ^ b, ~a, jnp.any(a, axis=1), jnp.all(a | b, axis=0), jnp.where(a, 1, 2)

    return jax.jit(f)(integers(20, 30, high=2).astype(bool), integers(20, 30, high=2, seed=1).astype(bool))


@program("exact")
def comparisons_with_nan():
    x, y = normal(400), normal(400, seed=1)
    x[::7], y[::11] = np.nan, np.inf

    def f(a, b):
        return a < b, a == b, a != a, jnp.maximum(a, b), jnp.minimum(a, b), jnp.isfinite(a), jnp.clip(a, -1, 1)

    return jax.jit(f)(x, y)


@program("exact")
def conversions():
    def f(x):
        return (
            x.astype(jnp.int32),
            x.astype(jnp.float16),
            x.astype(jnp.bfloat16),
            lax.reduce_precision(x, exponent_bits=8, mantissa_bits=7),  # there and back would be left out by XLA
            x.astype(jnp.uint8),
            lax.bitcast_convert_type(x, jnp.uint32),
        )

    return jax.jit(f)(np.abs(normal(600)) * 50)


# --- sums and orders ---


@program("reduction")
def sums():
    def f(x):
        return jnp.sum(x), jnp.sum(x, axis=0), jnp.sum(x, axis=1), jnp.mean(x, axis=(0, 2)), jnp.var(x, axis=2)

    return jax.jit(f)(normal(12, 70, 65))


@program("exact")
def extremes():
    def f(x):
        return jnp.max(x), jnp.min(x, axis=0), jnp.argmax(x, axis=1), jnp.argmin(x, axis=0), jnp.argmax(x)

    return jax.jit(f)(normal(50, 77))


@program("reduction")
def cumulative():
    return jax.jit(lambda x: (jnp.cumsum(x, axis=1), jnp.cumprod(1 + 0.1 * x, axis=0), lax.cummax(x)))(normal(20, 60))


@program("exact")
def cumulative_integers():
    return jax.jit(lambda x: (jnp.cumsum(x), jnp.cumsum(x, axis=0, dtype=jnp.uint32)))(integers(31, 33))


@program("exact")
def sort():
    def f(x, y):
        return jnp.sort(x), jnp.argsort(x, axis=0), lax.sort((x, y), num_keys=1), jnp.sort(y, descending=True)

    return jax.jit(f)(normal(9, 100), integers(9, 100, high=10**6))


@program("exact")
def top_k():
    return jax.jit(lambda x: lax.top_k(x, 7))(normal(6, 200))


@program("reduction")
def pooling():
    def f(x):
        maximum = lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID")
        mean = lax.reduce_window(x, 0.0, lax.add, (1, 3, 3, 1), (1, 1, 1, 1), "SAME") / 9
        return maximum, mean

    return jax.jit(f)(normal(2, 12, 12, 5))


@program("reduction")
def pooling_gradient():
    def f(x):
        return jnp.sum(lax.reduce_window(x, -jnp.inf, lax.max, (1, 2, 2, 1), (1, 2, 2, 1), "VALID") ** 2)

    return jax.jit(jax.grad(f))(normal(2, 12, 12, 5))


# --- moving data ---


@program("exact")
def reshaping():
    def f(x):
        return x.T, x.reshape(-1, 3), jnp.flip(x, 1), jnp.roll(x, 5, axis=0), jnp.tile(x, (2, 1)), jnp.repeat(x, 2, axis=1)

    return jax.jit(f)(normal(33, 42))


@program("exact")
def concatenate_and_pad():
    def f(x, y):
        joined = jnp.concatenate([x, y, x], axis=1)
        return joined, lax.pad(x, jnp.float32(7), ((1, 2, 1), (0, -1, 0))), jnp.stack([x[:, 0], y[:, 0]])

    return jax.jit(f)(normal(10, 12), normal(10, 5, seed=1))


@program("exact")
def dynamic_slice_and_update():
    def f(x, start, patch):
        return lax.dynamic_slice(x, (start, 2), (5, 6)), lax.dynamic_update_slice(x, patch, (start, start))

    return jax.jit(f)(normal(30, 20), np.int32(7), normal(4, 4, seed=1))


@program("exact")
def gather():
    return jax.jit(lambda x, i: (x[i], jnp.take(x, i, axis=1), jnp.take_along_axis(x, i[:, None] % 20, axis=1)))(
        normal(50, 50), integers(50, high=50)
    )


@program("exact")
def scatter_set():
    return jax.jit(lambda x, i, v: x.at[i].set(v))(normal(60, 8), np.arange(60)[::3].astype(np.int32), normal(20, 8))


@program("reduction")
def scatter_add():
    return jax.jit(lambda x, i, v: x.at[i].add(v))(normal(30, 16), integers(200, high=30), normal(200, 16, seed=1))


@program("exact")
def scatter_extremes():
    return jax.jit(lambda x, i, v: (x.at[i].max(v), x.at[i].min(v)))(
        integers(30), integers(200, high=30, seed=1), integers(200, low=-50, high=150, seed=2)
    )


@program("reduction")
def segment_sum():
    f = functools.partial(jax.ops.segment_sum, num_segments=12)
    return jax.jit(f)(normal(300, 4), np.sort(integers(300, high=12)))


@program("reduction")
def embedding_gradient():
    def f(table, words):
        return jnp.sum(jnp.tanh(table[words]) ** 2), jax.nn.one_hot(words, 40) @ table

    return jax.jit(lambda t, w: (jax.grad(lambda t: f(t, w)[0])(t), f(t, w)[1]))(normal(40, 24), integers(70, high=40))


# --- random numbers ---


@program("exact")
def random_bits():
    def f(key):
        a, b = jax.random.split(key)
        return jax.random.bits(a, (500,)), jax.random.uniform(b, (300,)), jax.random.randint(a, (200,), 0, 1000)

    return jax.jit(f)(jax.random.key(42))


@program("exact")
def random_permutation():
    return jax.jit(lambda key: (jax.random.permutation(key, 100), jax.random.bernoulli(key, 0.3, (100,))))(
        jax.random.key(7)
    )


@program("reduction")
def random_normal():
    return jax.jit(lambda key: (jax.random.normal(key, (1000,)), jax.random.exponential(key, (500,))))(jax.random.key(3))


# --- control flow ---


@program("reduction")
def scan():
    def f(x):
        return lax.scan(lambda carry, row: (jnp.tanh(carry + row), carry * 2), jnp.zeros(16), x)

    return jax.jit(f)(normal(25, 16))


@program("exact")
def while_loop():
    def f(n):
        return lax.while_loop(lambda s: s[0] != 1, lambda s: (jnp.where(s[0] % 2 == 0, s[0] // 2, 3 * s[0] + 1), s[1] + 1), (n, 0))

    return jax.jit(f)(np.int32(27))


@program("reduction")
def newton_by_while():
    def f(x):
        def body(state):
            _, new = state
            return new, 0.5 * (new + x / new)

        return lax.while_loop(lambda s: jnp.any(jnp.abs(s[0] - s[1]) > 1e-3), body, (x, x / 2 + 1))[1]

    return jax.jit(f)(np.abs(normal(64)) * 100 + 1)


@program("exact")
def conditional():
    def f(flag, which, x):
        a = lax.cond(flag, lambda v: v + 1, lambda v: v * 2, x)
        b = lax.switch(which, [lambda v: v, lambda v: -v, lambda v: v[::-1]], x)
        return a, b

    run = jax.jit(f)
    return [run(flag, which, normal(40)) for flag in (True, False) for which in (np.int32(0), np.int32(1), np.int32(2))]


@program("exact")
def fori_with_update():
    def f(x):
        return lax.fori_loop(0, 10, lambda i, v: v.at[i].set(v[i] + i), x)

    return jax.jit(f)(normal(10, 10))


# --- derivatives and batches ---


@program("reduction")
def hessian():
    return jax.jit(jax.hessian(lambda x: jnp.sum(jnp.sin(x) * x[::-1] ** 2)))(normal(12))


@program("reduction")
def vmapped_gradient():
    def loss(w, x):
        return jnp.sum(jnp.tanh(x @ w) ** 2)

    return jax.jit(jax.vmap(jax.grad(loss), in_axes=(None, 0)))(normal(10, 6), normal(8, 5, 10, seed=1))


@program("reduction")
def checkpointed_gradient():
    @jax.checkpoint
    def layer(x, w):
        return jnp.tanh(x @ w)

    def loss(ws, x):
        for w in ws:
            x = layer(x, w)
        return jnp.mean(x**2)

    return jax.jit(jax.grad(loss))([normal(24, 24, seed=i) * 0.2 for i in range(4)], normal(16, 24, seed=9))


# --- parts of models ---


@program("reduction")
def softmax():
    return jax.jit(lambda x: (jax.nn.softmax(x, axis=-1), jax.nn.log_softmax(x, axis=0), jax.nn.logsumexp(x, axis=1)))(
        normal(40, 90) * 3
    )


@program("reduction")
def layer_norm():
    def f(x, g, b):
        mean, var = jnp.mean(x, -1, keepdims=True), jnp.var(x, -1, keepdims=True)
        return (x - mean) * lax.rsqrt(var + 1e-5) * g + b

    return jax.jit(jax.value_and_grad(lambda *a: jnp.sum(f(*a) ** 3), argnums=(0, 1, 2)))(
        normal(20, 64), normal(64, seed=1), normal(64, seed=2)
    )


def _attention(q, k, v):
    scores = jnp.einsum("bqhd,bkhd->bhqk", q, k) / np.sqrt(q.shape[-1])
    mask = jnp.tril(jnp.ones(scores.shape[-2:], bool))
    return jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(jnp.where(mask, scores, -1e9), axis=-1), v)


@program("reduction")
def attention():
    q, k, v = (normal(2, 24, 4, 16, seed=i) for i in range(3))
    return jax.jit(lambda *a: (_attention(*a), jax.grad(lambda *b: jnp.sum(_attention(*b) ** 2), argnums=(0, 1, 2))(*a)))(
        q, k, v
    )


@program("half")
def attention_bf16():
    q, k, v = (normal(2, 24, 4, 16, seed=i).astype(jnp.bfloat16) for i in range(3))
    return jax.jit(_attention)(q, k, v)


@program("half")
def bf16_training_step():
    def loss(w, x):
        return jnp.mean(jnp.square(jax.nn.relu(x @ w[0]) @ w[1]).astype(jnp.float32))

    def f(w, x):
        gradient = jax.grad(loss)(w, x)
        return [a - jnp.bfloat16(0.1) * g for a, g in zip(w, gradient)]

    w = [normal(32, 48).astype(jnp.bfloat16) * 0.2, normal(48, 8, seed=1).astype(jnp.bfloat16) * 0.2]
    return jax.jit(f)(w, normal(16, 32, seed=2).astype(jnp.bfloat16))


@program("half")
def f16_operations():
    def f(a, b):
        return a + b, a * b, a / (b * b + 1), jnp.exp(a), a @ b.T, jnp.sum(a, axis=1), jnp.max(b, axis=0)

    return jax.jit(f)(normal(30, 20, dtype=np.float16), normal(30, 20, seed=1, dtype=np.float16))


@program("elementwise")
def adam_update():
    def f(w, m, v, g, t):
        m, v = 0.9 * m + 0.1 * g, 0.99 * v + 0.01 * g * g
        return w - 1e-3 * (m / (1 - 0.9**t)) / (jnp.sqrt(v / (1 - 0.99**t)) + 1e-8), m, v

    return jax.jit(f, donate_argnums=(0, 1, 2))(
        jnp.asarray(normal(64, 50)), jnp.zeros((64, 50)), jnp.zeros((64, 50)), normal(64, 50, seed=1), np.float32(1)
    )


@program("reduction")
def sgd_training():
    def loss(w, x, y):
        return jnp.mean((jnp.tanh(x @ w["a"]) @ w["b"] - y) ** 2)

    @functools.partial(jax.jit, donate_argnums=0)
    def step(w, x, y):
        value, gradient = jax.value_and_grad(loss)(w, x, y)
        return jax.tree.map(lambda p, g: p - 0.05 * g, w, gradient), value

    w, values = {"a": normal(20, 30) * 0.2, "b": normal(30, 1, seed=1) * 0.2}, []
    for i in range(5):
        w, value = step(w, normal(32, 20, seed=i), normal(32, 1, seed=50 + i))
        values.append(value)
    return w, values


@program("reduction")
def lstm():
    def cell(carry, x, w):
        h, c = carry
        i, f, g, o = jnp.split(jnp.concatenate([x, h], -1) @ w, 4, axis=-1)
        c = jax.nn.sigmoid(f) * c + jax.nn.sigmoid(i) * jnp.tanh(g)
        return (jax.nn.sigmoid(o) * jnp.tanh(c),) * 2, c

    def run(w, xs):
        def body(carry, x):
            (h, _), c = cell(carry, x, w)
            return (h, c), h

        return lax.scan(body, (jnp.zeros((4, 16)), jnp.zeros((4, 16))), xs)[1]

    f = jax.jit(lambda w, xs: (run(w, xs), jax.grad(lambda w: jnp.sum(run(w, xs) ** 2))(w)))
    return f(normal(28, 64) * 0.2, normal(20, 4, 12, seed=1))


@program("exact")
def kv_cache_decode():
    """Greedy decoding with a cache: what is compared is the chosen tokens."""
    table, wq, wk, wv = (jnp.asarray(normal(*s, seed=i)) for i, s in enumerate([(50, 32), (32, 32), (32, 32), (32, 32)]))

    @functools.partial(jax.jit, donate_argnums=(0, 1))
    def step(keys, values, token, position):
        x = table[token]
        keys = lax.dynamic_update_slice(keys, (x @ wk)[None], (position, 0))
        values = lax.dynamic_update_slice(values, (x @ wv)[None], (position, 0))
        scores = jnp.where(jnp.arange(keys.shape[0]) <= position, keys @ (x @ wq) / 6, -1e9)
        return keys, values, jnp.argmax(table @ (jax.nn.softmax(scores) @ values + x))

    keys = values = jnp.zeros((24, 32))
    keys, values = keys + 0, values + 0
    token, tokens = jnp.int32(3), []
    for position in range(24):
        keys, values, token = step(keys, values, token, np.int32(position))
        tokens.append(token)
    return jnp.stack(tokens)


@program("reduction")
def linear_recurrence():
    def f(a, b):
        return lax.associative_scan(lambda l, r: (l[0] * r[0], l[1] * r[0] + r[1]), (a, b))

    return jax.jit(f)(jax.nn.sigmoid(normal(64, 8)), normal(64, 8, seed=1))


@program("exact")
def host_round_trip():
    """Every byte comes back: sizes around page and vector boundaries, several types."""
    arrays = [normal(n, seed=n) for n in (1, 2, 3, 1023, 1024, 1025, 262144, 300001)]
    arrays += [integers(777, dtype=t) for t in (np.int8, np.uint16, np.int32)]
    return [jax.device_put(a) for a in arrays], [jax.device_put(a) + 0 for a in arrays]


# --- memory of the host, pinned: programs that offload by themselves ---


def _in(kind):
    return jax.sharding.SingleDeviceSharding(jax.devices()[0], memory_kind=kind)


@program("exact")
def pinned_host_round_trip():
    """There and back, straight from NumPy and from the device; host to host; sizes around pages and the pool's limits."""
    arrays = [normal(n, seed=n) for n in (1, 1023, 1025, 262143, 262144, 300001)] + [integers(777, dtype=np.int8)]
    direct = [jax.device_put(a, _in("pinned_host")) for a in arrays]
    there = [jax.device_put(jax.device_put(a) + 1, _in("pinned_host")) for a in arrays]
    again = [jax.device_put(a, _in("pinned_host")) for a in direct]
    back = [jax.device_put(a, _in("device")) * 2 for a in there]
    assert all(a.sharding.memory_kind == "pinned_host" for a in (*direct, *there, *again))
    return direct, there, again, back


@program("reduction")
def pinned_host_input():
    """An argument that stays in host memory is brought in by the program itself; a result stays there."""

    @functools.partial(jax.jit, out_shardings=(_in("device"), _in("pinned_host")))
    def f(w, x):
        y = jnp.tanh(x @ jax.device_put(w, _in("device")))
        return y, y * 2

    w = jax.device_put(normal(300, 200) * 0.1, _in("pinned_host"))
    found = [f(w, normal(64, 300, seed=seed)) for seed in range(3)]
    assert all(host.sharding.memory_kind == "pinned_host" for _, host in found)
    return found


@program("reduction")
def pinned_host_optimizer():
    """Adam whose moments are in host memory between steps, given and taken there by the step."""
    host, device = _in("pinned_host"), _in("device")

    def loss(w, x):
        for matrix in w:
            x = jnp.tanh(x @ matrix)
        return jnp.mean(x**2)

    @functools.partial(
        jax.jit, donate_argnums=(0, 1, 2), in_shardings=(device, host, host, None), out_shardings=(device, host, host)
    )
    def step(w, m, v, x):
        m, v = jax.device_put((m, v), device)
        gradient = jax.grad(loss)(w, x)
        m = jax.tree.map(lambda m, g: 0.9 * m + 0.1 * g, m, gradient)
        v = jax.tree.map(lambda v, g: 0.99 * v + 0.01 * g * g, v, gradient)
        return jax.tree.map(lambda w, m, v: w - 1e-2 * m / (jnp.sqrt(v) + 1e-3), w, m, v), m, v

    w = jax.device_put([normal(128, 128, seed=i) * 0.1 for i in range(4)], device)
    m, v = (jax.device_put([np.zeros((128, 128), np.float32)] * 4, host) for _ in range(2))
    for i in range(4):
        w, m, v = step(w, m, v, normal(32, 128, seed=9 + i))
    return w, m, v


@program("reduction")
def offloaded_scan():
    """A scan over layers whose checkpoints wait for the backward pass in host memory."""
    policy = jax.checkpoint_policies.save_and_offload_only_these_names(
        names_which_can_be_saved=[],
        names_which_can_be_offloaded=["carried"],
        offload_src="device",
        offload_dst="pinned_host",
    )

    @functools.partial(jax.checkpoint, policy=policy, prevent_cse=False)
    def layer(x, w):
        x = checkpoint_name(x, "carried")
        return x + jnp.tanh(x @ w), None

    def loss(ws, x):
        return jnp.mean(lax.scan(layer, x, ws)[0] ** 2)

    return jax.jit(jax.value_and_grad(loss))(normal(6, 64, 64) * 0.1, normal(256, 64, seed=1))


@program("elementwise")
def compute_on_host():
    """A part of the program runs on the CPU, between two that run on the device."""

    def f(x):
        y = x + 1
        with compute_on("device_host"):
            y = y * 2 - x
        return y * 3

    return [jax.jit(f)(normal(3000, seed=seed)) for seed in range(3)]


@program("elementwise")
def compute_on_pinned():
    """What is in host memory is computed on there, by the CPU, and the results stay there or go on to the device."""
    host, device = _in("pinned_host"), _in("device")

    @functools.partial(jax.jit, in_shardings=(host, device), out_shardings=(host, device))
    def f(m, x):
        with compute_on("device_host"):
            m = m * 0.5 + jax.device_put(x, host)
        return m, jax.device_put(m, device) * x

    m, found = jax.device_put(normal(5000), host), []
    for seed in range(4):
        m, y = f(m, normal(5000, seed=seed))
        found.append(y)
    assert m.sharding.memory_kind == "pinned_host"
    return m, found
