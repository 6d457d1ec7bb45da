"""Other estimators of entropy from samples, for comparison: local Gaussian, kernels, histogram.

Each maps samples ``[n, d]`` to estimates of ``−log p(y_i)`` in nats at each sample, like
``nearest_neighbour``; ``from_samples`` turns them into estimators of the split.
"""

import math
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import digamma

from twofold.core.arrays import Array, Bool, Float, Int, Scalar
from twofold.core.numerics import LOG_TWO_PI
from twofold.uncertainty import neighbours as near
from twofold.uncertainty.sample_entropy import ball_surprisals, nearest_neighbour

GRID_POINTS = 8_192
MOST_BINS = 32_768
MARGIN_BANDWIDTHS = 4.0
FARTHEST_DEVIATIONS = 5.0
BIAS_ERROR = 0.002


class LocalMoments(NamedTuple):
    """Sums over the neighbours of each sample, weighted by ``exp(−|u|²/2)``, ``u = (y_j − y_i)/h``.

    The bandwidth ``h`` of a sample is the distance to its k-th neighbour.
    """

    bandwidth: Float[Array, "n"]
    total: Float[Array, "n"]
    first: Float[Array, "n d"]
    second: Float[Array, "n d d"]


def local_moments(samples: Float[Array, "n d"], k: int, m: int) -> LocalMoments:
    """Weighted sums over the ``m`` nearest neighbours (including ties in one dimension), with the
    distance to the k-th as bandwidth."""
    near.check_neighbours(max(k, m), samples.shape[0])
    return (_ranked_moments if samples.shape[1] == 1 else _paired_moments)(samples, k, m)


def _ranked_moments(samples: Float[Array, "n 1"], k: int, m: int) -> LocalMoments:
    values, places = near.rank(samples[:, 0])
    n, around = values.shape[0], near.pad_ends(values, m)
    bandwidth = jnp.maximum(near.ranked_distances(values, k), near.smallest_distance(samples))
    farthest = near.ranked_distances(values, m)

    def add(j: Int[Array, ""], sums: Float[Array, "3 n"]) -> Float[Array, "3 n"]:
        difference = jax.lax.dynamic_slice_in_dim(around, j, n) - values
        included = (jnp.abs(difference) <= farthest) & (j != m)
        u = jnp.where(included, difference / bandwidth, 0.0)
        weight = jnp.where(included, jnp.exp(-0.5 * jnp.square(u)), 0.0)
        return sums + jnp.stack([weight, weight * u, weight * jnp.square(u)])

    sums = near.each_window(2 * m + 1, add, jnp.zeros((3, n), values.dtype))
    columns = jnp.stack([bandwidth, *sums], axis=1)[places]
    return LocalMoments(columns[:, 0], columns[:, 1], columns[:, 2:3], columns[:, 3:, None])


def _paired_moments(samples: Float[Array, "n d"], k: int, m: int) -> LocalMoments:
    floor = near.smallest_distance(samples)

    def row(i: Int[Array, ""]) -> LocalMoments:
        distances, places = near.nearest(samples, i, max(k, m))
        bandwidth = jnp.maximum(distances[k - 1], floor)
        u = (samples[places[:m]] - samples[i]) / bandwidth
        weights = jnp.exp(-0.5 * jnp.sum(jnp.square(u), axis=1))
        second = jnp.sum(weights[:, None, None] * u[:, :, None] * u[:, None, :], axis=0)
        return LocalMoments(bandwidth, jnp.sum(weights), weights @ u, second)

    moments: LocalMoments = near.rows_in_chunks(row, samples.shape[0])
    return moments


def adaptive(samples: Float[Array, "n d"], k: int = 5) -> Float[Array, "n"]:
    """A Gaussian fitted around each sample by local likelihood: the k-LNN estimator of Gao, Oh and
    Viswanath, "Breaking the Bandwidth Barrier" (2016), which follows densities much thinner in one
    direction than in another.

    The fit uses ``max(6k, log n)`` neighbours, following the paper's theory (order log n) and its
    authors' program (30 for k = 5). For a sample more than ``FARTHEST_DEVIATIONS`` of the fit away
    from its mean (an outlier, or degenerate neighbours such as duplicates), the k-th distance alone
    gives the density. The authors omit samples whose neighbours have a nearly singular covariance;
    without either rule the mean is infinite for small k.
    """
    n, d = samples.shape
    near.check_neighbours(k, n)
    m = min(n - 1, max(6 * k, math.ceil(math.log(n))))
    if m <= d:
        raise ValueError(f"a Gaussian in {d} dimensions needs {d + 2} samples or more, got {n}")
    moments = local_moments(samples, k, m)
    fitted, plausible = gaussian_surprisals(moments)
    intensities = jnp.where(plausible, fitted, ball_surprisals(moments.bandwidth, k, d))
    return math.log(n - 1) - poisson_bias(k, m, d) + intensities


def gaussian_surprisals(moments: LocalMoments) -> tuple[Float[Array, "n"], Bool[Array, "n"]]:
    """``−log S₀ + ½ log |2π h² Σ| + ½ μᵀ Σ⁻¹ μ``, minus the log of the number of samples a unit of
    volume, with ``μ = S₁/S₀``, ``Σ = S₂/S₀ − μμᵀ``; and whether the sample can come from the fit.
    """
    total, d = moments.total, moments.first.shape[1]
    mean = moments.first / total[:, None]
    covariance = moments.second / total[:, None, None] - mean[:, :, None] * mean[:, None, :]
    pivots, quadratic = eliminate(covariance, mean)
    log_determinant = jnp.sum(jnp.log(pivots), axis=1)
    surprisals = (
        d * (0.5 * LOG_TWO_PI + jnp.log(moments.bandwidth))
        + 0.5 * (log_determinant + quadratic)
        - jnp.log(total)
    )
    resolved = jnp.all(pivots > 10.0 * jnp.finfo(total.dtype).eps, axis=1)
    return surprisals, resolved & (quadratic < FARTHEST_DEVIATIONS**2)


def eliminate(
    matrix: Float[Array, "n d d"], vector: Float[Array, "n d"]
) -> tuple[Float[Array, "n d"], Float[Array, "n"]]:
    """Pivots of symmetric matrices, and ``vᵀ A⁻¹ v``, by Gaussian elimination.

    Written out because batched factorisations of libraries process one matrix at a time, which is
    slow for many tiny ones.
    """
    pivots, quadratic = [], jnp.zeros(vector.shape[0], vector.dtype)
    for _ in range(vector.shape[1]):
        pivot, row, first = matrix[:, 0, 0], matrix[:, 0, 1:], vector[:, 0]
        pivots.append(pivot)
        quadratic = quadratic + jnp.square(first) / pivot
        vector = vector[:, 1:] - row * (first / pivot)[:, None]
        matrix = matrix[:, 1:, 1:] - row[:, :, None] * (row / pivot[:, None])[:, None, :]
    return jnp.stack(pivots, axis=1), quadratic


@lru_cache
def poisson_bias(k: int, m: int, d: int) -> float:
    """Bias of ``adaptive`` without correction: its mean at a point of a Poisson process of unit
    intensity, where the true value is 0. Simulated to a standard error of ``BIAS_ERROR``.
    """
    rng = np.random.default_rng(0)
    batch = max(1, 2**20 // (m * d))
    values = np.empty(0)
    while len(values) < 2 or values.std() > BIAS_ERROR * math.sqrt(len(values)):
        volumes = np.cumsum(rng.exponential(size=(batch, m)), axis=1)
        distances = (volumes / math.exp(near.log_ball_volume(d))) ** (1.0 / d)
        directions = rng.normal(size=(batch, m, d))
        directions /= np.linalg.norm(directions, axis=2, keepdims=True)
        values = np.append(values, _fit_numpy(distances[:, :, None] * directions, k))
    return float(values.mean())


def _fit_numpy(neighbours: np.ndarray, k: int) -> np.ndarray:
    """The same fit at the origin, from neighbours ``[batch, m, d]``, nearest first."""
    d = neighbours.shape[2]
    bandwidth = np.linalg.norm(neighbours[:, k - 1], axis=1)
    u = neighbours / bandwidth[:, None, None]
    weights = np.exp(-0.5 * np.sum(u**2, axis=2))
    total = weights.sum(axis=1)
    mean = np.einsum("bm,bmi->bi", weights, u) / total[:, None]
    second = np.swapaxes(weights[:, :, None] * u, 1, 2) @ u / total[:, None, None]
    covariance = second - mean[:, :, None] * mean[:, None, :]
    # A singular Σ must count as a fit that excludes the sample.
    solved = np.linalg.solve(covariance + 1e-12 * np.eye(d), mean[:, :, None])[:, :, 0]
    quadratic = np.sum(mean * solved, axis=1)
    log_determinant = np.linalg.slogdet(covariance)[1] + d * (LOG_TWO_PI + 2 * np.log(bandwidth))
    fitted = 0.5 * (log_determinant + quadratic) - np.log(total)
    ball = near.log_ball_volume(d) - digamma(k) + d * np.log(bandwidth)
    values: np.ndarray = np.where(quadratic < FARTHEST_DEVIATIONS**2, fitted, ball)
    return values


def spread(samples: Float[Array, "n d"]) -> Float[Array, "d"]:
    """The standard deviation, or the interquartile range / 1.349 (equal for a Gaussian) if that is
    smaller and positive: more robust to distant modes and outliers.
    """
    deviation = jnp.std(samples, axis=0)
    lower, upper = jnp.quantile(samples, jnp.asarray([0.25, 0.75], samples.dtype), axis=0)
    quartiles = (upper - lower) / 1.349
    robust = jnp.where(quartiles > 0.0, jnp.minimum(deviation, quartiles), deviation)
    return jnp.maximum(robust, near.smallest_distance(samples))


def kernel_density(samples: Float[Array, "n d"]) -> Float[Array, "n"]:
    """Leave-one-out Gaussian kernel density with Silverman's bandwidth in each dimension.

    All pairs in several dimensions. In one dimension, on a grid: the bandwidth is then at least two
    cells, and densities below the rounding error of the FFT are raised to it.
    """
    n, d = samples.shape
    near.check_neighbours(1, n)
    bandwidth = (4.0 / (d + 2.0) / n) ** (1.0 / (d + 4.0)) * spread(samples)
    if d == 1:
        return _gridded_kernel_surprisals(samples[:, 0], bandwidth[0])
    # Centred first: far from 0, differences of scaled samples would lose digits.
    scaled = (samples - samples[0]) / bandwidth
    constant = 0.5 * d * LOG_TWO_PI + math.log(n - 1) + jnp.sum(jnp.log(bandwidth))

    def row(i: Int[Array, ""]) -> Scalar:
        return -jax.nn.logsumexp(-0.5 * near.squared_distances(scaled, i))

    logs: Array = near.rows_in_chunks(row, n)
    return constant + logs


def _gridded_kernel_surprisals(values: Float[Array, "n"], bandwidth: Scalar) -> Float[Array, "n"]:
    """Linear binning, convolution by FFT, linear interpolation; the sample's own contribution,
    known in closed form, is subtracted."""
    n, dtype = values.shape[0], values.dtype
    low, high = jnp.min(values), jnp.max(values)
    h = jnp.maximum(bandwidth, 2.0 * (high - low) / GRID_POINTS)
    # The grid of the FFT is periodic: margins separate its two ends.
    spacing = (high - low + 2.0 * MARGIN_BANDWIDTHS * h) / GRID_POINTS
    position = (values - low + MARGIN_BANDWIDTHS * h) / spacing
    cell = jnp.floor(position).astype(jnp.int32)
    right = position - cell
    left = 1.0 - right
    counts = jnp.zeros(GRID_POINTS, dtype).at[cell].add(left).at[cell + 1].add(right)
    frequency = jnp.arange(GRID_POINTS // 2 + 1, dtype=dtype) * (2.0 * math.pi / GRID_POINTS)
    kernel = jnp.exp(-0.5 * jnp.square(frequency * (h / spacing)))
    density = jnp.fft.irfft(jnp.fft.rfft(counts) * kernel, GRID_POINTS) / spacing
    cross = 2.0 * left * right * jnp.exp(-0.5 * jnp.square(spacing / h))
    self_density = (jnp.square(left) + jnp.square(right) + cross) / (h * math.sqrt(2.0 * math.pi))
    others = left * density[cell] + right * density[cell + 1] - self_density
    rounding = 32.0 * jnp.finfo(dtype).eps * jnp.max(density)
    return math.log(n - 1) - jnp.log(jnp.maximum(others, rounding))


def histogram(samples: Float[Array, "n d"]) -> Float[Array, "n"]:
    """``−log(count / (n · volume))`` of each sample's bin, in up to three dimensions.

    Bins by Scott's rule with ``spread``, at most ``MOST_BINS`` in total.
    """
    n, d = samples.shape
    if d > 3:
        raise ValueError(
            f"a histogram needs three dimensions or fewer, got {d}; use nearest_neighbour"
        )
    most = int(MOST_BINS ** (1.0 / d) + 1e-9)
    low = jnp.min(samples, axis=0)
    extent = jnp.maximum(jnp.max(samples, axis=0) - low, near.smallest_distance(samples))
    scott = (24.0 * math.sqrt(math.pi)) ** (1.0 / 3.0) * n ** (-1.0 / (d + 2.0)) * spread(samples)
    bins = jnp.clip(jnp.ceil(extent / scott), 1, most)
    width = extent / bins
    cells = jnp.clip(jnp.floor((samples - low) / width), 0, bins - 1).astype(jnp.int32)
    flat = sum(most**axis * cells[:, axis] for axis in range(d))
    counts = jnp.zeros(most**d, jnp.int32).at[flat].add(1)
    return math.log(n) + jnp.sum(jnp.log(width)) - jnp.log(counts[flat].astype(width.dtype))


SURPRISALS: dict[str, Callable[[Float[Array, "n d"]], Float[Array, "n"]]] = {
    "nearest_neighbour": nearest_neighbour,
    "adaptive": adaptive,
    "kernel_density": kernel_density,
    "histogram": histogram,
}
