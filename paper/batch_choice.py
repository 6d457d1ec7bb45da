"""What choosing five points together gains over the five best one by one.

Ensembles fitted to the data that Table 1 begins with look at pools of 50. What a batch S teaches is
that of the Gaussian model behind the joint choice, ``½ log det(1 + C_SS / σ²)``: the determinant
counts what the points have in common, which a sum of their own information does not.
"""

from pathlib import Path

import numpy as np

from paper.fits import entropies, fit_whole
from paper.learning_problems import LEARNING_PROBLEMS
from paper.records import Record
from twofold import BNNLVRegressor
from twofold.active import choose_batch, choose_best, epistemic_score, random_score

SEEDS = [2000, 2001, 2002, 2003, 2004]
PROBLEMS = ("heteroscedastic", "bimodal")
POOLS, POOL, TAKEN = 40, 50, 5


def run(smoke: bool, work: Path) -> Record:
    """Fit, choose in three ways, and compare; ``smoke`` is a rehearsal."""
    seeds, pools = (SEEDS[:2], 2) if smoke else (SEEDS, POOLS)
    record = Record("batch_choice", {"pools": pools, "pool": POOL, "taken": TAKEN}, seeds)
    for name in PROBLEMS:
        problem = LEARNING_PROBLEMS[name]
        data = [problem.initial(seed) for seed in seeds]
        models = [
            BNNLVRegressor(
                random_state=seed,
                epochs=2 if smoke else None,
                checkpoint=work / f"batch_choice-{name}.checkpoint",
            )
            for seed in seeds
        ]
        fit_whole(models, [own.x for own in data], [own.y for own in data])
        taught = np.array(
            [
                np.mean([_taught(model, problem.pool(s, n, POOL), n) for n in range(pools)], axis=0)
                for model, s in zip(models, seeds, strict=True)
            ]
        )
        for column, choice in zip(taught.T, ("one_by_one", "together", "random"), strict=True):
            record.add_mean(f"{name}/{choice}/information", column)
        record.add_mean(f"{name}/gain", taught[:, 1] / taught[:, 0] - 1.0)
    return record


def _taught(model: BNNLVRegressor, pool: np.ndarray, seed: int) -> list[float]:
    """Information of the five best one by one, of five together, and of five at random."""
    scores = epistemic_score(entropies(model, pool))
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
