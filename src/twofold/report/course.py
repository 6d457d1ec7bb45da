"""The history of a series of measurements, from a campaign or built by hand."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from twofold.campaign import Campaign, Proposal, Space
from twofold.campaign.definition import NATS
from twofold.campaign.inputs import Point
from twofold.estimators.regressor import BNNLVRegressor


class Course(NamedTuple):
    """Points in the order of measurement with their values ``[N, O]`` (NaN if missing), open
    proposals, the remaining uncertainty after each model fit, and the last model, if available.

    Rows of ``curve`` hold ``measurements``, ``epistemic_share`` and ``epistemic_nats``. Inputs of
    the model are rows of ``space.encode``. ``numbers`` are the measurement numbers, if they are not
    consecutive.
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
    numbers: Sequence[int] = ()

    @property
    def next(self) -> Proposal | None:
        """The most informative open proposal; without a model, the first one."""
        return max(self.proposals, key=lambda one: one.split.get(NATS, 0.0), default=None)

    @property
    def complete(self) -> int:
        """Number of measurements with all outputs."""
        return int(np.isfinite(self.values).all(axis=1).sum())


def make_course(campaign: Campaign, title: str = "Measurement campaign") -> Course:
    """The current state of a campaign; nothing is fitted or written."""
    status, rows, outputs = campaign.status(), campaign.export(), campaign.outputs
    points = [{name: row[name] for name in campaign.space.names} for row in rows]
    # Missing outputs are None, which becomes NaN.
    values = np.array([[row[name] for name in outputs] for row in rows], float)
    return Course(
        title, campaign.space, outputs, points, values.reshape(len(rows), len(outputs)),
        status.pending, status.curve, status.advice, status.consider_stopping,
        campaign.load_model(), numbers=[row["measurement"] for row in rows],
    )  # fmt: skip
