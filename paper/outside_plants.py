"""The equations of three plants from other libraries, and simple controllers.

Gymnasium's ``Pendulum-v1``, and pc-gym's reactor ``cstr`` and ``four_tank``. Tests compare them
with Gymnasium and pc-gym.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from twofold.core.arrays import Array, Key

SUBSTEPS = 20


class Plant(NamedTuple):
    """Functions of a plant; ``control(observation)`` is the action of its logged controller without
    exploration noise, whose deviations are ``explored``."""

    name: str
    observations: tuple[str, ...]
    actions: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    begin: Callable[[Key], Array]
    follow: Callable[[Key, Array, Array], Array]
    measure: Callable[[Key, Array], Array]
    control: Callable[[Array], Array]
    explored: tuple[float, ...]
    cost: Callable[[Mapping[str, Any]], Any]


def runge_kutta(slope: Callable[[Array], Array], values: Array, duration: float) -> Array:
    """Integrate over a duration with ``SUBSTEPS`` fourth-order Runge-Kutta steps."""
    h = duration / SUBSTEPS

    def one(_: int, x: Array) -> Array:
        first = slope(x)
        second = slope(x + 0.5 * h * first)
        third = slope(x + 0.5 * h * second)
        return x + h / 6.0 * (first + 2.0 * second + 2.0 * third + slope(x + h * third))

    return jax.lax.fori_loop(0, SUBSTEPS, one, values)


def swing(values: Array, action: Array) -> Array:
    """The pendulum's angle (0 is upright) and velocity 0.05 s later, as in Gymnasium."""
    angle, velocity = values
    velocity = velocity + (15.0 * jnp.sin(angle) + 3.0 * action[0]) * 0.05
    velocity = jnp.clip(velocity, -8.0, 8.0)
    return jnp.stack([angle + 0.05 * velocity, velocity])


def pendulum_cost(row: Mapping[str, Any]) -> Any:
    """Gymnasium's cost, of the state after a step."""
    angle = jnp.arctan2(row["sine"], row["cosine"])
    return angle**2 + 0.1 * row["velocity"] ** 2 + 0.001 * row["torque"] ** 2


def pump_energy(seen: Array) -> Array:
    """Drive the energy to that of the upright position and balance there, both with too low
    gains."""
    cosine, sine, velocity = seen
    lacking = 15.0 * (1.0 - cosine) - 0.5 * velocity**2
    pumped = jnp.clip(0.1 * lacking * velocity, -1.2, 1.2)
    balanced = -8.0 * sine - 1.5 * velocity
    return jnp.where(cosine > 0.9, balanced, pumped)[None]


PENDULUM = Plant(
    name="pendulum",
    observations=("cosine", "sine", "velocity"),
    actions=("torque",),
    low=(-2.0,),
    high=(2.0,),
    begin=lambda key: jax.random.uniform(key, (2,), minval=-1.0) * jnp.array([jnp.pi, 1.0]),
    follow=lambda key, values, action: swing(values, action),
    measure=lambda key, values: jnp.stack([jnp.cos(values[0]), jnp.sin(values[0]), values[1]]),
    control=pump_energy,
    explored=(0.8,),
    cost=pendulum_cost,
)


def react(values: Array, coolant: Array, feed: Array) -> Array:
    """Concentration and temperature of pc-gym's reactor 26/60 minutes later."""

    def slope(now: Array) -> Array:
        concentration, temperature = now
        rate = 7.2e10 * jnp.exp(-8750.0 / temperature) * concentration
        heat = (5e4 * rate + 5e4 / 100.0 * (coolant - temperature)) / (1000.0 * 0.239)
        return jnp.stack([1.0 - concentration - rate, feed - temperature + heat])

    return runge_kutta(slope, values, 26.0 / 60.0)


def begin_reactor(key: Key) -> Array:
    """A typical state, with a set-point for the episode."""
    low, high = jnp.array([0.85, 320.0, 348.0, 0.85]), jnp.array([0.93, 330.0, 352.0, 0.92])
    return jax.random.uniform(key, (4,), minval=low, maxval=high)


def follow_reactor(key: Key, values: Array, action: Array) -> Array:
    """The feed temperature drifts around 350 K, with a deviation of 2 K."""
    feed = 350.0 + 0.95 * (values[2] - 350.0) + 0.62 * jax.random.normal(key)
    return jnp.concatenate([react(values[:2], action[0], feed), jnp.stack([feed, values[3]])])


REACTOR = Plant(
    name="reactor",
    observations=("concentration", "temperature", "feed", "setpoint"),
    actions=("coolant",),
    low=(295.0,),
    high=(302.0,),
    begin=begin_reactor,
    follow=follow_reactor,
    # Measurement noise of a thousandth, as in pc-gym's examples.
    measure=lambda key, values: (
        values * (1.0 + 1e-3 * jax.random.normal(key, (4,)) * jnp.array([1.0, 1.0, 0.0, 0.0]))
    ),
    control=lambda seen: (298.5 + 40.0 * (seen[0] - seen[3]))[None],
    explored=(0.8,),
    cost=lambda row: 1000.0 * (row["concentration"] - row["setpoint"]) ** 2,
)


def drain(levels: Array, volts: Array) -> Array:
    """Levels of pc-gym's four tanks 1000/60 s later."""
    outlets = jnp.array([0.0035, 0.0030, 0.0020, 0.0025])
    into = jnp.array([0.2, 0.2, 0.8, 0.8]) * jnp.array([0.00085, 0.00095, 0.00095, 0.00085])
    pumped = into * volts[jnp.array([0, 1, 1, 0])]

    def slope(now: Array) -> Array:
        out = outlets * jnp.sqrt(2.0 * 9.81 * jnp.maximum(now, 1e-6))
        return pumped - out + jnp.concatenate([out[2:], jnp.zeros(2)])

    return runge_kutta(slope, levels, 1000.0 / 60.0)


def begin_tanks(key: Key) -> Array:
    """Random levels, and two set-points for the episode."""
    low, high = jnp.array([0.02] * 4 + [0.05] * 2), jnp.array([0.3] * 4 + [0.25] * 2)
    return jax.random.uniform(key, (6,), minval=low, maxval=high)


def tank_cost(row: Mapping[str, Any]) -> Any:
    """Squared errors of the lower levels, in units of 5 cm, plus squared effort of the pumps."""
    errors = (row["level 1"] - row["setpoint 1"]) ** 2 + (row["level 2"] - row["setpoint 2"]) ** 2
    return errors / 0.05**2 + 0.002 * (row["pump 1"] ** 2 + row["pump 2"] ** 2)


FOUR_TANK = Plant(
    name="four_tank",
    observations=("level 1", "level 2", "level 3", "level 4", "setpoint 1", "setpoint 2"),
    actions=("pump 1", "pump 2"),
    low=(0.1, 0.1),
    high=(10.0, 10.0),
    begin=begin_tanks,
    follow=lambda key, values, action: jnp.concatenate([drain(values[:4], action), values[4:]]),
    measure=lambda key, values: (
        values + 0.002 * jax.random.normal(key, (6,)) * jnp.array([1.0] * 4 + [0.0] * 2)
    ),
    # The second pump fills the first tank, through the third tank.
    control=lambda seen: 5.0 + 20.0 * (seen[4:] - seen[:2])[::-1],
    explored=(1.0, 1.0),
    cost=tank_cost,
)
