"""Several measurements at once: what they teach together, not one by one.

Two near-copies of a point teach little more than one of them. How much less is known for a Gaussian
model, where what a measurement at x teaches, given those at the points S, is

    g(x | S) = ½ log(1 + C(x, x | S) / σ²(x)),

C being the covariance over weights of ``E[y|x,W]`` after S has been measured, σ² the aleatoric
variance. The choice is greedy: each next point has the largest ``I(x) g(x | S) / g(x | ∅)``, its
own information, however it was found, times the part of it that S leaves. For a linear-Gaussian
model with one output that is the exact information; greedy sets then teach at least 1 − 1/e of the
best ones (Nemhauser et al. 1978). Of several outputs the parts that S leaves are added up as if
they knew nothing of each other.
"""

from collections.abc import Sequence

import numpy as np


def information_left(covariance: np.ndarray, noise: np.ndarray, measured: np.ndarray) -> np.ndarray:
    """``g(x | S)`` of all points, for ``covariance [N, N]``, ``noise [N]`` and the indices S."""
    variance = conditional_variance(covariance, noise, measured)
    return 0.5 * np.log1p(np.maximum(variance, 0.0) / noise)


def conditional_variance(
    covariance: np.ndarray, noise: np.ndarray, measured: np.ndarray
) -> np.ndarray:
    """The variance at all points after noisy measurements at some of them."""
    if not len(measured):
        return np.diag(covariance)
    across = covariance[measured]
    gram = across[:, measured] + np.diag(noise[measured])
    return np.diag(covariance) - np.sum(across * np.linalg.solve(gram, across), axis=0)


def best_together(
    scores: np.ndarray,
    means: np.ndarray,
    noise: np.ndarray,
    num: int,
    underway: Sequence[int] = (),
) -> np.ndarray:
    """Indices of ``num`` points that teach most together, beside those already ``underway``.

    ``scores [N]`` are the points' own information (a negative one is an estimate of 0),
    ``means [M, O, N]`` the ``E[y|x,W]`` of M weight draws, ``noise [O, N]`` the aleatoric
    variances.
    """
    if not (np.isfinite(scores).all() and np.isfinite(means).all() and (noise > 0).all()):
        raise ValueError(
            "scores and means must be finite and noise positive; leave out such points"
        )
    if means.shape[0] < 2:
        raise ValueError("means must hold at least 2 weight draws, got 1")
    scores = np.maximum(scores, 0.0)
    if not 1 <= num <= len(scores) - len(underway):
        raise ValueError(
            f"num must lie between 1 and {len(scores) - len(underway)} candidates, got {num}"
        )
    covariances = [np.atleast_2d(np.cov(means[:, o], rowvar=False)) for o in range(means.shape[1])]
    pairs = list(zip(covariances, noise, strict=True))
    alone = sum(information_left(*pair, np.zeros(0, int)) for pair in pairs)
    measured = list(underway)
    for _ in range(num):
        left = sum(information_left(*pair, np.array(measured, int)) for pair in pairs)
        worth = scores * left / np.maximum(alone, np.finfo(float).tiny)
        worth[measured] = -np.inf
        measured.append(int(np.argmax(worth)))
    return np.array(measured[len(underway) :])
