"""Total effects against their closed forms."""

import numpy as np
import pytest

from twofold.uncertainty.sensitivity import other_rows, total_effects

ROWS = 200_000


def effects(rng, function, x):
    return total_effects(function, x, other_rows(rng, len(x)))


def test_linear_functions_have_the_shares_of_their_terms(rng):
    slopes, deviations = np.array([1.0, -2.0, 0.0]), np.array([3.0, 0.5, 7.0])
    x = deviations * rng.normal(size=(ROWS, 3))
    variances = np.square(slopes * deviations)
    found = effects(rng, lambda rows: rows @ slopes, x)
    # Squares of normal numbers: a relative standard error of about sqrt(2 / ROWS) = 0.003.
    np.testing.assert_allclose(found, variances / variances.sum(), rtol=0.015)
    assert found[2] == 0.0


def test_a_product_counts_wholly_for_each_of_its_factors(rng):
    """Of x1 x2 + x1, with unit variances and means 0: T_1 = (1 + 1) / 2, T_2 = 1 / 2."""
    x = rng.uniform(-np.sqrt(3), np.sqrt(3), size=(ROWS, 3))
    found = effects(rng, lambda rows: rows[:, 0] * rows[:, 1] + rows[:, 0], x)
    np.testing.assert_allclose(found, [1.0, 0.5, 0.0], atol=0.015)


def test_the_ishigami_function(rng):
    a, b = 7.0, 0.1
    x = rng.uniform(-np.pi, np.pi, size=(ROWS, 4))

    def ishigami(rows):
        x1, x2, x3, _ = rows.T
        return np.sin(x1) + a * np.sin(x2) ** 2 + b * x3**4 * np.sin(x1)

    first = 0.5 * (1 + b * np.pi**4 / 5) ** 2
    second, together = a**2 / 8, b**2 * np.pi**8 * (1 / 18 - 1 / 50)
    variance = first + second + together
    expected = np.array([first + together, second, together, 0.0]) / variance
    np.testing.assert_allclose(effects(rng, ishigami, x), expected, atol=0.015)


def test_several_functions_at_once_are_those_one_by_one(rng):
    x = rng.normal(size=(50, 3))
    functions = [lambda rows: rows[:, 0] ** 2, lambda rows: rows.sum(axis=1)]
    donors = other_rows(rng, 50)
    both = total_effects(lambda rows: np.stack([f(rows) for f in functions], axis=1), x, donors)
    for column, function in enumerate(functions):
        np.testing.assert_allclose(both[:, column], total_effects(function, x, donors))


def test_what_does_not_vary_is_driven_by_nothing(rng):
    x = rng.normal(size=(10, 2))
    both = effects(rng, lambda rows: np.stack([np.ones(10), rows[:, 0]], axis=1), x)
    np.testing.assert_array_equal(both[:, 0], 0.0)
    assert both[0, 1] > 0.0 and both[1, 1] == 0.0


@pytest.mark.parametrize("rows", [2, 3, 50])
def test_every_row_gives_once_and_never_to_itself(rng, rows):
    donors = other_rows(rng, rows)
    assert sorted(donors) == list(range(rows))
    assert not np.any(donors == np.arange(rows))


def test_wrong_shapes_and_donors_are_refused(rng):
    with pytest.raises(ValueError, match="at least 2 rows"):
        total_effects(np.sum, np.zeros((1, 3)), np.zeros(1, int))
    with pytest.raises(ValueError, match="3 of them the row itself"):
        total_effects(np.sum, np.zeros((3, 2)), np.arange(3))


def test_columns_of_a_group_move_together(rng):
    # One of three words, as three columns: no row ever has two of them, or none.
    words = np.eye(3)[rng.integers(0, 3, 200)]
    x = np.hstack([rng.normal(size=(200, 1)), words])
    seen = []

    def function(places):
        seen.append(places)
        return places[:, 1]

    effects = total_effects(function, x, other_rows(rng, 200), [[0], [1, 2, 3]])
    assert effects.shape == (2,) and effects[0] == 0.0 and 0.8 < effects[1] < 1.2
    assert all((places[:, 1:].sum(axis=1) == 1).all() for places in seen)
