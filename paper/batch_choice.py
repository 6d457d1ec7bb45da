"""Gain of choosing a batch of five points jointly over the five best individually.

Ensembles fitted to the initial data of Table 1 choose from pools of 50. The information of a batch
S is that of the Gaussian model behind the joint choice, ``½ log det(1 + C_SS / σ²)``: unlike a sum
of individual informations, it accounts for the overlap between points.
"""

from pathlib import Path

import numpy as np

from paper.fits import fit_seeds, settings, split_jointly
from paper.learning_problems import LEARNING_PROBLEMS
from paper.markdown import markdown, mean_and_error, metrics
from paper.records import Context, Record
from twofold import BNNLVRegressor
from twofold.active import choose_batch, choose_best, epistemic_score, random_score

SEEDS = [2000, 2001, 2002, 2003, 2004]
PROBLEMS = ("heteroscedastic", "bimodal")
POOLS, POOL, TAKEN = 40, 50, 5


def compare_choices(context: Context) -> Record:
    """Fit, choose in three ways, and compare."""
    seeds, pools = (SEEDS[:2], 2) if context.smoke else (SEEDS, POOLS)
    record = Record("batch_choice", {"pools": pools, "pool": POOL, "taken": TAKEN}, seeds)
    for name in PROBLEMS:
        problem = LEARNING_PROBLEMS[name]
        data = [problem.initial(seed) for seed in seeds]
        checkpoint = context.work / f"batch_choice-{name}.checkpoint"
        models = fit_seeds(settings("ensemble", context.smoke), seeds, data, checkpoint)
        taught = np.array(
            [
                np.mean([_teach(model, problem.pool(s, n, POOL), n) for n in range(pools)], axis=0)
                for model, s in zip(models, seeds, strict=True)
            ]
        )
        for column, choice in zip(taught.T, ("one_by_one", "together", "random"), strict=True):
            record.add_mean(f"{name}/{choice}/information", column)
        record.add_mean(f"{name}/gain", taught[:, 1] / taught[:, 0] - 1.0)
    return record


def _teach(model: BNNLVRegressor, pool: np.ndarray, seed: int) -> list[float]:
    """Information of the five individually best points, of a joint batch, and of five random
    points."""
    scores = epistemic_score(split_jointly(model, pool))
    means, variances = model.conditional_moments(pool)
    noise = variances.mean(axis=0)
    chosen = (
        choose_best(scores, TAKEN),
        choose_batch(scores, means, noise, TAKEN),
        choose_best(random_score(seed, len(pool)), TAKEN),
    )
    covariance = np.cov(means[:, 0], rowvar=False)
    return [joint_information(covariance, noise[0], points) for points in chosen]


def joint_information(covariance: np.ndarray, noise: np.ndarray, points: np.ndarray) -> float:
    """``½ log det(1 + C_SS / σ²)`` in nats."""
    share = covariance[np.ix_(points, points)] / noise[points][:, None]
    return 0.5 * float(np.linalg.slogdet(np.eye(len(points)) + share)[1])


def tabulate_choices(results: Path) -> str:
    """Information of five points, chosen individually, jointly, or at random."""
    values = metrics("batch_choice", results)
    rows = [
        [
            problem,
            *(
                mean_and_error(values, f"{problem}/{choice}/information", 3)
                for choice in ("random", "one_by_one", "together")
            ),
            f"{values[f'{problem}/gain/mean']:+.1%} ± {values[f'{problem}/gain/se']:.1%}",
        ]
        for problem in PROBLEMS
    ]
    headings = ["problem", "at random", "the five best", "five together", "gain over the best"]
    return markdown(headings, rows)
