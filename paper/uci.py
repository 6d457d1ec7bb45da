"""Predictive performance on the UCI regression sets with their published splits.

One setting for all sets, chosen on held-out training rows (docs/experiments.md). Five splits of a
set at a time are fitted in one program, so that they fit into memory and finished groups are
stored.
"""

import hashlib
import io
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from paper.fits import fit_complete, judged_settings
from paper.markdown import markdown, mean_and_error, metrics
from paper.records import Context, Record
from twofold import BNNLVRegressor
from twofold.core.jobs import Job, run_jobs
from twofold.core.persistence import hash_identity
from twofold.estimators.linear import LinearGaussian
from twofold.estimators.storage import plain_settings
from twofold.estimators.training import remove_checkpoint
from twofold.inference.method import nest_options
from twofold.uncertainty.metrics import rmse

SETS = ("concrete", "energy", "kin8nm", "power-plant", "wine-quality-red")
HIDDEN = (50, 50)
GROUP = 5
SMOKE_SPLITS, SMOKE_ROWS = 2, 100
# Test log-likelihoods of PBP, MC-dropout, MC-dropout with 100 times the epochs, and Deep Ensembles.
PUBLISHED = {
    "concrete": (-3.16, -3.04, -2.94, -3.06),
    "energy": (-2.04, -1.99, -1.21, -1.38),
    "kin8nm": (0.90, 0.95, 1.14, 1.20),
    "power-plant": (-2.84, -2.80, -2.81, -2.79),
    "wine-quality-red": (-0.97, -0.93, -0.93, -0.94),
}

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def data_folder() -> Path:
    """The folder of the sets: ``$TWOFOLD_DATA/uci``, or ``../shared/data/uci``."""
    return Path(os.environ.get("TWOFOLD_DATA", "../shared/data")) / "uci"


def set_bytes(path: Path) -> bytes:
    """The file of a set."""
    if not path.exists():
        raise FileNotFoundError(
            f"no data set at {path}; set TWOFOLD_DATA to the folder that holds uci/"
        )
    return path.read_bytes()


def digest_of(path: Path) -> str | None:
    """SHA-256 of the file of a set; None if it is missing, which its job reports."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def load_splits(path: Path, numbers: Sequence[int], rows: int | None = None) -> list[Split]:
    """Training inputs and outputs (at most ``rows``) and test inputs and outputs of some published
    splits."""
    with np.load(io.BytesIO(set_bytes(path))) as file:
        X, y = file["X"], file["y"]
        tests = [file[f"test_{i}"] for i in numbers]
    splits = []
    for test in tests:
        train = np.setdiff1d(np.arange(len(y)), test)[:rows]
        splits.append((X[train], y[train], X[test], y[test]))
    return splits


def count_splits(path: Path) -> int:
    """Number of splits in the file of a set."""
    with np.load(io.BytesIO(set_bytes(path))) as file:
        return int(file["n_splits"])


def group_splits(count: int) -> list[list[int]]:
    """The numbers of the splits that are fitted together."""
    numbers = list(range(count))
    return [numbers[first : first + GROUP] for first in range(0, count, GROUP)]


def score_sets(context: Context) -> Record:
    """Fit and score all splits with the paper's inference; in a smoke run two of each set, on few
    rows."""
    settings = {"hidden_layer_sizes": HIDDEN, "inference": "alpha"}
    return _score(settings | {"epochs": 1 if context.smoke else None}, "", context)


def score_sets_by_default(context: Context) -> Record:
    """Score with the estimator's default inference and hidden layers."""
    return _score(judged_settings("twofold", context.smoke), "/default", context)


def _score(settings: dict[str, Any], place: str, context: Context) -> Record:
    """Score all sets; every group of splits is a job."""
    estimator = BNNLVRegressor(**nest_options(settings))
    record = Record("uci", {"estimator": plain_settings(estimator), "group": GROUP}, seeds=[0])
    work, sets, jobs = context.work.resolve(), [], []
    rows = SMOKE_ROWS if context.smoke else None
    for name in SETS:
        path = data_folder().resolve() / f"{name}.npz"
        digest = digest_of(path)
        # A missing set has one group, whose job reports it.
        count = GROUP if digest is None else count_splits(path)
        for splits in group_splits(min(count, SMOKE_SPLITS) if context.smoke else count):
            identity = {
                "set": name,
                "data": digest,
                "settings": plain_settings(estimator),
                "splits": splits,
                "rows": rows,
            }
            title = f"{name}{place}, splits {splits[0]} to {splits[-1]}"
            arguments = f"{name}{place}", path, digest, splits, estimator, work, rows
            jobs.append(Job(title, score_splits, arguments, identity))
            sets.append(name)
    found = run_jobs(jobs, work / "jobs", context.executor or "local")
    for name in SETS:
        own = [one for one, other in zip(found, sets, strict=True) if other == name]
        add_scores(record, f"{name}{place}", [split for group in own for split in group])
    return record


def score_splits(
    place: str,
    path: Path,
    digest: str | None,
    numbers: list[int],
    estimator: BNNLVRegressor,
    work: Path,
    rows: int | None = None,
) -> list[dict[str, float]]:
    """Scores of some splits of a set, whose file must have the given digest."""
    splits = load_splits(path, numbers, rows)
    if digest_of(path) != digest:
        raise ValueError(f"{path} has changed since the sweep began; start it again")
    settings = estimator.get_params(deep=False)
    made_of = hash_identity({"data": digest, "splits": numbers, "settings": settings})
    checkpoint = work / f"uci-{place.replace('/', '-')}-{made_of[:12]}.checkpoint"
    models = [clone(estimator).set_params(random_state=i, checkpoint=checkpoint) for i in numbers]
    fit_complete(models, [split[:2] for split in splits])
    remove_checkpoint(checkpoint)
    return [score_split(model, split) for model, split in zip(models, splits, strict=True)]


def score_split(model: BNNLVRegressor, split: Split) -> dict[str, float]:
    """Scores of a fit to one split, and of a linear model fitted to the same rows."""
    x, y, test_x, test_y = split
    linear = LinearGaussian.fit(x, y)
    return {
        "test_log_likelihood": float(model.log_likelihood(test_x, test_y).mean()),
        "rmse": float(rmse(test_y, model.predict(test_x))),
        "noise_std": float(model.noise_std_[0]),
        "linear": float(linear.log_likelihood(test_x, test_y).mean()),
    }


def add_scores(record: Record, place: str, splits: Sequence[Mapping[str, float]]) -> None:
    """Add summaries of the scores of all splits of a set, under ``place``."""
    scores = [one["test_log_likelihood"] for one in splits]
    record.add_mean(f"{place}/test_log_likelihood", scores)
    record.add(f"{place}/test_log_likelihood/min", min(scores))
    record.add_mean(f"{place}/rmse", [one["rmse"] for one in splits])
    record.add(f"{place}/splits", len(splits))
    below = [one["test_log_likelihood"] < one["linear"] for one in splits]
    record.add(f"{place}/splits_below_linear", sum(below))
    record.add(f"{place}/noise_std/mean", np.mean([one["noise_std"] for one in splits]))


def tabulate_scores(results: Path) -> str:
    """Test log-likelihood and RMSE on the UCI sets compared with published numbers."""
    values = metrics("uci", results)
    rows = [
        [
            name,
            mean_and_error(values, f"{name}/default/test_log_likelihood"),
            mean_and_error(values, f"{name}/test_log_likelihood"),
            *(f"{number:.2f}" for number in published),
            mean_and_error(values, f"{name}/default/rmse", 3),
            mean_and_error(values, f"{name}/rmse", 3),
        ]
        for name, published in PUBLISHED.items()
    ]
    peers = ["PBP", "MC-dropout", "MC-dropout ×100", "Deep Ensembles"]
    own = ["twofold, default", "twofold, α = 1"]
    return markdown(["set", *own, *peers, "RMSE, default", "RMSE, α = 1"], rows)


def tabulate_worst(results: Path) -> str:
    """The default's worst train/test split of each set, and how often a linear model is better."""
    values = metrics("uci", results)
    rows = [
        [
            name,
            f"{values[f'{name}/default/test_log_likelihood/mean']:.2f}",
            f"{values[f'{name}/default/test_log_likelihood/min']:.2f}",
            f"{values[f'{name}/default/splits_below_linear']:.0f}"
            f" of {values[f'{name}/default/splits']:.0f}",
        ]
        for name in PUBLISHED
    ]
    headings = ["set", "mean over splits", "worst split", "splits below a linear model"]
    return markdown(headings, rows)
