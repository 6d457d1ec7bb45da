"""``RawLog``: the rows of a log as they were found, where they are out of order, repeated, missing
or stuck, and what mends them.

Nothing is filled in: a row that was not measured is not learnt from.
"""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from itertools import count
from typing import Any

import numpy as np

from twofold.core.naming import nearest
from twofold.plant.log import Episode, Log, LogError

NONE = np.array([np.nan])
FIRST = 4  # So many places are named; the rest are counted.
# A step that differs from the usual one by more than this part of it is a gap. Runs shorter than so
# many rows are rows out of order, not runs of their own.
GAP, LEAST_RUN = 0.5, 5
# A column is stuck if it stands still for this many rows and for this many times its usual stretch,
LEAST, TIMES = 10, 3
# while something else moves: a plant at rest has no stuck sensors. The usual stretch is the longest
# but for so many, or for this part of all: what a column does more often is its way (a set-point, a
# valve, a gauge of rain).
RARE, RARE_PART = 4, 0.01


@dataclass(frozen=True, eq=False)
class RawLog:
    """Columns of numbers, NaN where there is none, with the row of the source each came from.

    ``part`` says to which of the ``parts`` (episodes) a row belongs. ``texts`` holds, for each
    column, the rows whose cell is neither a number nor blank. ``others`` are columns of the source
    that nobody asked for.
    """

    source: str
    unit: str
    rows: np.ndarray
    observations: tuple[str, ...]
    actions: dict[str, tuple[float, float]]
    values: dict[str, np.ndarray]
    part: np.ndarray
    parts: tuple[str, ...]
    times: np.ndarray | None = None
    time: str = "time"
    cost: str | None = None
    cost_at: str = "arrival"
    texts: dict[str, dict[int, str]] = field(default_factory=dict)
    others: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    @cached_property
    def groups(self) -> list[np.ndarray]:
        """The rows of each episode, in the order of the source."""
        order = np.argsort(self.part, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(self.part[order])) + 1)
        return [group for group in groups if len(group)]

    @cached_property
    def in_time(self) -> list[np.ndarray]:
        """The rows of each episode, in the order of time where it is known."""
        if self.times is None:
            return self.groups
        times = self.times
        return [group[np.argsort(times[group], kind="stable")] for group in self.groups]

    def take(self, index: np.ndarray) -> "RawLog":
        """These rows only, in this order."""
        place = {int(row): new for new, row in enumerate(index)} if self.texts else {}
        texts = {
            name: {place[row]: text for row, text in found.items() if row in place}
            for name, found in self.texts.items()
        }
        values = {name: column[index] for name, column in self.values.items()}
        times = None if self.times is None else self.times[index]
        rows, part = self.rows[index], self.part[index]
        return replace(self, rows=rows, values=values, part=part, times=times, texts=texts)

    def cut(self, starts: np.ndarray) -> "RawLog":
        """New episodes begin at these rows; rows of one episode must lie together."""
        begins = starts | (np.diff(self.part, prepend=-1) != 0)
        parts = tuple(self.parts[self.part[row]] for row in np.flatnonzero(begins))
        return replace(self, part=np.cumsum(begins) - 1, parts=parts)

    def places(self, index: Sequence[int] | np.ndarray) -> str:
        """Where rows are in the source: ``lines 17-20, 33``."""
        index = np.asarray(index, int)
        if self.unit != "step":
            return _ranges(self.unit, self.rows[index])
        part, rows = self.part[index], self.rows[index]
        owners = list(dict.fromkeys(part.tolist()))
        said = [
            f"episode {self.parts[one]!r} {_ranges(self.unit, rows[part == one])}"
            for one in owners[:FIRST]
        ]
        return "; ".join(said) + _more(len(owners) - FIRST)

    def log(self) -> Log:
        """The rows as a log; what is wrong with them has been dealt with before."""
        groups = [group for group in self.in_time if len(group) > 1]
        origins = [self.parts[self.part[group[0]]] for group in groups]
        episodes = tuple(map(self._episode, groups, _numbered(origins), origins))
        bounds = np.asarray(list(self.actions.values()), float).reshape(-1, 2)
        return Log(self.observations, tuple(self.actions), bounds[:, 0], bounds[:, 1], episodes)

    def _episode(self, group: np.ndarray, name: str, origin: str) -> Episode:
        paid = group[1:] if self.cost_at == "arrival" else group[:-1]
        costs = None if self.cost is None else self.values[self.cost][paid]
        times = None if self.times is None else self.times[group]
        observations = self._columns(self.observations, group)
        actions = self._columns(self.actions, group[:-1])
        return Episode(observations, actions, costs, times, name, origin)

    def _columns(self, names: Iterable[str], group: np.ndarray) -> np.ndarray:
        columns = [self.values[name][group] for name in names]
        return np.stack(columns, axis=-1) if columns else np.zeros((len(group), 0))


def raw_log_of(log: Log) -> RawLog:
    """A log as rows again; the last row of an episode has no action, the first no cost."""
    lengths = [len(episode) + 1 for episode in log.episodes]
    blank = np.full((1, len(log.actions)), np.nan)
    observations = np.concatenate([one.observations for one in log.episodes])
    actions = np.concatenate([part for one in log.episodes for part in (one.actions, blank)])
    values = dict(zip(log.observations, observations.T, strict=True))
    values |= dict(zip(log.actions, actions.T, strict=True))
    cost = "cost" if "cost" not in values else "cost of the step"
    costs = [one.costs for one in log.episodes if one.costs is not None]
    if costs:
        values[cost] = np.concatenate([part for each in costs for part in (NONE, each)])
    times = [one.times for one in log.episodes if one.times is not None]
    bounds = zip(log.action_low.tolist(), log.action_high.tolist(), strict=True)
    return RawLog(
        "the log", "step", np.concatenate([np.arange(length) for length in lengths]),
        log.observations, dict(zip(log.actions, bounds, strict=True)), values,
        part=np.repeat(np.arange(len(lengths)), lengths),
        parts=tuple(one.name or str(i) for i, one in enumerate(log.episodes)),
        times=np.concatenate(times) if len(times) == len(lengths) else None,
        cost=cost if costs else None,
    )  # fmt: skip


def _numbered(names: list[str]) -> list[str]:
    """``a, a/2, b``: the pieces of an episode that was cut keep its name, with a number."""
    numbers: defaultdict[str, count[int]] = defaultdict(lambda: count(1))
    return [f"{name}/{n}" if (n := next(numbers[name])) > 1 else name for name in names]


def _ranges(unit: str, rows: np.ndarray) -> str:
    """``lines 17-20, 33 and 2 more places``."""
    rows = np.unique(rows)
    stretches = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
    said = [str(s[0]) if len(s) == 1 else f"{s[0]}-{s[-1]}" for s in stretches[:FIRST]]
    plural = "s" if len(rows) > 1 else ""
    return f"{unit}{plural} {', '.join(said)}" + _more(len(stretches) - FIRST)


def _more(count: int) -> str:
    return f" and {count} more place{'s' if count > 1 else ''}" if count > 0 else ""


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
