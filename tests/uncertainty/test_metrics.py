"""Scores and calibration against closed forms, direct counting and naive formulae."""

import numpy as np
import pytest
from scipy.stats import binom, kstwo, norm

from twofold.uncertainty import metrics

LEVELS = metrics.LEVELS


def pairwise_crps(samples, y):
    """Every pair of different samples, one by one."""
    num = len(samples)
    pairs = [abs(samples[i] - samples[j]) for i in range(num) for j in range(num) if i != j]
    return np.mean(np.abs(samples - y), axis=0) - 0.5 * np.mean(pairs, axis=0)


def gaussian_crps(y, mean, deviation):
    z = (y - mean) / deviation
    bracket = z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - 1 / np.sqrt(np.pi)
    return deviation * bracket


def predictions(rng, spread=1.0, points=2000, num=199):
    """PIT values of standard normal measurements, predicted with deviation ``spread``."""
    return metrics.pit(spread * rng.normal(size=(num, points)), rng.normal(size=points))


def test_rmse_is_that_of_each_output(rng):
    y, mean = rng.normal(size=(2, 30, 2))
    expected = [np.sqrt(sum((y[:, o] - mean[:, o]) ** 2) / 30) for o in range(2)]
    np.testing.assert_allclose(metrics.rmse(y, mean), expected)
    assert metrics.rmse(np.array([1.0, 2.0]), np.array([4.0, -2.0])) == np.sqrt(12.5)


@pytest.mark.parametrize("num", [2, 3, 20])
@pytest.mark.parametrize("points", [(7,), (4, 2)])
def test_crps_equals_all_pairs(rng, num, points):
    samples, y = rng.normal(size=(num, *points)), rng.normal(size=points)
    samples[1] = samples[0]
    found = metrics.crps(samples, y)
    assert found.shape == points
    np.testing.assert_allclose(found, pairwise_crps(samples, y), atol=1e-14)


def test_crps_of_a_gaussian(rng):
    points, num, mean, deviation = 4000, 20, 1.5, 0.7
    y = rng.normal(mean, 2 * deviation, size=points)
    found = metrics.crps(rng.normal(mean, deviation, size=(num, points)), y)
    errors = found - gaussian_crps(y, mean, deviation)
    # Without bias the mean error over independent points is within four standard errors of 0;
    # an estimator that counts each sample as its own partner is off by σ/(num √π), far more.
    standard_error = errors.std() / np.sqrt(points)
    assert abs(errors.mean()) < 4 * standard_error
    assert deviation / (num * np.sqrt(np.pi)) > 8 * standard_error
    # Both means, of |X − y| and of ½|X − X'|, have a deviation of at most σ/√num.
    assert np.abs(errors).max() < 5 * 2 * deviation / np.sqrt(num)


def test_crps_prefers_the_true_deviation(rng):
    y = rng.normal(size=2000)
    scores = [metrics.crps(s * rng.normal(size=(200, 2000)), y).mean() for s in (0.4, 1.0, 2.5)]
    assert scores[1] < min(scores[0], scores[2])


def test_pit_is_the_rank_with_ties_counted_half():
    samples = np.array([3.0, 1.0, 2.0, 2.0])[:, None] * np.ones(4)
    found = metrics.pit(samples, np.array([0.0, 1.5, 2.0, 9.0]))
    np.testing.assert_allclose(found, np.array([0.5, 1.5, 2.5, 4.5]) / 5)


def test_pit_of_the_true_distribution_is_uniform(rng):
    points, num = 5000, 999
    values = np.sort(predictions(rng, points=points, num=num))
    edges = np.arange(points + 1) / points
    distance = max(np.max(edges[1:] - values), np.max(values - edges[:-1]))
    # The grid of num + 1 values adds half a step; a right transform fails once in ten thousand.
    assert distance < kstwo.isf(1e-4, points) + 0.5 / (num + 1)


def test_pit_of_several_outputs_is_that_of_each(rng):
    samples, y = rng.normal(size=(50, 20, 3)), rng.normal(size=(20, 3))
    columns = [metrics.pit(samples[..., o], y[:, o]) for o in range(3)]
    np.testing.assert_array_equal(metrics.pit(samples, y), np.stack(columns, axis=1))


def test_coverage_equals_counting_inside_intervals_of_order_statistics(rng):
    samples, y = rng.normal(size=(99, 500)), rng.normal(size=500)
    ordered = np.sort(samples, axis=0)
    found = metrics.coverage(metrics.pit(samples, y), np.array([0.2, 0.6, 0.8, 0.98]))
    # The k-th smallest and k-th largest of 99 samples hold 100 − 2k of 100 equally likely ranks.
    for k, share in zip((40, 20, 10, 1), found, strict=True):
        inside = (ordered[k - 1] < y) & (y < ordered[-k])
        assert share == inside.mean()


def test_coverage_takes_levels_in_any_order_and_at_both_ends(rng):
    values = rng.uniform(size=100)
    found = metrics.coverage(values, np.array([1.0, 0.3, 0.0]))
    np.testing.assert_array_equal(found, [1.0, np.mean(np.abs(2 * values - 1) <= 0.3), 0.0])


def test_an_interval_holds_its_ends():
    found = metrics.coverage(np.array([0.0, 0.25, 0.75, 1.0]), np.array([0.49, 0.5, 1.0]))
    np.testing.assert_array_equal(found, [0.0, 0.5, 1.0])


def test_overconfidence_covers_too_little_and_caution_too_much(rng):
    assert (metrics.coverage(predictions(rng, 0.5)) < LEVELS).all()
    assert (metrics.coverage(predictions(rng, 2.0)) > LEVELS).all()


def test_coverage_of_too_narrow_a_gaussian(rng):
    points = 4000
    found = metrics.coverage(predictions(rng, 0.5, points, 999))
    expected = 2 * norm.cdf(0.5 * norm.ppf((1 + LEVELS) / 2)) - 1
    # Four and a half standard errors, for 19 levels; 999 samples blur a level by less than 0.002.
    tolerance = 4.5 * np.sqrt(expected * (1 - expected) / points) + 0.002
    assert (np.abs(found - expected) < tolerance).all()


def test_calibration_error_is_the_mean_distance(rng):
    values = predictions(rng, 0.5)
    distances = [abs(np.mean(np.abs(2 * values - 1) <= level) - level) for level in LEVELS]
    assert metrics.calibration_error(values) == pytest.approx(np.mean(distances))
    assert metrics.calibration_error(np.full(10, 0.5)) == pytest.approx(0.5)


@pytest.mark.parametrize("num", [1, 7, 100])
def test_chance_calibration_error_is_the_mean_over_all_counts(num):
    counts, levels = np.arange(num + 1)[:, None], np.array([0.0, 0.05, 0.29, 0.5, 0.9, 1.0])
    expected = np.sum(np.abs(counts / num - levels) * binom.pmf(counts, num, levels), axis=0)
    assert metrics.chance_calibration_error(num, levels) == pytest.approx(expected.mean())


def test_calibrated_points_err_by_chance_only(rng):
    errors = [metrics.calibration_error(values) for values in rng.uniform(size=(2000, 200))]
    # Four standard errors of the mean.
    tolerance = 4 * np.std(errors) / np.sqrt(2000)
    assert abs(np.mean(errors) - metrics.chance_calibration_error(200)) < tolerance


def test_share_band_holds_its_confidence_and_no_more_than_it_needs():
    num, levels = 200, np.array([0.05, 0.5, 0.95])
    low, high = (np.round(edge * num) for edge in metrics.share_band(levels, num))
    assert (binom.cdf(high, num, levels) - binom.cdf(low - 1, num, levels) >= 0.95).all()
    assert (binom.cdf(low - 1, num, levels) < 0.025).all()
    assert (binom.sf(high, num, levels) <= 0.025).all()


@pytest.mark.parametrize("score", [metrics.crps, metrics.pit])
@pytest.mark.parametrize(
    ("samples", "y"),
    [((5, 3), (4,)), ((5, 3), (3, 1)), ((0, 3), (3,)), ((5, 0), (0,)), ((), ()), ((5,), ())],
)
def test_samples_that_do_not_fit_are_refused(score, samples, y):
    with pytest.raises(ValueError, match=r"expected samples .* got \(.*\) and \(.*\); draw"):
        score(np.zeros(samples), np.zeros(y))


def test_fair_crps_needs_two_samples():
    with pytest.raises(ValueError, match="at least 2"):
        metrics.crps(np.zeros((1, 3)), np.zeros(3))


@pytest.mark.parametrize("score", [metrics.crps, metrics.pit])
def test_nan_and_infinity_are_refused(score):
    with pytest.raises(ValueError, match="got 2 values of NaN or infinity"):
        score(np.array([[0.0, np.inf], [1.0, 2.0]]), np.array([np.nan, 0.0]))


@pytest.mark.parametrize(("y", "mean"), [((3,), (4,)), ((3,), (3, 1)), ((0,), (0,)), ((), ())])
def test_rmse_of_unequal_shapes_is_refused(y, mean):
    with pytest.raises(ValueError, match="expected y and mean of one shape"):
        metrics.rmse(np.zeros(y), np.zeros(mean))


@pytest.mark.parametrize("values", [[], [0.5, 1.5], [np.nan]])
def test_impossible_pit_values_and_levels_are_refused(values):
    with pytest.raises(ValueError, match="expected at least 1 PIT value"):
        metrics.coverage(np.array(values))
    with pytest.raises(ValueError, match="expected at least 1 level"):
        metrics.coverage(np.array([0.5]), np.array(values))


def test_no_points_are_refused():
    with pytest.raises(ValueError, match="expected num of at least 1, got 0"):
        metrics.chance_calibration_error(0)
    with pytest.raises(ValueError, match="expected num of at least 1, got 0"):
        metrics.share_band(LEVELS, 0)
