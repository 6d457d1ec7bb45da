"""Evaluation of policies on the true system: cost and model bias.

b = Σ_t ( E_true[c_t] − E_model[c_t] )²     from the same starting state (paper, Eq. 15)
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float, Key, Keys
from twofold.core.numerics import Standardizer
from twofold.envs.system import Policy, System, simulate
from twofold.plant.embedding import Embedding
from twofold.plant.forecast import Forecast
from twofold.plant.log import Window
from twofold.plant.policy import LearnedPolicy, PolicyNetwork, act_on


class Starts(NamedTuple):
    """States of a system, and the observed windows that led to them."""

    states: Any
    windows: Window


def warm_up(key: Key, system: System, policy: Policy, steps: int, history: int, num: int) -> Starts:
    """``num`` states after ``steps`` of a policy, with windows of ``history`` observations."""
    if steps < history - 1:
        raise ValueError(f"a window of {history} needs at least {history - 1} steps, got {steps}")
    states, seen = simulate(key, system, policy, steps, num)
    first = steps + 1 - history
    return Starts(states, Window(seen.observations[:, first:], seen.actions[:, first:]))


def true_costs(
    key: Key, system: System, policy: LearnedPolicy, starts: Starts, horizon: int, repeats: int
) -> np.ndarray:
    """Costs ``[starts, repeats, T]`` of a policy; the same key gives all policies the same random
    numbers."""
    num = starts.windows.observations.shape[0]
    keys = jax.random.split(key, (num, repeats))
    parts = system.step, system.observe, system.cost
    found = costs_from(parts, policy.embedding, policy.shape, horizon, policy.leaves, starts, keys)
    return np.asarray(found, np.float64)


@partial(jax.jit, static_argnums=(0, 1, 2, 3))
def costs_from(
    system: tuple[Callable, Callable, Callable],
    embedding: Embedding,
    shape: PolicyNetwork,
    horizon: int,
    leaves: tuple[Array, Standardizer],
    starts: Starts,
    keys: Keys,
) -> Float[Array, "B R T"]:
    """``true_costs`` for policy weights under optimisation (``leaves`` as in a policy)."""
    follow, observe, pay = system

    def one(start: Starts, key: Key) -> Float[Array, "T"]:
        def step(carry, step_key):
            state, window = carry
            action = act_on(embedding, shape, leaves, window)
            state = follow(step_key, state, action)
            window = Window(
                jnp.concatenate([window.observations, observe(state)[None]])[1:],
                jnp.concatenate([window.actions, action[None]])[1:],
            )
            return (state, window), pay(state)

        return jax.lax.scan(step, tuple(start), jax.random.split(key, horizon))[1]

    return jax.vmap(jax.vmap(one, in_axes=(None, 0)))(starts, keys)


def logged_costs(
    key: Key, system: System, controller: Policy, starts: Starts, horizon: int, repeats: int
) -> np.ndarray:
    """Costs of the logged controller, with a new memory."""
    num = starts.windows.observations.shape[0]
    keys = jax.random.split(key, (num, repeats))
    parts = system.step, system.observe, system.cost
    return np.asarray(_logged_costs(parts, controller, horizon, starts.states, keys), np.float64)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _logged_costs(
    system: tuple[Callable, Callable, Callable],
    controller: Policy,
    horizon: int,
    states: Any,
    keys: Keys,
) -> Float[Array, "B R T"]:
    follow, observe, pay = system

    def one(state: Any, key: Key) -> Float[Array, "T"]:
        def step(carry, step_key):
            state, memory = carry
            act_key, noise_key = jax.random.split(step_key)
            memory, action = controller.act(act_key, memory, observe(state))
            state = follow(noise_key, state, action)
            return (state, memory), pay(state)

        memory_key, run_key = jax.random.split(key)
        first = state, controller.init(memory_key)
        return jax.lax.scan(step, first, jax.random.split(run_key, horizon))[1]

    return jax.vmap(jax.vmap(one, in_axes=(None, 0)))(states, keys)


def model_bias(true: Float[np.ndarray, "B R T"], forecast: Forecast) -> float:
    """``b`` with the expectation over starts too, corrected for Monte Carlo error.

    A state has unobserved parts, which are random to a model that knows only the window of a start;
    therefore starts are drawn at random, and ``E[c_t]`` is taken over them as well. Monte Carlo
    error comes from the starts and from the weight draws, which all starts share.
    """
    apart = true.mean(axis=1) - forecast.expected
    luck = apart.var(axis=0, ddof=1) / len(apart)
    luck += forecast.by_draw.var(axis=0, ddof=1) / len(forecast.by_draw)
    return float(np.sum(np.square(apart.mean(axis=0)) - luck))


def bias_by_start(true: Float[np.ndarray, "B R T"], forecast: Forecast) -> np.ndarray:
    """``b`` of each start separately, including the effect of its unobserved state."""
    draws = len(forecast.by_draw)
    luck = true.var(axis=1, ddof=1) / true.shape[1]
    luck += (forecast.epistemic + forecast.aleatoric / forecast.noise_draws) / draws
    return np.sum(np.square(true.mean(axis=1) - forecast.expected) - luck, axis=1)
