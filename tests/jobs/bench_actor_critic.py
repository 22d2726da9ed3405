#!/usr/bin/env python3
"""Trains two models that take turns: the actor acts, the critic learns from what came of it, then the actor does.

While one model works, weights and moments of the other lie idle. Three compiled programs a step.
"""

import sys

import adam
import jax
import jax.numpy as jnp
import numpy as np
import rounds
from demo_train import attention, init, normalize

WIDTH, LAYERS, TOKENS, ACTIONS = 256, 8, 64, 16


def trunk(weights, observations, layers):
    x = observations + weights["position"]
    for i in range(layers):
        x = x + attention(normalize(x), weights, i)
        x = x + jax.nn.gelu(normalize(x) @ weights[f"{i}.up"]) @ weights[f"{i}.down"]
    return normalize(x) @ weights["unembed"]


def model(rng, layers, tokens, outputs):
    weights = init(rng, WIDTH, layers, tokens)
    del weights["embed"]
    weights["unembed"] = weights["unembed"][:, :outputs].copy()
    return weights


def make(scale):
    layers = rounds.at_least(2, LAYERS, scale)
    tokens = rounds.shorter(TOKENS, scale)

    def act(weights, observations, noise):
        """Actions drawn by adding noise of Gumbel's distribution, and a reward for each."""
        actions = jnp.argmax(trunk(weights, observations, layers) + noise, axis=-1)
        return actions, jnp.cos(actions + observations[:, 0])

    def learn_values(state, observations, rewards):
        def loss_of(weights):
            values = trunk(weights, observations, layers)[:, 0]
            return jnp.mean((values - rewards) ** 2), values

        (loss, values), gradients = jax.value_and_grad(loss_of, has_aux=True)(state[0])
        return adam.update(state, gradients, 1e-3), rewards - values, loss

    def learn_actions(state, observations, actions, advantages):
        def loss_of(weights):
            scores = jax.nn.log_softmax(trunk(weights, observations, layers), axis=-1)
            return -jnp.mean(jnp.sum(scores * jax.nn.one_hot(actions, ACTIONS), axis=-1) * advantages)

        loss, gradients = jax.value_and_grad(loss_of)(state[0])
        return adam.update(state, gradients, 3e-4), loss

    act = rounds.compile_once(act)
    learn_values = rounds.compile_once(learn_values, donate=(0,))
    learn_actions = rounds.compile_once(learn_actions, donate=(0,))

    def step(state, observations, noise):
        actor, critic = state
        observations = jax.device_put(observations)
        actions, rewards = act(actor[0], observations, noise)
        critic, advantages, loss = learn_values(critic, observations, rewards)
        actor, _ = learn_actions(actor, observations, actions, advantages)
        return (actor, critic), loss

    rng = np.random.default_rng(0)

    def batch(number):
        drawn = np.random.default_rng(1000 + number)
        noise = drawn.gumbel(size=(tokens, ACTIONS)).astype(np.float32)
        return drawn.standard_normal((tokens, WIDTH)).astype(np.float32), noise

    return rounds.Job(
        state=(adam.state_of(model(rng, layers, tokens, ACTIONS)), adam.state_of(model(rng, layers, tokens, 1))), step=step, batch=batch
    )


if __name__ == "__main__":
    sys.exit(rounds.main(__doc__, make))
