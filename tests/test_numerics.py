"""Numerical functions against the formulas they stand for, written naively in float64."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy import stats
from scipy.stats import norm

from twofold.numerics import (
    fast_normal,
    gaussian_log_density,
    log_mean_exp,
    mix,
    power_log_mean_exp,
)


def naive_power_log_mean_exp(log_values, power):
    powers = np.exp(power * np.asarray(log_values))
    return np.log(powers.mean(axis=0)) / power


@pytest.mark.parametrize("power", [1.0, 0.5, 0.1, 1e-3, 2.0])
def test_power_log_mean_exp_is_the_log_of_a_power_mean(x64, normal, power):
    values = normal(7, 3, 2)
    expected = naive_power_log_mean_exp(values, power)
    np.testing.assert_allclose(power_log_mean_exp(values, power), expected, rtol=0, atol=1e-12)


def test_log_mean_exp_is_power_one(x64, normal):
    values = normal(7, 3)
    np.testing.assert_allclose(
        log_mean_exp(values), naive_power_log_mean_exp(values, 1.0), rtol=0, atol=1e-12
    )


def test_towards_power_zero_it_is_the_mean_to_float32_accuracy(normal):
    # The next term of the limit is power/2 times the variance: 1e-6/2 * 9, below one float32 unit
    # in the last place at -100 (7.6e-6). Four such units cover the subtraction, sum and addition.
    values = -100.0 + 3.0 * normal(50, 4)
    limit = power_log_mean_exp(values, 1e-6)
    assert limit.dtype == jnp.float32
    tolerance = 4 * np.spacing(np.float32(100.0))
    np.testing.assert_allclose(limit, np.mean(values, axis=0, dtype=float), rtol=0, atol=tolerance)


@pytest.mark.parametrize("power", [1.0, 0.5, 1e-6])
@pytest.mark.parametrize("level", [-1e4, 1e4])
def test_large_values_neither_overflow_nor_vanish(level, power):
    offsets = np.array([[0.0], [1.0], [-2.0]])
    expected = level + naive_power_log_mean_exp(offsets, power)
    result = power_log_mean_exp(level + jnp.asarray(offsets), power)
    np.testing.assert_allclose(result, expected, rtol=0, atol=4 * np.spacing(np.float32(1e4)))


def test_values_far_apart_leave_the_largest_alone():
    values = jnp.array([[-1e4], [1e4], [0.0], [-3.0]])
    result, gradient = jax.value_and_grad(lambda v: log_mean_exp(v).sum())(values)
    np.testing.assert_allclose(result, 1e4 - np.log(4.0), rtol=1e-6)
    np.testing.assert_allclose(gradient, [[0.0], [1.0], [0.0], [0.0]], atol=1e-6)


@pytest.mark.parametrize("power", [1.0, 0.3])
def test_the_gradient_is_the_softmax_of_the_powers(x64, normal, power):
    values = normal(6, 3)
    weights = np.exp(power * np.asarray(values))
    gradient = jax.grad(lambda v: power_log_mean_exp(v, power).sum())(values)
    np.testing.assert_allclose(gradient, weights / weights.sum(axis=0), rtol=1e-12)


def test_the_gradient_towards_power_zero_is_one_over_k(normal):
    values = -100.0 + 3.0 * normal(50, 1)
    gradient = jax.grad(lambda v: power_log_mean_exp(v, 1e-6).sum())(values)
    # A weight deviates from 1/K by power times the distance from the mean, below 2e-5 relatively.
    np.testing.assert_allclose(gradient, np.full((50, 1), 1 / 50), rtol=2e-5)


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_non_finite_values_are_not_hidden(bad):
    np.testing.assert_equal(np.asarray(log_mean_exp(jnp.array([0.0, bad, 1.0]))), np.float32(bad))


def test_impossible_values_alone_give_minus_infinity():
    assert log_mean_exp(jnp.full(3, -jnp.inf)) == -np.inf


def test_gaussian_log_density_is_that_of_scipy(x64, normal):
    value, mean, log_variance = normal(3, 20)
    expected = norm.logpdf(value, mean, np.exp(0.5 * np.asarray(log_variance)))
    np.testing.assert_allclose(gaussian_log_density(value, mean, log_variance), expected)


def many_normals(updates=60, shape=(50, 751)):
    """Noise as training draws it: one key for each update, folded from one key."""
    keys = [jax.random.fold_in(jax.random.key(0), i) for i in range(updates)]
    return np.stack([np.asarray(fast_normal(key, shape), np.float64) for key in keys])


def test_fast_normal_follows_the_normal_distribution():
    values = many_normals().ravel()
    count = len(values)
    # Standard errors of the first four moments of a standard normal are sqrt(1, 2, 15, 96)/sqrt(n).
    for power, expected, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(np.mean(values**power) - expected) < 4.5 * np.sqrt(variance / count)
    assert stats.kstest(values, "norm").pvalue > 1e-4
    assert 4.5 < np.abs(values).max() < 5.5


def test_fast_normal_is_uncorrelated_along_rows_draws_and_updates():
    values = many_normals()
    count = values.size
    for axis in range(3):
        for lag in (1, 2, 7):
            ahead, behind = np.roll(values, lag, axis=axis), values
            assert abs(np.mean(ahead * behind)) < 4.5 / np.sqrt(count)
            assert abs(np.mean((ahead**2 - 1) * (behind**2 - 1))) < 4.5 * 2 / np.sqrt(count)


def test_every_bit_of_counter_and_key_moves_every_bit_of_a_word():
    rng = np.random.default_rng(0)
    words = jnp.asarray(rng.integers(0, 2**32, 20_000), jnp.uint32)
    first, second = jnp.uint32(0x12345678), jnp.uint32(0x9ABCDEF0)

    def output(words, first, second):
        return np.asarray(mix(mix(words ^ first) + second))

    base = output(words, first, second)
    for bit in range(32):
        flip = jnp.uint32(1 << bit)
        for changed in (
            output(words ^ flip, first, second),
            output(words, first ^ flip, second),
            output(words, first, second ^ flip),
        ):
            moved = (base ^ changed)[:, None] >> np.arange(32, dtype=np.uint32) & 1
            # A fair coin's mean over 20,000 throws, 3,072 of them compared; and lowbias32's known
            # bias for the one key half that is mixed only once stays below 0.01.
            assert np.abs(moved.mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(20_000) + 0.01


def test_fast_normal_depends_on_the_key():
    one, two = (fast_normal(jax.random.key(seed), (1000,)) for seed in (0, 1))
    assert not np.any(np.asarray(one) == np.asarray(two))
