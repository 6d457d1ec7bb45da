"""The industrial benchmark (Hein et al. 2017): a plant with delay, hidden fatigue and drift.

Three steerings, velocity v, gain g and shift h, each in [0, 100], are changed by the action. A step
costs ``3 · fatigue + consumption``. Fatigue is noisy, and once hidden states grow beyond a
threshold it is amplified until the effective actions become small again. Consumption is a delayed
exponential of the steerings, plus what mis-calibration adds (``industrial.goldstone``), plus noise.
"""

from dataclasses import dataclass
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float, Int, Key, Scalar
from twofold.envs.industrial import goldstone
from twofold.envs.industrial.goldstone import MOST_REQUIRED_STEP, Calibration

SHIFT_BOUND = 1.5
SHIFT_PER_SETPOINT = 0.02
SHIFT_SCALE = 2 * SHIFT_BOUND + 100 * SHIFT_PER_SETPOINT
RATES = np.array([1.0, 10.0, 100 * MOST_REQUIRED_STEP / (0.9 * SHIFT_SCALE)])
DELAYS = np.array([0.11111, 0.22222, 0.33333, 0.22222, 0.11111, 0.0, 0.0, 0.0, 0.0, 0.0])
TOLERANCE = 0.05
AMPLIFICATION, AMPLIFIED_FROM, AMPLIFIED_MOST = 1.1, 1.2, 5.0
START = 50.0
# Longest stretch of a drifting set-point, and the probability that it stays constant for a stretch.
LONGEST, STILL = 99, 0.1


@dataclass(frozen=True)
class Params:
    """Weights of the cost, and whether the set-point drifts; defaults of the benchmark."""

    fatigue_weight: float = 3.0
    consumption_weight: float = 1.0
    calibration_weight: float = 25.0
    drifting: bool = False


PAPER = Params()


class SetPoint(NamedTuple):
    """Value and slope of the set-point, number of steps done in the stretch, and its length."""

    value: Scalar
    slope: Scalar
    done: Int[Array, ""]
    length: Int[Array, ""]


class Drift(NamedTuple):
    """Random numbers of one step: length (1 … 99), slope (−1 … 1) and constancy of a new stretch,
    and whether a set-point that leaves the range turns back (uniform numbers)."""

    length: Int[Array, ""]
    slope: Scalar
    still: Scalar
    turn: Scalar


class Noise(NamedTuple):
    """Random numbers of a step: for gain and velocity an exponential number of mean 0.1, a uniform
    one and the threshold of a coin, ``[2]`` each; two normal ones; and those of the set-point."""

    exponential: Float[Array, "2"]
    uniform: Float[Array, "2"]
    threshold: Float[Array, "2"]
    amplified: Scalar
    consumption: Scalar
    drift: Drift


class State(NamedTuple):
    """The Markov state, and the observed values of the last step. ``operational`` holds the last
    ten operational costs, oldest first; ``hidden`` the fatigue of gain and velocity."""

    point: SetPoint
    steering: Float[Array, "3"]
    hidden: Float[Array, "2"]
    operational: Float[Array, "10"]
    calibration: Calibration
    fatigue: Scalar
    consumption: Scalar


def sample_drifts(key: Key, num: int) -> Drift:
    """Random numbers of the set-points of ``num`` plants."""
    length_key, uniform_key = jax.random.split(key)
    slope, still, turn = jax.random.uniform(uniform_key, (3, num))
    return Drift(jax.random.randint(length_key, (num,), 1, LONGEST + 1), 2 * slope - 1, still, turn)


def no_drifts(num: int) -> Drift:
    """Placeholder random numbers for constant set-points."""
    return Drift(jnp.ones(num, int), *(jnp.zeros(num) for _ in range(3)))


def begin_stretch(value: Scalar | float, drift: Drift) -> SetPoint:
    slope = jnp.where(drift.still < STILL, 0.0, drift.slope)
    return SetPoint(jnp.asarray(value, float), slope, jnp.int32(0), drift.length)


def move_setpoint(point: SetPoint, drift: Drift) -> SetPoint:
    """One step along the stretch, or the first one of the next stretch."""
    fresh = begin_stretch(point.value, drift)
    over = point.done == point.length
    point = jax.tree.map(lambda new, old: jnp.where(over, new, old), fresh, point)
    target = point.value + point.slope
    outside = (target > 100.0) | (target < 0.0)
    slope = jnp.where(outside & (drift.turn > 0.5), -point.slope, point.slope)
    return SetPoint(jnp.clip(target, 0.0, 100.0), slope, point.done + 1, point.length)


def steer(steering: Float[Array, "3"], action: Float[Array, "3"]) -> Float[Array, "3"]:
    """The known part: velocity, gain and shift move by 1, 10 and 5.75 times the action, clipped."""
    rates = jnp.asarray(RATES, steering.dtype)
    return jnp.clip(steering + rates * jnp.clip(action, -1.0, 1.0), 0.0, 100.0)


def effective_shift(shift: Scalar, point: Scalar) -> Scalar:
    """The effective shift at a set-point, within ±1.5."""
    raw = SHIFT_SCALE * shift / 100.0 - SHIFT_PER_SETPOINT * point - SHIFT_BOUND
    return jnp.clip(raw, -SHIFT_BOUND, SHIFT_BOUND)


def effective_velocity(velocity: Scalar, gain: Scalar, point: Scalar) -> Scalar:
    """The effective velocity, from 0 (velocity 100, gain 0) to 1 (0 and 100), which causes wear."""
    settings = (velocity, gain), (100.0, 0.0), (0.0, 100.0)
    wear, low, high = ((g + 2.0 + point) / (v + 101.0 - point) for v, g in settings)
    return (wear - low) / (high - low)


def effective_gain(gain: Scalar, point: Scalar) -> Scalar:
    """The effective gain, from 0 (gain 100) to 1 (gain 0), which causes wear."""
    wear, low, high = (1.0 / (g + 1.0 + point) for g in (gain, 100.0, 0.0))
    return (wear - low) / (high - low)


def wear_noise(effective: Float[Array, "2"], noise: Noise) -> Float[Array, "2"]:
    """Noise of the fatigue, in [0, 1): small, and sometimes large if the effective actions are."""
    small = 2.0 * (jax.nn.sigmoid(noise.exponential) - 0.5)
    coin = noise.threshold < jnp.clip(effective, 0.001, 0.999)
    return small + (1.0 - small) * noise.uniform * coin * effective


def hidden_fatigue(
    hidden: Float[Array, "2"], effective: Float[Array, "2"], noise: Float[Array, "2"]
) -> Float[Array, "2"]:
    """Hidden fatigue: reset by gentle actions, amplified beyond a threshold, else noisy decay."""
    amplified = jnp.minimum(AMPLIFIED_MOST, AMPLIFICATION * hidden)
    decayed = 0.9 * hidden + noise / 3.0
    grown = jnp.where(hidden >= AMPLIFIED_FROM, amplified, decayed)
    return jnp.where(effective <= TOLERANCE, effective, grown)


def basic_fatigue(velocity: Scalar, gain: Scalar) -> Scalar:
    """Fatigue of the steerings alone."""
    return jnp.maximum(0.0, 30000.0 / (5.0 * velocity + 100.0) - 0.01 * jnp.square(gain))


def operational_cost(velocity: Scalar, gain: Scalar, point: Scalar) -> Scalar:
    """Operational cost before its delay."""
    return jnp.exp((2.0 * point + 4.0 * velocity + 2.5 * gain) / 100.0)


def delayed_cost(operational: Float[Array, "10"]) -> Scalar:
    """Weighted sum of the operational costs of five to nine steps ago."""
    return operational @ jnp.asarray(DELAYS, operational.dtype)


def cost(params: Params, state: State) -> Scalar:
    """``3 · fatigue + consumption`` of the step that led here."""
    return params.fatigue_weight * state.fatigue + params.consumption_weight * state.consumption


def step(params: Params, state: State, action: Float[Array, "3"], noise: Noise) -> State:
    point = move_setpoint(state.point, noise.drift) if params.drifting else state.point
    steering = steer(state.steering, action)
    running = operational_cost(steering[0], steering[1], point.value)
    operational = jnp.append(state.operational[1:], running)
    return _settle(params, state._replace(point=point, operational=operational), steering, noise)


def reset(params: Params, point: Scalar | float, first: Drift, noise: Noise) -> State:
    """All steerings at 50, then one step without action, as in the benchmark."""
    start = begin_stretch(point, first)
    moved = move_setpoint(start, noise.drift) if params.drifting else start
    steering = jnp.full(3, START)
    running = operational_cost(steering[0], steering[1], moved.value)
    zero, costs = jnp.zeros(()), jnp.full(10, running)
    state = State(moved, steering, jnp.zeros(2), costs, goldstone.start(), zero, zero)
    return _settle(params, state, steering, noise)


def _settle(params: Params, state: State, steering: Float[Array, "3"], noise: Noise) -> State:
    """Fatigue, calibration and consumption at the new steerings."""
    velocity, gain, shift = steering
    point = state.point.value
    effective = jnp.stack([effective_gain(gain, point), effective_velocity(velocity, gain, point)])
    wearing = wear_noise(effective, noise)
    hidden = hidden_fatigue(state.hidden, effective, wearing)
    saturated = jnp.max(hidden) == AMPLIFIED_MOST
    share = jnp.where(saturated, jax.nn.sigmoid(2.4 + 0.4 * noise.amplified), jnp.max(wearing))
    fatigue = basic_fatigue(velocity, gain) * (1.0 + 2.0 * share) / 3.0
    position = effective_shift(shift, point)
    calibration = goldstone.turn(state.calibration, position)
    miscalibrated = 1.0 + goldstone.penalty(calibration.angle, position)
    expected = delayed_cost(state.operational) + params.calibration_weight * miscalibrated
    consumption = expected - noise.consumption * (1.0 + 0.005 * expected)
    seen = calibration, fatigue, consumption
    return State(state.point, steering, hidden, state.operational, *seen)


def sample_noise(key: Key, params: Params = PAPER) -> Noise:
    return jax.tree.map(lambda leaf: leaf[0], sample_noises(key, 1, params))


def sample_noises(key: Key, num: int, params: Params = PAPER) -> Noise:
    """Random numbers of one step of ``num`` plants, much cheaper than one by one."""
    uniform_key, normal_key, drift_key = jax.random.split(key, 3)
    numbers = jax.random.uniform(uniform_key, (3, num, 2))
    normal = jax.random.normal(normal_key, (2, num))
    drift = sample_drifts(drift_key, num) if params.drifting else no_drifts(num)
    exponential = -0.1 * jnp.log1p(-numbers[0])
    return Noise(exponential, numbers[1], numbers[2], normal[0], normal[1], drift)
