"""``cross_validate``: how well a model predicts rows that it has not seen."""

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import clone
from sklearn.metrics import root_mean_squared_error
from sklearn.model_selection import check_cv

from twofold.core import persistence
from twofold.core.executors import Executor, Job, LocalExecutor, run
from twofold.estimators.training import whole_fits
from twofold.estimators.validation import plain

ASIDE = ("checkpoint", "checkpoint_seconds", "verbose")  # settings that decide no score


class Scores(NamedTuple):
    """For each fold the mean log-likelihood of a held-out row and the root mean squared error."""

    log_likelihood: np.ndarray
    rmse: np.ndarray


def cross_validate(
    estimator: Any,
    X: Any,
    y: Any,
    folds: Any = 5,
    *,
    executor: Executor | None = None,
    folder: str | Path | None = None,
) -> Scores:
    """Fit a clone to each fold's training rows and score it on the others, each fold a job.

    Parameters
    ----------
    estimator : BNNLVRegressor
    folds : int, scikit-learn splitter or list of pairs of row numbers
        As ``cv`` of scikit-learn: a number cuts the rows as they stand into so many blocks.
    executor : Executor or None
        Where the folds are fitted (None: here, one by one).
    folder : path or None
        Where the scores of finished folds are kept; the same call does only what is missing.
    """
    X, y = np.asarray(X), np.asarray(y)
    settings = plain(estimator.get_params())
    deciding = {name: value for name, value in settings.items() if name not in ASIDE}
    data = persistence.fingerprint(X, y)
    jobs = []
    for number, (train, test) in enumerate(check_cv(folds).split(X, y)):
        rows = persistence.fingerprint(np.asarray(train), np.asarray(test))
        identity = {"settings": deciding, "data": data, "rows": rows}
        own = clone(estimator)
        if settings.get("checkpoint") is not None:
            own.set_params(checkpoint=Path(f"{settings['checkpoint']}.{number}").resolve())
        arguments = own, X, y, train, test
        jobs.append(Job(f"fold {number}", scored, arguments, identity))
    found = run(executor or LocalExecutor(), jobs, folder)
    return Scores(*np.array(found).T)


def scored(
    estimator: Any, X: np.ndarray, y: np.ndarray, train: np.ndarray, test: np.ndarray
) -> list[float]:
    """Log-likelihood and error on some rows after a fit to others."""
    with whole_fits():
        estimator.fit(X[train], y[train])
    score = np.mean(estimator.log_likelihood(X[test], y[test]))
    return [float(score), float(root_mean_squared_error(y[test], estimator.predict(X[test])))]
