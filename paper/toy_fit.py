"""Does the paper's inference converge on the paper's toy problems?

Each seed draws its own 750 training points, its own test set and its own start of the fit; the
score is the mean test log-likelihood, beside that of the true process (the oracle).
"""

from pathlib import Path

import numpy as np

from paper.fits import fit_whole
from paper.records import Record
from twofold import BNNLVRegressor
from twofold.envs.toy import TOY_PROBLEMS, ToyProblem

TEST_SIZE = 500
# Seeds that no choice of the defaults was made on.
SEEDS = [1000, 1001, 1002, 1003, 1004]


def run(smoke: bool, work: Path) -> Record:
    """Fit both problems with the paper's inference; ``smoke`` is a quick rehearsal."""
    seeds = SEEDS[:2] if smoke else SEEDS
    epochs = 3 if smoke else None
    settings = {
        "test_size": TEST_SIZE,
        "estimator": BNNLVRegressor(inference="alpha", epochs=epochs).get_params(),
    }
    record = Record("toy_fit", settings, seeds)
    for problem in TOY_PROBLEMS.values():
        measure(problem, seeds, epochs, work, record)
    return record


def measure(
    problem: ToyProblem, seeds: list[int], epochs: int | None, work: Path, record: Record
) -> None:
    """Add one problem's metrics to the record."""
    data = [problem.training_data(seed) for seed in seeds]
    checkpoint = work / f"toy_fit-{problem.name}.checkpoint"
    estimators = [
        BNNLVRegressor(inference="alpha", epochs=epochs, random_state=seed, checkpoint=checkpoint)
        for seed in seeds
    ]
    fit_whole(estimators, [x for x, _ in data], [y for _, y in data])
    scores, oracle = [], []
    for seed, estimator in zip(seeds, estimators, strict=True):
        x, y = problem.test_data(seed, TEST_SIZE)
        scores.append(estimator.log_likelihood(x, y).mean())
        oracle.append(problem.log_density(x[:, 0], y).mean())
    record.add_mean(f"{problem.name}/test_log_likelihood", scores)
    record.add(f"{problem.name}/oracle/test_log_likelihood", np.mean(oracle))
    for seed, score in zip(seeds, scores, strict=True):
        record.add(f"{problem.name}/test_log_likelihood/seed_{seed}", score)
    late_drops = [estimator.convergence_.late_drop for estimator in estimators]
    record.add_mean(f"{problem.name}/late_drop", late_drops)
