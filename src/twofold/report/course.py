"""The history of a series of measurements, from a campaign or the pool loop."""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from twofold.active import Round, advise, assess, is_enough, left_to_learn
from twofold.campaign import Campaign, Continuous, Proposal, Space
from twofold.campaign.definition import NATS
from twofold.campaign.inputs import Point
from twofold.estimators.regressor import BNNLVRegressor


class Course(NamedTuple):
    """Points measured in order, with values ``[N, O]`` (NaN where one has not come), what is
    proposed, what each model found to be left to learn, and the last model, if it is at hand.

    Rows of ``curve`` hold ``measurements``, ``epistemic_share``, ``epistemic_nats`` and perhaps
    ``score``, of which ``score_name`` says what it is. The model's rows are ``space.encode``'s.
    ``numbers`` are those of the measurements, where they are not counted through.
    """

    title: str
    space: Space
    outputs: list[str]
    points: list[Point]
    values: np.ndarray
    proposals: list[Proposal]
    curve: list[dict[str, float]]
    advice: str
    consider_stopping: bool
    model: BNNLVRegressor | None = None
    score_name: str = ""
    numbers: Sequence[int] = ()

    @property
    def next(self) -> Proposal | None:
        """The open proposal that teaches most, by the model that chose it; else the first one."""
        every = self.proposals
        return max(every, key=lambda one: one.split.get(NATS, 0.0)) if every else None

    @property
    def complete(self) -> int:
        """How many measurements have every output."""
        return int(np.isfinite(self.values).all(axis=1).sum())


def make_course(campaign: Campaign, title: str = "Measurement campaign") -> Course:
    """The current state of a campaign; nothing is fitted or written."""
    status, rows, outputs = campaign.status(), campaign.export(), campaign.outputs
    points = [{name: row[name] for name in campaign.space.names} for row in rows]
    # An output that has not come is None, which is NaN as a number.
    values = np.array([[row[name] for name in outputs] for row in rows], float)
    return Course(
        title, campaign.space, outputs, points, values.reshape(len(rows), len(outputs)),
        status.pending, status.curve, status.advice, status.consider_stopping,
        campaign.load_model(), numbers=[row["measurement"] for row in rows],
    )  # fmt: skip


def make_course_of_rounds(
    rounds: Iterable[Round], *, start: int, inputs: Sequence[str], outputs: Sequence[str],
    reference: np.ndarray, learner: int = 0, score: Callable[[Any], float] | None = None,
    score_name: str = "score", proposed: np.ndarray | None = None, title: str = "Active learning",
) -> Course:  # fmt: skip
    """The course of one learner of ``pool_loop``.

    Parameters
    ----------
    rounds : what the loop yields, in order
    start : how many measurements there were before the first round
    inputs, outputs : names of the columns
    reference : points ``[C, D]`` over which what is left to learn is averaged, such as a pool
    learner : its number in the loop
    score : of each round's model, such as its test log-likelihood; ``score_name`` says what it is
    proposed : points ``[P, D]`` that would be measured next
    """
    curve: list[dict[str, float]] = []
    known, model, data = start, None, None
    for done in rounds:
        model, data = done.models[learner], done.data[learner]
        row = {"measurements": float(known), **left_to_learn(assess(model, reference))}
        curve.append(row if score is None else row | {"score": float(score(model))})
        known = len(data.x)
    if data is None:
        raise ValueError("expected at least 1 round, got none; run the loop first")
    names, following = list(inputs), np.empty((0, len(inputs))) if proposed is None else proposed
    points = enumerate(_points(names, following), 1)
    proposals = [Proposal(number, point, {}, "chosen next") for number, point in points]
    return Course(
        title, _space_of(names, np.concatenate([data.x, reference, following])), list(outputs),
        _points(names, data.x), np.asarray(data.y, float).reshape(len(data.x), len(outputs)),
        proposals, curve, advise(curve, 0, len(data.x)), is_enough(curve), model,
        score_name if score is not None else "",
    )  # fmt: skip


def _space_of(names: list[str], x: np.ndarray) -> Space:
    """The box that holds all points; an input that never changes gets some room."""
    low, high = x.min(axis=0), x.max(axis=0)
    room = np.where(low == high, 0.5, 0.0)
    bounds = zip(names, low - room, high + room, strict=True)
    return Space(tuple(Continuous(name, float(one), float(other)) for name, one, other in bounds))


def _points(names: list[str], x: np.ndarray) -> list[Point]:
    return [dict(zip(names, map(float, row), strict=True)) for row in x]
