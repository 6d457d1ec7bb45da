"""What choosing points together gains over the best ones one by one.

Ensembles look at pools, either as Table 1 begins or with few data and large batches. What a batch S
teaches is that of the Gaussian model behind the joint choice, ``½ log det(1 + C_SS / σ²)``: the
determinant counts what the points have in common, which a sum of their own information does not.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np

from twofold import BNNLVRegressor
from twofold.active.acquisition import best, epistemic_score, random_score
from twofold.active.batch import best_together
from twofold.experiments.fits import entropies, fit_whole
from twofold.experiments.learning_problems import LEARNING_PROBLEMS
from twofold.experiments.records import Record

SEEDS = [2000, 2001, 2002, 2003, 2004]
PROBLEMS = ("heteroscedastic", "bimodal")
POOLS = 40


class Regime(NamedTuple):
    """How many data there are (None: all that Table 1 begins with), candidates, and a batch."""

    rows: int | None
    pool: int
    taken: int


REGIMES = {"as_in_table1": Regime(None, 50, 5), "few_data": Regime(40, 250, 25)}


def run(smoke: bool, work: Path) -> Record:
    """Fit, choose in three ways, and compare; ``smoke`` is a rehearsal."""
    seeds, pools = (SEEDS[:2], 2) if smoke else (SEEDS, POOLS)
    regimes = {name: regime._asdict() for name, regime in REGIMES.items()}
    record = Record("batch_choice", {"pools": pools, "regimes": regimes}, seeds)
    for regime_name, regime in REGIMES.items():
        for name in PROBLEMS:
            place = f"{name}/{regime_name}"
            checkpoint = work / f"batch_choice-{name}-{regime_name}.checkpoint"
            models = _models(name, regime, seeds, 2 if smoke else None, checkpoint)
            problem = LEARNING_PROBLEMS[name]
            found = [
                [
                    _taught(model, problem.pool(seed, n, regime.pool), regime.taken, n)
                    for n in range(pools)
                ]
                for model, seed in zip(models, seeds, strict=True)
            ]
            taught = np.mean(found, axis=1)
            for column, choice in zip(taught.T, ("one_by_one", "together", "random"), strict=True):
                record.add_mean(f"{place}/{choice}/information", column)
            record.add_mean(f"{place}/gain", taught[:, 1] / taught[:, 0] - 1.0)
    return record


def _models(
    name: str, regime: Regime, seeds: list[int], epochs: int | None, checkpoint: Path
) -> list[BNNLVRegressor]:
    """Ensembles of the data that a repetition begins with, or of some of them."""
    data = [LEARNING_PROBLEMS[name].initial(seed) for seed in seeds]
    models = [
        BNNLVRegressor(random_state=seed, epochs=epochs, checkpoint=checkpoint) for seed in seeds
    ]
    fit_whole(
        models, [own.x[: regime.rows] for own in data], [own.y[: regime.rows] for own in data]
    )
    return models


def _taught(model: BNNLVRegressor, pool: np.ndarray, num: int, seed: int) -> list[float]:
    """Information of the best points one by one, of those together, and of some at random."""
    scores = epistemic_score(entropies(model, pool))
    means, variances = model.conditional_moments(pool)
    noise = variances.mean(axis=0)
    chosen = (
        best(scores, num),
        best_together(scores, means, noise, num),
        best(random_score(seed, len(pool)), num),
    )
    covariance = np.cov(means[:, 0], rowvar=False)
    return [joint_information(covariance, noise[0], points) for points in chosen]


def joint_information(covariance: np.ndarray, noise: np.ndarray, points: np.ndarray) -> float:
    """``½ log det(1 + C_SS / σ²)`` in nats."""
    share = covariance[np.ix_(points, points)] / noise[points][:, None]
    return 0.5 * float(np.linalg.slogdet(np.eye(len(points)) + share)[1])
