"""Mending a log: put rows in order, leave bad ones out, and cut episodes where some are missing.

Nothing is filled in: a row that was not measured is not learnt from.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from twofold.core.naming import nearest
from twofold.plant import order
from twofold.plant.checks import missing
from twofold.plant.errors import LogError
from twofold.plant.raw_log import RawLog
from twofold.plant.runs import stuck


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


def mend(raw: RawLog, mending: Mending) -> RawLog:
    """The log mended, with the rows of each episode together if it is known how they follow."""
    if raw.times is None and len(order.returns(raw)) and not mending.split_at_restarts:
        return raw
    raw = _gathered(raw, mending)
    if mending.drop_duplicates:
        raw = raw.take(np.delete(np.arange(len(raw)), order.duplicates(raw)))
    if mending.drop_missing:
        raw = _without_missing(raw)
    if mending.drop_stuck:
        bad = np.zeros(len(raw), bool)
        for stretch in stuck(raw):
            bad[stretch.rows] = True
        raw = _without(raw, bad)
    if mending.clip_actions:
        clipped = {name: np.clip(raw.values[name], *raw.actions[name]) for name in raw.actions}
        raw = replace(raw, values=raw.values | clipped)
    if mending.split_at_gaps and raw.times is not None:
        raw = raw.cut(_marked(raw, order.gaps(raw)[0]))
    return raw


def _gathered(raw: RawLog, mending: Mending) -> RawLog:
    """Rows of an episode together, cut where it comes back or starts over, sorted by time."""
    if mending.split_at_restarts:
        if raw.times is None:
            raw = raw.cut(_marked(raw, order.returns(raw)))
        else:
            starts = _marked(raw, order.restarts(raw))
            together = np.argsort(raw.part, kind="stable")
            raw = raw.take(together).cut(starts[together])
    if mending.sort and raw.times is not None:
        return raw.take(np.lexsort((raw.times, raw.part)))
    return raw.take(np.argsort(raw.part, kind="stable"))


def _without_missing(raw: RawLog) -> RawLog:
    """Rows whose observations are known; where only the action or its cost is not, the row is
    still the end of what went before."""
    bad, ends = np.zeros(len(raw), bool), np.zeros(len(raw), bool)
    if raw.times is not None:
        bad |= ~np.isfinite(raw.times)
    for name in raw.values:
        if name in raw.observations:
            bad[missing(raw, name)] = True
        elif name in raw.actions or raw.cost_at == "departure":
            ends[missing(raw, name)] = True
        else:
            # The step that leads to this row has no cost: a new episode begins with the row.
            ends[missing(raw, name) - 1] = True
    return _without(raw.cut(np.concatenate([[False], ends[:-1]])), bad)


def _without(raw: RawLog, bad: np.ndarray) -> RawLog:
    """Rows that are not bad; what lies on two sides of a bad one becomes two episodes."""
    after = np.concatenate([[False], bad[:-1]])
    return raw.cut(after).take(np.flatnonzero(~bad))


def _marked(raw: RawLog, rows: np.ndarray) -> np.ndarray:
    mask = np.zeros(len(raw), bool)
    mask[rows] = True
    return mask
