"""Numerical functions against their formulas in float64; standardising and padding."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest, norm

from twofold.core.numerics import (
    Standardizer,
    gaussian_log_density,
    pad,
    padded_size,
    power_log_mean_exp,
    stratified_normal,
)


def naive_power_log_mean_exp(log_values, power):
    powers = np.exp(power * np.asarray(log_values))
    return np.log(powers.mean(axis=0)) / power


@pytest.mark.parametrize("power", [1.0, 0.5, 0.1, 1e-3, 2.0])
def test_power_log_mean_exp_is_the_log_of_a_power_mean(x64, normal, power):
    values = normal(7, 3, 2)
    expected = naive_power_log_mean_exp(values, power)
    np.testing.assert_allclose(power_log_mean_exp(values, power), expected, rtol=0, atol=1e-12)


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
    result, gradient = jax.value_and_grad(lambda v: power_log_mean_exp(v, 1.0).sum())(values)
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
    np.testing.assert_equal(
        np.asarray(power_log_mean_exp(jnp.array([0.0, bad, 1.0]), 1.0)), np.float32(bad)
    )


def test_impossible_values_alone_give_minus_infinity():
    assert power_log_mean_exp(jnp.full(3, -jnp.inf), 1.0) == -np.inf


def test_gaussian_log_density_is_that_of_scipy(x64, normal):
    value, mean, log_variance = normal(3, 20)
    expected = norm.logpdf(value, mean, np.exp(0.5 * np.asarray(log_variance)))
    np.testing.assert_allclose(gaussian_log_density(value, mean, log_variance), expected)


@pytest.mark.parametrize("shuffle", [True, False])
def test_stratified_normal_has_one_draw_in_each_slice(shuffle):
    draws = np.asarray(stratified_normal(jax.random.key(0), 40, (3, 2), shuffle))
    slices = np.floor(norm.cdf(draws) * 40).astype(int)
    expected = np.broadcast_to(np.arange(40)[:, None, None], slices.shape)
    np.testing.assert_array_equal(np.sort(slices, axis=0), expected)
    assert np.array_equal(slices, expected) != shuffle


def test_stratified_normal_columns_are_independent():
    draws = np.asarray(stratified_normal(jax.random.key(1), 2000, (4,)))
    correlations = np.corrcoef(draws.T)[np.triu_indices(4, 1)]
    assert np.abs(correlations).max() < 4.5 / np.sqrt(2000)


def test_each_single_stratified_draw_is_normal():
    # One draw out of each of many keys; the Kolmogorov distance of 4,000 normal numbers exceeds
    # 2/sqrt(4000) once in 1,500 times.
    keys = jax.random.split(jax.random.key(2), 4000)
    first = jax.vmap(lambda key: stratified_normal(key, 5, (1,))[0, 0])(keys)
    assert kstest(np.asarray(first), "norm").statistic < 2.0 / np.sqrt(4000)


def test_standardised_columns_have_mean_0_and_deviation_1(rng):
    values = rng.normal(size=(100, 3)) * [1e-3, 1.0, 1e4] + [5.0, -2.0, 1e5]
    standardised = Standardizer.fit(values).transform(values)
    np.testing.assert_allclose(standardised.mean(axis=0), 0.0, atol=1e-10)
    np.testing.assert_allclose(standardised.std(axis=0), 1.0, rtol=1e-10)


def test_inverse_undoes_transform(rng):
    values = rng.normal(size=(100, 2)) * [1e-3, 1e4] + [5.0, 1e5]
    scaler = Standardizer.fit(values)
    np.testing.assert_allclose(scaler.inverse(scaler.transform(values)), values, rtol=1e-14)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("rows", [1, 3, 750, 68_600])
@pytest.mark.parametrize("level", [0.0, 0.1, -3.3, 1e6])
def test_a_constant_column_gets_scale_1_and_becomes_zeros(dtype, rows, level):
    values = np.full((rows, 2), level, dtype)
    scaler = Standardizer.fit(values)
    np.testing.assert_array_equal(scaler.scale, 1.0)
    np.testing.assert_array_equal(scaler.transform(values), 0.0)
    np.testing.assert_array_equal(scaler.inverse(scaler.transform(values)), values)


def test_a_column_that_differs_by_rounding_alone_counts_as_constant():
    values = np.array([[0.3], [0.1 + 0.2], [0.3]])
    assert Standardizer.fit(values).scale == 1.0


def test_a_small_real_spread_on_a_large_mean_is_kept(rng):
    spread = 1e-6 * rng.normal(size=(500, 1))
    values = 1e3 + spread
    np.testing.assert_allclose(Standardizer.fit(values).scale, spread.std(), rtol=1e-4)


@given(st.integers(1, 10**7))
def test_padded_size_holds_the_rows_and_wastes_at_most_a_quarter(rows):
    size = padded_size(rows)
    assert rows <= size
    assert size == 64 or size <= 1.25 * rows


@given(st.integers(1, 10**6), st.integers(0, 10**6))
def test_padded_size_is_monotone_and_its_own_fixed_point(rows, more):
    assert padded_size(rows) <= padded_size(rows + more)
    assert padded_size(padded_size(rows)) == padded_size(rows)


def test_padded_sizes_are_four_for_each_doubling():
    sizes = {padded_size(rows) for rows in range(1, 1025)}
    assert sizes == {64} | {quarter * 2**k for quarter in (5, 6, 7, 8) for k in range(4, 8)}


def test_pad_appends_rows_of_zeros_and_remembers_the_size(rng):
    x, y = rng.normal(size=(5, 3)), rng.normal(size=(5, 2))
    padded = pad(x, y, 8, "float32")
    assert padded.size == 5 and padded.size.dtype == jnp.int32
    for values, result in ((x, padded.x), (y, padded.y)):
        assert result.dtype == jnp.float32
        np.testing.assert_array_equal(result[:5], values.astype(np.float32))
        np.testing.assert_array_equal(result[5:], np.zeros((3, values.shape[1])))


def test_pad_refuses_a_length_that_cuts_rows_off(rng):
    with pytest.raises(ValueError):
        pad(rng.normal(size=(5, 1)), rng.normal(size=(5, 1)), 4, "float32")
