"""Other entropy estimators against independent implementations, closed forms and symmetries."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import digamma, gamma, logsumexp

from paper import sample_entropy
from twofold.core import numerics

# Compiled once a shape, which is quicker here than operation by operation.
OTHERS = ("adaptive", "kernel_density", "histogram")
COMPILED = {name: jax.jit(sample_entropy.SURPRISALS[name]) for name in OTHERS}
adaptive = jax.jit(sample_entropy.adaptive, static_argnames="k")
histogram = jax.jit(sample_entropy.histogram)
every_estimator = pytest.mark.parametrize("name", OTHERS)


def test_local_moments_are_summed_as_a_gpu_sums_them(x64, normal, monkeypatch):
    samples = normal(300, 1)
    wanted = sample_entropy.local_moments(samples, 5, 65)
    monkeypatch.setattr(numerics, "on_cpu", lambda: False)
    found = sample_entropy.local_moments(samples, 5, 65)
    jax.tree.map(lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-12), found, wanted)


def loop_adaptive(samples, k):
    """Gao, Oh and Viswanath's estimator one sample at a time, but for the constant."""
    n, d = samples.shape
    m = min(n - 1, max(6 * k, math.ceil(math.log(n))))
    out = np.empty(n)
    for i in range(n):
        distances = np.linalg.norm(samples - samples[i], axis=1)
        order = np.argsort(distances)[1 : m + 1]
        h = distances[order[k - 1]]
        u = (samples[order] - samples[i]) / h
        weights = np.exp(-0.5 * (u**2).sum(axis=1))
        mean = weights @ u / weights.sum()
        covariance = (weights[:, None] * u).T @ u / weights.sum() - np.outer(mean, mean)
        quadratic = mean @ np.linalg.solve(covariance, mean)
        out[i] = -np.log(weights.sum()) + np.log(n - 1) + d / 2 * np.log(2 * np.pi)
        out[i] += d * np.log(h) + 0.5 * np.linalg.slogdet(covariance)[1] + 0.5 * quadratic
        if quadratic > 25.0:
            ball = np.pi ** (d / 2) / gamma(d / 2 + 1) * h**d
            out[i] = np.log(n - 1) - digamma(k) + np.log(ball)
    return out - sample_entropy.poisson_bias(k, m, d)


@pytest.mark.parametrize(("d", "k"), [(1, 2), (1, 5), (2, 5), (3, 4)])
def test_adaptive_equals_a_loop(x64, normal, d, k):
    samples = normal(200, d)
    found = adaptive(samples, k)
    np.testing.assert_allclose(found, loop_adaptive(np.asarray(samples), k), atol=1e-8)


@pytest.mark.parametrize(("d", "sets"), [(1, 5000), (2, 1000)])
def test_adaptive_is_unbiased_where_the_density_is_even(rng, d, sets):
    # The first sample of each set is the centre of a cube: its neighbours do not reach the faces.
    samples = rng.uniform(-1, 1, size=(sets, 150, d))
    samples[:, 0] = 0.0
    values = jax.lax.map(adaptive, jnp.asarray(samples), batch_size=200)[:, 0]
    # ψ(n) − log(n − 1) < 1/n, and the simulated constant's own error.
    tolerance = 4.5 * np.hypot(values.std() / np.sqrt(sets), sample_entropy.BIAS_ERROR) + 1 / 150
    np.testing.assert_allclose(values.mean(), d * np.log(2.0), atol=tolerance)
    # So that the test can see a constant left out.
    assert d == 1 or tolerance < abs(sample_entropy.poisson_bias(5, 30, d))


def silverman(samples):
    n, d = samples.shape
    quartiles = np.diff(np.quantile(samples, [0.25, 0.75], axis=0), axis=0)[0] / 1.349
    return (4 / (d + 2) / n) ** (1 / (d + 4)) * np.minimum(samples.std(axis=0), quartiles)


def pairwise_kernel_surprisals(samples):
    n, d = samples.shape
    h = silverman(samples)
    terms = -0.5 * (((samples[:, None] - samples) / h) ** 2).sum(axis=2)
    np.fill_diagonal(terms, -np.inf)
    constant = np.log(n - 1) + d / 2 * np.log(2 * np.pi) + np.log(h).sum()
    return constant - logsumexp(terms, axis=1)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_kernel_density_equals_all_pairs(x64, normal, d):
    samples = normal(1000, d)
    expected = pairwise_kernel_surprisals(np.asarray(samples))
    tolerance = 1e-10
    if d == 1:
        # Binning and interpolating linearly each change f by up to δ²/8 |f''|, and a kernel's
        # |f''|/f is at most (z² − 1)/h² at z bandwidths: here z < 4 for the nearest other sample.
        cells = silverman(samples)[0] / (np.ptp(samples) + 8 * silverman(samples)[0]) * 8192
        tolerance = 2 / 8 * 15 / cells**2
        assert tolerance < 1e-3
    np.testing.assert_allclose(COMPILED["kernel_density"](samples), expected, atol=tolerance)


@pytest.mark.parametrize("d", [1, 2, 3])
def test_histogram_equals_numpy(x64, normal, d):
    samples = np.asarray(normal(1000, d))
    n = len(samples)
    quartiles = np.diff(np.quantile(samples, [0.25, 0.75], axis=0), axis=0)[0] / 1.349
    scott = 3.49083 * n ** (-1 / (d + 2)) * np.minimum(samples.std(axis=0), quartiles)
    bins = np.ceil(np.ptp(samples, axis=0) / scott).astype(int)
    counts, edges = np.histogramdd(samples, bins)
    cells = [np.digitize(samples[:, j], edges[j][1:-1]) for j in range(d)]
    volume = np.prod([edge[1] - edge[0] for edge in edges])
    expected = -np.log(counts[tuple(cells)] / (n * volume))
    found = histogram(jnp.asarray(samples))
    np.testing.assert_allclose(found, expected, atol=1e-10)


def test_histogram_has_a_largest_number_of_bins(x64, normal):
    samples = normal(1000, 1).at[0].set(1e9)
    found = histogram(samples)
    width = float(np.ptp(samples)) / sample_entropy.MOST_BINS
    np.testing.assert_allclose(found[1:], -np.log(999 / (1000 * width)))


def draw(rng, distribution, n):
    """Samples and the entropy of what they are from."""
    gaussian = 0.5 * np.log(2 * np.pi * np.e)
    if distribution == "correlated":
        factor = np.linalg.cholesky([[1.0, 0.9], [0.9, 1.0]])
        return rng.normal(size=(n, 2)) @ factor.T, 2 * gaussian + 0.5 * np.log(1 - 0.9**2)
    if distribution == "gaussian":
        return 3.0 * rng.normal(size=(n, 1)), gaussian + np.log(3.0)
    if distribution == "uniform":
        return rng.uniform(0, 2, size=(n, 1)), np.log(2.0)
    return rng.exponential(size=(n, 1)), 1.0


# What 2000 samples leave of bias, rounded up from the mean over 40 other sets. A kernel of fixed
# width smears edges and the thin side of correlated outputs; bins do the latter.
BIAS = {
    "gaussian": dict(adaptive=0.01, kernel_density=0.01, histogram=0.01),
    "correlated": dict(adaptive=0.03, kernel_density=0.08, histogram=0.08),
    "uniform": dict(adaptive=0.01, kernel_density=0.07, histogram=0.01),
    "exponential": dict(adaptive=0.01, kernel_density=0.1, histogram=0.01),
}


@every_estimator
@pytest.mark.parametrize("distribution", BIAS)
def test_closed_forms(rng, name, distribution):
    samples, expected = draw(rng, distribution, 2000)
    surprisals = COMPILED[name](jnp.asarray(samples))
    error = 4.5 * float(surprisals.std()) / np.sqrt(len(samples))
    allowed = error + BIAS[distribution][name]
    np.testing.assert_allclose(surprisals.mean(), expected, atol=allowed)


@every_estimator
@pytest.mark.parametrize("d", [1, 2])
def test_shift_scale_and_order(x64, normal, rng, name, d):
    samples = normal(100, d)
    estimate = COMPILED[name]
    found = estimate(samples)
    np.testing.assert_allclose(estimate(samples + 7.0), found, atol=1e-8)
    np.testing.assert_allclose(estimate(-3.0 * samples), found + d * np.log(3.0), atol=1e-8)
    order = rng.permutation(100)
    np.testing.assert_allclose(estimate(samples[order]), found[order], atol=1e-8)


@every_estimator
@pytest.mark.parametrize("d", [1, 2])
def test_many_sets_at_once_and_single_precision(normal, name, d):
    samples = normal(3, 100, d)
    estimate = COMPILED[name]
    together = jax.vmap(estimate)(samples)
    assert together.dtype == jnp.float32
    with jax.enable_x64(True):
        alone = [estimate(jnp.asarray(each, jnp.float64)) for each in np.asarray(samples)]
        assert alone[0].dtype == jnp.float64
    # Rounding is about 1e-7 of the highest density; the lowest here are 1e-3 of it, or a Σ's
    # smallest pivot is.
    np.testing.assert_allclose(together, alone, atol=1e-3)


@every_estimator
@pytest.mark.parametrize("d", [1, 2])
def test_duplicates_stay_finite(normal, name, d):
    rounded = jnp.round(normal(2000, d), 1)
    repeated = jnp.repeat(normal(20, d), 100, axis=0)
    for samples in (rounded, repeated, jnp.full((2000, d), 5.0)):
        assert np.isfinite(COMPILED[name](samples)).all()


def test_an_outlier_does_not_ruin_the_adaptive_estimate(normal):
    samples = normal(500, 1)
    with_outlier = adaptive(samples.at[0].set(1e4))
    # Its ball has a radius of 1e4: log(2e4 · 500 / 5), give or take one.
    np.testing.assert_allclose(with_outlier[0], np.log(2e4 * 500 / 5), atol=1.0)
    np.testing.assert_allclose(with_outlier[1:].mean(), adaptive(samples).mean(), atol=0.05)


@pytest.mark.parametrize("k", [-1, 0, 20, 21])
def test_wrong_k_is_said(normal, k):
    with pytest.raises(ValueError, match=f"got k={k} for 20 samples"):
        adaptive(normal(20, 1), k)


def test_too_few_samples_or_too_many_dimensions_are_said(normal):
    with pytest.raises(ValueError, match="three dimensions or fewer, got 4"):
        sample_entropy.histogram(normal(50, 4))
    with pytest.raises(ValueError, match="needs 5 samples or more, got 4"):
        sample_entropy.adaptive(normal(4, 3), 2)
    with pytest.raises(ValueError, match="for 1 samples"):
        sample_entropy.kernel_density(normal(1, 2))
