"""Steady states of the closed loop over the wind, and how far they are from the published ones."""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float
from twofold.envs.wind import aero, dynamics, machine, published
from twofold.envs.wind.params import DEGREE, NREL_5MW, RPM, Turbine

WINDS = np.arange(5.0, 26.0)


class Steady(NamedTuple):
    """Wind in m/s, rotor speed in rpm, pitch in degrees, electric power in kW, thrust in kN."""

    wind: np.ndarray
    rotor_speed: np.ndarray
    pitch: np.ndarray
    power: np.ndarray
    thrust: np.ndarray


def settle(
    turbine: Turbine, table: aero.Table, wind: Float[Array, ""], seconds: float
) -> machine.Machine:
    """The machine after some time in a constant wind."""

    offsets = machine.no_offsets()

    def advance(state, _):
        return machine.step(turbine, table, state, wind, offsets), None

    steps = round(seconds / turbine.time_step)
    return jax.lax.scan(advance, machine.start(turbine, table, wind), length=steps)[0]


@partial(jax.jit, static_argnums=(0, 2))
def _settle_all(turbine: Turbine, winds: Float[Array, "N"], seconds: float) -> dict[str, Array]:
    table = aero.nrel_5mw()

    def one(wind):
        plant = settle(turbine, table, wind, seconds).plant
        _, thrust = aero.loads(turbine.rotor, table, plant.rotor_speed, plant.pitch, wind)
        return {
            "rotor_speed": plant.rotor_speed / RPM,
            "pitch": plant.pitch / DEGREE,
            "power": dynamics.flows(turbine, table, plant, wind).electric / 1e3,
            "thrust": thrust / 1e3,
        }

    return jax.vmap(one)(winds)


def steady_states(
    winds: np.ndarray = WINDS, turbine: Turbine = NREL_5MW, seconds: float = 600.0
) -> Steady:
    """Where the closed loop comes to rest in each wind."""
    found = _settle_all(turbine, jnp.asarray(winds, float), seconds)
    return Steady(np.array(winds), **{name: np.array(value) for name, value in found.items()})


def steady_state_errors(steady: Steady) -> dict[str, float]:
    """Largest deviations from the published states; the winds must be among the published ones."""
    known = np.isin(steady.wind, published.WIND)
    if not known.all():
        raise ValueError(
            "steady states are published for whole winds from 3 to 25 m/s, "
            f"got {steady.wind[~known].tolist()}; leave those out"
        )
    rows = np.searchsorted(published.WIND, steady.wind)
    power = np.abs(steady.power / published.POWER[rows] - 1.0)
    speed = np.abs(steady.rotor_speed / published.ROTOR_SPEED[rows] - 1.0)
    pitch = np.abs(steady.pitch - published.PITCH[rows])
    return {
        "max_power_error": float(power.max()),
        "max_pitch_error_deg": float(pitch.max()),
        "max_speed_error": float(speed.max()),
    }
