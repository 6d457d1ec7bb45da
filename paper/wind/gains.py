"""How much there is to gain: fixed offsets against the neutral 0, in the same winds.

The seconds right after an offset begins do not count: a slower rotor gives its energy off once, and
the tower swings until it has found its new place.
"""

from collections.abc import Callable
from functools import cache
from itertools import product
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float, Key, Keys
from twofold.envs.system import constant, episode
from twofold.envs.wind.task import PARAMS, Params, wind_turbine

PITCHES = (-3.0, -2.5, -2.0, -1.5, -1.0, -0.5, 0.0, 1.0)
TORQUES = (-20.0, -10.0, -5.0, 0.0, 5.0, 10.0, 20.0)
SETTLING = 30  # seconds


class Gain(NamedTuple):
    """The best fixed offset and what it saves per second, with the standard error over winds.

    Pitch in degrees, torque in percent; costs are in units of the rated power.
    """

    pitch: float
    torque: float
    neutral_cost: float
    best_cost: float
    gain: float
    standard_error: float


@cache
def costs_of(params: Params) -> Callable[[Float[Array, "2"], Keys], Float[Array, "S"]]:
    """A compiled function: mean cost of a fixed pitch and torque in the winds of some keys."""
    system, bounds = wind_turbine(params), jnp.asarray(params.bounds, float)

    def one(offset: Float[Array, "2"], key: Key) -> Float[Array, ""]:
        steps = SETTLING + params.horizon
        return episode(key, system, constant(offset / bounds), steps)[2][SETTLING:].mean()

    return jax.jit(jax.vmap(one, (None, 0)))


def surface(
    keys: Keys,
    params: Params = PARAMS,
    pitches: tuple[float, ...] = PITCHES,
    torques: tuple[float, ...] = TORQUES,
) -> Float[np.ndarray, "A B S"]:
    """Mean costs of all fixed offsets of a grid, each in the same winds."""
    costs = costs_of(params)
    found = [np.array(costs(jnp.array(pair), keys)) for pair in product(pitches, torques)]
    return np.stack(found).reshape(len(pitches), len(torques), -1)


def fixed_offset_gain(
    key: Key,
    params: Params = PARAMS,
    winds: int = 200,
    pitches: tuple[float, ...] = PITCHES,
    torques: tuple[float, ...] = TORQUES,
) -> Gain:
    """The best offset of a grid, chosen in some winds and judged against 0 in as many others."""
    if winds < 2:
        raise ValueError(f"winds must be 2 or more for a standard error, got {winds}")
    choosing, judging = (jax.random.split(part, winds) for part in jax.random.split(key))
    means = surface(choosing, params, pitches, torques).mean(axis=-1)
    row, column = np.unravel_index(means.argmin(), means.shape)
    best = pitches[row], torques[column]
    costs = costs_of(params)
    neutral, chosen = (np.array(costs(jnp.array(a), judging)) for a in ((0.0, 0.0), best))
    saved = neutral - chosen
    error = float(saved.std(ddof=1) / np.sqrt(winds))
    return Gain(*best, float(neutral.mean()), float(chosen.mean()), float(saved.mean()), error)
