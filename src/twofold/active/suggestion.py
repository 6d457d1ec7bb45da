"""Where to measure next, for a fitted model without a campaign."""

from typing import Any, NamedTuple

import numpy as np

from twofold.active.choice import Assessment, choose_batch, choose_best, split_by_entropy

# Number of candidates over the measured range, and default number of suggestions.
SPREAD, SUGGESTED = 1_024, 5
# Among more candidates, only those with the largest scores are considered for a batch.
MOST_TOGETHER = 2_000


class Suggestion(NamedTuple):
    """Rows to measure, best first, with nats, mean and standard deviations ``[num, O]``."""

    rows: np.ndarray
    nats: np.ndarray
    mean: np.ndarray
    deviations: dict[str, np.ndarray]


def suggest_rows(model: Any, x: np.ndarray, num: int) -> Suggestion:
    """The most informative batch of the rows ``[N, D]``."""
    split = split_by_entropy(model, x)
    scores = np.maximum(split.epistemic, 0.0).sum(axis=1)
    near = choose_best(scores, min(len(x), max(MOST_TOGETHER, num)))
    means, variances = model.conditional_moments(x[near])
    width = np.ptp(x, axis=0)
    moving = width > 0
    positions = (x[near] / np.where(moving, width, 1.0))[:, moving]
    chosen = choose_batch(scores[near], means, variances.mean(axis=0), num, positions=positions)
    rows = near[chosen]
    known = Assessment(split.take(rows), means[..., chosen], variances[..., chosen])
    return Suggestion(rows, scores[rows], known.means.mean(axis=0).T, known.deviations)
