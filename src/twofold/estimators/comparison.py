"""Comparison of a model with a linear one on held-out rows, with the standard error of the
difference.

A single outlier can dominate a mean log-likelihood; the CRPS, which is robust, is compared as well.
"""

from typing import Any, NamedTuple

import numpy as np

from twofold.estimators.linear import LinearGaussian
from twofold.inference.ensemble import summarise, weigh_scores
from twofold.uncertainty import metrics

DRAWS, MOST_ROWS = 400, 1_000
SIGNIFICANT_ERRORS = 2.0  # standard errors


class Comparison(NamedTuple):
    """Mean gains over a linear model with standard errors: log-likelihood in nats per row, and CRPS
    as a fraction of that of the linear model."""

    gain: float
    gain_error: float
    crps_gain: float
    crps_gain_error: float

    @property
    def verdict(self) -> str:
        """``better`` or ``worse``; ``unclear`` if no score is significant, or they disagree."""
        pairs = (self.gain, self.gain_error), (self.crps_gain, self.crps_gain_error)
        signs = {
            int(np.sign(mean)) for mean, error in pairs if abs(mean) > SIGNIFICANT_ERRORS * error
        } - {0}
        return {frozenset({1}): "better", frozenset({-1}): "worse"}.get(frozenset(signs), "unclear")

    @property
    def sentence(self) -> str:
        sentence = f"The model predicts {self.verdict} than a linear one"
        if self.verdict == "unclear":
            sentence = "Whether the model predicts better than a linear one is unclear"
        nats = f"log-likelihood {self.gain:+.3f} ± {self.gain_error:.3f} nats per row"
        mean, error = -100 * self.crps_gain, 100 * self.crps_gain_error
        return f"{sentence} ({nats}, CRPS {mean:+.1f} ± {error:.1f} %)."


def compute_crps(
    model: Any, x: np.ndarray, y: np.ndarray, y_error: np.ndarray | None
) -> np.ndarray:
    """CRPS of a subset of the rows (``pick_rows``) and each output, ``[R, O]``."""
    some = pick_rows(len(x))
    targets = y[some].reshape(len(some), -1)
    error = np.zeros_like(targets) if y_error is None else y_error[some].reshape(targets.shape)
    return metrics.crps(draw_measurements(model, x[some], error), targets)


def draw_measurements(model: Any, x: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Draws ``[DRAWS, N, O]`` of measurements of y with errors of standard deviation ``[N, O]``."""
    samples = model.sample(x, DRAWS).reshape(DRAWS, *error.shape)
    return samples + error * np.random.default_rng(0).standard_normal(samples.shape)


def compare_held_out(
    linear: LinearGaussian, x: np.ndarray, y: np.ndarray, log_density: np.ndarray, crps: np.ndarray
) -> Comparison:
    """Compare on rows that neither model was fitted to: the model's log-density ``[N]`` of each
    row, and its CRPS at those of ``pick_rows``."""
    some = pick_rows(len(x))
    gains = log_density - linear.log_likelihood(x, y)
    return compare_gains(gains, crps, linear.crps(x[some], y[some]))


def compare_gains(
    gains: np.ndarray, crps: np.ndarray, linear_crps: np.ndarray, weight: np.ndarray | None = None
) -> Comparison:
    """Compare by the gain in log-likelihood of each row, and by CRPS ``[N, O]``."""
    shares = ((linear_crps - crps) / linear_crps.mean(axis=0)).mean(axis=1)
    summaries = summarise(gains), summarise(weigh_scores(shares, weight))
    return Comparison(*(number for one in summaries for number in one[:2]))


def pick_rows(count: int) -> np.ndarray:
    """Indices of at most MOST_ROWS rows, spread evenly."""
    return np.linspace(0, count - 1, min(count, MOST_ROWS)).astype(int)
