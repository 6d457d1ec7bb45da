"""Out-of-bag scores of the mixture of all members, though only a few of them hold a row out.

A new row is predicted by the mixture of all K members, a held-out row by the H members that held it
out. The mean score of a mixture grows with the number of its members k as ``a − c / k`` (the log of
a mean of k densities, expanded to second order), so out-of-bag scores are too low by
``c (1/H − 1/K)``. The constant c follows from the mixtures that omit one of the H members.

A member whose weights were chosen on a row predicts it too well. Such members (of role STOP) enter
through differences between mixtures only, not through the score of a single member.
"""

import numpy as np
from scipy.special import logsumexp


def score_mixture(
    log_densities: np.ndarray,
    held_out: np.ndarray,
    scored: np.ndarray,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Score of each row ``[N]`` as predicted by all members: NaN if none may score it.

    ``log_densities`` ``[K, N]`` are those of each member; the masks tell which members held a row
    out, and which of them may score it.
    """
    counts = held_out.sum(axis=0)
    mixed, single = mix(log_densities, held_out), average(log_densities, held_out)
    scores = mixed + average(log_densities, scored) - single
    counted = np.ones(len(counts)) if weight is None else weight
    slope = gain_of_members(log_densities, held_out, mixed, counted)
    return scores + slope * (1.0 / np.maximum(counts, 1) - 1.0 / len(log_densities))


def gain_of_members(
    log_densities: np.ndarray, held_out: np.ndarray, mixed: np.ndarray, weight: np.ndarray
) -> float:
    """c, from all rows to which several members that held them out give a finite density; or 0."""
    finite = np.isfinite(np.where(held_out, log_densities, 0.0)).all(axis=0)
    several = finite & (held_out.sum(axis=0) > 1)
    if not several.any():
        return 0.0
    log_densities, held_out = log_densities[:, several], held_out[:, several]
    counts, omitted = held_out.sum(axis=0), np.zeros(int(several.sum()))
    for member, mask in enumerate(held_out):
        others = held_out.copy()
        others[member] = False
        omitted += np.where(mask, mix(log_densities, others), 0.0) / counts
    gains, steps = mixed[several] - omitted, 1.0 / (counts - 1) - 1.0 / counts
    return float(np.sum(weight[several] * gains) / np.sum(weight[several] * steps))


def mix(log_densities: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Log-density of each row under the mixture of its members; NaN if it has none."""
    counts = mask.sum(axis=0)
    total = logsumexp(np.where(mask, log_densities, -np.inf), axis=0)
    return np.where(counts > 0, total - np.log(np.maximum(counts, 1)), np.nan)


def average(log_densities: np.ndarray, mask: np.ndarray) -> np.ndarray:
    """Mean log-density of each row over its members; NaN if it has none."""
    counts = mask.sum(axis=0)
    total = np.where(mask, log_densities, 0.0).sum(axis=0)
    return np.where(counts > 0, total / np.maximum(counts, 1), np.nan)
