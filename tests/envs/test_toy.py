"""The toy problems against their definitions in the paper, and the oracle against integrals."""

import numpy as np
import pytest
from scipy.integrate import quad, trapezoid
from scipy.stats import expon, kstest, norm

from twofold.envs.toy import BIMODAL, HETEROSCEDASTIC, TOY_PROBLEMS

SAMPLES = 200_000
PROBLEMS = pytest.mark.parametrize("problem", TOY_PROBLEMS.values(), ids=TOY_PROBLEMS)


def true_moments(problem, x):
    """Mean, variance and fourth central moment of y at x, from the problem's definition."""
    if problem is HETEROSCEDASTIC:
        variance = (3 * np.cos(x / 2)) ** 2
        return 7 * np.sin(x), variance, 3 * variance**2
    mean, half = 5 * (np.sin(x) + np.cos(x)), 5 * (np.sin(x) - np.cos(x))
    return mean, 1 + half**2, 3 + 6 * half**2 + half**4


@PROBLEMS
@pytest.mark.parametrize("position", [0.0, 0.3, 0.9])
def test_outputs_have_the_true_mean_and_variance(problem, position, rng):
    x = problem.low + position * (problem.high - problem.low)
    y = problem.sample_outputs(rng, np.full(SAMPLES, x))
    mean, variance, fourth = true_moments(problem, x)
    # Four standard errors: sqrt(var/n) of the mean, sqrt((m4 - var^2)/n) of the variance.
    assert abs(y.mean() - mean) < 4 * np.sqrt(variance / SAMPLES)
    assert abs(y.var() - variance) < 4 * np.sqrt((fourth - variance**2) / SAMPLES)


def test_bimodal_outputs_take_each_branch_half_of_the_time(rng):
    # At x = -0.5 the branches lie at -4.8 and 8.8, more than six deviations from their middle.
    y = BIMODAL.sample_outputs(rng, np.full(SAMPLES, -0.5))
    middle = 5 * (np.sin(-0.5) + np.cos(-0.5))
    assert abs(np.mean(y > middle) - 0.5) < 4 * np.sqrt(0.25 / SAMPLES)


def mixture_cdf(x):
    parts = [norm.cdf(x, mean, deviation) for mean, deviation in ((-4, 0.4), (0, 0.9), (4, 0.4))]
    return np.mean(parts, axis=0)


@pytest.mark.parametrize(
    ("problem", "cdf"),
    [(HETEROSCEDASTIC, mixture_cdf), (BIMODAL, expon(loc=-0.5, scale=0.5).cdf)],
    ids=["heteroscedastic", "bimodal"],
)
def test_training_inputs_follow_the_stated_distribution(problem, cdf):
    x, _ = problem.training_data(seed=0, size=SAMPLES)
    # A right sampler fails once in ten thousand seeds.
    assert kstest(x[:, 0], cdf).pvalue > 1e-4


@PROBLEMS
def test_test_inputs_are_uniform_over_the_range(problem):
    x, _ = problem.test_data(seed=0, size=SAMPLES)
    assert problem.low <= x.min() and x.max() <= problem.high
    uniform = (x[:, 0] - problem.low) / (problem.high - problem.low)
    assert kstest(uniform, "uniform").pvalue > 1e-4


def test_the_ranges_are_those_of_the_paper():
    assert (HETEROSCEDASTIC.low, HETEROSCEDASTIC.high) == (-5.0, 5.0)
    assert (BIMODAL.low, BIMODAL.high) == (-0.5, 2.0)


@PROBLEMS
@pytest.mark.parametrize("position", np.linspace(0.0, 1.0, 7))
def test_the_density_integrates_to_one(problem, position):
    x = problem.low + position * (problem.high - problem.low)
    mean, variance, _ = true_moments(problem, x)
    # Trapezoids on a smooth density that vanishes at both ends converge faster than any power.
    y = np.linspace(-25.0, 25.0, 20_001)
    density = np.exp(problem.log_density(np.full_like(y, x), y))
    assert trapezoid(density, y) == pytest.approx(1.0, abs=1e-9)
    assert trapezoid(density * y, y) == pytest.approx(mean, abs=1e-8)
    assert trapezoid(density * (y - mean) ** 2, y) == pytest.approx(variance, abs=1e-8)


def heteroscedastic_oracle():
    """Mean over x of the Gaussian's negative entropy, by the integral of log|cos|."""

    def negative_entropy(x):
        return -0.5 * np.log(2 * np.pi * np.e) - np.log(3 * abs(np.cos(x / 2)))

    total, _ = quad(negative_entropy, -5.0, 5.0, points=[-np.pi, np.pi], limit=500)
    return total / 10.0


def bimodal_oracle():
    """Mean over x of the mixture's negative entropy, by trapezoids in x and y."""
    x, y = np.linspace(-0.5, 2.0, 501)[:, None], np.linspace(-20.0, 20.0, 4001)
    density = 0.5 * norm.pdf(y, 10 * np.sin(x)) + 0.5 * norm.pdf(y, 10 * np.cos(x))
    integrand = density * np.log(np.maximum(density, 1e-300))
    return trapezoid(trapezoid(integrand, y), x[:, 0]) / 2.5


@pytest.mark.parametrize(
    ("problem", "integral", "low", "high"),
    [
        (HETEROSCEDASTIC, heteroscedastic_oracle, -1.72, -1.66),
        (BIMODAL, bimodal_oracle, -2.03, -2.01),
    ],
    ids=["heteroscedastic", "bimodal"],
)
def test_the_oracle_is_the_mean_negative_entropy(problem, integral, low, high):
    x, y = problem.test_data(seed=0, size=SAMPLES)
    log_densities = problem.log_density(x[:, 0], y)
    expected = integral()
    assert low < expected < high
    # Four standard errors of the sample's mean.
    assert abs(log_densities.mean() - expected) < 4 * log_densities.std() / np.sqrt(SAMPLES)


@PROBLEMS
def test_a_seed_fixes_the_data_and_test_and_training_differ(problem):
    first, again = problem.training_data(3, 10), problem.training_data(3, 10)
    for one, other in zip(first, again, strict=True):
        np.testing.assert_array_equal(one, other)
    assert first[0].shape == (10, 1) and first[1].shape == (10,)
    assert not np.array_equal(first[1], problem.test_data(3, 10)[1])
    assert not np.array_equal(first[1], problem.training_data(4, 10)[1])


@PROBLEMS
@pytest.mark.parametrize("x", [-0.4, 0.3, np.pi / 4, 1.9])
def test_entropy_is_the_integral_of_the_density(problem, x):
    def integrand(y):
        log_density = problem.log_density(np.array(x), np.array(y))
        return -np.exp(log_density) * log_density

    mean, variance, _ = true_moments(problem, x)
    reach = 12 * np.sqrt(variance)
    points = [10 * np.sin(x), 10 * np.cos(x)] if problem is BIMODAL else [mean]
    expected, _ = quad(integrand, mean - reach, mean + reach, points=points, limit=300)
    np.testing.assert_allclose(problem.entropy(np.array([x])), expected, rtol=1e-6)


def test_bimodal_entropy_is_symmetric_around_the_crossing():
    distance = np.linspace(0, 1.2, 7)
    left, right = (BIMODAL.entropy(np.pi / 4 + sign * distance) for sign in (-1, 1))
    np.testing.assert_allclose(left, right, rtol=1e-9)


@PROBLEMS
def test_input_density_is_that_of_the_inputs(problem, rng):
    edges = np.linspace(problem.low, problem.high, 13)
    counts, _ = np.histogram(problem.sample_inputs(rng, SAMPLES), edges)
    for count, low, high in zip(counts, edges[:-1], edges[1:], strict=True):
        share, _ = quad(problem.input_density, low, high)
        assert abs(count / SAMPLES - share) < 4.5 * np.sqrt(share * (1 - share) / SAMPLES) + 1e-9
