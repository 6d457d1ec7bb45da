"""The baseline control of the NREL 5-MW turbine (Jonkman et al. 2009, §7), and the closed loop.

Torque follows the filtered speed of the generator through five regions; above rated speed a PI
controller with scheduled gains pitches the blades. Offsets, 0 for the baseline, are added to the
pitch command and scale the torque; the power exceeds the rated power only briefly.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Scalar
from twofold.envs.wind import dynamics
from twofold.envs.wind.dynamics import Commands, Plant
from twofold.envs.wind.params import DEGREE, RPM, Actuators, Control, Turbine

# Steady states of FAST with AeroDyn (paper/wind/published.py has the rest): m/s, rpm, degrees.
STEADY_WIND = np.arange(3.0, 26.0)
STEADY_ROTOR_SPEED = np.array(
    [6.972, 7.183, 7.506, 7.942, 8.469, 9.156, 10.296, 11.431, 11.890] + 14 * [12.1]
)
STEADY_PITCH = np.array(
    9 * [0.0]
    + [3.823, 6.602, 8.668, 10.450, 12.055, 13.536, 14.920]
    + [16.226, 17.473, 18.699, 19.941, 21.177, 22.347, 23.469]
)


class Memory(NamedTuple):
    """Filtered speed in rad/s, the integral of its error and the PI controller's pitch in rad."""

    speed: Scalar
    integral: Scalar
    pitch: Scalar


class Offsets(NamedTuple):
    """Pitch offset in rad, and relative increase of the torque."""

    pitch: Scalar
    torque: Scalar


class Machine(NamedTuple):
    """Plant and controller memory."""

    plant: Plant
    memory: Memory


def low_pass(control: Control, filtered: Scalar, measured: Scalar, step: float) -> Scalar:
    """One step of the single-pole filter, ``α = exp(−2 π f Δt)`` (§7.1)."""
    alpha = jnp.exp(-2.0 * jnp.pi * control.filter_frequency * step)
    return alpha * filtered + (1.0 - alpha) * measured


def slip_line(control: Control) -> tuple[float, float]:
    """Synchronous speed of region 2½ and the slope of its torque."""
    end = control.rated_share * control.rated_speed
    synchronous = end / (1.0 + control.slip)
    return synchronous, control.rated_power / end / (end - synchronous)


def transition_speed(control: Control) -> float:
    """The speed at which ``k ω²`` of region 2 meets the line of region 2½."""
    synchronous, slope = slip_line(control)
    root = max(slope**2 - 4.0 * control.torque_gain * slope * synchronous, 0.0) ** 0.5
    return (slope - root) / (2.0 * control.torque_gain)


def region_torque(control: Control, speed: Scalar) -> Scalar:
    """Torque below rated: 0, a ramp, ``k ω²``, a steep line (regions 1, 1½, 2 and 2½)."""
    cut_in, optimum = control.cut_in_speed, control.optimum_speed
    synchronous, slope = slip_line(control)
    ramp = (speed - cut_in) * control.torque_gain * optimum**2 / (optimum - cut_in)
    torque = jnp.where(speed < optimum, ramp, control.torque_gain * speed**2)
    steep = slope * (speed - synchronous)
    torque = jnp.where(speed < transition_speed(control), torque, steep)
    return jnp.where(speed < cut_in, 0.0, torque)


def torque_demand(control: Control, speed: Scalar, pitch: Scalar, offset: Scalar) -> Scalar:
    """The region's torque, or in region 3 (recognised by speed or pitch) that of constant power,
    scaled by the offset; never more than the rated power demands."""
    constant_power = control.rated_power / jnp.maximum(speed, control.cut_in_speed)
    fast = speed >= control.rated_share * control.rated_speed
    pitched = pitch >= control.fine_pitch + control.region_pitch
    torque = jnp.where(fast | pitched, constant_power, region_torque(control, speed))
    return jnp.minimum(torque * (1.0 + offset), constant_power)


def gain_factor(control: Control, pitch: Scalar) -> Scalar:
    """``1 / (1 + θ / θ_K)``: the rotor responds twice as strongly at ``θ_K`` as at 0."""
    return 1.0 / (1.0 + jnp.maximum(pitch, 0.0) / control.doubling_pitch)


def pitch_demand(
    control: Control, actuators: Actuators, memory: Memory, step: float
) -> tuple[Scalar, Scalar]:
    """The PI controller's integral (stopped at the limits of the pitch) and pitch."""
    factor = gain_factor(control, memory.pitch)
    error = memory.speed - control.rated_speed
    lowest, highest = control.fine_pitch, actuators.highest_pitch
    unit = factor * control.integral_gain
    integral = jnp.clip(memory.integral + error * step, lowest / unit, highest / unit)
    wanted = factor * control.proportional_gain * error + unit * integral
    return integral, jnp.clip(wanted, lowest, highest)


def act(
    turbine: Turbine, memory: Memory, generator_speed: Scalar, offsets: Offsets
) -> tuple[Memory, Commands]:
    """New memory and commands of the controller for a measured generator speed."""
    control, step = turbine.control, turbine.time_step
    speed = low_pass(control, memory.speed, generator_speed, step)
    memory = memory._replace(speed=speed)
    integral, pitch = pitch_demand(control, turbine.actuators, memory, step)
    torque = torque_demand(control, speed, pitch, offsets.torque)
    return Memory(speed, integral, pitch), Commands(pitch + offsets.pitch, torque)


def step(
    turbine: Turbine, table: dynamics.Table, machine: Machine, wind: Scalar, offsets: Offsets
) -> Machine:
    """One time step: the controller measures and commands, then the turbine moves."""
    memory, commands = act(turbine, machine.memory, machine.plant.generator_speed, offsets)
    return Machine(dynamics.step(turbine, table, machine.plant, wind, commands), memory)


def start(turbine: Turbine, table: dynamics.Table, wind: Scalar) -> Machine:
    """The machine near its steady state in constant wind, interpolated from published values."""
    winds = jnp.asarray(STEADY_WIND, float)
    rotor_speed = jnp.interp(wind, winds, jnp.asarray(STEADY_ROTOR_SPEED * RPM, float))
    pitch = jnp.interp(wind, winds, jnp.asarray(STEADY_PITCH * DEGREE, float))
    pitch = jnp.maximum(pitch, turbine.control.fine_pitch)
    train, zero = turbine.drive_train, jnp.zeros_like(rotor_speed)
    speed = train.gear_ratio * rotor_speed
    torque = torque_demand(turbine.control, speed, pitch, zero)
    twist = train.gear_ratio * torque / train.stiffness
    _, thrust = dynamics.loads(turbine.rotor, table, rotor_speed, pitch, wind)
    leaning = thrust / turbine.tower.stiffness
    plant = Plant(rotor_speed, speed, twist, leaning, zero, pitch, torque)
    unit = gain_factor(turbine.control, pitch) * turbine.control.integral_gain
    return Machine(plant, Memory(speed, pitch / unit, pitch))
