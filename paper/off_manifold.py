"""Sixty inputs and a thin sheet of data: does the predicted error match the true one away from it?

Away from the sheet (``off``) and beyond its edge (``beyond``), at growing distances: share of the
points whose true mean lies in the central 90 % interval of ``E[y|x,W]`` (normal, from mean and
deviation over W), rank correlation of that deviation with the true error over all points, and
*fooled*: a careful optimiser takes the 2 % of the far points with the lowest upper bound (mean and
two deviations), and is fooled where the truth is higher than that.
"""

from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from paper.fits import fit_whole
from paper.jobs import METHODS as SETTINGS
from paper.manifold import Manifold
from paper.records import Record
from twofold import BNNLVRegressor

SEEDS = [0, 1, 2]
METHODS = ("ensemble", "ensemble_planning", "alpha_1", "sghmc", "vb")
HIDDEN = (40, 40)
DISTANCES = {"off": (0.0, 0.25, 0.5, 1.0, 2.0), "beyond": (1.0, 1.25, 1.5, 2.0, 3.0)}
LEVEL_90 = 1.645
CAREFUL = 2.0
TAKEN = 0.02


def run(smoke: bool, work: Path) -> Record:
    """Fit all methods to all seeds' data and look away from it; ``smoke`` is a rehearsal."""
    seeds, rows = (SEEDS[:2], 100) if smoke else (SEEDS, 2000)
    epochs = 2 if smoke else None
    record = Record(
        "off_manifold",
        {
            "methods": {method: SETTINGS[method] for method in METHODS},
            "hidden_layer_sizes": HIDDEN,
            "rows": rows,
            "epochs": epochs,
            "distances": DISTANCES,
        },
        seeds,
    )
    problems = [Manifold(seed) for seed in seeds]
    data = [problem.training_data(rows) for problem in problems]
    for method in METHODS:
        estimators = [
            BNNLVRegressor(
                HIDDEN,
                epochs=epochs,
                random_state=seed,
                checkpoint=work / f"off_manifold-{method}.checkpoint",
                **SETTINGS[method],
            )
            for seed in seeds
        ]
        fit_whole(estimators, [x for x, _ in data], [y for _, y in data])
        measure(method, problems, estimators, record)
    return record


def measure(
    method: str, problems: list[Manifold], estimators: list[BNNLVRegressor], record: Record
) -> None:
    """Add one method's metrics to the record."""
    for way in DISTANCES:
        found = [look(p, e, way) for p, e in zip(problems, estimators, strict=True)]
        for name in found[0]:
            record.add_mean(f"{way}/{method}/{name}", [one[name] for one in found])


def look(problem: Manifold, model: BNNLVRegressor, way: str) -> dict[str, float]:
    """What one fit says along one way out, in deviations of the training outputs."""
    numbers: dict[str, float] = {}
    deviations, errors, bounds, truths = [], [], [], []
    scale = model.y_standardizer_.scale[0]
    for index, distance in enumerate(DISTANCES[way]):
        x = getattr(problem, way)(distance)
        mean, truth = model.predict(x) / scale, problem.function(x) / scale
        variance = np.maximum(model.decompose(x, by="variance").epistemic, 0.0)
        deviation, error = np.sqrt(variance) / scale, np.abs(mean - truth)
        numbers[f"coverage_90/{distance}"] = np.mean(error <= LEVEL_90 * deviation)
        numbers[f"deviation/{distance}"] = deviation.mean()
        numbers[f"error/{distance}"] = error.mean()
        deviations.append(deviation)
        errors.append(error)
        if index:
            bounds.append(mean + CAREFUL * deviation)
            truths.append(truth)
    pooled = np.concatenate(deviations), np.concatenate(errors)
    numbers["rank_correlation"] = spearmanr(*pooled).statistic
    numbers["fooled"] = fooled(np.concatenate(bounds), np.concatenate(truths))
    return numbers


def fooled(bounds: np.ndarray, truths: np.ndarray) -> float:
    """Share of the points taken for their low bounds whose truth lies above it."""
    taken = np.argsort(bounds)[: max(1, int(TAKEN * len(bounds)))]
    return float(np.mean(truths[taken] > bounds[taken]))
