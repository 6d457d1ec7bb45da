"""The set-point: fixed, or drifting in straight stretches of random length and slope."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from twofold.core.arrays import Array, Float, Int, Key

LONGEST = 99
STILL = 0.1
LOW, HIGH = 0.0, 100.0


class SetPoint(NamedTuple):
    """Where it is, its slope, and how many steps of the stretch are over, of how many."""

    value: Float[Array, ""]
    slope: Float[Array, ""]
    done: Int[Array, ""]
    length: Int[Array, ""]


class Drift(NamedTuple):
    """The chances of one step: length (1 … 99), slope (−1 … 1) and stillness of a new stretch, and
    whether a set-point that leaves the range turns round (uniform numbers)."""

    length: Int[Array, ""]
    slope: Float[Array, ""]
    still: Float[Array, ""]
    turn: Float[Array, ""]


def sample_drifts(key: Key, num: int) -> Drift:
    """Chances of a step, for ``num`` plants."""
    length_key, uniform_key = jax.random.split(key)
    slope, still, turn = jax.random.uniform(uniform_key, (3, num))
    return Drift(jax.random.randint(length_key, (num,), 1, LONGEST + 1), 2 * slope - 1, still, turn)


def no_drifts(num: int) -> Drift:
    """Chances that nobody looks at."""
    return Drift(jnp.ones(num, int), *(jnp.zeros(num) for _ in range(3)))


def begin(value: Float[Array, ""] | float, drift: Drift) -> SetPoint:
    """At the beginning of a first stretch."""
    slope = jnp.where(drift.still < STILL, 0.0, drift.slope)
    return SetPoint(jnp.asarray(value, float), slope, jnp.int32(0), drift.length)


def move(point: SetPoint, drift: Drift) -> SetPoint:
    """One step along the stretch, or the first one of the next."""
    fresh = begin(point.value, drift)
    over = point.done == point.length
    point = jax.tree.map(lambda new, old: jnp.where(over, new, old), fresh, point)
    target = point.value + point.slope
    outside = (target > HIGH) | (target < LOW)
    slope = jnp.where(outside & (drift.turn > 0.5), -point.slope, point.slope)
    return SetPoint(jnp.clip(target, LOW, HIGH), slope, point.done + 1, point.length)
