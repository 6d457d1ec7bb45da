"""Scores beside a linear model's, and when a difference counts."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from twofold.estimators.comparison import (
    Comparison,
    Difference,
    compare_held_out,
    compare_out_of_bag,
)
from twofold.estimators.linear import LinearGaussian, cross_validate_linear
from twofold.inference.ensemble import OutOfBag


@pytest.mark.parametrize(
    ("log_score", "crps", "verdict"),
    [
        ((0.5, 0.1), (0.1, 0.01), "better"),
        ((-0.5, 1.0), (0.1, 0.01), "better"),
        ((-3.0, 1.0), (-0.1, 0.01), "worse"),
        ((-3.0, 1.0), (0.1, 0.01), "unclear"),
        ((0.1, 0.1), (0.0, 0.01), "unclear"),
        ((0.5, 0.1), None, "better"),
    ],
)
def test_a_verdict_needs_a_clear_score_and_none_against_it(log_score, crps, verdict):
    found = Comparison(Difference(*log_score), crps and Difference(*crps))
    assert found.verdict == verdict and f"{log_score[0]:+.3f} ±" in found.sentence
    assert ("unclear" in found.sentence) == (verdict == "unclear")


def test_one_row_that_is_far_off_decides_nothing():
    rng = np.random.default_rng(0)
    x = rng.uniform(-1, 1, (200, 1))
    y = np.abs(x) + 0.02 * rng.normal(size=(200, 1))
    linear = LinearGaussian.fit(x, y)
    # A model that knows the bend, and is certain of a wrong value at one row.
    log_density = norm.logpdf(y[:, 0], np.abs(x[:, 0]), 0.02)
    log_density[7] = -2000.0
    crps = np.full((200, 1), 0.02 * 0.234)
    crps[7] = 1.0
    found = compare_held_out(linear, x, y, log_density, crps)
    assert found.log_score.mean < -5 and found.verdict == "better"


def test_the_crps_of_the_linear_model_is_that_of_its_gaussians():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(30, 2)), rng.normal(size=(30, 2)) * [1.0, 5.0]
    linear = LinearGaussian.fit(x, y)
    means, deviations = linear.predict(x[:2]), np.sqrt(np.diag(linear.covariance))
    for row in range(2):
        for output in range(2):
            gaussian = norm(means[row, output], deviations[output])
            value = y[row, output]
            below, _ = quad(lambda t, g=gaussian: g.cdf(t) ** 2, -60, value)
            above, _ = quad(lambda t, g=gaussian: g.sf(t) ** 2, value, 60)
            assert linear.crps(x, y)[row, output] == pytest.approx(below + above, rel=1e-6)


def test_out_of_bag_scores_have_an_error_of_both_models():
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(50, 1)), rng.normal(size=50)
    linear = cross_validate_linear(x, y)
    found = compare_out_of_bag(OutOfBag(-1.0, 0.3, 50), x, y)
    assert found.log_score.mean == pytest.approx(-1.0 - linear.score)
    assert found.log_score.standard_error == pytest.approx(np.hypot(0.3, linear.standard_error))
    assert compare_out_of_bag(OutOfBag(-1.0, 0.3, 50), x[:3], y[:3]) is None
