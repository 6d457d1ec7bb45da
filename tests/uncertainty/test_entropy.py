"""Entropy estimators against independent implementations, closed forms and symmetries."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.special import digamma, gamma, logsumexp

from twofold.uncertainty import entropy, neighbours
from twofold.uncertainty.entropy import ESTIMATORS

every_estimator = pytest.mark.parametrize("name", ESTIMATORS)


def tree_surprisals(samples, k):
    """Kozachenko–Leonenko by a k-d tree, in float64; the nearest of a sample is itself."""
    samples = np.asarray(samples, np.float64)
    n, d = samples.shape
    distances = cKDTree(samples).query(samples, k + 1)[0][:, -1]
    ball = np.pi ** (d / 2) / gamma(d / 2 + 1)
    return digamma(n) - digamma(k) + np.log(ball) + d * np.log(distances)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("k", [1, 3, 25])
def test_nearest_neighbour_equals_a_tree_search(x64, normal, d, k):
    samples = normal(300, d)
    found = entropy.nearest_neighbour(samples, k)
    np.testing.assert_allclose(found, tree_surprisals(samples, k), atol=1e-10)


@pytest.mark.parametrize("d", [1, 3])
def test_nearest_neighbour_in_single_precision(normal, d):
    samples = normal(1000, d)
    assert samples.dtype == jnp.float32
    found = entropy.nearest_neighbour(samples, 3)
    assert found.dtype == jnp.float32
    # A difference of float32 samples is exact to half a unit in its own last place, a square and a
    # sum of d of them to a few; what is left is the rounding of sums of numbers up to 10.
    np.testing.assert_allclose(found, tree_surprisals(samples, 3), atol=1e-5)


@pytest.mark.parametrize("k", [1, 3, 9])
def test_neighbours_at_the_ends_and_at_equal_distance(x64, k):
    # Even spacing: each inner sample has two neighbours at each distance, the ends only one. The
    # last k is all the other samples.
    samples = jnp.arange(10.0)[::-1, None]
    np.testing.assert_allclose(
        entropy.nearest_neighbour(samples, k), tree_surprisals(samples, k), atol=1e-10
    )


def test_many_rows_are_searched_in_several_chunks(x64, normal, monkeypatch):
    samples = normal(50, 2)
    monkeypatch.setattr(neighbours, "CHUNK_VALUES", 350)
    found = entropy.nearest_neighbour(samples, 3)
    np.testing.assert_allclose(found, tree_surprisals(samples, 3), atol=1e-10)


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
        out[i] = -np.log(weights.sum()) + np.log(n - 1) + d / 2 * np.log(2 * np.pi)
        out[i] += d * np.log(h) + 0.5 * np.linalg.slogdet(covariance)[1]
        out[i] += 0.5 * mean @ np.linalg.solve(covariance, mean)
    return out - entropy.poisson_bias(k, m, d)


@pytest.mark.parametrize(("d", "k"), [(1, 2), (1, 5), (2, 5), (3, 4)])
def test_adaptive_equals_a_loop(x64, normal, d, k):
    samples = normal(200, d)
    expected = loop_adaptive(np.asarray(samples), k)
    np.testing.assert_allclose(entropy.adaptive(samples, k), expected, atol=1e-8)


def test_the_constant_equals_the_estimator_on_an_even_density(x64, rng):
    # Samples on a torus have no edge; wrapped copies make one of a unit square for its middle.
    base = rng.uniform(size=(3000, 1))
    wrapped = np.concatenate([base[base > 0.9][:, None] - 1, base, base[base < 0.1][:, None] + 1])
    moments = neighbours.local_moments(jnp.asarray(wrapped), 5, 30)
    inner = np.asarray((wrapped[:, 0] >= 0) & (wrapped[:, 0] < 1))
    values = np.asarray(entropy.gaussian_surprisals(moments)[0])[inner] + np.log(3000)
    # Windows of 61 samples overlap, so at least 3000 / 61 of the values are independent.
    error = values.std() * np.sqrt(61 / 3000)
    np.testing.assert_allclose(values.mean(), entropy.poisson_bias(5, 30, 1), atol=4.5 * error)
