"""Does the paper's inference converge on the paper's toy problems?

Each seed has its own 750 training points, test set and start of the fit; the score is the mean test
log-likelihood, compared with that of the true process (the oracle).
"""

from pathlib import Path

import numpy as np

from paper.fits import fit_seeds
from paper.markdown import markdown, mean_and_error, metrics
from paper.records import Context, Record
from twofold import BNNLVRegressor
from twofold.envs.toy import TOY_PROBLEMS
from twofold.estimators.storage import plain_settings
from twofold.inference.method import nest_options

TEST_SIZE = 500
# Seeds that were not used to choose the defaults.
SEEDS = [1000, 1001, 1002, 1003, 1004]


def score_toy_fits(context: Context) -> Record:
    """Fit both problems with the paper's inference."""
    seeds, epochs = (SEEDS[:2], 3) if context.smoke else (SEEDS, None)
    own = {"inference": "alpha", "epochs": epochs}
    settings = {
        "test_size": TEST_SIZE,
        "estimator": plain_settings(BNNLVRegressor(**nest_options(own))),
    }
    record = Record("toy_fit", settings, seeds)
    for name, problem in TOY_PROBLEMS.items():
        data = [problem.training_data(seed) for seed in seeds]
        models = fit_seeds(own, seeds, data, context.work / f"toy_fit-{name}.checkpoint")
        tests = [problem.test_data(seed, TEST_SIZE) for seed in seeds]
        scores = [m.log_likelihood(*test).mean() for m, test in zip(models, tests, strict=True)]
        oracle = [problem.log_density(x[:, 0], y).mean() for x, y in tests]
        record.add_mean(f"{name}/test_log_likelihood", scores)
        record.add(f"{name}/oracle/test_log_likelihood", np.mean(oracle))
        for seed, score in zip(seeds, scores, strict=True):
            record.add(f"{name}/test_log_likelihood/seed_{seed}", score)
        record.add_mean(f"{name}/late_drop", [model.convergence_.late_drop for model in models])
    return record


def tabulate_scores(results: Path) -> str:
    """Test log-likelihood on the toy problems compared with the oracle."""
    values = metrics("toy_fit", results)
    rows = [
        [
            problem,
            mean_and_error(values, f"{problem}/test_log_likelihood"),
            f"{values[f'{problem}/oracle/test_log_likelihood']:.2f}",
        ]
        for problem in TOY_PROBLEMS
    ]
    return markdown(["problem", "test log-likelihood", "true process"], rows)
