"""Torque and thrust of the rotor from its coefficients over tip-speed ratio and pitch.

The coefficients were computed by blade-element momentum theory; ``scripts/wind_tables.py`` says how
and writes them anew. Between the nodes they are bilinear, beyond the edges they stay as they are.
"""

from functools import cache
from pathlib import Path
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float, Scalar
from twofold.envs.wind.params import DEGREE, Rotor

FILE = Path(__file__).parent / "nrel5mw.npz"
SLOWEST_WIND = 0.5  # m/s; below it the tip-speed ratio says nothing


class Table(NamedTuple):
    """Coefficients on a regular grid; pitch in degrees."""

    tip_speed_ratio: np.ndarray
    pitch: np.ndarray
    torque: np.ndarray
    thrust: np.ndarray


@cache
def nrel_5mw() -> Table:
    """The table of the NREL 5-MW rotor."""
    with np.load(FILE) as arrays:
        return Table(**{name: arrays[name] for name in Table._fields})


def place(grid: np.ndarray, value: Scalar) -> tuple[Array, Array]:
    """Number of the grid's interval that holds the value, and the share of it that lies below."""
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
