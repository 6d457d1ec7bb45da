"""The harder problems: densities against integrals and samples."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import gumbel_r, kstest

from paper.problems import MERGING, SKEWED

PROBLEMS = pytest.mark.parametrize("problem", [MERGING, SKEWED], ids=lambda one: one.name)


def density(problem, x):
    return lambda y: np.exp(problem.log_density(np.asarray([x]), np.asarray([y])))[0]


@PROBLEMS
@pytest.mark.parametrize("position", [0.1, 0.5, 0.9])
def test_density_and_entropy_against_integrals(problem, position):
    x = problem.low + position * (problem.high - problem.low)
    p = density(problem, x)
    total, _ = quad(p, -12, 25, limit=400, points=[-2, 0, 2])
    np.testing.assert_allclose(total, 1.0, rtol=1e-5)

    def surprise(y):
        value = p(y)
        return -value * np.log(value) if value > 0 else 0.0

    entropy, _ = quad(surprise, -12, 25, limit=400, points=[-2, 0, 2])
    np.testing.assert_allclose(problem.entropy(np.asarray([x]))[0], entropy, rtol=1e-4)


@PROBLEMS
def test_input_density_is_that_of_the_inputs(problem, rng):
    x = problem.sample_inputs(rng, 20_000)
    grid = np.linspace(x.min() - 0.5, x.max() + 0.5, 4001)
    values = np.nan_to_num(problem.input_density(grid))
    cdf = np.concatenate([[0.0], np.cumsum(0.5 * (values[1:] + values[:-1]) * np.diff(grid))])
    assert kstest(x, lambda t: np.interp(t, grid, cdf)).pvalue > 1e-3


def test_skewed_outputs_have_gumbel_noise_that_grows(rng):
    for x in (0.5, 3.0):
        y = SKEWED.sample_outputs(rng, np.full(5000, x))
        noise = (y - 2.0 * np.sin(1.5 * x)) / (0.2 + 0.3 * x)
        assert kstest(noise, gumbel_r.cdf).pvalue > 1e-3


def test_merging_outputs_have_three_branches_and_then_one(rng):
    y = MERGING.sample_outputs(rng, np.full(30_000, 0.0))
    shares = [np.mean(np.abs(y - centre) < 1.25) for centre in (-2.5, 0.0, 2.5)]
    # Four standard errors of a share of a third.
    np.testing.assert_allclose(shares, 1 / 3, atol=4 * np.sqrt(2 / 9 / 30_000))
    merged = MERGING.sample_outputs(rng, np.full(30_000, 2.2))
    np.testing.assert_allclose(merged.std(), 0.3, rtol=4 / np.sqrt(2 * 30_000))
