"""Proposals of ``ask``: evenly spread points, or points chosen by a model, with the reason."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from twofold.active.choice import Assessment
from twofold.campaign.definition import NATS
from twofold.campaign.inputs import Point
from twofold.campaign.space import Space

POOL = 256  # candidates per request
SPREAD = "evenly spread: too few measurements for a model"
Chosen = list[dict[str, Any]]


class Proposal(NamedTuple):
    """A point to measure, the predicted uncertainty there, and the reason for the choice."""

    number: int
    point: Point
    split: dict[str, Any]
    reason: str


def choose_evenly(space: Space, candidates: list[Point] | None, num: int, asked: int) -> Chosen:
    """Evenly spread points, continuing the sequence after the ``asked`` points proposed before."""
    if candidates is None:
        points = space.spread(asked + num, seed=0)[asked:]
    else:
        order = np.random.default_rng(0).permutation(len(candidates))
        points = [candidates[order[(asked + i) % len(order)]] for i in range(num)]
    return [{"point": point, "split": {}, "reason": SPREAD} for point in points]


def describe_choice(
    points: list[Point], chosen: np.ndarray, known: Assessment, nats: np.ndarray,
    outputs: Sequence[str],
) -> Chosen:  # fmt: skip
    """Proposals with their expected information and the standard deviations of the outputs."""
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
