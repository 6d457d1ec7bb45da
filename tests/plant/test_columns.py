"""Transforms are what they say, invert each other, and stay within bounds; where the values of a
window are, against windows that are moved by hand."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logit

from twofold.plant.columns import (
    KINDS,
    Past,
    Transform,
    check_seen,
    choose_range,
    choose_transform,
    saturate,
)
from twofold.plant.log import LogError, LogWarning


@pytest.fixture
def values(rng):
    return rng.gamma(2.0, 50.0, 200)


@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back(kind, values, x64):
    transform = choose_transform("cost", kind, values)
    seen = transform.forward(jnp.asarray(values))
    np.testing.assert_allclose(transform.inverse(seen), values, rtol=1e-10)
    assert kind == "identity" or not np.allclose(seen, values)


def test_the_cost_is_seen_as_the_paper_sees_it(values, x64):
    # log(1 + c), then the logit of its place in the data's range with 5 % margin.
    logs = np.log1p(values)
    low, high, margin = logs.min(), logs.max(), 0.05 * np.ptp(logs)
    expected = logit((logs - low + margin) / (high - low + 2 * margin))
    seen = choose_transform("cost", "log1p_logit", values).forward(jnp.asarray(values))
    np.testing.assert_allclose(seen, expected, rtol=1e-9)


@pytest.mark.parametrize("kind", ["logit", "log1p_logit"])
def test_a_prediction_cannot_leave_the_range_and_has_a_gradient(kind, values):
    transform = choose_transform("cost", kind, values)
    far = jnp.array([-1e4, -30.0, 0.0, 30.0, 1e4])
    found = np.asarray(transform.inverse(far))
    assert found.min() > values.min() - 0.3 * np.ptp(values)
    assert found.max() < values.max() + 0.5 * np.ptp(values)
    beyond = jnp.array([-0.9, 1e6])
    assert np.isfinite(transform.forward(beyond)).all()
    for function in (transform.forward, transform.inverse):
        assert np.isfinite(jax.vmap(jax.grad(function))(beyond)).all()


def test_predictions_saturate_smoothly_beyond_the_logged_range():
    seen = jnp.array([-jnp.inf, -1e30, -6.0, 2.0, 9.0, 14.0, 30.0, jnp.inf])
    found = np.asarray(saturate(seen, 2.0, 6.0))
    np.testing.assert_allclose(found[2:5], [-2.0 - 4.0 * np.tanh(1.0), 2.0, 9.0], rtol=1e-6)
    # Never more than twice the width beyond the ends, and in the same order.
    assert found.min() >= -6.0 and found.max() <= 14.0 and (np.diff(found) >= 0).all()
    slopes = jax.vmap(jax.grad(lambda x: saturate(x, 2.0, 6.0)))(jnp.array([5.0, 9.9, 12.0]))
    np.testing.assert_allclose(slopes, [1.0, 1.0, 1.0 - np.tanh(0.5) ** 2], rtol=1e-5)


def test_a_constant_column_has_a_range_too():
    assert choose_range(Transform(), np.full(3, -4.0)) == (-4.0, 0.0)
    assert choose_range(Transform("log1p"), np.zeros(3)) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("kind", "column", "message"),
    [
        ("logt", [1.0, 2.0], "did you mean 'logit'"),
        ("log1p", [-1.0, 2.0], "'cost' must be above -1 .*value is -1"),
        ("logit", [2.0, 2.0], "'cost' is 2 in every row .* 'logit'"),
    ],
)
def test_wrong_transforms_are_refused(kind, column, message):
    with pytest.raises(LogError, match=message):
        choose_transform("cost", kind, np.array(column))
    with pytest.raises(LogError, match="low < high"):
        Transform("logit", 1.0, 1.0)


@pytest.mark.parametrize(
    ("kind", "span"), [("logit", "-5 to 105"), ("log1p_logit", "-0.206[0-9]* to 126.2[0-9]*")]
)
def test_values_beyond_the_range_are_counted(kind, span):
    transform = choose_transform("cost", kind, np.linspace(0.0, 100.0, 50))
    with pytest.warns(LogWarning, match=rf"'cost' leaves .* {span}, in 2 of 4 values \(130 to 150"):
        check_seen("cost", transform, np.array([0.0, 130.0, 50.0, 150.0]))


@pytest.mark.parametrize("kind", KINDS)
def test_values_of_the_range_are_not_warned_of(kind, values):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_seen("cost", choose_transform("cost", kind, values), values)


@pytest.mark.parametrize("kind", ["log1p", "log1p_logit"])
def test_values_without_a_logarithm_are_refused_later_too(kind, values):
    with pytest.raises(LogError, match=r"'cost' must be above -1 .*value is -3"):
        check_seen("cost", choose_transform("cost", kind, values), np.array([-3.0, 1.0]))


CASES = {
    "all alike": ([3, 3], [1], [False, False]),
    "some longer": ([1, 3, 2], [3, 1], [False, True, False]),
    "some unseen": ([0, 2, 4], [0, 4], [True, True, False]),
    "one only": ([1], [0], [False]),
}


def window(lags, action_lags, step):
    """Observation d at time t is ``100 d + t``, action a is ``−(100 a + t)``; five of each."""
    times = np.arange(step - 4, step + 1)
    observed = [100.0 * d + times for d in range(len(lags))]
    applied = [-(100.0 * a + times[:-1]) for a in range(len(action_lags))]
    return [jnp.asarray(own) for own in observed], [jnp.asarray(own) for own in applied]


@pytest.mark.parametrize("case", CASES)
def test_features_and_inputs_are_the_columns_one_after_the_other(case):
    lags, action_lags, ahead = CASES[case]
    past = Past.of(*CASES[case])
    vector = past.gather(*window(lags, action_lags, 50))
    features = [100.0 * d + 50 - age for d, n in enumerate(lags) for age in reversed(range(n))]
    for a, n in enumerate(action_lags):
        features += [-(100.0 * a + 49 - age) for age in reversed(range(n - 1))]
    np.testing.assert_array_equal(vector[past.features], features)

    new = [100.0 * d + 51 for d in past.ahead] + [-(100.0 * a + 50) for a in past.applied]
    inputs = []
    for d, n in enumerate(lags):
        inputs += [100.0 * d + 50 + ahead[d] - age for age in reversed(range(n))]
    for a, n in enumerate(action_lags):
        inputs += [-(100.0 * a + 50 - age) for age in reversed(range(n))]
    np.testing.assert_array_equal(np.append(vector, new)[past.inputs], inputs)


@pytest.mark.parametrize("case", CASES)
def test_a_step_later_it_is_the_vector_of_the_window_a_step_later(case):
    lags, action_lags, _ = CASES[case]
    past = Past.of(*CASES[case])
    vector = past.gather(*window(lags, action_lags, 50))
    observed = jnp.array([100.0 * d + 51 for d in range(len(lags))])
    applied = jnp.array([-(100.0 * a + 50) for a in range(len(action_lags))])
    arriving = past.arrivals(observed, applied)
    following = past.gather(*window(lags, action_lags, 51))
    np.testing.assert_array_equal(past.shift(vector, arriving), following)
    np.testing.assert_array_equal(following[past.ends], arriving)


@pytest.mark.parametrize("case", CASES)
def test_the_newest_of_a_column_is_the_same_for_all_of_its_values(case):
    lags, action_lags, _ = CASES[case]
    past = Past.of(*CASES[case])
    vector = np.asarray(past.gather(*window(lags, action_lags, 50)))
    of_feature = vector[past.features]
    for value, newest in zip(vector, past.newest, strict=True):
        hundreds = np.floor(np.abs(value) / 100.0)
        expected = 100.0 * hundreds + 50 if value > 0 else -(100.0 * hundreds + 49)
        assert of_feature[newest] == expected
