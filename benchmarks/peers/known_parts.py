"""The two parts of the predictive entropy on problems of known truth, beside that truth."""

import numpy as np
from scipy.stats import spearmanr

from paper.problems import ONE_DIMENSIONAL

PART_POINTS = 200
DISTINCT = 0.1


def known_table(name: str, seed: int) -> tuple[np.ndarray, ...]:
    """A seed's rows of a problem of known truth, and the points at which the parts are judged."""
    problem = ONE_DIMENSIONAL[name]
    points = part_points(name)
    return *problem.training_data(seed), points[:, None], np.zeros(len(points))


def part_points(name: str) -> np.ndarray:
    """Points all over the range of a problem."""
    problem = ONE_DIMENSIONAL[name]
    steps = (np.arange(PART_POINTS) + 0.5) / PART_POINTS
    return problem.low + steps * (problem.high - problem.low)


def compare_parts(name: str, predicted: dict[str, np.ndarray]) -> dict[str, float]:
    """The two parts beside the scarcity of data and the true entropy."""
    problem, points = ONE_DIMENSIONAL[name], part_points(name)
    truth, scarcity = problem.entropy(points), -np.log(problem.input_density(points))
    return {
        "epistemic_rank": float(spearmanr(predicted["epistemic"], scarcity).statistic),
        "aleatoric_rank": float(spearmanr(predicted["aleatoric"], truth).statistic),
        "aleatoric_order": share_in_order(predicted["aleatoric"], truth),
        "aleatoric_error": float(np.abs(predicted["aleatoric"] - truth).mean()),
    }


def share_in_order(values: np.ndarray, truth: np.ndarray) -> float:
    """Of pairs whose truths are distinct: the share in the right order less that in the wrong."""
    below, above = np.nonzero(truth[:, None] + DISTINCT <= truth)
    return float(np.mean(np.sign(values[above] - values[below])))
