"""The two parts of the predictive entropy on problems of known truth, beside that truth."""

import numpy as np
from scipy.stats import spearmanr

from paper.problems import ONE_DIMENSIONAL, PROBLEMS
from paper.reference.answers import References
from paper.reference.populations import Case

PART_POINTS = 200
DISTINCT = 0.1
# The form of the default's model that its fits choose.
FORMS = {"heteroscedastic": "reference_plain"}


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


def compare_reference(name: str, seed: int, references: References) -> dict[str, float]:
    """The parts of the reference of the default's model, where its record has them: at points
    within the range of the data."""
    answers = references[FORMS.get(name, "reference"), Case(name, seed)]
    return compare_parts(name, answers._asdict(), PROBLEMS[name].inside(seed)[:, 0])


def compare_parts(
    name: str, predicted: dict[str, np.ndarray], points: np.ndarray | None = None
) -> dict[str, float]:
    """The two parts beside the scarcity of data and the true entropy."""
    problem = ONE_DIMENSIONAL[name]
    points = part_points(name) if points is None else points
    truth, scarcity = problem.entropy(points), -np.log(problem.input_density(points))
    epistemic = {
        f"{part}_rank": float(spearmanr(predicted[part], scarcity).statistic)
        for part in ("epistemic", "epistemic_deviation")
        if part in predicted
    }
    return epistemic | {
        "aleatoric_rank": float(spearmanr(predicted["aleatoric"], truth).statistic),
        "aleatoric_order": share_in_order(predicted["aleatoric"], truth),
        "aleatoric_error": float(np.abs(predicted["aleatoric"] - truth).mean()),
    }


def share_in_order(values: np.ndarray, truth: np.ndarray) -> float:
    """Of pairs whose truths are distinct: the share in the right order less that in the wrong."""
    below, above = np.nonzero(truth[:, None] + DISTINCT <= truth)
    return float(np.mean(np.sign(values[above] - values[below])))
