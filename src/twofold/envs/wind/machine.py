"""The closed loop: turbine and baseline control together, and where to start them."""

from typing import NamedTuple

import jax.numpy as jnp

from twofold.core.arrays import Array, Float
from twofold.envs.wind import aero, controller, dynamics, published
from twofold.envs.wind.params import DEGREE, RPM, Turbine


class Machine(NamedTuple):
    """What moves and what the controller remembers."""

    plant: dynamics.Plant
    memory: controller.Memory


def no_offsets() -> controller.Offsets:
    """The baseline itself."""
    return controller.Offsets(jnp.zeros(()), jnp.zeros(()))


def step(
    turbine: Turbine,
    table: aero.Table,
    machine: Machine,
    wind: Float[Array, ""],
    offsets: controller.Offsets,
) -> Machine:
    """One time step: the controller measures and commands, then the turbine moves."""
    memory, commands = controller.act(
        *(turbine.control, turbine.actuators, machine.memory, machine.plant.generator_speed),
        *(offsets, turbine.time_step),
    )
    return Machine(dynamics.step(turbine, table, machine.plant, wind, commands), memory)


def start(turbine: Turbine, table: aero.Table, wind: Float[Array, ""]) -> Machine:
    """The machine near its steady state in a constant wind, found from the published ones."""
    winds = jnp.asarray(published.WIND, float)
    rotor_speed = jnp.interp(wind, winds, jnp.asarray(published.ROTOR_SPEED * RPM, float))
    pitch = jnp.interp(wind, winds, jnp.asarray(published.PITCH * DEGREE, float))
    pitch = jnp.maximum(pitch, turbine.control.fine_pitch)
    train, zero = turbine.drive_train, jnp.zeros_like(rotor_speed)
    speed = train.gear_ratio * rotor_speed
    torque = controller.torque_demand(turbine.control, speed, pitch, zero)
    twist = train.gear_ratio * torque / train.stiffness
    _, thrust = aero.loads(turbine.rotor, table, rotor_speed, pitch, wind)
    leaning = thrust / turbine.tower.stiffness
    plant = dynamics.Plant(rotor_speed, speed, twist, leaning, zero, pitch, torque)
    unit = controller.gain_factor(turbine.control, pitch) * turbine.control.integral_gain
    return Machine(plant, controller.Memory(speed, pitch / unit, pitch))
