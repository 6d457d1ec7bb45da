"""The problems and measures by which posteriors are compared."""

import numpy as np
import pytest
from scipy.stats import kstest, uniform

from paper import off_manifold, posteriors
from paper.problems import POINTS, PROBLEMS, TEST_SIZE, WET_CHICKEN, free
from paper.records import Context
from twofold.envs import wet_chicken

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
def test_every_problem_answers_the_same_questions(problem):
    x, y = problem.training(0)
    test_x, test_y = problem.test(0)
    inside, plentiful = problem.inside(0), problem.plentiful(0)
    assert len(x) == len(y) == 750 and len(test_x) == len(test_y) == TEST_SIZE
    assert len(inside) == len(plentiful) == POINTS and plentiful.mean() == 0.5
    # What the truth says about its own data on average is minus its entropy (the river's density
    # is constant, so that says nothing there; see below).
    surprise = -problem.log_density(test_x, test_y) - problem.entropy(test_x)
    assert abs(surprise.mean()) <= 4 * surprise.std() / np.sqrt(TEST_SIZE)
    low, high = inside.min(axis=0), inside.max(axis=0)
    far = problem.outside(0, 1.0)
    assert np.all(((far < low) | (far > high)).any(axis=1))


def test_free_water_is_where_the_next_y_is_uniform(rng):
    inputs, after = WET_CHICKEN.test(1)
    assert free(inputs).all()
    x, y, _, paddle = inputs.T
    centre, reach = y + paddle - 1.0 + 0.6 * x, 3.5 - 0.6 * x
    assert kstest((after - centre) / reach, uniform(-1, 2).cdf).pvalue > 1e-3
    np.testing.assert_allclose(WET_CHICKEN.entropy(inputs), np.log(2.0 * reach), atol=1e-5)
    for turbulence in (-1.0, 1.0):
        after = [
            wet_chicken.step(wet_chicken.PAPER, row[:2], row[2:], turbulence)[1]
            for row in inputs[:20]
        ]
        assert min(after) > 0.0 and max(after) < wet_chicken.PAPER.length
    assert not free(np.array([[0.0, 0.0, 0.0, 0.0]])).any()


class Known:
    """Stands for a fitted model whose epistemic deviation is a known function of x."""

    def __init__(self, deviation):
        self.deviation = deviation
        self.y_standardizer_ = type("Scale", (), {"scale": np.array([2.0])})

    def decompose(self, x, by):
        assert by == "variance"
        return type("Split", (), {"epistemic": np.square(2.0 * self.deviation(x))})


def test_growth_and_hiding_places_of_known_deviations():
    problem = PROBLEMS["bimodal"]
    inside = problem.inside(0)
    centre = inside.mean()
    found = posteriors.look_outside(problem, 0, Known(lambda x: np.abs(x[:, 0] - centre)))
    # The points come in pairs at one distance, which rounding puts in order.
    assert found["outside/growth"] > 0.98
    assert found["outside/hiding_places"] == 0.0
    half = np.ptp(inside) / 2
    assert found["outside/deviation_1"] == pytest.approx(2.0 * half)
    flat = posteriors.look_outside(problem, 0, Known(lambda x: np.exp(-np.abs(x[:, 0] - centre))))
    assert flat["outside/growth"] < -0.98
    assert flat["outside/hiding_places"] == 1.0


def test_fooled_is_the_share_of_low_bounds_that_the_truth_exceeds():
    bounds = np.arange(100.0)
    truths = np.where(bounds == 1, 5.0, -1.0)
    assert off_manifold.share_fooled(bounds, truths) == 0.5
    assert off_manifold.share_fooled(bounds, bounds - 1.0) == 0.0


@pytest.mark.slow
def test_off_manifold_record(tmp_path, monkeypatch):
    monkeypatch.setattr(off_manifold, "METHODS", ("ensemble",))
    monkeypatch.setattr(off_manifold, "HIDDEN", (4,))
    record = off_manifold.compare_away(Context(True, tmp_path, tmp_path))
    for way, distances in off_manifold.DISTANCES.items():
        for distance in distances:
            share = record.metrics[f"{way}/ensemble/coverage_90/{distance}/mean"]
            assert 0.0 <= share <= 1.0
            assert record.metrics[f"{way}/ensemble/error/{distance}/mean"] > 0.0
        assert abs(record.metrics[f"{way}/ensemble/rank_correlation/mean"]) <= 1.0
