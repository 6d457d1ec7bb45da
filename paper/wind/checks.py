"""Steady states of the closed loop by wind speed, compared with the published ones."""

from collections.abc import Callable
from functools import cache, partial
from itertools import product
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from paper.wind import energy, published
from paper.wind.plain_wind import rotor_wind
from twofold.core.arrays import Array, Float, Key, Keys
from twofold.envs.system import constant, episode
from twofold.envs.wind import controller, dynamics, turbulence
from twofold.envs.wind.params import DEGREE, NREL_5MW, RPM, Turbine
from twofold.envs.wind.task import PARAMS, Params, wind_turbine

WINDS = np.arange(5.0, 26.0)


class Steady(NamedTuple):
    """Wind in m/s, rotor speed in rpm, pitch in degrees, electric power in kW, thrust in kN."""

    wind: np.ndarray
    rotor_speed: np.ndarray
    pitch: np.ndarray
    power: np.ndarray
    thrust: np.ndarray


def no_offsets() -> controller.Offsets:
    """Zero offsets: the baseline."""
    return controller.Offsets(jnp.zeros(()), jnp.zeros(()))


def settle(
    turbine: Turbine, table: dynamics.Table, wind: Float[Array, ""], seconds: float
) -> controller.Machine:
    """The machine after some time in a constant wind."""

    offsets = no_offsets()

    def advance(state, _):
        return controller.step(turbine, table, state, wind, offsets), None

    steps = round(seconds / turbine.time_step)
    return jax.lax.scan(advance, controller.start(turbine, table, wind), length=steps)[0]


@partial(jax.jit, static_argnums=(0, 2))
def _settle_all(turbine: Turbine, winds: Float[Array, "N"], seconds: float) -> dict[str, Array]:
    table = dynamics.nrel_5mw()

    def one(wind):
        plant = settle(turbine, table, wind, seconds).plant
        _, thrust = dynamics.loads(turbine.rotor, table, plant.rotor_speed, plant.pitch, wind)
        return {
            "rotor_speed": plant.rotor_speed / RPM,
            "pitch": plant.pitch / DEGREE,
            "power": energy.flows(turbine, table, plant, wind).electric / 1e3,
            "thrust": thrust / 1e3,
        }

    return jax.vmap(one)(winds)


def steady_states(
    winds: np.ndarray = WINDS, turbine: Turbine = NREL_5MW, seconds: float = 600.0
) -> Steady:
    """Steady state of the closed loop in each wind."""
    found = _settle_all(turbine, jnp.asarray(winds, float), seconds)
    return Steady(np.array(winds), **{name: np.array(value) for name, value in found.items()})


def steady_state_errors(steady: Steady) -> dict[str, float]:
    """Largest deviations from the published states, which must include the winds."""
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


MEAN, INTENSITY = 11.0, 0.14  # m/s, and class B: the rotor passes below and above rated


def energy_gap(key: Key, turbine: Turbine = NREL_5MW, seconds: float = 100.0) -> float:
    """Share of the work in a turbulent wind that is neither stored nor extracted.

    Work is computed by the trapezoidal rule; the wind is constant within a time step.
    """
    mean = jnp.asarray(MEAN)
    spectrum = turbulence.Spectrum(rotor_radius=turbine.rotor.radius)
    wind = turbulence.sample(key, spectrum, mean, turbulence.deviation(INTENSITY, mean))
    times = turbine.time_step * (0.5 + jnp.arange(round(seconds / turbine.time_step)))
    energies, flows = _run(turbine, mean, rotor_wind(wind, times))
    work, generator, damping = (
        turbine.time_step * np.asarray(part, np.float64).mean(axis=1).sum() for part in flows[:3]
    )
    return float(abs(work - generator - damping - np.diff(energies)[0]) / work)


def _run(
    turbine: Turbine, mean: Float[Array, ""], winds: Float[Array, "T"]
) -> tuple[np.ndarray, energy.Flows]:
    """Energy of the drive train at the beginning and the end, flows at both ends of each step."""
    table, offsets = dynamics.nrel_5mw(), no_offsets()

    def advance(before, wind):
        after = controller.step(turbine, table, before, wind, offsets)
        ends = jax.tree.map(lambda *pair: jnp.stack(pair), before.plant, after.plant)
        return after, jax.vmap(lambda plant: energy.flows(turbine, table, plant, wind))(ends)

    @jax.jit
    def run(winds):
        first = controller.start(turbine, table, mean)
        last, flows = jax.lax.scan(advance, first, winds)
        energies = [energy.stored_energy(turbine, state.plant) for state in (first, last)]
        return jnp.stack(energies), flows

    energies, flows = run(winds)
    return np.asarray(energies, np.float64), flows


PITCHES = (-3.0, -2.5, -2.0, -1.5, -1.0, -0.5, 0.0, 1.0)
TORQUES = (-20.0, -10.0, -5.0, 0.0, 5.0, 10.0, 20.0)
SETTLING = 30  # seconds


class Gain(NamedTuple):
    """The best fixed offset and its saving per second, with the standard error over winds.

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
    """Mean costs of all fixed offsets of a grid, in the same winds."""
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
    """The best offset of a grid, chosen in some winds and compared with 0 in as many others."""
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
