"""Scores beside a linear model's, and when a difference counts."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from twofold.estimators.comparison import Comparison, compare_gains, compare_held_out
from twofold.estimators.linear import LinearGaussian


@pytest.mark.parametrize(
    ("log_score", "crps", "verdict"),
    [
        ((0.5, 0.1), (0.1, 0.01), "better"),
        ((-0.5, 1.0), (0.1, 0.01), "better"),
        ((-3.0, 1.0), (-0.1, 0.01), "worse"),
        ((-3.0, 1.0), (0.1, 0.01), "unclear"),
        ((0.1, 0.1), (0.0, 0.01), "unclear"),
    ],
)
def test_a_verdict_needs_a_clear_score_and_none_against_it(log_score, crps, verdict):
    found = Comparison(*log_score, *crps)
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
    assert found.gain < -5 and found.verdict == "better"


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


def test_gains_are_means_of_rows_with_their_standard_errors(rng):
    gains, linear = rng.normal(size=50), rng.uniform(1.0, 2.0, (50, 2))
    found = compare_gains(gains, linear * [0.5, 1.1], linear)
    assert found.gain == pytest.approx(gains.mean())
    assert found.gain_error == pytest.approx(gains.std(ddof=1) / 50**0.5)
    assert found.crps_gain == pytest.approx(np.mean([0.5, -0.1]))
    weight = np.repeat([1.0, 3.0], 25)
    weighted = compare_gains(gains, linear * 0.5, linear, weight)
    shares = 0.5 * (linear / linear.mean(axis=0)).mean(axis=1)
    assert weighted.crps_gain == pytest.approx(np.average(shares, weights=weight))
