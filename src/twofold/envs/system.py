"""The interface of a system: pure functions for ``jit`` and ``vmap``, and names for a log.

The dynamics of each system are in its own module, with noise as an argument; a ``System`` draws
that noise from a key, so that all systems are run, sampled and wrapped in the same way.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float, Key, Keys, Scalar

State = Any


def check_fields(params: Any, names: str, rule: str, accepts: Callable[[Any], bool]) -> None:
    """Raise for the first of the named fields that violates a rule."""
    for name in names.split():
        if not accepts(getattr(params, name)):
            raise ValueError(f"{name} must {rule}, got {getattr(params, name)}")


def check_horizon(steps: int) -> None:
    if steps < 1:
        raise ValueError(f"horizon must be 1 step or more, got {steps}")


class Policy(NamedTuple):
    """``init(key)`` makes a memory, ``act(key, memory, observation)`` a new one and the action."""

    init: Callable[[Key], Any]
    act: Callable[[Key, Any, Float[Array, "D"]], tuple[Any, Float[Array, "A"]]]


class System(NamedTuple):
    """A system to be controlled.

    ``reset(key)`` gives a state, ``step(key, state, action)`` the next one; ``observe(state)`` is
    the observation for policies and logs, ``cost(state)`` the cost of arriving there. Names include
    units, if any; ``horizon`` is the usual length of an episode.
    """

    name: str
    observations: tuple[str, ...]
    actions: tuple[str, ...]
    observation_low: np.ndarray
    observation_high: np.ndarray
    action_low: np.ndarray
    action_high: np.ndarray
    horizon: int
    reset: Callable[[Key], State]
    step: Callable[[Key, State, Float[Array, "A"]], State]
    observe: Callable[[State], Float[Array, "D"]]
    cost: Callable[[State], Scalar]
    behaviour: Policy


class Episodes(NamedTuple):
    """Observations (one more than actions), actions and costs."""

    observations: Float[Array, "E S D"]
    actions: Float[Array, "E T A"]
    costs: Float[Array, "E T"]


def memoryless(act: Callable[[Key, Float[Array, "D"]], Float[Array, "A"]]) -> Policy:
    """A policy that uses the last observation only."""
    return Policy(lambda key: (), lambda key, memory, observation: (memory, act(key, observation)))


def constant(action: Any) -> Policy:
    """Always the same action."""
    fixed = jnp.asarray(action, float)
    return memoryless(lambda key, observation: fixed)


def uniform(system: System) -> Policy:
    """Actions uniform between the system's bounds."""
    low, high = jnp.asarray(system.action_low), jnp.asarray(system.action_high)
    draw = partial(jax.random.uniform, shape=low.shape, minval=low, maxval=high)
    return memoryless(lambda key, observation: draw(key))


def episode(key: Key, system: System, policy: Policy, steps: int) -> tuple[Array, Array, Array]:
    """Observations ``[steps + 1, D]``, actions and costs of one episode, starting with a reset."""
    return _episode(_functions(system), policy, steps, key)[1:]


def _functions(system: System) -> tuple[Callable, ...]:
    """The functions of a system, which can be hashed as static arguments."""
    return system.reset, system.step, system.observe, system.cost


def _episode(
    functions: tuple[Callable, ...], policy: Policy, steps: int, key: Key
) -> tuple[State, Array, Array, Array]:
    reset, follow, observe, pay = functions
    reset_key, memory_key, run_key = jax.random.split(key, 3)

    def advance(carry, step_key):
        state, memory = carry
        act_key, noise_key = jax.random.split(step_key)
        observation = observe(state)
        memory, action = policy.act(act_key, memory, observation)
        state = follow(noise_key, state, action)
        return (state, memory), (observation, action, pay(state))

    start = reset(reset_key), policy.init(memory_key)
    keys = jax.random.split(run_key, steps)
    (state, _), (observations, actions, costs) = jax.lax.scan(advance, start, keys)
    return state, jnp.concatenate([observations, observe(state)[None]]), actions, costs


@partial(jax.jit, static_argnums=(0, 1, 2))
def _simulate(functions: Any, policy: Policy, steps: int, keys: Keys) -> Any:
    return jax.vmap(partial(_episode, functions, policy, steps))(keys)


def simulate(
    key: Key, system: System, policy: Policy, steps: int, num: int
) -> tuple[State, Episodes]:
    """Run ``num`` parallel episodes: their final states, and the episodes."""
    keys = jax.random.split(key, num)
    states, *seen = _simulate(_functions(system), policy, steps, keys)
    return states, Episodes(*seen)


def episodes(key: Key, system: System, policy: Policy, steps: int, num: int) -> Episodes:
    return simulate(key, system, policy, steps, num)[1]
