"""The small problems of known truth: densities and entropies against integrals and samples."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import kstest

from paper.problems import PROBLEMS
from paper.small_problems import (
    GAUSSIAN,
    LOG_NORMAL,
    MOST_ROWS,
    SKEWED,
    SMALL_PROBLEMS,
    TWO_HUMPED,
    SmallProblem,
    corner_scale,
    describe,
    friedman,
    gaussian_entropy,
    two_humps_entropy,
    two_humps_log_density,
)

EVERY = pytest.mark.parametrize("problem", SMALL_PROBLEMS.values(), ids=SMALL_PROBLEMS)
SHAPES = {"gaussian": GAUSSIAN, "skewed": SKEWED, "humps": TWO_HUMPED, "log_normal": LOG_NORMAL}
# Where the densities of e stand out, in units in which all of them are about 1 wide.
LOW, HIGH, KNOTS = -8.0, 30.0, [-2.0, -1.0, 0.0, 0.5, 1.0, 2.0, 5.0]


def integrate(function):
    return quad(function, LOW, HIGH, limit=500, points=KNOTS)[0]


@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
def test_shapes_against_integrals(shape):
    def surprise(e):
        log_density = float(shape.log_density(np.asarray(e)))
        return -np.exp(log_density) * log_density if np.isfinite(log_density) else 0.0

    total = integrate(lambda e: float(np.exp(shape.log_density(np.asarray(e)))))
    assert total == pytest.approx(1.0, abs=1e-6)
    assert shape.entropy == pytest.approx(integrate(surprise), abs=1e-5)


@EVERY
def test_density_and_entropy_against_integrals(problem, rng):
    for row in problem.sample_inputs(rng, 3):
        x = row[None]
        location, scale = problem.location(x)[0], problem.scale(x)[0]
        y = location + scale * np.linspace(LOW, HIGH, 80_001)
        many = np.broadcast_to(x, (len(y), problem.inputs))
        log_density = problem.log_density(many, y)
        density = np.exp(log_density)
        assert np.trapezoid(density, y) == pytest.approx(1.0, abs=1e-5)
        terms = -density * np.where(density > 0.0, log_density, 0.0)
        assert problem.entropy(x)[0] == pytest.approx(np.trapezoid(terms, y), abs=1e-4)


@EVERY
def test_outputs_come_from_the_density(problem, rng):
    x = problem.sample_inputs(rng, 1)
    many = np.repeat(x, 80_001, axis=0)
    grid = problem.location(x) + problem.scale(x) * np.linspace(LOW, HIGH, len(many))
    density = np.exp(problem.log_density(many, grid))
    steps = 0.5 * (density[1:] + density[:-1]) * np.diff(grid)
    distribution = np.concatenate([[0.0], np.cumsum(steps)])
    y = problem.sample_outputs(rng, many[:5000])
    assert kstest(y, lambda t: np.interp(t, grid, distribution)).pvalue > 1e-3


@EVERY
def test_tables_contain_the_smaller_ones_and_tests_are_fresh(problem):
    x, y = problem.training_data(3, MOST_ROWS)
    few_x, few_y = problem.training_data(3, 50)
    np.testing.assert_array_equal(few_x, x[:50])
    np.testing.assert_array_equal(few_y, y[:50])
    assert x.shape == (MOST_ROWS, problem.inputs) and y.shape == (MOST_ROWS,)
    test_x, test_y = problem.test_data(3, 2000)
    points = problem.test_points(3, 200)
    assert not {*x[:, 0]} & ({*test_x[:, 0]} | {*points[:, 0]})
    # What the truth says about its own data on average is minus its entropy: four standard errors.
    surprise = -problem.log_density(test_x, test_y) - problem.entropy(test_x)
    assert abs(surprise.mean()) <= 4 * surprise.std() / np.sqrt(len(test_y))
    with pytest.raises(ValueError, match="1600"):
        problem.training_data(3, MOST_ROWS + 1)


def test_half_of_the_problems_have_constant_gaussian_noise():
    def constant(problem: SmallProblem) -> bool:
        scale = problem.scale(problem.test_points(0, 100))
        return problem.shape is GAUSSIAN and np.ptp(scale) == 0.0

    alike = [constant(problem) for problem in SMALL_PROBLEMS.values()]
    assert sum(alike) == len(alike) / 2
    assert not {*SMALL_PROBLEMS} & {*PROBLEMS}  # records name both kinds
    assert {p.inputs for p in SMALL_PROBLEMS.values()} <= set(range(1, 7))
    assert describe(SMALL_PROBLEMS["two_humps"]) == "two humps (1 input, noise: two humps)"


def test_functions_are_those_of_their_formulas():
    assert friedman(np.full((1, 6), 0.5))[0] == pytest.approx(10 * np.sin(np.pi / 4) + 7.5)
    np.testing.assert_allclose(corner_scale(np.array([[-1.0, 0.5], [1.0, 1.0]])), [0.1, 1.1])
    humps = np.exp(two_humps_log_density(np.array([-1.0, 1.0])))
    assert humps[1] / humps[0] == pytest.approx(0.65 / 0.35)
    # Two humps far apart: the entropy of one, and of which of them.
    which = -(0.35 * np.log(0.35) + 0.65 * np.log(0.65))
    assert two_humps_entropy() == pytest.approx(gaussian_entropy(0.3) + which, abs=0.01)
