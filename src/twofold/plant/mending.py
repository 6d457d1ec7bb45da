"""Mending a log: put rows in order, leave bad ones out, and cut episodes where some are missing.

Nothing is filled in: a row that was not measured is not learnt from.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from twofold.core.naming import nearest
from twofold.plant import order
from twofold.plant.checks import missing
from twofold.plant.runs import stuck
from twofold.tables.errors import LogError
from twofold.tables.frame import Frame


@dataclass(frozen=True)
class Mending:
    """What may be done to a log.

    ``split_at_restarts`` begins a new episode where the time starts over, or (without times) where
    an episode comes back. ``sort`` sorts the rows of each episode by time. ``drop_duplicates``
    keeps the first row of each time. ``drop_missing`` leaves out rows without a number,
    ``drop_stuck`` those of a stuck sensor, and both cut there. ``clip_actions`` moves actions to
    their bounds. ``split_at_gaps`` cuts where a time step has another length.
    """

    split_at_restarts: bool = False
    sort: bool = False
    drop_duplicates: bool = False
    drop_missing: bool = False
    drop_stuck: bool = False
    clip_actions: bool = False
    split_at_gaps: bool = False

    @classmethod
    def of(cls, options: dict[str, Any]) -> "Mending":
        """Options by name, misspelt ones refused."""
        known = [field.name for field in fields(cls)]
        for name in options:
            if name not in known:
                raise LogError(
                    f"there is no option {name!r}; to mend a log there are {', '.join(known)}"
                    f"{nearest(name, known)}"
                )
        return cls(**options)


def mend(frame: Frame, mending: Mending) -> Frame:
    """The frame mended, with the rows of each episode together if it is known how they follow."""
    if frame.times is None and len(order.returns(frame)) and not mending.split_at_restarts:
        return frame
    frame = _gathered(frame, mending)
    if mending.drop_duplicates:
        frame = frame.take(np.delete(np.arange(len(frame)), order.duplicates(frame)))
    if mending.drop_missing:
        frame = _without_missing(frame)
    if mending.drop_stuck:
        bad = np.zeros(len(frame), bool)
        for stretch in stuck(frame):
            bad[stretch.rows] = True
        frame = _without(frame, bad)
    if mending.clip_actions:
        clipped = {
            name: np.clip(frame.values[name], *frame.actions[name]) for name in frame.actions
        }
        frame = replace(frame, values=frame.values | clipped)
    if mending.split_at_gaps and frame.times is not None:
        frame = frame.cut(_marked(frame, order.gaps(frame)[0]))
    return frame


def _gathered(frame: Frame, mending: Mending) -> Frame:
    """Rows of an episode together, cut where it comes back or starts over, sorted by time."""
    if mending.split_at_restarts:
        if frame.times is None:
            frame = frame.cut(_marked(frame, order.returns(frame)))
        else:
            starts = _marked(frame, order.restarts(frame))
            together = np.argsort(frame.part, kind="stable")
            frame = frame.take(together).cut(starts[together])
    if mending.sort and frame.times is not None:
        return frame.take(np.lexsort((frame.times, frame.part)))
    return frame.take(np.argsort(frame.part, kind="stable"))


def _without_missing(frame: Frame) -> Frame:
    """Rows whose observations are known; where only the action or its cost is not, the row is
    still the end of what went before."""
    bad, ends = np.zeros(len(frame), bool), np.zeros(len(frame), bool)
    if frame.times is not None:
        bad |= ~np.isfinite(frame.times)
    for name in frame.values:
        if name in frame.observations:
            bad[missing(frame, name)] = True
        elif name in frame.actions or frame.cost_at == "departure":
            ends[missing(frame, name)] = True
        else:
            # The step that leads to this row has no cost: a new episode begins with the row.
            ends[missing(frame, name) - 1] = True
    return _without(frame.cut(np.concatenate([[False], ends[:-1]])), bad)


def _without(frame: Frame, bad: np.ndarray) -> Frame:
    """Rows that are not bad; what lies on two sides of a bad one becomes two episodes."""
    after = np.concatenate([[False], bad[:-1]])
    return frame.cut(after).take(np.flatnonzero(~bad))


def _marked(frame: Frame, rows: np.ndarray) -> np.ndarray:
    mask = np.zeros(len(frame), bool)
    mask[rows] = True
    return mask
