"""Are the predictive distributions calibrated on the toy problems? Coverage, PIT, CRPS,
log-likelihood.

For each seed, all methods predict the same test points, uniform over the input range; scores are
means over seeds.
"""

from pathlib import Path

import numpy as np

from paper.fits import FITTED_METHODS, LABELS, Fit, found_methods, load_or_fit, settings
from paper.markdown import markdown, mean_and_error, metrics
from paper.records import Context, Record
from twofold import BNNLVRegressor
from twofold.envs.toy import TOY_PROBLEMS, ToyProblem
from twofold.report import Scores, draw_calibration
from twofold.uncertainty.metrics import calibration_error, chance_calibration_error, crps, pit, rmse

SEEDS = [0, 1, 2, 3, 4]
TEST_SIZE = 500
SAMPLES = 1000


def score_calibration(context: Context) -> Record:
    """Score all methods on both problems; the figures show the first seed."""
    seeds, samples = (SEEDS[:2], 20) if context.smoke else (SEEDS, SAMPLES)
    chosen = {method: settings(method, context.smoke) for method in FITTED_METHODS}
    record = Record("calibration", {"methods": chosen, "samples": samples}, seeds)
    fits = [Fit(p, method, s) for p in TOY_PROBLEMS for method in FITTED_METHODS for s in seeds]
    models = load_or_fit(fits, context.smoke, context.work)
    record.add("calibration_error_by_chance", chance_calibration_error(TEST_SIZE))
    for name, problem in TOY_PROBLEMS.items():
        first = {}
        for method in FITTED_METHODS:
            results = [score(problem, s, models[Fit(name, method, s)], samples) for s in seeds]
            record.add_means(f"{name}/{method}", [summary for _, summary in results])
            first[LABELS[method]] = results[0][0]
        figure = draw_calibration(first)
        figure.suptitle(name)
        figure.savefig(context.output / f"calibration_{name}.png", dpi=100)
    return record


def score(
    problem: ToyProblem, seed: int, model: BNNLVRegressor, samples: int
) -> tuple[Scores, dict[str, float]]:
    """Scores of each test point, and their summary."""
    x, y = problem.test_data(seed, TEST_SIZE)
    draws = model.sample(x, samples)
    scores = Scores(pit(draws, y), crps(draws, y), model.log_likelihood(x, y))
    return scores, {
        "calibration_error": calibration_error(scores.pit),
        "crps": np.mean(scores.crps),
        "test_log_likelihood": np.mean(scores.log_density),
        "rmse": float(rmse(y, model.predict(x))),
    }


def tabulate_scores(results: Path) -> str:
    """Quality of the predictive distributions on the toy problems."""
    values = metrics("calibration", results)
    names = ("calibration_error", "crps", "rmse", "test_log_likelihood")
    rows = [
        [
            f"{problem}, {LABELS[method]}",
            *(mean_and_error(values, f"{problem}/{method}/{name}", 3) for name in names),
        ]
        for problem in TOY_PROBLEMS
        for method in found_methods(FITTED_METHODS, values)
    ]
    return markdown(["", "calibration error", "CRPS", "RMSE", "log-likelihood"], rows)
