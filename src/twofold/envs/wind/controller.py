"""The baseline control of the NREL 5-MW turbine (Jonkman et al. 2009, §7).

Torque follows the filtered speed of the generator through five regions; above rated speed a PI
controller with scheduled gains pitches the blades. Offsets, 0 for the baseline, are added to the
pitch command and scale the torque; the power never exceeds the rated one for long.
"""

from typing import NamedTuple

import jax.numpy as jnp

from twofold.core.arrays import Array, Float
from twofold.envs.wind.dynamics import Commands
from twofold.envs.wind.params import Actuators, Control


class Memory(NamedTuple):
    """Filtered speed in rad/s, the integral of its error and the PI controller's pitch in rad."""

    speed: Float[Array, ""]
    integral: Float[Array, ""]
    pitch: Float[Array, ""]


class Offsets(NamedTuple):
    """Pitch to be added, in rad, and the share by which the torque is raised."""

    pitch: Float[Array, ""]
    torque: Float[Array, ""]


def low_pass(
    control: Control, filtered: Float[Array, ""], measured: Float[Array, ""], step: float
) -> Float[Array, ""]:
    """One step of the single-pole filter, ``α = exp(−2 π f Δt)`` (§7.1)."""
    alpha = jnp.exp(-2.0 * jnp.pi * control.filter_frequency * step)
    return alpha * filtered + (1.0 - alpha) * measured


def slip_line(control: Control) -> tuple[float, float]:
    """Synchronous speed of region 2½ and the slope of its torque."""
    end = control.rated_share * control.rated_speed
    synchronous = end / (1.0 + control.slip)
    return synchronous, control.rated_power / end / (end - synchronous)


def transition_speed(control: Control) -> float:
    """Where ``k ω²`` of region 2 meets the line of region 2½."""
    synchronous, slope = slip_line(control)
    root = max(slope**2 - 4.0 * control.torque_gain * slope * synchronous, 0.0) ** 0.5
    return (slope - root) / (2.0 * control.torque_gain)


def region_torque(control: Control, speed: Float[Array, ""]) -> Float[Array, ""]:
    """Torque below rated: 0, a ramp, ``k ω²``, a steep line (regions 1, 1½, 2 and 2½)."""
    cut_in, optimum = control.cut_in_speed, control.optimum_speed
    synchronous, slope = slip_line(control)
    ramp = (speed - cut_in) * control.torque_gain * optimum**2 / (optimum - cut_in)
    torque = jnp.where(speed < optimum, ramp, control.torque_gain * speed**2)
    steep = slope * (speed - synchronous)
    torque = jnp.where(speed < transition_speed(control), torque, steep)
    return jnp.where(speed < cut_in, 0.0, torque)


def torque_demand(
    control: Control, speed: Float[Array, ""], pitch: Float[Array, ""], offset: Float[Array, ""]
) -> Float[Array, ""]:
    """The region's torque, or that of constant power in region 3, scaled by the offset.

    Region 3 is told by the speed or by the PI controller's pitch. No offset asks for more than the
    rated power.
    """
    constant_power = control.rated_power / jnp.maximum(speed, control.cut_in_speed)
    fast = speed >= control.rated_share * control.rated_speed
    pitched = pitch >= control.fine_pitch + control.region_pitch
    torque = jnp.where(fast | pitched, constant_power, region_torque(control, speed))
    return jnp.minimum(torque * (1.0 + offset), constant_power)


def gain_factor(control: Control, pitch: Float[Array, ""]) -> Float[Array, ""]:
    """``1 / (1 + θ / θ_K)``: the rotor answers twice as strongly at ``θ_K`` as at 0."""
    return 1.0 / (1.0 + jnp.maximum(pitch, 0.0) / control.doubling_pitch)


def pitch_demand(
    control: Control, actuators: Actuators, memory: Memory, step: float
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The PI controller's integral and pitch; the integral stops where the pitch does."""
    factor = gain_factor(control, memory.pitch)
    error = memory.speed - control.rated_speed
    lowest, highest = control.fine_pitch, actuators.highest_pitch
    unit = factor * control.integral_gain
    integral = jnp.clip(memory.integral + error * step, lowest / unit, highest / unit)
    wanted = factor * control.proportional_gain * error + unit * integral
    return integral, jnp.clip(wanted, lowest, highest)


def act(
    control: Control,
    actuators: Actuators,
    memory: Memory,
    generator_speed: Float[Array, ""],
    offsets: Offsets,
    step: float,
) -> tuple[Memory, Commands]:
    """What the controller remembers and asks for after measuring the generator's speed."""
    speed = low_pass(control, memory.speed, generator_speed, step)
    memory = memory._replace(speed=speed)
    integral, pitch = pitch_demand(control, actuators, memory, step)
    torque = torque_demand(control, speed, pitch, offsets.torque)
    return Memory(speed, integral, pitch), Commands(pitch + offsets.pitch, torque)
