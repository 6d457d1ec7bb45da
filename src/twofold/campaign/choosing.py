"""Points for ``ask``: evenly spread at first, then the most informative batch."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twofold.active.choice import Assessment, assess, choose_batch
from twofold.campaign.definition import NATS
from twofold.campaign.inputs import Point
from twofold.campaign.space import Space

if TYPE_CHECKING:
    from twofold.estimators.regressor import BNNLVRegressor

POOL = 256  # candidates of a question
SPREAD = "evenly spread: too few measurements for a model"
Chosen = list[dict[str, Any]]


class Proposal(NamedTuple):
    """A point to measure, the predicted uncertainty there, and the reason for the choice."""

    number: int
    point: Point
    split: dict[str, Any]
    reason: str


def choose_evenly(space: Space, candidates: list[Point] | None, num: int, asked: int) -> Chosen:
    """Evenly spread points, following the ``asked`` points proposed before."""
    if candidates is None:
        points = space.spread(asked + num, seed=0)[asked:]
    else:
        order = np.random.default_rng(0).permutation(len(candidates))
        points = [candidates[order[(asked + i) % len(order)]] for i in range(num)]
    return [{"point": point, "split": {}, "reason": SPREAD} for point in points]


class Question(NamedTuple):
    """Inputs of a choice besides the model: the outputs, positions of the outputs to learn
    (``wanted``), points ``underway``, and points that were ``cancelled``."""

    space: Space
    outputs: Sequence[str]
    wanted: Sequence[int]
    underway: list[Point]
    cancelled: list[Point]


def choose_informative(
    model: "BNNLVRegressor", pool: list[Point], num: int, question: Question
) -> Chosen:
    """The most informative batch of a pool, given the points underway."""
    underway = question.underway
    free = [point for point in pool if point not in underway and point not in question.cancelled]
    points = [*underway, *(free if len(free) >= num else pool)]
    known = assess(model, question.space.encode(points))
    wanted = known.select(question.wanted)
    taken = range(len(underway))
    chosen = choose_batch(wanted.information, wanted.means, wanted.aleatoric, num, taken)
    return _describe(points, known, wanted.information, chosen, question.outputs)


def _describe(
    points: list[Point], known: Assessment, nats: np.ndarray, chosen: np.ndarray,
    outputs: Sequence[str],
) -> Chosen:  # fmt: skip
    """Chosen points with their information, and the standard deviations of the outputs there."""
    described = []
    for i in chosen:
        deviations = {
            part: dict(zip(outputs, values[i].tolist(), strict=True))
            for part, values in known.deviations.items()
        }
        split = {NATS: float(nats[i]), "standard_deviation": deviations}
        reason = f"expected information gain {nats[i]:.2f} nats"
        described.append({"point": points[i], "split": split, "reason": reason})
    return described
