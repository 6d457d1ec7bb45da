"""A cost written as a Python function of named columns."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float
from twofold.core.naming import nearest
from twofold.plant.errors import LogError
from twofold.plant.log import Log

CostFunction = Callable[[Mapping[str, Any]], Any]


@dataclass(frozen=True)
class Cost:
    """What a step costs: a function of a row, with the observations that the step led to and the
    actions that were applied during it."""

    function: CostFunction
    observations: tuple[str, ...]
    actions: tuple[str, ...]

    def __call__(
        self, observation: Float[Array, "D"], action: Float[Array, "A"]
    ) -> Float[Array, ""]:
        """The cost of having come to an observation by an action."""
        row = dict(zip(self.observations, observation, strict=True))
        return self.function(row | dict(zip(self.actions, action, strict=True)))

    def of(self, log: Log) -> list[np.ndarray]:
        """The costs of each episode's steps."""
        with jax.enable_x64(True):
            every = jax.jit(jax.vmap(self))
            return [np.asarray(every(one.observations[1:], one.actions)) for one in log.episodes]


def cost_of(function: CostFunction, log: Log) -> Cost:
    """A function of named columns as a cost, tried on the log.

    ``function(row)`` takes a mapping from column names to values and gives one finite number,
    the smaller the better. It is written with ``jax.numpy``, so that policies can follow its
    gradient.
    """
    cost = Cost(function, log.observations, log.actions)
    observation = jnp.asarray(log.episodes[0].observations[1])
    action = jnp.asarray(log.episodes[0].actions[0])
    try:
        shape = jnp.shape(jax.jit(cost)(observation, action))
    except KeyError as error:
        known = (*log.observations, *log.actions)
        raise LogError(
            f"cost(row) asks for {error}, but the log has {', '.join(known)}"
            f"{nearest(error.args[0], known)}"
        ) from error
    except Exception as error:
        first = str(error).splitlines()[0] if str(error) else ""
        raise LogError(
            "cost(row) must be written with jax.numpy, without if, max() or float() of values (use "
            f"jnp.where and jnp.maximum); it failed with {type(error).__name__}: {first}"
        ) from error
    if shape != ():
        raise LogError(f"cost(row) must give one number for a row, got the shape {shape}")
    _check_finite(cost, log)
    return cost


def with_costs(log: Log, function: CostFunction) -> Log:
    """The log with the costs that a function of its columns gives."""
    costs = cost_of(function, log).of(log)
    pairs = zip(log.episodes, costs, strict=True)
    return replace(log, episodes=tuple(replace(one, costs=each) for one, each in pairs))


def _check_finite(cost: Cost, log: Log) -> None:
    for episode, costs in zip(log.episodes, cost.of(log), strict=True):
        bad = np.flatnonzero(~np.isfinite(costs))
        if len(bad):
            row = dict(zip(log.observations, episode.observations[bad[0] + 1], strict=True))
            row |= dict(zip(log.actions, episode.actions[bad[0]], strict=True))
            said = ", ".join(f"{name} = {value:g}" for name, value in row.items())
            raise LogError(
                f"cost(row) must be finite, got {costs[bad[0]]} in episode {episode.name!r}, step "
                f"{bad[0]}, where {said}"
            )
