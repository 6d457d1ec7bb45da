"""Does it predict well? The UCI regression sets with their published splits.

One setting for all sets, chosen on rows held out of training rows (docs/experiments.md); all splits
of a set are fitted in one program.
"""

import os
from pathlib import Path

import numpy as np

from twofold import BNNLVRegressor
from twofold.experiments.fits import fit_whole
from twofold.experiments.records import Record

SETS = ("concrete", "energy", "kin8nm", "power-plant", "wine-quality-red")
HIDDEN = (50, 50)

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def data_folder() -> Path:
    """Where the sets lie: ``$TWOFOLD_DATA/uci``, or ``../shared/data/uci``."""
    return Path(os.environ.get("TWOFOLD_DATA", "../shared/data")) / "uci"


def load_splits(path: Path, limit: int | None = None) -> list[Split]:
    """Training inputs and outputs, test inputs and outputs, of each published split."""
    if not path.exists():
        raise FileNotFoundError(
            f"no data set at {path}; set TWOFOLD_DATA to the folder that holds uci/"
        )
    with np.load(path) as file:
        X, y = file["X"], file["y"]
        tests = [file[f"test_{i}"] for i in range(int(file["n_splits"]))]
    splits = []
    for test in tests[:limit]:
        train = np.setdiff1d(np.arange(len(y)), test)
        splits.append((X[train], y[train], X[test], y[test]))
    return splits


def run(smoke: bool, work: Path) -> Record:
    """Fit and score all splits of all sets; ``smoke`` is a quick rehearsal on two splits."""
    epochs, limit = (1, 2) if smoke else (None, None)
    settings = {"estimator": BNNLVRegressor(HIDDEN, epochs=epochs).get_params()}
    record = Record("uci", settings, seeds=[0])
    for name in SETS:
        splits = load_splits(data_folder() / f"{name}.npz", limit)
        measure(name, splits, epochs, work, record)
    return record


def measure(name: str, splits: list[Split], epochs: int | None, work: Path, record: Record) -> None:
    """Add one set's metrics to the record."""
    checkpoint = work / f"uci-{name}.checkpoint"
    estimators = [
        BNNLVRegressor(HIDDEN, epochs=epochs, random_state=i, checkpoint=checkpoint)
        for i in range(len(splits))
    ]
    fit_whole(estimators, [split[0] for split in splits], [split[1] for split in splits])
    scores, errors = [], []
    for estimator, (_, _, x, y) in zip(estimators, splits, strict=True):
        scores.append(estimator.log_likelihood(x, y).mean())
        errors.append(np.sqrt(np.mean(np.square(estimator.predict(x) - y))))
    record.add_mean(f"{name}/test_log_likelihood", scores)
    record.add_mean(f"{name}/rmse", errors)
    record.add(f"{name}/splits", len(splits))
    record.add(f"{name}/noise_std/mean", np.mean([e.noise_std_[0] for e in estimators]))
