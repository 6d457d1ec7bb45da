"""Rotor, drive train, tower and actuators of the turbine as ordinary differential equations.

Torque and thrust of the rotor come from its coefficients over tip-speed ratio and pitch, computed
by blade-element momentum theory (``scripts/wind_tables.py`` recomputes them): bilinear between the
nodes, constant beyond the edges. Two inertias are joined by a shaft that twists; the rotor feels
the tower's first fore-aft mode as relative wind; actuators have a lag and a limited rate.
"""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core import numerics
from twofold.core.arrays import Array, Float, Scalar
from twofold.envs.wind.params import DEGREE, Actuators, Rotor, Turbine

FILE = Path(__file__).parent / "nrel5mw.npz"
SLOWEST_WIND = 0.5  # m/s; below it the tip-speed ratio is meaningless


class Table(NamedTuple):
    """Coefficients on a regular grid; pitch in degrees."""

    tip_speed_ratio: np.ndarray
    pitch: np.ndarray
    torque: np.ndarray
    thrust: np.ndarray


@cache
def nrel_5mw() -> Table:
    with np.load(FILE) as arrays:
        return Table(**{name: arrays[name] for name in Table._fields})


def place(grid: np.ndarray, value: Scalar) -> tuple[Array, Array]:
    """Index of the grid interval of the value, and the fraction of the interval below it."""
    position = (value - grid[0]) / (grid[1] - grid[0])
    position = jnp.clip(position, 0.0, len(grid) - 1.0)
    left = jnp.minimum(position.astype(int), len(grid) - 2)
    return left, position - left


def coefficients(table: Table, ratio: Scalar, pitch: Scalar) -> Float[Array, "2"]:
    """Torque and thrust coefficient by bilinear interpolation; pitch in degrees."""
    row, down = place(table.tip_speed_ratio, ratio)
    column, along = place(table.pitch, pitch)
    nodes = jnp.asarray(np.stack([table.torque, table.thrust], axis=-1), float)
    upper = nodes[row, column] * (1 - along) + nodes[row, column + 1] * along
    lower = nodes[row + 1, column] * (1 - along) + nodes[row + 1, column + 1] * along
    return upper * (1 - down) + lower * down


def tip_speed_ratio(rotor: Rotor, rotor_speed: Scalar, wind: Scalar) -> Scalar:
    """``λ = Ω R / V``."""
    return rotor_speed * rotor.radius / jnp.maximum(wind, SLOWEST_WIND)


def loads(
    rotor: Rotor, table: Table, rotor_speed: Scalar, pitch: Scalar, wind: Scalar
) -> tuple[Scalar, Scalar]:
    """Torque ``½ ρ π R³ C_Q V²`` and thrust ``½ ρ π R² C_T V²``; pitch in radians."""
    ratio = tip_speed_ratio(rotor, rotor_speed, wind)
    pressure = 0.5 * rotor.air_density * jnp.maximum(wind, 0.0) ** 2
    area = jnp.pi * rotor.radius**2
    torque, thrust = coefficients(table, ratio, pitch / DEGREE)
    return pressure * area * rotor.radius * torque, pressure * area * thrust


class Plant(NamedTuple):
    """State of the plant: speeds in rad/s, angles in rad, torque in N·m, tower top in m and m/s."""

    rotor_speed: Scalar
    generator_speed: Scalar
    twist: Scalar
    tower_position: Scalar
    tower_velocity: Scalar
    pitch: Scalar
    torque: Scalar


class Commands(NamedTuple):
    """Commands of the controller: pitch in rad, generator torque in N·m."""

    pitch: Scalar
    torque: Scalar


def twist_rate(turbine: Turbine, plant: Plant) -> Scalar:
    """``Ω − ω / N``."""
    return plant.rotor_speed - plant.generator_speed / turbine.drive_train.gear_ratio


def shaft_torque(turbine: Turbine, plant: Plant) -> Scalar:
    """``k φ + c φ'``, on the low-speed side."""
    train = turbine.drive_train
    return train.stiffness * plant.twist + train.damping * twist_rate(turbine, plant)


def tower_moment(turbine: Turbine, plant: Plant) -> Scalar:
    """Fore-aft moment at the tower base: the mode's restoring force at hub height."""
    tower = turbine.tower
    force = tower.stiffness * plant.tower_position + tower.damping * plant.tower_velocity
    return force * turbine.rotor.hub_height


def follow(value: Scalar, command: Scalar, lag: float, rate: float) -> Scalar:
    """Rate of change of an actuator: first-order lag with limited rate."""
    return jnp.clip((command - value) / lag, -rate, rate)


def limit(actuators: Actuators, commands: Commands) -> Commands:
    pitch = jnp.clip(commands.pitch, actuators.lowest_pitch, actuators.highest_pitch)
    return Commands(pitch, jnp.clip(commands.torque, 0.0, actuators.highest_torque))


def derivative(
    turbine: Turbine, table: Table, plant: Plant, wind: Scalar, commands: Commands
) -> Plant:
    """Time derivative of the plant, for a rotor-averaged wind."""
    train, tower, actuators = turbine.drive_train, turbine.tower, turbine.actuators
    relative = wind - plant.tower_velocity
    torque, thrust = loads(turbine.rotor, table, plant.rotor_speed, plant.pitch, relative)
    shaft = shaft_torque(turbine, plant)
    restoring = tower.stiffness * plant.tower_position + tower.damping * plant.tower_velocity
    return Plant(
        rotor_speed=(torque - shaft) / turbine.rotor.inertia,
        generator_speed=(shaft / train.gear_ratio - plant.torque) / train.generator_inertia,
        twist=twist_rate(turbine, plant),
        tower_position=plant.tower_velocity,
        tower_velocity=(thrust - restoring) / tower.modal_mass,
        pitch=follow(plant.pitch, commands.pitch, actuators.pitch_lag, actuators.pitch_rate),
        torque=follow(plant.torque, commands.torque, actuators.torque_lag, actuators.torque_rate),
    )


def step(turbine: Turbine, table: Table, plant: Plant, wind: Scalar, commands: Commands) -> Plant:
    """One fourth-order Runge-Kutta step with constant wind and commands."""
    size, commands = turbine.time_step, limit(turbine.actuators, commands)

    def stage(carry, coefficients):
        rates, total = carry
        share, weight = coefficients
        moved = jax.tree.map(lambda value, rate: value + share * size * rate, plant, rates)
        rates = derivative(turbine, table, moved, wind, commands)
        return (rates, jax.tree.map(lambda sum, rate: sum + weight * rate, total, rates)), None

    still = jax.tree.map(jnp.zeros_like, plant)
    coefficients = jnp.array([0.0, 0.5, 0.5, 1.0]), jnp.array([1.0, 2.0, 2.0, 1.0]) / 6.0
    # A GPU would launch four kernels; a CPU compiles a loop faster, and runs it as fast.
    unroll = 1 if numerics.on_cpu() else 4
    (_, mean), _ = jax.lax.scan(stage, (still, still), coefficients, unroll=unroll)
    return jax.tree.map(lambda value, rate: value + size * rate, plant, mean)
