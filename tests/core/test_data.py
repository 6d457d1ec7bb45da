"""Standardising and padding."""

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from twofold.core.data import Standardizer, pad, padded_size


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
