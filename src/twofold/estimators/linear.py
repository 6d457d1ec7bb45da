"""A linear model with Gaussian noise, the baseline."""

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import multivariate_normal, norm

from twofold.core.numerics import Standardizer

# Minimum residual variance, as a fraction of that of the output: keeps the density of a noise-free
# output finite.
LEAST_VARIANCE = 1e-6
FOLDS = 5


class LinearGaussian(NamedTuple):
    """``y = B x + b + ε``, ``ε ~ N(0, R)``, with R the covariance of the residuals; b and B, of
    standardised inputs, are the rows of ``coefficients``."""

    inputs: Standardizer
    coefficients: np.ndarray
    covariance: np.ndarray

    @classmethod
    def fit(
        cls, x: np.ndarray, y: np.ndarray, weights: np.ndarray | None = None
    ) -> "LinearGaussian":
        """Least squares for inputs ``[N, D]`` and outputs ``[N]`` or ``[N, O]``, rows weighted."""
        inputs, weights = Standardizer.fit(x), np.ones(len(x)) if weights is None else weights
        design, root = _add_constant(inputs.transform(x)), np.sqrt(weights)
        found = np.linalg.lstsq(root[:, None] * design, (root * y.T).T)
        coefficients, rank = found[0], found[2]
        residuals = (y - design @ coefficients).reshape(len(y), -1) * root[:, None]
        freedom = max(weights.sum() - rank, 1)
        variance = np.var(y, axis=0)
        least = LEAST_VARIANCE * np.where(variance > 0, variance, 1.0)
        covariance = residuals.T @ residuals / freedom + np.diag(np.atleast_1d(least))
        return cls(inputs, coefficients, covariance)

    def predict(self, x: np.ndarray) -> np.ndarray:
        return _add_constant(self.inputs.transform(x)) @ self.coefficients

    def log_likelihood(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """``log p(y | x)`` of each row, joint over outputs."""
        residuals = (y - self.predict(x)).reshape(len(y), -1)
        return np.atleast_1d(multivariate_normal(cov=self.covariance).logpdf(residuals))

    def crps(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """Continuous ranked probability score of each row and output ``[N, O]``, in closed form
        (Gneiting and Raftery 2007)."""
        deviation = np.sqrt(np.diag(self.covariance))
        z = (y - self.predict(x)).reshape(len(x), -1) / deviation
        return deviation * (z * (2.0 * norm.cdf(z) - 1.0) + 2.0 * norm.pdf(z) - np.pi**-0.5)


def cross_validate_linear(
    x: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray] | None:
    """``log p(y | x)`` ``[N]`` and CRPS ``[N, O]`` of each row, predicted by a ``LinearGaussian``
    fitted to the other folds, with each group in one fold; None if there are too few rows to
    estimate the noise."""
    from sklearn.model_selection import GroupKFold, KFold  # slow to load, and for fits only

    if len(x) * (FOLDS - 1) // FOLDS <= x.shape[1] + 1 or len(x) < FOLDS:
        return None
    split: Any = KFold(FOLDS, shuffle=True, random_state=0)
    if groups is not None:
        split = GroupKFold(min(FOLDS, len(np.unique(groups))))
    scores, crps = np.empty(len(x)), np.empty_like(y, float).reshape(len(y), -1)
    for train, test in split.split(x, groups=groups):
        train_weights = None if weights is None else weights[train]
        model = LinearGaussian.fit(x[train], y[train], train_weights)
        scores[test] = model.log_likelihood(x[test], y[test])
        crps[test] = model.crps(x[test], y[test])
    return scores, crps


def _add_constant(x: np.ndarray) -> np.ndarray:
    return np.hstack([np.ones((len(x), 1)), x])
