"""Near-exact entropies of one output with varying noise: Gaussian mixtures of many widths.

Given W_m, y is a mixture of 2L Gaussians: one for each latent draw, with its own width, and one
WIDE times as wide. A single even grid would have to resolve the narrowest of them and span the
widest, which often differ a thousandfold. Instead, each octave of widths has its own grid:

- Level j has spacing ``2^j h``, h being the narrowest deviation over POINTS_PER_DEVIATION, and
  holds the Gaussians of ``2^j`` to ``2^(j+1)`` times that deviation, evaluated point by point.
- All levels span the core, an interval around the centres, and extend beyond it as far as their own
  Gaussians reach. So the grid is fine in the core and coarser by octaves outside it, where only
  wide Gaussians contribute.
- Starting at the coarsest level, the sum so far is interpolated to the next finer level and added
  to it. A Gaussian is smooth on the grid of its own level, so the interpolation error is less than
  a thousandth.

An integral uses the finest level available at each place. Both entropies are sums with the same
densities at the same points, so equal draws of W give an epistemic part of exactly 0.
"""

import math
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import xlogy

from twofold.core.arrays import Array, Float, Int, Scalar
from twofold.model.spec import WIDE

SIZES = (1024, 8192, 65_536)  # spacings h in the core
MOST_VALUES = 2**24  # of a core, over all weight draws
LEVELS = 16
MOST_ADDED = 0.005  # most nats that widening Gaussians too narrow for any grid may add
POINTS_PER_DEVIATION = 2
REACH = 18  # points on each side of a centre: 4.5 deviations or more
OVERHANG = 2  # deviations that a centre may lie outside the core
MARGIN = REACH + 2 * OVERHANG * POINTS_PER_DEVIATION + 2  # points on each side of the core; even
MIDPOINT = np.array([3.0, -25.0, 150.0, 150.0, -25.0, 3.0]) / 256.0  # of a quintic
END = np.array([3.0 / 8.0, 7.0 / 6.0, 23.0 / 24.0])  # Gregory's weights


class Components(NamedTuple):
    """M mixtures of C Gaussians each."""

    centre: Float[Array, "C M"]
    deviation: Float[Array, "C M"]
    weight: Float[Array, "C M"]


def two_widths(
    centres: Float[Array, "L M"], log_noise: Float[Array, "L M"], log_odds: Float[Array, "M"]
) -> Components:
    """The two Gaussians of every latent draw."""
    deviation = jnp.exp(0.5 * log_noise)
    shares = jnp.stack([jax.nn.sigmoid(-log_odds), jax.nn.sigmoid(log_odds)]) / len(centres)
    return Components(
        jnp.concatenate([centres, centres]),
        jnp.concatenate([deviation, WIDE * deviation]),
        jnp.repeat(shares, len(centres), axis=0),
    )


def finest_spacing(components: Components) -> Scalar:
    """Spacing of level 0."""
    return jnp.min(components.deviation) / POINTS_PER_DEVIATION


def core_bounds(components: Components) -> tuple[Scalar, Scalar]:
    """The smallest core; the bounds are in reverse order if any point between them would do."""
    slack = OVERHANG * components.deviation
    return jnp.min(components.centre + slack), jnp.max(components.centre - slack)


def size_needed(components: Components) -> Scalar:
    """Number of spacings in the smallest core."""
    low, high = core_bounds(components)
    return jnp.maximum(high - low, 0.0) / finest_spacing(components)


def widen(components: Components, size: int) -> tuple[Components, Float[Array, "M"]]:
    """Widen Gaussians that are too narrow for a core of ``size`` spacings, or for LEVELS. Also
    returns an upper bound of what this adds to the entropy of each mixture: ``log`` of the
    widening, times the weight. The bound is reached by an isolated Gaussian."""
    low, high = core_bounds(components)
    fine = POINTS_PER_DEVIATION * (high - low) / size
    least = jnp.maximum(fine, jnp.max(components.deviation) * 2.0**-LEVELS)
    deviation = jnp.maximum(components.deviation, least)
    added = components.weight * jnp.log(deviation / components.deviation)
    return components._replace(deviation=deviation), jnp.sum(added, axis=0)


def level_points(size: int) -> list[int]:
    """Number of points of each level for a core of ``size`` spacings; ``refine`` needs odd ones."""
    return [2 * MARGIN + 1 + 2 * max(1, math.ceil(size / 2 ** (j + 1))) for j in range(LEVELS)]


def sum_by_level(
    components: Components, low: Scalar, finest: Scalar, points: Sequence[int]
) -> list[Float[Array, "M _"]]:
    """The sum of each level's own Gaussians; the core begins at ``low``."""
    starts = np.concatenate([[0], np.cumsum(points)])
    units = components.deviation / (POINTS_PER_DEVIATION * finest)
    level = jnp.clip(jnp.floor(jnp.log2(units)), 0, LEVELS - 1)
    spacing = finest * jnp.exp2(level)
    position = (components.centre - low) / spacing + MARGIN
    nearest = jnp.round(position)
    peak = components.weight / (math.sqrt(2.0 * math.pi) * components.deviation)
    offsets = jnp.arange(-REACH, REACH + 1, dtype=peak.dtype)[:, None, None]
    distances = (offsets + nearest - position) * (spacing / components.deviation)
    values = peak * jnp.exp(-0.5 * jnp.square(distances))
    first = jnp.asarray(starts[:-1])[level.astype(int)] + nearest.astype(int) - REACH
    sums = jax.vmap(_add_windows, in_axes=(1, 2, None))(first, values, int(starts[-1]))
    return jnp.split(sums, starts[1:-1], axis=1)


def _add_windows(
    first: Int[Array, "C"], values: Float[Array, "P C"], total: int
) -> Float[Array, "total"]:
    """Sum of C rows of P values, each added from its own offset; adding whole rows is fast."""
    numbers = jax.lax.ScatterDimensionNumbers(
        update_window_dims=(1,), inserted_window_dims=(), scatter_dims_to_operand_dims=(0,)
    )
    # Clipped, because offsets from NaN, whose result is unused, must not be out of range.
    clip = jax.lax.GatherScatterMode.CLIP
    zeros = jnp.zeros(total, values.dtype)
    return jax.lax.scatter_add(zeros, first[:, None], values.T, numbers, mode=clip)


@partial(jax.jit, static_argnames="points")
def refine(coarse: Float[Array, "M _"], points: int) -> Float[Array, "M points"]:
    """A level's density at the points of the next finer one."""
    half, left = points // 2, MARGIN // 2
    same = coarse[:, left : left + half + 1]
    starts = range(left - 2, left + 4)
    cut = partial(jax.lax.slice_in_dim, coarse, axis=1)
    taps = [cut(i, i + half) * tap for i, tap in zip(starts, MIDPOINT, strict=True)]
    pairs = jnp.stack([same[:, :-1], jnp.maximum(sum(taps), 0.0)], axis=2)
    return jnp.concatenate([pairs.reshape(len(coarse), -1), same[:, -1:]], axis=1)


def rule_weights(points: Sequence[int]) -> np.ndarray:
    """Weights of the points of all levels, in spacings of level 0.

    The trapezoidal rule with Gregory's end corrections for every piece of a level, because the
    density need not vanish at the ends. A level has two pieces, on both sides of the next finer
    one; the points between them have weight 0.
    """
    weights = []
    for j, count in enumerate(points):
        weight = np.zeros(count)
        left, right = MARGIN // 2, MARGIN // 2 + points[j - 1] // 2
        for piece in [slice(left + 1), slice(right, None)] if j else [slice(None)]:
            even = np.ones(len(weight[piece]))
            even[: len(END)], even[-len(END) :] = END, END[::-1]
            weight[piece] = 2.0**j * even
        weights.append(weight)
    return np.concatenate(weights)


def entropies_on(size: int, components: Components) -> tuple[Float[Array, "M"], Float[Array, "M"]]:
    """Cross and conditional entropies with a core of ``size`` spacings."""
    spacing, points = finest_spacing(components), level_points(size)
    low = 0.5 * (sum(core_bounds(components)) - size * spacing)
    levels = sum_by_level(components, low, spacing, points)
    sums = [levels[-1]]
    for j in reversed(range(LEVELS - 1)):
        sums.insert(0, levels[j] + refine(sums[0], points[j]))
    density = jnp.concatenate(sums, axis=1)
    weight = jnp.asarray(rule_weights(points), spacing.dtype) * spacing
    log_mean = jnp.log(jnp.maximum(jnp.mean(density, axis=0), jnp.finfo(density.dtype).tiny))
    return -(density @ (weight * log_mean)), -(xlogy(density, density) @ weight)


def sizes_for(draws: int) -> list[int]:
    """The SIZES, without the largest if so many weight draws leave no memory for it."""
    largest = min(SIZES[-1], 2 ** int(math.log2(MOST_VALUES / draws)))
    return [*(size for size in SIZES if size < largest), largest]


def integrate_varying(
    centres: Float[Array, "L M"], log_noise: Float[Array, "L M"], log_odds: Float[Array, "M"]
) -> tuple[Float[Array, "M"], Float[Array, "M"]]:
    """Cross and conditional entropies for each weight draw, in nats.

    NaN if a notable part of the noise is ten thousand times narrower than the range of the centres
    or than the widest noise: no grid here is then both fine and long enough.
    """
    sizes = sizes_for(centres.shape[1])
    components, added = widen(two_widths(centres, log_noise, log_odds), sizes[-1])
    needed = size_needed(components)
    smallest = jnp.minimum(jnp.searchsorted(jnp.asarray(sizes), needed), len(sizes) - 1)
    branches = [lambda c, size=size: entropies_on(size, c) for size in sizes]
    cross, conditional = jax.lax.switch(smallest, branches, components)
    # Widening adds between 0 and this bound; subtracting half of it halves the largest error.
    excess = jnp.where(jnp.mean(added) <= MOST_ADDED, 0.5 * added, jnp.nan)
    return cross - excess, conditional - excess
