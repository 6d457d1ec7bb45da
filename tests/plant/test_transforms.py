"""Transforms are what they say, invert each other, and stay within bounds."""

import warnings

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logit

from twofold.plant.columns import KINDS, Transform, check_seen, choose_transform
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


@pytest.mark.parametrize(
    ("kind", "column", "message"),
    [
        ("logt", [1.0, 2.0], "did you mean 'logit'"),
        ("log1p", [-1.0, 2.0], "'cost' cannot be seen as log.*smallest value is -1"),
        ("logit", [2.0, 2.0], "'cost' cannot be scaled to its range: it is 2 in every row"),
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
    with pytest.raises(LogError, match=r"'cost' cannot be seen as log.*smallest value is -3"):
        check_seen("cost", choose_transform("cost", kind, values), np.array([-3.0, 1.0]))
