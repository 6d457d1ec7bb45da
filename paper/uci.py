"""Does it predict well? The UCI regression sets with their published splits.

One setting for all sets, chosen on rows held out of training rows (docs/experiments.md); all splits
of a set are fitted in one program.
"""

import hashlib
import io
import json
import os
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from paper.fits import fit_whole
from paper.records import Record
from twofold import BNNLVRegressor
from twofold.core import persistence
from twofold.core.jobs import Job, run_jobs
from twofold.estimators.validation import plain

SETS = ("concrete", "energy", "kin8nm", "power-plant", "wine-quality-red")
HIDDEN = (50, 50)
DEFAULT = "/default"

Split = tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]


def data_folder() -> Path:
    """Where the sets lie: ``$TWOFOLD_DATA/uci``, or ``../shared/data/uci``."""
    return Path(os.environ.get("TWOFOLD_DATA", "../shared/data")) / "uci"


def set_bytes(path: Path) -> bytes:
    """The file of a set."""
    if not path.exists():
        raise FileNotFoundError(
            f"no data set at {path}; set TWOFOLD_DATA to the folder that holds uci/"
        )
    return path.read_bytes()


def digest_of(path: Path) -> str | None:
    """SHA-256 of the file of a set; None where there is none, which its own job will say."""
    return hashlib.sha256(path.read_bytes()).hexdigest() if path.is_file() else None


def load_splits(path: Path, limit: int | None = None) -> list[Split]:
    """Training inputs and outputs, test inputs and outputs, of each published split."""
    with np.load(io.BytesIO(set_bytes(path))) as file:
        X, y = file["X"], file["y"]
        tests = [file[f"test_{i}"] for i in range(int(file["n_splits"]))]
    splits = []
    for test in tests[:limit]:
        train = np.setdiff1d(np.arange(len(y)), test)
        splits.append((X[train], y[train], X[test], y[test]))
    return splits


def run(smoke: bool, work: Path, executor: str | None = None) -> Record:
    """Fit and score all splits with the paper's inference; ``smoke`` is a rehearsal on two."""
    return _run({"inference": "alpha"}, "", smoke, work, executor)


def run_default(smoke: bool, work: Path, executor: str | None = None) -> Record:
    """The same with the estimator's default inference."""
    return _run({}, DEFAULT, smoke, work, executor)


def _run(
    settings: dict[str, Any], place: str, smoke: bool, work: Path, executor: str | None
) -> Record:
    """Every set is a job."""
    estimator = BNNLVRegressor(HIDDEN, epochs=1 if smoke else None, **settings)
    record = Record("uci", {"estimator": estimator.get_params()}, seeds=[0])
    limit, data, work = 2 if smoke else None, data_folder().resolve(), work.resolve()
    jobs = []
    for name in SETS:
        digest = digest_of(data / f"{name}.npz")
        arguments = name, place, limit, estimator, data, digest, work
        identity = {
            "set": name,
            "data": digest,
            "settings": plain(estimator.get_params()),
            "limit": limit,
        }
        jobs.append(Job(f"{name}{place}", metrics_of, arguments, identity))
    for metrics in run_jobs(jobs, work / "jobs", executor or "local"):
        record.metrics |= metrics
    return record


def metrics_of(
    name: str,
    place: str,
    limit: int | None,
    estimator: BNNLVRegressor,
    data: Path,
    digest: str | None,
    work: Path,
) -> dict[str, float]:
    """What the record says of one set, whose file is to be the one of that digest."""
    record = Record("uci", {}, seeds=[0])
    path = data / f"{name}.npz"
    splits = load_splits(path, limit)
    if digest_of(path) != digest:
        raise ValueError(f"{path} has changed since the sweep began; start it again")
    measure(f"{name}{place}", splits, estimator, work, record)
    return record.metrics


def measure(
    place: str, splits: list[Split], estimator: BNNLVRegressor, work: Path, record: Record
) -> None:
    """Add one set's metrics to the record, under ``place``."""
    checkpoint = work / f"uci-{place.replace('/', '-')}-{_fit_of(splits, estimator)}.checkpoint"
    estimators = [
        clone(estimator).set_params(random_state=i, checkpoint=checkpoint)
        for i in range(len(splits))
    ]
    fit_whole(estimators, [split[0] for split in splits], [split[1] for split in splits])
    scores, errors = [], []
    for estimator, (_, _, x, y) in zip(estimators, splits, strict=True):
        scores.append(estimator.log_likelihood(x, y).mean())
        errors.append(np.sqrt(np.mean(np.square(estimator.predict(x) - y))))
    record.add_mean(f"{place}/test_log_likelihood", scores)
    record.add_mean(f"{place}/rmse", errors)
    record.add(f"{place}/splits", len(splits))
    record.add(f"{place}/noise_std/mean", np.mean([e.noise_std_[0] for e in estimators]))


def _fit_of(splits: list[Split], estimator: BNNLVRegressor) -> str:
    """A name for a fit: other data or settings are another one."""
    data = persistence.fingerprint(*(part for split in splits for part in split))
    made_of = json.dumps([data, plain(estimator.get_params())], sort_keys=True, default=str)
    return hashlib.sha256(made_of.encode()).hexdigest()[:12]
