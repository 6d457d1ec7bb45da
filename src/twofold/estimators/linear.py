"""A linear model with Gaussian noise: what every other model has to beat."""

from typing import NamedTuple

import numpy as np
from scipy.stats import multivariate_normal
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import KFold

# The least variance of a residual, of its output's: an output without noise has a density too.
LEAST_VARIANCE = 1e-6
FOLDS = 5


class LinearGaussian(NamedTuple):
    """``y = B x + b + ε``, ``ε ~ N(0, R)``, with R the covariance of the residuals."""

    mean: LinearRegression
    covariance: np.ndarray

    @classmethod
    def fit(cls, x: np.ndarray, y: np.ndarray) -> "LinearGaussian":
        """Least squares for inputs ``[N, D]`` and outputs ``[N]`` or ``[N, O]``."""
        mean = LinearRegression().fit(x, y)
        residuals = (y - mean.predict(x)).reshape(len(y), -1)
        freedom = max(len(x) - mean.rank_ - 1, 1)
        variance = np.var(y, axis=0)
        least = LEAST_VARIANCE * np.where(variance > 0, variance, 1.0)
        return cls(mean, residuals.T @ residuals / freedom + np.diag(np.atleast_1d(least)))

    def predict(self, x: np.ndarray) -> np.ndarray:
        """The mean of y at each row."""
        return self.mean.predict(x)

    def log_likelihood(self, x: np.ndarray, y: np.ndarray) -> np.ndarray:
        """``log p(y | x)`` of each row, joint over outputs."""
        residuals = (y - self.mean.predict(x)).reshape(len(y), -1)
        return np.atleast_1d(multivariate_normal(cov=self.covariance).logpdf(residuals))


def cross_validate_linear(x: np.ndarray, y: np.ndarray) -> float | None:
    """Mean ``log p(y | x)`` of rows that a ``LinearGaussian`` of the other folds predicts; None
    where there are too few rows to know its noise."""
    if len(x) * (FOLDS - 1) // FOLDS <= x.shape[1] + 1 or len(x) < FOLDS:
        return None
    folds = KFold(FOLDS, shuffle=True, random_state=0).split(x)
    scores = [LinearGaussian.fit(x[a], y[a]).log_likelihood(x[b], y[b]) for a, b in folds]
    return float(np.concatenate(scores).mean())
