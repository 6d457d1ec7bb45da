"""Are the predictive distributions of the toy problems honest? Coverage, PIT, CRPS, log-likelihood.

Every method is asked about the same test points of one seed's data, uniform over the input range;
scores are means over all seeds.
"""

from pathlib import Path

import numpy as np

from paper.jobs import LABELS, PAPER_METHODS, Job, fitted, settings
from paper.records import Record
from twofold import BNNLVRegressor
from twofold.envs.toy import TOY_PROBLEMS, ToyProblem
from twofold.report import Scores, draw_calibration
from twofold.uncertainty.metrics import calibration_error, chance_calibration_error, crps, pit, rmse

SEEDS = [0, 1, 2, 3, 4]
TEST_SIZE = 500
SAMPLES = 1000


def run(smoke: bool, work: Path, output: Path) -> Record:
    """Score all methods on both problems; the figures show the first seed."""
    seeds, samples = (SEEDS[:2], 20) if smoke else (SEEDS, SAMPLES)
    chosen = {method: settings(method, smoke) for method in PAPER_METHODS}
    record = Record("calibration", {"methods": chosen, "samples": samples}, seeds)
    jobs = [
        Job(p, method, seed) for p in TOY_PROBLEMS for method in PAPER_METHODS for seed in seeds
    ]
    models = fitted(jobs, smoke, work)
    output.mkdir(parents=True, exist_ok=True)
    record.add("calibration_error_by_chance", chance_calibration_error(TEST_SIZE))
    for problem in TOY_PROBLEMS.values():
        first = {}
        for method in PAPER_METHODS:
            found = [
                score(problem, seed, models[Job(problem.name, method, seed)], samples)
                for seed in seeds
            ]
            measure(f"{problem.name}/{method}", found, record)
            first[LABELS[method]] = found[0][0]
        figure = draw_calibration(first)
        figure.suptitle(problem.name)
        figure.savefig(output / f"calibration_{problem.name}.png", dpi=100)
    return record


def score(
    problem: ToyProblem, seed: int, model: BNNLVRegressor, samples: int
) -> tuple[Scores, float]:
    """Scores of each test point, and the error of the predictive mean."""
    x, y = problem.test_data(seed, TEST_SIZE)
    draws = model.sample(x, samples)
    scores = Scores(pit(draws, y), crps(draws, y), model.log_likelihood(x, y))
    return scores, float(rmse(y, model.predict(x)))


def measure(place: str, found: list[tuple[Scores, float]], record: Record) -> None:
    """Add the means over seeds to the record."""
    scores = [one for one, _ in found]
    record.add_mean(f"{place}/calibration_error", [calibration_error(s.pit) for s in scores])
    record.add_mean(f"{place}/crps", [np.mean(s.crps) for s in scores])
    record.add_mean(f"{place}/test_log_likelihood", [np.mean(s.log_density) for s in scores])
    record.add_mean(f"{place}/rmse", [error for _, error in found])
