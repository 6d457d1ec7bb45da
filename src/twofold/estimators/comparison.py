"""Comparison of a model with a linear one on held-out rows, with the standard error of the
difference.

A single outlier can dominate a mean log-likelihood; the CRPS, which is robust, is compared as well.
"""

from typing import Any, NamedTuple

import numpy as np

from twofold.estimators.linear import LinearGaussian, cross_validate_linear
from twofold.inference.ensemble import OutOfBag, summarise
from twofold.uncertainty import metrics

DRAWS, MOST_ROWS = 400, 1_000
SURE = 2.0  # standard errors


class Difference(NamedTuple):
    """Mean gain over the linear model, and its standard error."""

    mean: float
    standard_error: float

    @classmethod
    def of(cls, gains: np.ndarray) -> "Difference":
        """Of the gains of single rows."""
        found = summarise(gains)
        return cls(found.score, found.standard_error)

    @property
    def sign(self) -> int:
        """1 or −1 if the difference is significant, else 0."""
        return int(np.sign(self.mean)) if abs(self.mean) > SURE * self.standard_error else 0


class Comparison(NamedTuple):
    """Gains over a linear model: of the log-likelihood, in nats a row, and of the CRPS, as a share
    of the linear model's (None where it is not known)."""

    log_score: Difference
    crps: Difference | None

    @property
    def verdict(self) -> str:
        """``better`` or ``worse`` if a score is significant and none contradicts it, else
        ``unclear``."""
        signs = {one.sign for one in self if one is not None} - {0}
        return {frozenset({1}): "better", frozenset({-1}): "worse"}.get(frozenset(signs), "unclear")

    @property
    def sentence(self) -> str:
        """The verdict with its numbers."""
        sentence = {
            "better": "The model predicts better than a linear one",
            "worse": "The model predicts worse than a linear one",
            "unclear": "Whether the model predicts better than a linear one is unclear",
        }[self.verdict]
        mean, error = self.log_score
        numbers = f"log-likelihood {mean:+.3f} ± {error:.3f} nats per row"
        if self.crps is not None:
            mean, error = self.crps
            numbers += f", CRPS {-100 * mean:+.1f} ± {100 * error:.1f} %"
        return f"{sentence} ({numbers})."


def compute_crps(
    model: Any, x: np.ndarray, y: np.ndarray, y_error: np.ndarray | None
) -> np.ndarray:
    """That of some of the rows, and of each output, ``[R, O]``."""
    some = pick_rows(len(x))
    targets = y[some].reshape(len(some), -1)
    error = np.zeros_like(targets) if y_error is None else y_error[some].reshape(targets.shape)
    return metrics.crps(draw_measurements(model, x[some], error), targets)


def draw_measurements(model: Any, x: np.ndarray, error: np.ndarray) -> np.ndarray:
    """Draws of y ``[DRAWS, N, O]`` as it is measured with these errors ``[N, O]``."""
    samples = model.sample(x, DRAWS).reshape(DRAWS, *error.shape)
    return samples + error * np.random.default_rng(0).standard_normal(samples.shape)


def compare_held_out(
    linear: LinearGaussian, x: np.ndarray, y: np.ndarray, log_density: np.ndarray, crps: np.ndarray
) -> Comparison:
    """By rows that neither was fitted to, row by row: the model's log-density ``[N]`` at each, and
    its CRPS at those of ``pick_rows``."""
    some = pick_rows(len(x))
    other = linear.crps(x[some], y[some])
    gains = ((other - crps) / other.mean(axis=0)).mean(axis=1)
    return Comparison(
        Difference.of(log_density - linear.log_likelihood(x, y)), Difference.of(gains)
    )


def pick_rows(count: int) -> np.ndarray:
    """At most MOST_ROWS of so many, spread evenly."""
    return np.linspace(0, count - 1, min(count, MOST_ROWS)).astype(int)


def compare_out_of_bag(
    own: OutOfBag,
    x: np.ndarray,
    y: np.ndarray,
    weights: np.ndarray | None = None,
    groups: np.ndarray | None = None,
) -> Comparison | None:
    """By rows that were held out of single members, and of single folds of a linear model; None
    where there are too few of them."""
    linear = cross_validate_linear(x, y, weights, groups)
    if linear is None:
        return None
    error = float(np.hypot(own.standard_error, linear.standard_error))
    return Comparison(Difference(own.score - linear.score, error), None)
