"""Fits of an experiment, whole ones only, and their entropies."""

import warnings
from collections.abc import Sequence
from typing import Any

import numpy as np

from twofold import BNNLVRegressor, Decomposition, fit_many
from twofold.estimators.training import whole_fits

CONTINUED = "the same command continues from here"


def fit_whole(
    estimators: Sequence[BNNLVRegressor], X: Any, y: Any, capacity: int | None = None
) -> None:
    """``fit_many``, but a fit stopped by Ctrl-C ends the experiment: half a fit is no result.

    What was done lies in a checkpoint, and the same command goes on from there.
    """
    with whole_fits(CONTINUED):
        fit_many(estimators, X, y, capacity=capacity)


def entropies(model: BNNLVRegressor, x: np.ndarray) -> Decomposition:
    """The split by entropy, jointly over outputs; over draws where the noise is too narrow for a
    grid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        split = model.decompose(x, joint=True)
        if not np.isfinite(split.total).all():
            split = model.decompose(x, joint=True, estimator="mixture")
    return split
