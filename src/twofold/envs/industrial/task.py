"""The industrial benchmark as the paper uses it: observation, behaviour policy, episodes.

The observation is the set-point and the last fifteen steps of velocity, gain, shift and cost,
oldest first. An episode begins with a set-point of 10, 20 … 100 and 15 to 64 random actions.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float, Key
from twofold.envs.industrial import dynamics
from twofold.envs.industrial.dynamics import PAPER, Params, State
from twofold.envs.system import System, check_horizon, memoryless

HISTORY = 15
SEEN = ("velocity", "gain", "shift", "cost")
ACTIONS = ("velocity_change", "gain_change", "shift_change")
LONGEST_EXTRA = 50
SETPOINTS = 10.0 * np.arange(1, 11)
HORIZON = 100
LOW_MIDDLE, HIGH_MIDDLE = 40.0, 60.0
PUSH, PUSH_DEVIATION = 0.5, 3.0**-0.5


class Watched(NamedTuple):
    """The plant and the observed values of its last steps, ``[HISTORY, 4]``, newest last."""

    plant: State
    window: Float[Array, "H 4"]


def measure(params: Params, plant: State) -> Float[Array, "4"]:
    return jnp.append(plant.steering, dynamics.cost(params, plant))


def observe(watched: Watched, history: int = HISTORY) -> Float[Array, "D"]:
    """The set-point, then the last rows of the window."""
    return jnp.append(watched.plant.point.value, watched.window[HISTORY - history :].ravel())


def behave(key: Key, observation: Float[Array, "D"]) -> Float[Array, "3"]:
    """The paper's behaviour policy: uniform; velocity and gain are pushed back to 40 … 60."""
    push_key, uniform_key = jax.random.split(key)
    push = PUSH + PUSH_DEVIATION * jax.random.normal(push_key, (2,))
    uniform = jax.random.uniform(uniform_key, (3,), minval=-1.0, maxval=1.0)
    steering = observation[-4:-2]
    pushed = jnp.where(steering < LOW_MIDDLE, push, uniform[:2])
    pushed = jnp.where(steering > HIGH_MIDDLE, -push, pushed)
    return jnp.clip(jnp.append(pushed, uniform[2]), -1.0, 1.0)


BEHAVIOUR = memoryless(behave)


def reset(key: Key, params: Params) -> Watched:
    """A random set-point, then enough random actions to fill the window, and up to 49 more."""
    point_key, length_key, noise_key, warm_key = jax.random.split(key, 4)
    point = jax.random.choice(point_key, jnp.asarray(SETPOINTS, float))
    extra = jax.random.randint(length_key, (), 0, LONGEST_EXTRA)
    noise = dynamics.sample_noise(noise_key, params)
    plant = dynamics.reset(params, point, noise.drift, noise)
    watched = Watched(plant, jnp.tile(measure(params, plant), (HISTORY, 1)))

    def warm(index: Array, watched: Watched) -> Watched:
        action_key, step_key = jax.random.split(jax.random.fold_in(warm_key, index))
        action = jax.random.uniform(action_key, (3,), minval=-1.0, maxval=1.0)
        return step(step_key, watched, action, params)

    return jax.lax.fori_loop(0, HISTORY + extra, warm, watched)


def step(key: Key, watched: Watched, action: Float[Array, "3"], params: Params) -> Watched:
    """One step, added to the window."""
    noise = dynamics.sample_noise(key, params)
    plant = dynamics.step(params, watched.plant, action, noise)
    return Watched(plant, jnp.concatenate([watched.window[1:], measure(params, plant)[None]]))


def industrial_benchmark(
    params: Params = PAPER, history: int = HISTORY, horizon: int = HORIZON
) -> System:
    """The benchmark as a system that observes the last ``history`` steps, 1 to 15."""
    if not 1 <= history <= HISTORY:
        raise ValueError(f"history must lie between 1 and {HISTORY} steps, got {history}")
    check_horizon(horizon)
    names = tuple(f"{name}_{age}" for age in range(history - 1, -1, -1) for name in SEEN)
    return System(
        name="industrial_benchmark",
        observations=("setpoint", *(SEEN if history == 1 else names)),
        actions=ACTIONS,
        observation_low=np.append(0.0, np.tile([0.0, 0.0, 0.0, -np.inf], history)),
        observation_high=np.append(100.0, np.tile([100.0, 100.0, 100.0, np.inf], history)),
        action_low=-np.ones(3),
        action_high=np.ones(3),
        horizon=horizon,
        reset=lambda key: reset(key, params),
        step=lambda key, watched, action: step(key, watched, action, params),
        observe=lambda watched: observe(watched, history),
        cost=lambda watched: dynamics.cost(params, watched.plant),
        behaviour=BEHAVIOUR,
    )
