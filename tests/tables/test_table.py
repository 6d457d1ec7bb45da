"""Cells are read as what they say; what might say two things is left as text."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

from twofold.tables import read_table


def column_of(cells, decimal="."):
    """One column of a data frame, as a table of it has it."""
    return replace(read_table(pd.DataFrame({"x": cells})), decimal=decimal)


def numbers(cells, missing=(), decimal="."):
    return column_of(cells, decimal).numbers("x", missing)


def times(cells, missing=(), decimal="."):
    return column_of(cells, decimal).times("x", missing)


def labels(cells, decimal="."):
    return column_of(cells, decimal).labels("x")


def test_a_zero_is_a_number_whatever_the_column_is_made_of():
    column = np.array([0, 1, None, 0.0, "", 4.5], dtype=object)
    found = numbers(column)
    np.testing.assert_array_equal(found.values, [0, 1, np.nan, 0, np.nan, 4.5])
    assert found.texts == {}


@pytest.mark.parametrize(
    ("decimal", "words"),
    [
        (",", ["1.234,5", "1.234", "1.5", "1,234,5", "1_000", "1_0,5"]),
        (".", ["1,234.5", "1,234", "1,5", "1.234.5", "1_000", "1_0.5"]),
    ],
)
def test_numbers_with_marks_between_thousands_are_texts(decimal, words):
    found = numbers([f" 2{decimal}5 ", "-1e3", "7", *words], decimal=decimal)
    np.testing.assert_array_equal(found.values[:3], [2.5, -1000.0, 7.0])
    assert np.isnan(found.values[3:]).all()
    assert list(found.texts.values()) == words


def test_whole_numbers_among_texts_need_no_decimal_comma():
    found = numbers(np.array([1, "2,5", None], dtype=object), decimal=",")
    np.testing.assert_array_equal(found.values, [1, 2.5, np.nan])


@pytest.mark.parametrize("missing", [["-999"], [-999], ["-999.0"], ["Bad", -999.0]])
@pytest.mark.parametrize(
    "column",
    [
        ["1", "-999", "-999.0", "-9.99e2"],
        np.array([1, -999, -999, -999]),
        np.array([1.0, -999.0, -999.0, -999.0], np.float32),
        np.array([1, "-999", -999, -999.0], dtype=object),
    ],
    ids=["texts", "integers", "singles", "objects"],
)
def test_a_number_that_means_no_value_is_missing_however_it_is_written(column, missing):
    found = numbers(column, missing)
    np.testing.assert_array_equal(found.values, [1, np.nan, np.nan, np.nan])
    assert found.texts == {}


def test_numbers_that_mean_no_value_are_found_in_single_precision_and_with_commas():
    singles = np.array([-999.9, -999.8, 0.0], np.float32)
    assert np.isnan(numbers(singles, [-999.9]).values).tolist() == [True, False, False]
    commas = numbers(["-99,9", "-99,8"], ["-99,9"], ",").values
    np.testing.assert_array_equal(commas, [np.nan, -99.8])


def test_the_column_that_is_read_stays_as_it_is():
    column = np.array([1.0, -999.0])
    numbers(column, [-999])
    assert column.tolist() == [1.0, -999.0]


def test_a_clock_passes_numbers_that_mean_no_value_elsewhere():
    found = times(["9998", "9999", "Bad"], ["9999", "Bad"])
    np.testing.assert_array_equal(found.values, [9998, 9999, np.nan])
    assert found.texts == {}


def test_times_have_decimal_commas_too():
    found = times(["0,5", "1,0", "1.500"], decimal=",")
    np.testing.assert_array_equal(found.values, [0.5, 1.0, np.nan])
    assert found.texts == {2: "1.500"}


@pytest.mark.parametrize(
    "column",
    [
        ["1", "1.0", "-2.00", "1"],
        np.array([1, 1, -2, 1]),
        np.array([1.0, 1.0, -2.0, 1.0]),
        np.array([1, 1.0, "-2.0", np.float32(1)], dtype=object),
    ],
    ids=["texts", "integers", "floats", "objects"],
)
def test_a_whole_number_is_one_name_in_every_table(column):
    assert labels(column) == ["1", "1", "-2", "1"]


def test_names_that_only_resemble_numbers_stay_apart():
    names = ["1.1", "1.10", "12e5", "1200000", "01", "1", "v1.0"]
    assert labels(names) == names
    assert labels(["3,0"], ",") == ["3"]
    # More digits than a short way of writing has: two runs, not one.
    assert labels([2024030112345678.0, 2024030112345679.0]) == [
        "2024030112345678",
        "2024030112345679",
    ]
