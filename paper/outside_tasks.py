"""Three control tasks on plants from other libraries, with logs of simple controllers.

- *pendulum*: Gymnasium's ``Pendulum-v1``, swung up by an energy controller that is too weak;
- *reactor*: pc-gym's ``cstr``, a cooled reaction whose concentration follows a set-point while the
  feed temperature drifts (an exogenous column), under a proportional controller;
- *four_tank*: pc-gym's ``four_tank``, whose lower levels follow set-points through the upper tanks,
  under two proportional controllers.

All controllers explore with autocorrelated noise. A policy is evaluated for ``horizon`` steps after
``WARM_UP`` steps of the logged controller.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from paper.control_problems import ControlProblem
from paper.outside_plants import FOUR_TANK, PENDULUM, REACTOR, Plant
from paper.truth import Starts, warm_up
from twofold.core.arrays import Array, Float, Key
from twofold.envs.system import Policy, System
from twofold.plant.embedding import embed
from twofold.plant.log import Log

WARM_UP, CORRELATION = 5, 0.8


class State(NamedTuple):
    """State of a plant, its measurements, and the last action."""

    values: Float[Array, "V"]
    seen: Float[Array, "D"]
    action: Float[Array, "A"]


def explore(plant: Plant) -> Policy:
    """The logged controller, with autocorrelated noise."""
    fresh = jnp.asarray(plant.explored) * (1.0 - CORRELATION**2) ** 0.5
    low, high = jnp.asarray(plant.low), jnp.asarray(plant.high)

    def act(key: Key, noise: Array, seen: Array) -> tuple[Array, Array]:
        noise = CORRELATION * noise + fresh * jax.random.normal(key, fresh.shape)
        return noise, jnp.clip(plant.control(seen) + noise, low, high)

    first = jnp.asarray(plant.explored)
    return Policy(lambda key: first * jax.random.normal(key, first.shape), act)


def system_of(plant: Plant, length: int) -> System:
    """A plant as a system, with costs of the measured values."""
    names, actions = plant.observations, len(plant.actions)

    def reset(key: Key) -> State:
        first, second = jax.random.split(key)
        values = plant.begin(first)
        return State(values, plant.measure(second, values), jnp.zeros(actions))

    def step(key: Key, state: State, action: Array) -> State:
        first, second = jax.random.split(key)
        action = jnp.clip(action, jnp.asarray(plant.low), jnp.asarray(plant.high))
        values = plant.follow(first, state.values, action)
        return State(values, plant.measure(second, values), action)

    def pay(state: State) -> Any:
        values = *state.seen, *state.action
        return plant.cost(dict(zip((*names, *plant.actions), values, strict=True)))

    anywhere = np.full(len(names), np.inf)
    return System(
        name=plant.name,
        observations=names,
        actions=plant.actions,
        observation_low=-anywhere,
        observation_high=anywhere,
        action_low=np.array(plant.low),
        action_high=np.array(plant.high),
        horizon=length,
        reset=reset,
        step=step,
        observe=lambda state: state.seen,
        cost=pay,
        behaviour=explore(plant),
    )


def _problem(plant: Plant, episodes: int, length: int, **seen: Any) -> ControlProblem:
    system, history = system_of(plant, length), seen.get("history", 1)

    def starts(key: Key, num: int) -> Starts:
        # One more action than the history, because rate-limited policies need the last one.
        return warm_up(key, system, system.behaviour, WARM_UP, max(2, history), num)

    return ControlProblem(
        name=plant.name,
        system=system,
        behaviour=system.behaviour,
        transitions=episodes * length,
        length=length,
        cost=plant.cost,
        embed=partial(embed, **seen),
        starts=starts,
        horizon=length - WARM_UP,
    )


OUTSIDE = {
    "pendulum": _problem(PENDULUM, 50, 200),
    "reactor": _problem(REACTOR, 100, 100, history=3, held=["setpoint"], exogenous=["feed"]),
    "four_tank": _problem(FOUR_TANK, 100, 100, history=3, held=["setpoint 1", "setpoint 2"]),
}


def make_log(task: str, seed: int) -> Log:
    """The log of a task."""
    return OUTSIDE[task].batch(seed)


def true_cost(
    task: str, act: Callable[[np.ndarray], np.ndarray], seed: int, episodes: int
) -> np.ndarray:
    """Mean cost per step of each episode under ``act``, which maps observations ``[E, D]`` to
    actions ``[E, A]``; equal seeds give equal starts and random numbers."""
    problem = OUTSIDE[task]
    first, second = jax.random.split(jax.random.key(seed))
    state = problem.starts(first, episodes).states
    step = jax.jit(jax.vmap(problem.system.step))
    total = np.zeros(episodes)
    for number in range(problem.horizon):
        keys = jax.random.split(jax.random.fold_in(second, number), episodes)
        actions = np.asarray(act(np.asarray(state.seen)), np.float32)
        state = step(keys, state, actions.reshape(state.action.shape))
        total += np.asarray(jax.vmap(problem.system.cost)(state), float)
    return total / problem.horizon
