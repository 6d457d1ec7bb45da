"""Input that people pass: tables of pandas with dates and missing values, labels of any type."""

import warnings

import numpy as np
import pytest

from twofold import BNNLVRegressor
from twofold.estimators.validation import (
    check_groups,
    check_row_facts,
    check_row_numbers,
    check_training_data,
    warn_of_outliers,
)

ROWS = 6


def check(x, y):
    return check_training_data(BNNLVRegressor(), x, y)


def test_dates_are_no_numbers():
    """Their numbers would depend on the unit in which an array happens to store them."""
    pandas = pytest.importorskip("pandas")
    numbers, dates = np.arange(float(ROWS)), pandas.date_range("2026-01-01", periods=ROWS)
    mixed = pandas.DataFrame({"heat": numbers, "day": dates, "age": dates - dates[0]})
    zoned = pandas.DataFrame({"day": dates.tz_localize("UTC")})
    for x, y, message in (
        (mixed, numbers, "X must hold numbers only.* 'day', 'age'; convert"),
        (mixed[["day"]], numbers, "X .* holds dates or durations in column"),
        (zoned, numbers, "X .* holds dates or durations in column"),
        (dates.to_numpy()[:, None], numbers, "X .* holds dates or durations; convert"),
        (numbers[:, None], pandas.Series(dates), "y .* holds dates or durations; convert"),
    ):
        with pytest.raises(ValueError, match=message):
            check(x, y)


def test_missing_values_of_pandas_are_named_by_column():
    pandas = pytest.importorskip("pandas")
    heat = pandas.array([1.0, None, *range(ROWS - 2)], dtype="Float64")
    frame = pandas.DataFrame({"time": np.arange(float(ROWS)), "heat": heat})
    with pytest.raises(ValueError, match=r"X contains NaN.* column 1 \('heat'\): 1"):
        check(frame, np.arange(ROWS))
    x, _ = check(frame.fillna(0.5), np.arange(ROWS))
    np.testing.assert_array_equal(x[:, 1], frame["heat"].fillna(0.5).astype(float))


def test_an_arrow_table_is_a_table():
    pyarrow = pytest.importorskip("pyarrow")
    columns = {"heat": np.arange(float(ROWS)), "time": np.ones(ROWS)}
    x, _ = check(pyarrow.table(columns), columns["heat"])
    np.testing.assert_array_equal(x, np.column_stack(list(columns.values())))


def test_one_number_for_all_rows_is_refused_by_its_shape():
    with pytest.raises(ValueError, match=r"y_error must have shape \(6,\), got \(\)"):
        check_row_numbers("y_error", 0.2, (ROWS,))


@pytest.mark.parametrize("nothing", [None, np.nan])
def test_a_row_without_a_label_forms_its_own_group(nothing):
    """As at the command line; two rows without a label need not belong together."""
    labels = ["b", nothing, "a", "b", nothing, "c"]
    every = np.ones(6, bool)
    np.testing.assert_array_equal(check_groups(np.array(labels, object), every), [1, 3, 0, 1, 4, 2])
    numbers = [2, np.nan, 1, 2, np.nan, 3]
    np.testing.assert_array_equal(check_groups(numbers, every), [1, 3, 0, 1, 4, 2])
    np.testing.assert_array_equal(check_groups(["b", 7, None, 1.5], every[:4]), [2, 1, 3, 0])


def test_groups_of_weight_zero_are_left_out():
    """A member that held out nothing else would have no row that tells it when to stop."""
    rows, groups = np.arange(24), np.repeat(np.arange(6), 4)
    facts = {"y_error": None, "groups": groups}
    found = check_row_facts(BNNLVRegressor(), rows, np.where(groups < 2, 0.0, 1.0), **facts)
    np.testing.assert_array_equal(found.take(groups >= 2).groups, np.repeat(np.arange(4), 4))
    with pytest.raises(ValueError, match=r"at least 4 groups .* got 3"):
        check_row_facts(BNNLVRegressor(), rows, np.where(groups < 3, 0.0, 1.0), **facts)


def test_a_lone_value_far_from_all_others_is_named():
    rng = np.random.default_rng(0)
    values = rng.normal(size=(100, 3))
    values[7, 1] = 1e6
    with pytest.warns(UserWarning, match=r"one value of heat, 1e\+06, is more than 100 times"):
        warn_of_outliers(["width", "heat", "age"], values)
    switch = np.zeros((100, 1))
    switch[3] = 1.0
    heavy = np.exp(rng.normal(size=(100, 1)))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn_of_outliers(["width", "age"], values[:, [0, 2]])
        warn_of_outliers(["switch"], switch)
        warn_of_outliers(["heavy"], heavy)
