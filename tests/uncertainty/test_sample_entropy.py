"""The nearest-neighbour estimator against a tree search, closed forms and symmetries."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.spatial import cKDTree
from scipy.special import digamma, gamma

from twofold.core import numerics
from twofold.uncertainty import neighbours, sample_entropy

# Compiled once a shape, which is quicker here than operation by operation.
nearest_neighbour = jax.jit(sample_entropy.nearest_neighbour, static_argnames="k")


def tree_surprisals(samples, k):
    """Kozachenko–Leonenko by a k-d tree, in float64; the nearest of a sample is itself."""
    samples = np.asarray(samples, np.float64)
    n, d = samples.shape
    distances = cKDTree(samples).query(samples, k + 1)[0][:, -1]
    ball = np.pi ** (d / 2) / gamma(d / 2 + 1)
    return digamma(n) - digamma(k) + np.log(ball) + d * np.log(distances)


@pytest.mark.parametrize("cpu", [True, False])
def test_ranks_lead_back_to_the_values(monkeypatch, cpu):
    monkeypatch.setattr(numerics, "on_cpu", lambda: cpu)
    values = jnp.array([3.0, -1.5, 0.0, 3.0, -jnp.inf, 1e-40, -2e30, jnp.inf, -1.5, 7e-5])
    ascending, places = neighbours.rank(values)
    np.testing.assert_array_equal(ascending, np.sort(values))
    np.testing.assert_array_equal(ascending[places], values)


def test_keys_are_ordered_as_their_values_and_lead_back(x64, normal):
    for dtype in (jnp.float32, jnp.float64):
        values = normal(500, 1)[:, 0].astype(dtype)
        keys = neighbours.ordered_keys(values)
        np.testing.assert_array_equal(np.argsort(keys), np.argsort(values))
        np.testing.assert_array_equal(neighbours.ordered_values(keys, dtype), values)


@pytest.mark.parametrize("d", [1, 2, 3])
@pytest.mark.parametrize("k", [1, 3, 25])
def test_nearest_neighbour_equals_a_tree_search(x64, normal, d, k):
    samples = normal(300, d)
    found = nearest_neighbour(samples, k)
    np.testing.assert_allclose(found, tree_surprisals(samples, k), atol=1e-10)


@pytest.mark.parametrize("k", [3, 2 * neighbours.GPU_WINDOWS + 1])
def test_neighbours_are_found_as_a_gpu_finds_them(x64, normal, monkeypatch, k):
    samples = normal(300, 1)
    monkeypatch.setattr(numerics, "on_cpu", lambda: False)
    found = jax.jit(lambda values: sample_entropy.nearest_neighbour(values, k))(samples)
    np.testing.assert_allclose(found, tree_surprisals(samples, k), atol=1e-10)


@pytest.mark.parametrize("d", [1, 3])
def test_nearest_neighbour_in_single_precision(normal, d):
    samples = normal(1000, d)
    assert samples.dtype == jnp.float32
    found = nearest_neighbour(samples, 3)
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
        nearest_neighbour(samples, k), tree_surprisals(samples, k), atol=1e-10
    )


def test_many_rows_are_searched_in_several_chunks(x64, normal, monkeypatch):
    samples = normal(50, 2)
    monkeypatch.setattr(neighbours, "CHUNK_VALUES", 350)
    # Not the compiled one, which may have kept what it was compiled with.
    found = sample_entropy.nearest_neighbour(samples, 3)
    np.testing.assert_allclose(found, tree_surprisals(samples, 3), atol=1e-10)


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


# What 2000 samples leave of bias, rounded up from the mean over 40 other sets.
BIAS = {
    "gaussian": 0.01,
    "correlated": 0.04,
    "uniform": 0.01,
    "exponential": 0.01,
}


@pytest.mark.parametrize("distribution", BIAS)
def test_closed_forms(rng, distribution):
    samples, expected = draw(rng, distribution, 2000)
    surprisals = nearest_neighbour(jnp.asarray(samples))
    error = 4.5 * float(surprisals.std()) / np.sqrt(len(samples))
    allowed = error + BIAS[distribution]
    np.testing.assert_allclose(surprisals.mean(), expected, atol=allowed)


@pytest.mark.parametrize("d", [1, 2])
def test_shift_scale_and_order(x64, normal, rng, d):
    samples = normal(100, d)
    estimate = nearest_neighbour
    found = estimate(samples)
    np.testing.assert_allclose(estimate(samples + 7.0), found, atol=1e-8)
    np.testing.assert_allclose(estimate(-3.0 * samples), found + d * np.log(3.0), atol=1e-8)
    order = rng.permutation(100)
    np.testing.assert_allclose(estimate(samples[order]), found[order], atol=1e-8)


@pytest.mark.parametrize("d", [1, 2])
def test_many_sets_at_once_and_single_precision(normal, d):
    samples = normal(3, 100, d)
    estimate = nearest_neighbour
    together = jax.vmap(estimate)(samples)
    assert together.dtype == jnp.float32
    with jax.enable_x64(True):
        alone = [estimate(jnp.asarray(each, jnp.float64)) for each in np.asarray(samples)]
        assert alone[0].dtype == jnp.float64
    # Rounding is about 1e-7 of the highest density; the lowest here are 1e-3 of it.
    np.testing.assert_allclose(together, alone, atol=1e-3)


@pytest.mark.parametrize("d", [1, 2])
def test_duplicates_stay_finite(normal, d):
    rounded = jnp.round(normal(2000, d), 1)
    repeated = jnp.repeat(normal(20, d), 100, axis=0)
    for samples in (rounded, repeated, jnp.full((2000, d), 5.0)):
        assert np.isfinite(nearest_neighbour(samples)).all()


@pytest.mark.parametrize("k", [-1, 0, 20, 21])
def test_wrong_k_is_said(normal, k):
    with pytest.raises(ValueError, match=f"got k={k} for 20 samples"):
        nearest_neighbour(normal(20, 1), k)
