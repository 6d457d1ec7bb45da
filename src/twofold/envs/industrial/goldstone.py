"""Mis-calibration: a penalty landscape that rotates over time, after the Goldstone potential.

The effective shift r has an optimum that depends on an angle φ; the angle moves on a grid of
``2 · STRONGEST + 1`` indices, driven by r, the side of zero it is on (``domain``), and whether
rotation helps (``response``). The penalty is the potential

    V(r, φ) = −a r² + b r⁴ − c r sin φ,

scaled so that its lowest value at φ = ±90° is −1, with the radius stretched so that the lowest
point at each φ lies at ``max(|sin φ|, MOST_REQUIRED_STEP)``.
"""

from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Int, Scalar

ANGLES = 24
STRONGEST = ANGLES // 4
MOST_REQUIRED_STEP = np.sin(np.pi / 12)
SAFE_ZONE = MOST_REQUIRED_STEP / 2
LARGEST_RADIUS = 2.0
TILT = 8 * np.sqrt(2 / 27)


class Calibration(NamedTuple):
    """Side of zero (±1), whether rotation helps (±1), and index of the angle (−6 … 6)."""

    domain: Int[Array, ""]
    response: Int[Array, ""]
    angle: Int[Array, ""]


def _minimum(sine: float) -> float:
    """The positive radius at the minimum of the potential: a root of its derivative."""
    roots = np.roots([4.0, 0.0, -4.0, -TILT * sine])
    return float(np.max(roots[np.abs(roots.imag) < 1e-6].real))


# Constants of the penalty at each angle, and its scale.
SINE = np.sin(2 * np.pi * np.arange(-STRONGEST, STRONGEST + 1) / ANGLES)
OPTIMUM = np.maximum(np.abs(SINE), MOST_REQUIRED_STEP)
MINIMUM = np.array([_minimum(one) for one in np.abs(SINE)])
LOWEST = _minimum(1.0)
SCALE = -1.0 / float(-2 * LOWEST**2 + LOWEST**4 - TILT * LOWEST)


def start() -> Calibration:
    return Calibration(jnp.int32(1), jnp.int32(1), jnp.int32(0))


def penalty(angle: Int[Array, ""], position: Scalar) -> Scalar:
    """The penalty, −1 at best, at an angle index and an effective shift."""
    tables = (jnp.asarray(table, position.dtype) for table in (SINE, OPTIMUM, MINIMUM))
    sine, optimum, minimum = (table[angle + STRONGEST] for table in tables)
    radius = stretch(position, optimum, minimum)
    square = jnp.square(radius)
    return SCALE * (-2 * square + jnp.square(square) - TILT * sine * radius)


def stretch(position: Scalar, optimum: Scalar, minimum: Scalar) -> Scalar:
    """The radius of the potential at a position: ``optimum`` becomes ``minimum``, 2 stays 2."""
    distance = jnp.abs(position)
    exponent = (LARGEST_RADIUS - optimum) / (LARGEST_RADIUS - minimum)
    scaling = (LARGEST_RADIUS - minimum) / (LARGEST_RADIUS - optimum) ** exponent
    beyond = jnp.maximum(distance - optimum, 0.0)
    # The inner where keeps the gradient of the unused branch finite.
    power = jnp.where(beyond > 0, beyond, 1.0) ** exponent
    outside = minimum + scaling * jnp.where(beyond > 0, power, 0.0)
    inside = distance * minimum / optimum
    return jnp.sign(position) * jnp.where(distance <= optimum, inside, outside)


def turn(calibration: Calibration, position: Scalar) -> Calibration:
    """The next angle, side and response for an effective shift."""
    domain, response, angle = calibration
    side = jnp.sign(position).astype(angle.dtype)
    safe = jnp.abs(position) <= SAFE_ZONE
    new_domain = jnp.where(safe, domain, side)
    response = jnp.where(new_domain != domain, 1, response)
    at_worst = angle == -new_domain * STRONGEST
    driven = jnp.where(at_worst, 0, response * side)
    angle = angle + jnp.where(safe, -jnp.sign(angle), driven)
    response = jnp.where(jnp.abs(angle) >= STRONGEST, -1, response)
    wrapped = 2 * STRONGEST - (angle + 4 * STRONGEST) % (4 * STRONGEST)
    angle = jnp.where(jnp.abs(angle) < STRONGEST, angle, wrapped)
    settled = (angle == 0) & safe
    return Calibration(jnp.where(settled, 1, new_domain), jnp.where(settled, 1, response), angle)
