"""Entropies of a one-dimensional y by integrating its density: almost exact, no neighbours needed.

Given W, y is a mixture of Gaussians, one for each latent draw, so its density is known in closed
form; the mean over W is the predictive density. On a grid finer than the noise the trapezoidal rule
errs far less than the draws do. All components of a mixture are added at once: their centres are
dealt out to grid points with cubic B-spline weights and convolved with the noise by a Fourier
transform, which also divides the spline out again (the gridding of particle-mesh methods).
"""

import jax
import jax.numpy as jnp
from jax.scipy.special import xlogy

from twofold.core.arrays import Array, Float, Int, Key
from twofold.uncertainty.entropies import Entropies

SIZES = (256, 1024, 4096, 16_384)
MARGIN_DEVIATIONS = 6.0
POINTS_PER_DEVIATION = 2.0
NEGLIGIBLE = 1e-6


def spline_weights(offset: Float[Array, "*shape"]) -> Float[Array, "*shape 4"]:
    """Cubic B-spline weights of the grid points −1, 0, 1, 2 for a point between 0 and 1."""
    s, t = offset, 1.0 - offset
    inner = [4.0 - 6.0 * s**2 + 3.0 * s**3, 4.0 - 6.0 * t**2 + 3.0 * t**3]
    return jnp.stack([t**3, *inner, s**3], axis=-1) / 6.0


def deal(position: Float[Array, "L"], points: int) -> Float[Array, "G"]:
    """One unit of mass for each position (in grid units), spread over its four grid points."""
    left = jnp.floor(position)
    weights = spline_weights(position - left)
    places = left.astype(jnp.int32)[:, None] + jnp.arange(-1, 3)
    return jnp.zeros(points, position.dtype).at[places.ravel()].add(weights.ravel())


def densities(
    centres: Float[Array, "L M"],
    log_noise: Float[Array, "M"],
    low: Float[Array, ""],
    spacing: Float[Array, ""],
    points: int,
) -> Float[Array, "M G"]:
    """Density of M mixtures of L Gaussians on an even grid from ``low`` on.

    Values below a millionth of a mixture's peak are rounding of the transform, and become zero.
    """
    mass = jax.vmap(deal, in_axes=(1, None))((centres - low) / spacing, points)
    frequency = jnp.arange(points // 2 + 1, dtype=centres.dtype) / points
    deviation = jnp.exp(0.5 * log_noise)[:, None] / spacing
    noise = jnp.exp(-2.0 * jnp.square(jnp.pi * frequency * deviation))
    transform = jnp.fft.rfft(mass) * noise / jnp.sinc(frequency) ** 4
    density = jnp.fft.irfft(transform, n=points) / (centres.shape[0] * spacing)
    peak = jnp.max(density, axis=1, keepdims=True)
    return jnp.where(density > NEGLIGIBLE * peak, density, 0.0)


def entropies_on(
    points: int, centres: Float[Array, "L M"], log_noise: Float[Array, "M"]
) -> Entropies:
    """Cross and conditional entropies with a grid of ``points``."""
    low, high = _bounds(centres, log_noise)
    spacing = (high - low) / (points - 1)
    density = densities(centres, log_noise, low, spacing, points)
    log_mean = jnp.log(jnp.maximum(jnp.mean(density, axis=0), jnp.finfo(density.dtype).tiny))
    return Entropies(
        -spacing * (density @ log_mean),
        -spacing * jnp.sum(xlogy(density, density), axis=1),
    )


def _bounds(
    centres: Float[Array, "L M"], log_noise: Float[Array, "M"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    margin = MARGIN_DEVIATIONS * jnp.exp(0.5 * jnp.max(log_noise))
    return jnp.min(centres) - margin, jnp.max(centres) + margin


def size_needed(centres: Float[Array, "L M"], log_noise: Float[Array, "M"]) -> Float[Array, ""]:
    """Grid points for a spacing of half the narrowest noise deviation."""
    low, high = _bounds(centres, log_noise)
    return POINTS_PER_DEVIATION * (high - low) * jnp.exp(-0.5 * jnp.min(log_noise))


def grid_index(needed: Float[Array, ""]) -> Int[Array, ""]:
    """Which of the SIZES is large enough; the largest where none is."""
    return jnp.minimum(jnp.searchsorted(jnp.asarray(SIZES), needed), len(SIZES) - 1)


def integrate(
    key: Key, centres: Float[Array, "L M 1"], log_noise: Float[Array, "M 1"]
) -> Entropies:
    """The near-exact estimator, on a grid as fine as the noise at this point asks for.

    Where even the largest grid is too coarse the answer is NaN: the noise is then thousands of
    times narrower than the predictions' range, and L draws of z cannot show such a density.
    """
    centres, log_noise = centres[..., 0], log_noise[..., 0]
    needed = size_needed(centres, log_noise)
    branches = [lambda c, n, size=size: entropies_on(size, c, n) for size in SIZES]
    found = jax.lax.switch(grid_index(needed), branches, centres, log_noise)
    fine_enough = needed <= SIZES[-1]
    return jax.tree.map(lambda leaf: jnp.where(fine_enough, leaf, jnp.nan), found)
