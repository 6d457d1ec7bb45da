"""Where to measure next: scores of candidate points, and the choice of the best (paper, §4)."""

import numpy as np

from twofold.uncertainty.decomposition import Decomposition


def epistemic_score(decomposition: Decomposition) -> np.ndarray:
    """``I(W; y)``: what a measurement at the point is expected to teach about the weights."""
    return decomposition.epistemic


def best(scores: np.ndarray, num: int) -> np.ndarray:
    """Indices of the ``num`` largest scores, best first."""
    if not 1 <= num <= len(scores):
        raise ValueError(f"num must lie between 1 and {len(scores)} candidates, got {num}")
    return np.argsort(-scores, kind="stable")[:num]
