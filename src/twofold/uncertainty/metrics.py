"""Error, score and calibration of predictive distributions.

NumPy in float64, because these are called on host arrays, once per run and in sizes that never
repeat: nothing to compile, and long sums stay accurate. ``points`` stands for any axes, usually
``N`` or ``N O``; outputs are scored separately.
"""

import numpy as np
from scipy.stats import binom

LEVELS = np.arange(1, 20) / 20.0


def rmse(y: np.ndarray, mean: np.ndarray) -> np.ndarray | np.floating:
    """Root-mean-square error over the first axis: one number per output."""
    if y.shape != mean.shape or y.ndim == 0 or not y.size:
        raise ValueError(
            f"expected y and mean of one shape with at least 1 point, got {y.shape} and "
            f"{mean.shape}; pass one prediction for each measurement"
        )
    errors = np.subtract(y, mean, dtype=np.float64)
    return np.sqrt(np.mean(np.square(errors), axis=0))


def crps(samples: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Continuous ranked probability score of ``samples [num, *points]`` at ``y [*points]``.

    ``E|X − y| − ½ E|X − X'|`` in units of y, smaller is better. The second mean runs over pairs of
    *different* samples ("fair"): no bias for any num, but single points may fall below zero. With
    sorted samples ``Σ_{i,j} |x_i − x_j| = 2 Σ_i (2i − num − 1) x_(i)``, so no pairs are formed.
    """
    _check_samples(samples, y, fewest=2)
    errors = np.sort(np.subtract(samples, y, dtype=np.float64), axis=0)
    num = len(errors)
    weights = (2.0 * np.arange(1, num + 1) - num - 1.0) / (num * (num - 1.0))
    return np.mean(np.abs(errors), axis=0) - np.tensordot(weights, errors, axes=1)


def pit(samples: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Probability integral transform: where ``y [*points]`` lies among ``samples [num, *points]``.

    ``(rank + ½) / (num + 1)`` with ``rank`` the number of samples below y, ties counted half. If y
    follows the distribution of the samples, each of the ``num + 1`` values is equally likely.
    """
    _check_samples(samples, y, fewest=1)
    below = np.count_nonzero(samples < y, axis=0) + 0.5 * np.count_nonzero(samples == y, axis=0)
    return (below + 0.5) / (len(samples) + 1.0)


def coverage(pit: np.ndarray, levels: np.ndarray = LEVELS) -> np.ndarray:
    """Share of the points inside the central interval of each level, from all their PIT values."""
    _check_shares(pit, "PIT value", "compute them with metrics.pit")
    _check_shares(levels, "level", "write 95 % as 0.95")
    distances = np.sort(np.abs(2.0 * pit.ravel() - 1.0))
    return np.searchsorted(distances, levels, side="right") / pit.size


def calibration_error(pit: np.ndarray, levels: np.ndarray = LEVELS) -> float:
    """Mean absolute difference between nominal and observed coverage."""
    return float(np.mean(np.abs(coverage(pit, levels) - levels)))


def chance_calibration_error(num: int, levels: np.ndarray = LEVELS) -> float:
    """Expected ``calibration_error`` of ``num`` independent, perfectly predicted points. The count
    k inside is binomial, and ``E|k − num p| = 2 m (1 − p) P(k = m)`` with ``m = ⌊num p⌋ + 1`` (de
    Moivre). The mean is unaffected by the levels sharing points."""
    _check_num(num)
    _check_shares(levels, "level", "write 95 % as 0.95")
    mode = np.floor(num * levels) + 1.0
    deviations = 2.0 * mode * (1.0 - levels) * binom.pmf(mode, num, levels)
    return float(np.mean(deviations / num))


def share_band(
    probabilities: np.ndarray, num: int, confidence: float = 0.95
) -> tuple[np.ndarray, np.ndarray]:
    """Confidence band of an observed share of ``num`` points, for each true probability. Pointwise:
    each share lies inside with probability ``confidence`` or more (quantiles of the binomial
    distribution), all of them simultaneously less often."""
    _check_num(num)
    low, high = binom.interval(confidence, num, probabilities)
    return low / num, high / num


def _check_samples(samples: np.ndarray, y: np.ndarray, fewest: int) -> None:
    fits = samples.ndim > 1 and samples.shape[1:] == y.shape
    if not fits or len(samples) < fewest or not y.size:
        raise ValueError(
            f"expected samples [num, *points] and y [*points] with num of at least {fewest}, got "
            f"{samples.shape} and {y.shape}; draw samples at the points of y, along the first axis"
        )
    bad = np.count_nonzero(~np.isfinite(samples)) + np.count_nonzero(~np.isfinite(y))
    if bad:
        raise ValueError(
            f"expected finite samples and y, got {bad} values of NaN or infinity; drop these points"
        )


def _check_num(num: int) -> None:
    if num < 1:
        raise ValueError(f"expected num of at least 1, got {num}; pass the number of points")


def _check_shares(values: np.ndarray, what: str, remedy: str) -> None:
    if not values.size or not np.all((values >= 0.0) & (values <= 1.0)):
        some = f"values from {values.min():g} to {values.max():g}" if values.size else "none"
        raise ValueError(f"expected at least 1 {what}, all in [0, 1], got {some}; {remedy}")
