"""Rows that are out of order, repeated, missing or stuck: where they are, and what mends a log.

Nothing is filled in: a row that was not measured is not learnt from.
"""

from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from twofold.core.naming import nearest
from twofold.plant.log import LogError
from twofold.plant.raw_log import RawLog

# A step that differs from the usual one by more than this part of it is a gap. Runs shorter than so
# many rows are rows out of order, not runs of their own.
GAP, LEAST_RUN = 0.5, 5
# A column is stuck if it stands still for this many rows and for this many times its usual stretch,
LEAST, TIMES = 10, 3
# while something else moves: a plant at rest has no stuck sensors. The usual stretch is the longest
# but for so many, or for this part of all: what a column does more often is its way (a set-point, a
# valve, a gauge of rain).
RARE, RARE_PART = 4, 0.01


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
    if raw.times is None and len(returns(raw)) and not mending.split_at_restarts:
        return raw
    raw = _gather(raw, mending)
    if mending.drop_duplicates:
        raw = raw.take(np.delete(np.arange(len(raw)), duplicates(raw)))
    if mending.drop_missing:
        raw = _drop_missing(raw)
    if mending.drop_stuck:
        stuck = [rows for stretches in find_stuck(raw).values() for rows in stretches]
        raw = _drop(raw, _mask(raw, np.concatenate([np.zeros(0, int), *stuck])))
    if mending.clip_actions:
        clipped = {name: np.clip(raw.values[name], *raw.actions[name]) for name in raw.actions}
        raw = replace(raw, values=raw.values | clipped)
    if mending.split_at_gaps and raw.times is not None:
        raw = raw.cut(_mask(raw, gaps(raw)[0]))
    return raw


def _gather(raw: RawLog, mending: Mending) -> RawLog:
    """Rows of an episode together, cut where it comes back or starts over, sorted by time."""
    if mending.split_at_restarts:
        if raw.times is None:
            raw = raw.cut(_mask(raw, returns(raw)))
        else:
            starts = _mask(raw, backward_rows(raw)[0])
            together = np.argsort(raw.part, kind="stable")
            raw = raw.take(together).cut(starts[together])
    if mending.sort and raw.times is not None:
        return raw.take(np.lexsort((raw.times, raw.part)))
    return raw.take(np.argsort(raw.part, kind="stable"))


def _drop_missing(raw: RawLog) -> RawLog:
    """Rows whose observations are known; where only the action or its cost is not, the row is
    still the end of what went before."""
    ends = np.zeros(len(raw), bool)
    bad = ends.copy() if raw.times is None else ~np.isfinite(raw.times)
    for name in raw.values:
        if name in raw.observations:
            bad[missing_rows(raw, name)] = True
        elif name in raw.actions or raw.cost_at == "departure":
            ends[missing_rows(raw, name)] = True
        else:
            # The step that leads to this row has no cost: a new episode begins with the row.
            ends[missing_rows(raw, name) - 1] = True
    return _drop(raw.cut(np.concatenate([[False], ends[:-1]])), bad)


def _drop(raw: RawLog, bad: np.ndarray) -> RawLog:
    """Rows that are not bad; what lies on two sides of a bad one becomes two episodes."""
    after = np.concatenate([[False], bad[:-1]])
    return raw.cut(after).take(np.flatnonzero(~bad))


def _mask(raw: RawLog, rows: np.ndarray) -> np.ndarray:
    mask = np.zeros(len(raw), bool)
    mask[rows] = True
    return mask


def missing_rows(raw: RawLog, name: str) -> np.ndarray:
    """Rows without a finite number where there should be one: the last action of an episode and
    the cost of its first row (of its last, if costs stand beside actions) are not needed."""
    bad = ~np.isfinite(raw.values[name])
    if name in raw.actions or name == raw.cost:
        last = name in raw.actions or raw.cost_at == "departure"
        bad[[group[-1 if last else 0] for group in raw.in_time]] = False
    return np.flatnonzero(bad)


def returns(raw: RawLog) -> np.ndarray:
    """Rows at which an episode goes on after rows of another one."""
    starts = np.flatnonzero(np.diff(raw.part, prepend=-1))
    _, first = np.unique(raw.part[starts], return_index=True)
    return np.delete(starts, first)


def backward_rows(raw: RawLog) -> tuple[np.ndarray, np.ndarray]:
    """Rows at which the time of an episode starts over (it goes back to where the rows before
    began, or further), and those that are only out of order."""
    over, back = [np.zeros(0, int)], [np.zeros(0, int)]
    for group in raw.groups:
        times = raw.times[group]  # type: ignore[index]
        places = np.flatnonzero(np.diff(times) < 0) + 1
        begins = np.concatenate([[0], places])[:-1]
        starts = times[places] <= times[begins]
        starts &= len(group) >= LEAST_RUN * (len(places) + 1)
        over.append(group[places[starts]])
        back.append(group[places[~starts]])
    return np.concatenate(over), np.concatenate(back)


def duplicates(raw: RawLog) -> np.ndarray:
    """Rows whose time another row of the episode, before it in the source, has already."""
    if raw.times is None:
        return np.zeros(0, int)
    order = np.lexsort((np.arange(len(raw)), raw.times, raw.part))
    same = (np.diff(raw.part[order]) == 0) & (np.diff(raw.times[order]) == 0)
    return np.sort(order[1:][same])


def gaps(raw: RawLog, tolerance: float = GAP) -> tuple[np.ndarray, np.ndarray, float]:
    """Rows after steps of another length, those lengths, and the usual step."""
    rows = np.concatenate([np.zeros(0, int), *raw.in_time])
    steps = np.diff(raw.times[rows])  # type: ignore[index]
    forward = (steps > 0) & (np.diff(raw.part[rows]) == 0)
    usual = float(np.median(steps[forward])) if forward.any() else 0.0
    odd = forward & (np.abs(steps - usual) > tolerance * usual)
    return rows[1:][odd], steps[odd], usual


def find_stuck(raw: RawLog) -> dict[str, list[np.ndarray]]:
    """For each observation, the rows of stretches where it stands still longer than is its way
    while others move."""
    groups = [group for group in raw.in_time if len(group) > 1]
    rows = np.concatenate([np.zeros(0, int), *groups])
    # Whether each step changes a value; a missing one changes it, and so does another episode.
    moves = {
        name: ~(values[1:] == values[:-1]) | (np.diff(raw.part[rows]) != 0)
        for name in (*raw.observations, *raw.actions)
        for values in [raw.values[name][rows]]
    }
    found = {}
    for name in raw.observations:
        # A column without company is compared with itself alone.
        others = [moves[other] for other in moves if other != name] or [~moves[name]]
        stretches = _stuck(moves[name], np.any(others, axis=0))
        found[name] = [rows[first : last + 1] for first, last in stretches]
    return found


def _stuck(own: np.ndarray, others: np.ndarray) -> list[tuple[int, int]]:
    """First and last place of the stretches, given whether each step moves this column, others."""
    bounds = np.flatnonzero(own)
    firsts, lasts = np.array([0, *(bounds + 1)]), np.array([*bounds, len(own)])
    lengths = lasts - firsts + 1
    rare = max(RARE, int(RARE_PART * len(lengths)))
    if len(lengths) <= rare:
        return []
    long = lengths >= max(LEAST, TIMES * np.sort(lengths)[-rare - 1])
    stretches = zip(firsts[long].tolist(), lasts[long].tolist(), strict=True)
    return [(first, last) for first, last in stretches if others[first:last].any()]
