"""Fitted Q evaluation of policies from a log alone, the usual method of offline selection.

For each policy π a network Q is fitted to ``c + d · Q'(s', π(s'))`` over logged steps (s, a, c,
s'), with an earlier Q' and the discount d; ``(1 − d) · Q(s, π(s))``, averaged over logged states,
is the policy's cost per step. Values are clipped to the range of logged costs, without which some
evaluations diverge.
"""

from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from twofold.core.arrays import Array, Float, Key
from twofold.core.numerics import Standardizer
from twofold.plant.cost import Cost
from twofold.plant.log import Log, Window, steps
from twofold.plant.policy import LearnedPolicy, act_on

HIDDEN, UPDATES, BATCH, RENEWED, RATE = (64, 64), 10_000, 256, 50, 1e-3


class Steps(NamedTuple):
    """Logged states (policy inputs and last action), actions, costs and next states, all
    standardised; ``now`` and ``next`` are the policies' actions in both states."""

    states: Float[Array, "N F"]
    actions: Float[Array, "N A"]
    costs: Float[Array, "N"]
    following: Float[Array, "N F"]
    now: Float[Array, "P N A"]
    next: Float[Array, "P N A"]


def evaluate_by_q(
    log: Log, cost: Cost, policies: Sequence[LearnedPolicy], horizon: int, seed: int
) -> np.ndarray:
    """The cost per step of each policy; the discount corresponds to the horizon."""
    gathered, scale = gather_steps(log, cost, policies)
    discount = 1.0 - 1.0 / horizon
    values = fit_q(jax.random.key(seed), gathered, discount)
    return np.asarray(values, float) * float(scale.scale[0]) + float(scale.mean[0])


def gather_steps(
    log: Log, cost: Cost, policies: Sequence[LearnedPolicy]
) -> tuple[Steps, Standardizer]:
    """All steps of a log, and the units of its costs."""
    embedding = policies[0].embedding
    history = max(2, embedding.history)
    (seen, done), actions, new = steps(log, history)
    before, after = (
        Window(seen, done),
        Window(
            np.concatenate([seen[:, 1:], new[:, None]], axis=1),
            np.concatenate([done[:, 1:], actions[:, None]], axis=1),
        ),
    )
    costs = np.asarray(jax.vmap(cost)(jnp.asarray(new), jnp.asarray(actions)), float)[:, None]
    features = jax.jit(jax.vmap(embedding.features))
    states, following = (
        np.concatenate([np.asarray(features(one), float), one.actions[:, -1]], axis=1)
        for one in (before, after)
    )
    of_states, of_actions, of_costs = map(Standardizer.fit, (states, actions, costs))

    def chosen(windows: Window) -> Array:
        actions_of = [
            jax.vmap(partial(act_on, embedding, one.shape, one.leaves))(windows) for one in policies
        ]
        return jnp.stack(
            [jnp.asarray(of_actions.transform(np.asarray(a, float))) for a in actions_of]
        )

    parts = (
        of_states.transform(states),
        of_actions.transform(actions),
        of_costs.transform(costs)[:, 0],
        of_states.transform(following),
        chosen(before),
        chosen(after),
    )
    return Steps(*(jnp.asarray(part, jnp.float32) for part in parts)), of_costs


@partial(jax.jit, static_argnames="discount")
def fit_q(key: Key, logged: Steps, discount: float) -> Float[Array, "P"]:
    """Fit the networks of all policies in parallel, and average each over the logged states."""
    count, size = logged.costs.shape[0], logged.states.shape[1] + logged.actions.shape[1]
    sizes = (size, *HIDDEN, 1)
    ends = jnp.min(logged.costs), jnp.max(logged.costs)
    adam = optax.adam(optax.cosine_decay_schedule(RATE, UPDATES))

    def begin(key: Key) -> list[tuple[Array, Array]]:
        keys = jax.random.split(key, len(sizes) - 1)
        pairs = zip(keys, sizes[:-1], sizes[1:], strict=True)
        return [
            (jax.random.normal(k, (a, b)) * (2.0 / a) ** 0.5, jnp.zeros(b)) for k, a, b in pairs
        ]

    def q(weights: list[tuple[Array, Array]], states: Array, actions: Array) -> Array:
        x = jnp.concatenate([states, actions], axis=-1)
        for kernel, bias in weights[:-1]:
            x = jax.nn.relu(x @ kernel + bias)
        kernel, bias = weights[-1]
        return (x @ kernel + bias)[..., 0]

    def one(now: Array, following: Array) -> Array:
        def update(number: Array, carry: tuple) -> tuple:
            weights, old, state = carry
            old = jax.tree.map(
                lambda new, own: jnp.where(number % RENEWED == 0, new, own), weights, old
            )
            rows = jax.random.randint(jax.random.fold_in(key, number), (BATCH,), 0, count)
            later = q(old, logged.following[rows], following[rows])
            # The network predicts the cost per step, (1 − d) Q, which has the scale of costs.
            target = (1.0 - discount) * logged.costs[rows] + discount * jnp.clip(later, *ends)

            def energy(weights: list[tuple[Array, Array]]) -> Array:
                apart = q(weights, logged.states[rows], logged.actions[rows]) - target
                return jnp.mean(jnp.square(apart))

            steps, state = adam.update(jax.grad(energy)(weights), state)
            return optax.apply_updates(weights, steps), old, state

        first = begin(jax.random.fold_in(key, UPDATES))
        weights, *_ = jax.lax.fori_loop(0, UPDATES, update, (first, first, adam.init(first)))
        return jnp.mean(jnp.clip(q(weights, logged.states, now), *ends))

    return jax.vmap(one)(logged.now, logged.next)
