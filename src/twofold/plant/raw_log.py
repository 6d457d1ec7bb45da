"""``RawLog``: the rows of a log as they were found, before faults are mended."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import count

import numpy as np

from twofold.plant.log import Episode, Log

NONE = np.array([np.nan])
FIRST = 4  # So many places are named; the rest are counted.


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
