"""The two entropies of the split, ``H[y|x]`` and ``E_q(W) H[y|x,W]``, at each point.

Given W, y is a mixture of Gaussians: one for each latent draw, centred at ``f(x, z; W)``. An
estimator takes those centres at one point and returns, for each weight draw W_m,

    cross        −E[log p(y|x)] over y given W_m: its share of the total entropy,
    conditional  H[y|x, W_m].

The mean of the first over m is the total entropy, that of the second the aleatoric one, and their
spread over m gives the Monte Carlo errors of both and of the difference.

The density of a mixture is known, and two estimators use it (``sample_entropy`` has those that do
not). ``integrate``, for one output, is almost exact: on a grid finer than the noise, the error of
the trapezoidal rule is far smaller than the Monte Carlo error. All components are added at once:
their centres are assigned to grid points with cubic B-spline weights and convolved with the noise
by a Fourier transform, which also deconvolves the spline (the gridding of particle-mesh methods).
Varying noise uses nested grids instead (``varying_entropy``).

``average``, for any number of outputs, averages ``−log p`` over draws of y, an unbiased estimate;
both entropies use the same draws, so the error of their difference is small.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp
from jax.scipy.special import xlogy

from twofold.core.arrays import Array, Float, Int, Key, Scalar
from twofold.core.numerics import LOG_TWO_PI, stratified_normal
from twofold.model.spec import BNNLV, WIDE
from twofold.uncertainty.predictive import Nested, components
from twofold.uncertainty.varying_entropy import integrate_varying

SIZES = (256, 1024, 4096, 16_384)
MARGIN_DEVIATIONS = 6.0
POINTS_PER_DEVIATION = 2.0
NEGLIGIBLE = 1e-6
DRAWS = 1000
FEWEST_DRAWS = 10


class Entropies(NamedTuple):
    """Cross and conditional entropy for each weight draw, in nats."""

    cross: Float[Array, "M *points"]
    conditional: Float[Array, "M *points"]


# Arguments: key, centres [L, M, O], log-variances [M, O] and None; or, for varying noise,
# log-variances [L, M, O] and the log-odds [M] of the wide part.
PointEstimator: TypeAlias = Callable[..., Entropies]


def entropies(
    estimator: PointEstimator,
    joint: bool,
    key: Key,
    model: BNNLV,
    nested: Nested,
    x: Float[Array, "B D"],
) -> Entropies:
    """Entropies ``[M, O, B]`` of each output, or ``[M, 1, B]`` of all outputs jointly. All points
    use the same ``key``, so a result does not depend on the other points."""
    given = components(model, nested, x)
    outputs = [slice(None)] if joint else [slice(o, o + 1) for o in range(model.outputs)]

    def at_point(point: tuple[Float[Array, "L M O"], Float[Array, "_ M O"]]) -> Entropies:
        centres, log_noise = point
        more = (given.log_odds,) if model.varying_noise else ()
        log_noise = log_noise if more else log_noise[0]
        results = [estimator(key, centres[..., o], log_noise[..., o], *more) for o in outputs]
        return Entropies(*(jnp.stack(leaves, axis=1) for leaves in zip(*results, strict=True)))

    shape = *given.log_variance.shape[:3], x.shape[0]
    log_variance = jnp.broadcast_to(given.log_variance, shape)
    points = jnp.moveaxis(given.mean, -1, 0), jnp.moveaxis(log_variance, -1, 0)
    return Entropies(*(jnp.moveaxis(leaf, 0, -1) for leaf in jax.lax.map(at_point, points)))


def spline_weights(offset: Float[Array, "*shape"]) -> Float[Array, "*shape 4"]:
    """Cubic B-spline weights of the grid points −1, 0, 1, 2 for a point between 0 and 1."""
    s, t = offset, 1.0 - offset
    inner = [4.0 - 6.0 * s**2 + 3.0 * s**3, 4.0 - 6.0 * t**2 + 3.0 * t**3]
    return jnp.stack([t**3, *inner, s**3], axis=-1) / 6.0


def spread_mass(position: Float[Array, "L"], points: int) -> Float[Array, "G"]:
    """One unit of mass for each position (in grid units), spread over its four grid points."""
    left = jnp.floor(position)
    weights = spline_weights(position - left)
    places = left.astype(jnp.int32)[:, None] + jnp.arange(-1, 3)
    return jnp.zeros(points, position.dtype).at[places.ravel()].add(weights.ravel())


def densities(
    centres: Float[Array, "L M"],
    log_noise: Float[Array, "M"],
    low: Scalar,
    spacing: Scalar,
    points: int,
) -> Float[Array, "M G"]:
    """Density of M mixtures of L Gaussians on an even grid that starts at ``low``. Values below a
    millionth of a mixture's peak are rounding errors of the transform, set to zero."""
    mass = jax.vmap(spread_mass, in_axes=(1, None))((centres - low) / spacing, points)
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
        -spacing * (density @ log_mean), -spacing * jnp.sum(xlogy(density, density), axis=1)
    )


def _bounds(centres: Float[Array, "L M"], log_noise: Float[Array, "M"]) -> tuple[Scalar, Scalar]:
    margin = MARGIN_DEVIATIONS * jnp.exp(0.5 * jnp.max(log_noise))
    return jnp.min(centres) - margin, jnp.max(centres) + margin


def size_needed(centres: Float[Array, "L M"], log_noise: Float[Array, "M"]) -> Scalar:
    """Grid points for a spacing of half the narrowest noise deviation."""
    low, high = _bounds(centres, log_noise)
    return POINTS_PER_DEVIATION * (high - low) * jnp.exp(-0.5 * jnp.min(log_noise))


def grid_index(needed: Scalar) -> Int[Array, ""]:
    """Index of the smallest sufficient one of SIZES; of the largest if none suffices."""
    return jnp.minimum(jnp.searchsorted(jnp.asarray(SIZES), needed), len(SIZES) - 1)


def integrate(
    key: Key,
    centres: Float[Array, "L M 1"],
    log_noise: Float[Array, "*L M 1"],
    log_odds: Float[Array, "M"] | None = None,
) -> Entropies:
    """The near-exact estimator, on a grid as fine as the noise at this point requires.

    If even the largest grid is too coarse, the result is NaN: the noise is then thousands of times
    narrower than the range of the predictions, and L draws of z cannot represent such a density.
    """
    centres, log_noise = centres[..., 0], log_noise[..., 0]
    if log_odds is not None:
        return Entropies(*integrate_varying(centres, log_noise, log_odds))
    needed = size_needed(centres, log_noise)
    branches = [lambda c, n, size=size: entropies_on(size, c, n) for size in SIZES]
    results = jax.lax.switch(grid_index(needed), branches, centres, log_noise)
    return Entropies(*(jnp.where(needed <= SIZES[-1], leaf, jnp.nan) for leaf in results))


def log_kernels(
    y: Float[Array, "R O"], centres: Float[Array, "O L M"], log_noise: Float[Array, "O M"]
) -> Float[Array, "R M"]:
    """``log p(y | x, W_m)`` of every y, relative to a Gaussian's peak: ``log mean_l exp(−½ d²)``.
    Distances d are in deviations; the nearest component is factored out to avoid underflow."""
    precision = jnp.exp(-log_noise)
    squares = sum(
        jnp.square(y[:, o, None, None] - centres[o]) * precision[o] for o in range(y.shape[1])
    )
    nearest = jnp.min(squares, axis=1)
    return jnp.log(jnp.mean(jnp.exp(-0.5 * (squares - nearest[:, None])), axis=1)) - 0.5 * nearest


def log_peaks(log_noise: Float[Array, "M O"]) -> Float[Array, "M"]:
    """Log-density of a Gaussian at its centre."""
    return -0.5 * jnp.sum(log_noise + LOG_TWO_PI, axis=1)


def average(
    key: Key,
    centres: Float[Array, "L M O"],
    log_noise: Float[Array, "*L M O"],
    log_odds: Float[Array, "M"] | None = None,
) -> Entropies:
    """Cross and conditional entropies from about DRAWS draws of y, the same number for each W."""
    if log_odds is not None:
        return average_varying(key, centres, log_noise, log_odds)
    latents, draws, outputs = centres.shape
    num, peaks = max(1, DRAWS // draws), log_peaks(log_noise)
    # Outputs first, so that the sums run over long contiguous rows.
    outputs_first = jnp.moveaxis(centres, -1, 0)

    def given(index: Int[Array, ""]) -> Entropies:
        component_key, noise_key = jax.random.split(jax.random.fold_in(key, index))
        component = jax.random.randint(component_key, (num,), 0, latents)
        noise = jax.random.normal(noise_key, (num, outputs), centres.dtype)
        y = centres[component, index] + jnp.exp(0.5 * log_noise[index]) * noise
        log_densities = log_kernels(y, outputs_first, log_noise.T) + peaks
        everyone = jax.nn.logsumexp(log_densities, axis=1) - jnp.log(draws)
        return Entropies(-jnp.mean(everyone), -jnp.mean(log_densities[:, index]))

    return Entropies(*jax.lax.map(given, jnp.arange(draws)))


def average_varying(
    key: Key,
    centres: Float[Array, "L M O"],
    log_noise: Float[Array, "L M O"],
    log_odds: Float[Array, "M"],
) -> Entropies:
    """``average`` for components with different noise, each paired with one WIDE times as wide."""
    latents, draws, outputs = centres.shape
    num = max(FEWEST_DRAWS, DRAWS // draws)
    wider = jnp.log(jnp.asarray(WIDE, centres.dtype))
    both = jnp.concatenate([centres, centres])
    log_scale = jnp.concatenate([0.5 * log_noise, 0.5 * log_noise + wider])
    narrow, wide = jax.nn.log_sigmoid(-log_odds), jax.nn.log_sigmoid(log_odds)
    log_weights = jnp.repeat(jnp.stack([narrow, wide]), latents, axis=0) - jnp.log(latents)
    log_weights = log_weights - jnp.sum(log_scale + 0.5 * LOG_TWO_PI, axis=-1)
    precision = jnp.exp(-2.0 * log_scale)

    def log_density(y: Float[Array, "O"]) -> Float[Array, "M"]:
        squares = jnp.sum(jnp.square(y - both) * precision, axis=-1)
        return jax.nn.logsumexp(log_weights - 0.5 * squares, axis=0)

    def given(index: Int[Array, ""]) -> Entropies:
        keys = jax.random.split(jax.random.fold_in(key, index), 3)
        place = (jnp.arange(num) + jax.random.uniform(keys[0], (num,))) / num
        component = (place * latents).astype(int)
        noise = stratified_normal(keys[1], num, (outputs,), shuffle=True)
        is_wide = jax.random.uniform(keys[2], (num, 1)) < jax.nn.sigmoid(log_odds[index])
        scale = jnp.exp(0.5 * log_noise[component, index]) * jnp.where(is_wide, WIDE, 1.0)
        y = centres[component, index] + scale * noise.astype(centres.dtype)
        log_densities = jax.vmap(log_density)(y)
        everyone = jax.nn.logsumexp(log_densities, axis=1) - jnp.log(draws)
        return Entropies(-jnp.mean(everyone), -jnp.mean(log_densities[:, index]))

    return Entropies(*jax.lax.map(given, jnp.arange(draws)))
