"""Drive train, tower and actuators of the turbine as ordinary differential equations.

Two inertias joined by a shaft that twists, the tower's first fore-aft mode, which the rotor feels
as relative wind, and pitch and torque that follow their commands with a lag and a limited rate.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from twofold.core import numerics
from twofold.core.arrays import Scalar
from twofold.envs.wind import aero
from twofold.envs.wind.params import Actuators, Turbine


class Plant(NamedTuple):
    """What moves: speeds in rad/s, angles in rad, torque in N·m, the tower's top in m and m/s."""

    rotor_speed: Scalar
    generator_speed: Scalar
    twist: Scalar
    tower_position: Scalar
    tower_velocity: Scalar
    pitch: Scalar
    torque: Scalar


class Commands(NamedTuple):
    """What the controller asks for: pitch in rad, torque of the generator in N·m."""

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
    """Fore-aft moment at the tower's foot: the mode's restoring force at the hub's height."""
    tower = turbine.tower
    force = tower.stiffness * plant.tower_position + tower.damping * plant.tower_velocity
    return force * turbine.rotor.hub_height


def follow(value: Scalar, command: Scalar, lag: float, rate: float) -> Scalar:
    """Rate of change of an actuator: first order, limited."""
    return jnp.clip((command - value) / lag, -rate, rate)


def limit(actuators: Actuators, commands: Commands) -> Commands:
    """Commands within the actuators' range."""
    pitch = jnp.clip(commands.pitch, actuators.lowest_pitch, actuators.highest_pitch)
    return Commands(pitch, jnp.clip(commands.torque, 0.0, actuators.highest_torque))


def derivative(
    turbine: Turbine, table: aero.Table, plant: Plant, wind: Scalar, commands: Commands
) -> Plant:
    """Rates of change of everything that moves, for a rotor-averaged wind."""
    train, tower, actuators = turbine.drive_train, turbine.tower, turbine.actuators
    relative = wind - plant.tower_velocity
    torque, thrust = aero.loads(turbine.rotor, table, plant.rotor_speed, plant.pitch, relative)
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


def step(
    turbine: Turbine, table: aero.Table, plant: Plant, wind: Scalar, commands: Commands
) -> Plant:
    """One time step of Runge and Kutta's fourth order; wind and commands stay as they are."""
    size, commands = turbine.time_step, limit(turbine.actuators, commands)

    def stage(carry, coefficients):
        rates, total = carry
        share, weight = coefficients
        moved = jax.tree.map(lambda value, rate: value + share * size * rate, plant, rates)
        rates = derivative(turbine, table, moved, wind, commands)
        return (rates, jax.tree.map(lambda sum, rate: sum + weight * rate, total, rates)), None

    still = jax.tree.map(jnp.zeros_like, plant)
    coefficients = jnp.array([0.0, 0.5, 0.5, 1.0]), jnp.array([1.0, 2.0, 2.0, 1.0]) / 6.0
    # A GPU would wait for four kernels; a CPU gains nothing, and compiles a loop sooner.
    unroll = 1 if numerics.on_cpu() else 4
    (_, mean), _ = jax.lax.scan(stage, (still, still), coefficients, unroll=unroll)
    return jax.tree.map(lambda value, rate: value + size * rate, plant, mean)
