"""What every system is: pure functions, ready for ``jit`` and ``vmap``, and names for a log.

The dynamics themselves live in each system's own module, with their noise as an argument; a
``System`` draws that noise from a key, so that all systems are run, sampled and wrapped alike.
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
    """Refuse the first of the named fields that breaks a rule."""
    for name in names.split():
        if not accepts(getattr(params, name)):
            raise ValueError(f"{name} must {rule}, got {getattr(params, name)}")


class Policy(NamedTuple):
    """How to act: ``init(key)`` makes a memory, ``act(key, memory, observation)`` gives the memory
    after and the action."""

    init: Callable[[Key], Any]
    act: Callable[[Key, Any, Float[Array, "D"]], tuple[Any, Float[Array, "A"]]]


class System(NamedTuple):
    """A system to be controlled.

    ``reset(key)`` gives a state, ``step(key, state, action)`` the next one; ``observe(state)`` is
    what a policy and a log see of it, ``cost(state)`` what it costs to have come there. Names say
    units where there are any; ``horizon`` is the usual length of an episode.
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
    """What was seen before each action and at the end, what was done, and what it cost."""

    observations: Float[Array, "E S D"]
    actions: Float[Array, "E T A"]
    costs: Float[Array, "E T"]


def constant(action: Any) -> Policy:
    """Always the same action."""
    fixed = jnp.asarray(action, float)
    return Policy(lambda key: (), lambda key, memory, observation: (memory, fixed))


def uniform(system: System) -> Policy:
    """Actions uniform between the system's bounds."""
    low, high = jnp.asarray(system.action_low), jnp.asarray(system.action_high)

    def act(key: Key, memory: Any, observation: Array) -> tuple[Any, Array]:
        return memory, jax.random.uniform(key, low.shape, minval=low, maxval=high)

    return Policy(lambda key: (), act)


def episode(key: Key, system: System, policy: Policy, steps: int) -> tuple[Array, Array, Array]:
    """Observations ``[steps + 1, D]``, actions and costs of one episode from its reset on."""
    return _episode(key, (system.reset, system.step, system.observe, system.cost), policy, steps)[
        1:
    ]


def _episode(
    key: Key, system: tuple[Callable, ...], policy: Policy, steps: int
) -> tuple[State, Array, Array, Array]:
    reset, follow, observe, pay = system
    reset_key, memory_key, run_key = jax.random.split(key, 3)
    state, memory = reset(reset_key), policy.init(memory_key)

    def advance(carry, step_key):
        state, memory = carry
        act_key, noise_key = jax.random.split(step_key)
        observation = observe(state)
        memory, action = policy.act(act_key, memory, observation)
        state = follow(noise_key, state, action)
        return (state, memory), (observation, action, pay(state))

    keys = jax.random.split(run_key, steps)
    (state, _), (observations, actions, costs) = jax.lax.scan(advance, (state, memory), keys)
    last = observe(state)[None]
    return state, jnp.concatenate([observations, last]), actions, costs


def simulate(
    key: Key, system: System, policy: Policy, steps: int, num: int
) -> tuple[State, Episodes]:
    """The states after ``num`` episodes side by side, and the episodes."""
    parts = system.reset, system.step, system.observe, system.cost
    states, *seen = _simulate(parts, policy, steps, jax.random.split(key, num))
    return states, Episodes(*seen)


@partial(jax.jit, static_argnums=(0, 1, 2))
def _simulate(
    system: tuple[Callable, ...], policy: Policy, steps: int, keys: Keys
) -> tuple[State, Array, Array, Array]:
    return jax.vmap(lambda key: _episode(key, system, policy, steps))(keys)


def episodes(key: Key, system: System, policy: Policy, steps: int, num: int) -> Episodes:
    """``num`` episodes side by side."""
    return simulate(key, system, policy, steps, num)[1]
