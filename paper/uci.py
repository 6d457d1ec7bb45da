"""Does it predict well? The UCI regression sets with their published splits.

One setting for all sets, chosen on rows held out of training rows (docs/experiments.md); all splits
of a set are fitted in one program.
"""

import hashlib
import io
import os
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone

from paper.fits import fit_complete
from paper.markdown import markdown, mean_and_error, metrics
from paper.records import Context, Record
from twofold import BNNLVRegressor
from twofold.core.jobs import Job, run_jobs
from twofold.core.persistence import hash_identity
from twofold.estimators.storage import plain_settings
from twofold.inference.method import nest_options
from twofold.uncertainty.metrics import rmse

SETS = ("concrete", "energy", "kin8nm", "power-plant", "wine-quality-red")
HIDDEN = (50, 50)
# Test log-likelihoods of PBP, MC-dropout, the same of 100 times the epochs, and Deep Ensembles.
PUBLISHED = {
    "concrete": (-3.16, -3.04, -2.94, -3.06),
    "energy": (-2.04, -1.99, -1.21, -1.38),
    "kin8nm": (0.90, 0.95, 1.14, 1.20),
    "power-plant": (-2.84, -2.80, -2.81, -2.79),
    "wine-quality-red": (-0.97, -0.93, -0.93, -0.94),
}

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


def score_sets(context: Context) -> Record:
    """Fit and score all splits with the paper's inference; two of each set in a smoke run."""
    return _score({"inference": "alpha"}, "", context)


def score_sets_by_default(context: Context) -> Record:
    """The same with the estimator's default inference."""
    return _score({}, "/default", context)


def _score(settings: dict[str, Any], place: str, context: Context) -> Record:
    """Every set is a job."""
    estimator = BNNLVRegressor(
        HIDDEN, **nest_options({"epochs": 1 if context.smoke else None, **settings})
    )
    record = Record("uci", {"estimator": plain_settings(estimator)}, seeds=[0])
    limit, work = 2 if context.smoke else None, context.work.resolve()
    jobs = []
    for name in SETS:
        path = data_folder().resolve() / f"{name}.npz"
        digest = digest_of(path)
        identity = {
            "set": name,
            "data": digest,
            "settings": plain_settings(estimator),
            "limit": limit,
        }
        arguments = f"{name}{place}", path, digest, limit, estimator, work
        jobs.append(Job(f"{name}{place}", score_set, arguments, identity))
    for found in run_jobs(jobs, work / "jobs", context.executor or "local"):
        record.metrics |= found
    return record


def score_set(
    place: str,
    path: Path,
    digest: str | None,
    limit: int | None,
    estimator: BNNLVRegressor,
    work: Path,
) -> dict[str, float]:
    """The metrics of one set, whose file must have that digest, under ``place``."""
    splits = load_splits(path, limit)
    if digest_of(path) != digest:
        raise ValueError(f"{path} has changed since the sweep began; start it again")
    record = Record("uci", {}, seeds=[0])
    settings = estimator.get_params(deep=False)
    made_of = hash_identity({"data": digest, "limit": limit, "settings": settings})
    checkpoint = work / f"uci-{place.replace('/', '-')}-{made_of[:12]}.checkpoint"
    models = [
        clone(estimator).set_params(random_state=i, checkpoint=checkpoint)
        for i in range(len(splits))
    ]
    fit_complete(models, [split[:2] for split in splits])
    tests = [split[2:] for split in splits]
    scores = [m.log_likelihood(x, y).mean() for m, (x, y) in zip(models, tests, strict=True)]
    errors = [rmse(y, model.predict(x)) for model, (x, y) in zip(models, tests, strict=True)]
    record.add_mean(f"{place}/test_log_likelihood", scores)
    record.add_mean(f"{place}/rmse", errors)
    record.add(f"{place}/splits", len(splits))
    record.add(f"{place}/noise_std/mean", np.mean([model.noise_std_[0] for model in models]))
    return record.metrics


def tabulate_scores(results: Path) -> str:
    """Test log-likelihood and RMSE on the UCI sets beside published numbers."""
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
    own = ["twofold, ensemble", "twofold, α = 1"]
    return markdown(["set", *own, *peers, "RMSE, ensemble", "RMSE, α = 1"], rows)
