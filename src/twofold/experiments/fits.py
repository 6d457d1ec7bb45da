"""Fits of an experiment: whole ones only."""

import warnings
from collections.abc import Sequence
from typing import Any

from twofold import BNNLVRegressor, fit_many
from twofold.estimators.training import InterruptedFitWarning


def fit_whole(estimators: Sequence[BNNLVRegressor], X: Any, y: Any) -> None:
    """``fit_many``, but a fit stopped by Ctrl-C ends the experiment: half a fit is no result.

    What was done lies in the checkpoint, and the same command goes on from there.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("error", InterruptedFitWarning)
        try:
            fit_many(estimators, X, y)
        except InterruptedFitWarning as stopped:
            raise SystemExit("stopped by Ctrl-C; the same command continues from here") from stopped
