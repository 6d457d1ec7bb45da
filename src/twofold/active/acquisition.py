"""Where to measure next: scores of candidate points, and the choice of the best (paper, §4)."""

import numpy as np

from twofold.uncertainty.decomposition import Decomposition


def epistemic_score(decomposition: Decomposition) -> np.ndarray:
    """What a measurement is expected to teach: ``I(W; y)`` of a split by entropy, the paper's,
    summed over outputs, or the epistemic variance of one by variance, of one output."""
    return _summed(decomposition, decomposition.epistemic)


def total_score(decomposition: Decomposition) -> np.ndarray:
    """``H(y | x)``, or the total variance: noise counts like ignorance."""
    return _summed(decomposition, decomposition.total)


def random_score(seed: int, num: int) -> np.ndarray:
    """No preference."""
    return np.random.default_rng(seed).uniform(size=num)


def best(scores: np.ndarray, num: int) -> np.ndarray:
    """Indices of the ``num`` largest scores, best first."""
    if not 1 <= num <= len(scores):
        raise ValueError(f"num must lie between 1 and {len(scores)} candidates, got {num}")
    return np.argsort(-scores, kind="stable")[:num]


def _summed(decomposition: Decomposition, part: np.ndarray) -> np.ndarray:
    if part.ndim == 1:
        return part
    if decomposition.by == "variance" and part.shape[1] > 1:
        raise ValueError(
            f"variances of {part.shape[1]} outputs have units of their own and cannot be added; "
            "split by entropy, or score one output"
        )
    return part.sum(axis=1)
