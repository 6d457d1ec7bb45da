"""``RawLog``: rows of a log, detection of faults (order, duplicates, missing, stuck), and repairs.

Values are never imputed: rows with missing values are not used.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import numpy as np

from twofold.core.naming import nearest
from twofold.plant.log import Episode, Log, LogError

FIRST = 4  # Number of places named in a message; the rest are counted.
# A step that differs from the usual one by more than this fraction of it is a gap. Runs with fewer
# rows than this are rows out of order, not separate runs.
GAP, LEAST_RUN = 0.5, 5
# A column is stuck if it is constant for this many rows and for this many times its usual stretch:
# the longest one, apart from this number or fraction of stretches. More frequent constant stretches
# are normal for the column (a set-point, a valve, a rain gauge).
LEAST, TIMES, RARE, RARE_PART = 10, 3, 4, 0.01
# A value is far if it is this many times farther from the median than this quantile of its column.
FAR, USUAL = 1e6, 0.95
NO_ROWS = np.zeros(0, int)


@dataclass(frozen=True, eq=False)
class RawLog:
    """Columns of numbers, NaN for missing values, with the source row of each. ``part`` is the
    index into ``parts`` (episodes) of each row. ``texts`` holds, by column, the rows whose cell is
    neither a number nor blank. ``others`` are unused columns of the source."""

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
    texts: dict[str, dict[int, str]] = field(default_factory=dict)
    others: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def columns(self) -> dict[str, np.ndarray]:
        """Values, and times if known."""
        return self.values | ({} if self.times is None else {self.time: self.times})

    @cached_property
    def groups(self) -> list[np.ndarray]:
        """The rows of each episode, in the order of the source."""
        order = np.argsort(self.part, kind="stable")
        groups = np.split(order, np.flatnonzero(np.diff(self.part[order])) + 1)
        return [group for group in groups if len(group)]

    @cached_property
    def in_time(self) -> list[np.ndarray]:
        """The rows of each episode, in order of time if known."""
        if self.times is None:
            return self.groups
        times = self.times
        return [group[np.argsort(times[group], kind="stable")] for group in self.groups]

    def take(self, index: np.ndarray) -> "RawLog":
        """Select rows, in this order."""
        texts = {
            name: {new: found[row] for new, row in enumerate(index.tolist()) if row in found}
            for name, found in self.texts.items()
            if found
        }
        values = {name: column[index] for name, column in self.values.items()}
        times = None if self.times is None else self.times[index]
        rows, part = self.rows[index], self.part[index]
        return replace(self, rows=rows, values=values, part=part, times=times, texts=texts)

    def cut(self, starts: np.ndarray) -> "RawLog":
        """Begin new episodes at these rows; rows of one episode must be adjacent."""
        begins = np.diff(self.part, prepend=-1) != 0
        begins[starts[starts < len(self)]] = True
        parts = tuple(self.parts[one] for one in self.part[begins])
        return replace(self, part=np.cumsum(begins) - 1, parts=parts)

    def drop(self, bad: np.ndarray) -> "RawLog":
        """Drop rows and cut the episode there."""
        return self.cut(bad + 1).take(np.delete(np.arange(len(self)), bad))

    def places(self, index: Sequence[int] | np.ndarray) -> str:
        """Locations of rows in the source: ``lines 17-20, 33``."""
        index = np.asarray(index, int)
        if self.unit != "step":
            return _ranges(self.unit, self.rows[index])
        part, rows = self.part[index], self.rows[index]
        owners = list(dict.fromkeys(part.tolist()))
        ranges = [(self.parts[one], _ranges("step", rows[part == one])) for one in owners[:FIRST]]
        text = "; ".join(f"episode {name!r} {steps}" for name, steps in ranges)
        return text + _more(len(owners) - FIRST)

    def log(self) -> Log:
        """The repaired rows as a log; pieces of an episode that was cut are named ``a, a/2``."""
        episodes, pieces = list[Episode](), Counter[str]()
        for group in (group for group in self.in_time if len(group) > 1):
            origin = self.parts[self.part[group[0]]]
            pieces[origin] += 1
            name = f"{origin}/{pieces[origin]}" if pieces[origin] > 1 else origin
            costs = None if self.cost is None else self.values[self.cost][group[1:]]
            times = None if self.times is None else self.times[group]
            columns = self._table(self.observations, group), self._table(self.actions, group[:-1])
            episodes.append(Episode(*columns, costs, times, name, origin))
        low, high = np.asarray(list(self.actions.values()), float).reshape(-1, 2).T
        return Log(self.observations, tuple(self.actions), low, high, tuple(episodes))

    def _table(self, names: Iterable[str], group: np.ndarray) -> np.ndarray:
        columns = [self.values[name][group] for name in names]
        return np.stack(columns, axis=-1) if columns else np.zeros((len(group), 0))


def to_raw_log(log: Log) -> RawLog:
    """Convert a log back to rows; the last row of an episode has no action, the first no cost."""
    names, episodes, cost = [*log.observations, *log.actions], log.episodes, None
    none = np.full((1, len(log.actions)), np.nan)
    tables = [np.hstack([one.observations, np.vstack([one.actions, none])]) for one in episodes]
    values = dict(zip(names, np.concatenate(tables).T, strict=True))
    costs = [np.append(np.nan, one.costs) for one in episodes if one.costs is not None]
    if costs:
        cost = "cost of the step" if "cost" in names else "cost"
        values[cost] = np.concatenate(costs)
    times = [one.times for one in episodes if one.times is not None]
    bounds = zip(log.action_low.tolist(), log.action_high.tolist(), strict=True)
    return RawLog(
        "the log", "step", np.concatenate([np.arange(len(table)) for table in tables]),
        log.observations, dict(zip(log.actions, bounds, strict=True)), values,
        part=np.repeat(np.arange(len(tables)), [len(table) for table in tables]),
        parts=tuple(one.name or str(i) for i, one in enumerate(episodes)),
        times=np.concatenate(times) if len(times) == len(tables) else None, cost=cost,
    )  # fmt: skip


def _ranges(unit: str, rows: np.ndarray) -> str:
    """``lines 17-20, 33 and 2 more places``."""
    rows = np.unique(rows)
    stretches = np.split(rows, np.flatnonzero(np.diff(rows) > 1) + 1)
    texts = [str(s[0]) if len(s) == 1 else f"{s[0]}-{s[-1]}" for s in stretches[:FIRST]]
    plural = "s" if len(rows) > 1 else ""
    return f"{unit}{plural} {', '.join(texts)}" + _more(len(stretches) - FIRST)


def _more(count: int) -> str:
    return f" and {count} more place{'s' if count > 1 else ''}" if count > 0 else ""


def repair(
    raw: RawLog,
    *,
    split_at_restarts: bool = False,
    sort: bool = False,
    drop_duplicates: bool = False,
    drop_missing: bool = False,
    drop_stuck: bool = False,
    clip_actions: bool = False,
    split_at_gaps: bool = False,
) -> RawLog:
    """Repair a log; rows of an episode become adjacent if their order is known.

    ``split_at_restarts`` begins a new episode where the time restarts, or (without times) where an
    episode continues after another. ``sort`` sorts the rows of each episode by time.
    ``drop_duplicates`` keeps the first row of each time. ``drop_missing`` drops rows with missing
    values, ``drop_stuck`` those of a stuck sensor, and both cut the episode there. ``clip_actions``
    clips actions to their bounds. ``split_at_gaps`` cuts where a time step has another length.
    """
    if split_at_restarts and raw.times is None:
        raw = raw.cut(find_returns(raw))
    elif split_at_restarts:
        together, over = np.argsort(raw.part, kind="stable"), find_backward(raw)[0]
        raw = raw.take(together).cut(np.argsort(together)[over])
    elif raw.times is None and len(find_returns(raw)):
        return raw
    by_time = [raw.times] if sort and raw.times is not None else []
    raw = raw.take(np.lexsort((*by_time, raw.part)))
    if drop_duplicates:
        raw = raw.take(np.delete(np.arange(len(raw)), find_duplicates(raw)))
    if drop_missing:
        raw = _drop_missing(raw)
    if drop_stuck:
        stuck = [rows for stretches in find_stuck(raw).values() for rows in stretches]
        raw = raw.drop(np.concatenate([NO_ROWS, *stuck]))
    if clip_actions:
        clipped = {name: np.clip(raw.values[name], *raw.actions[name]) for name in raw.actions}
        raw = replace(raw, values=raw.values | clipped)
    if split_at_gaps and raw.times is not None:
        raw = raw.cut(find_gaps(raw)[0])
    return raw


def check_repairs(options: Iterable[str]) -> None:
    """Refuse options that ``repair`` does not have."""
    known = list(repair.__kwdefaults__ or ())
    for name in options:
        if name not in known:
            hint = f"{', '.join(known)}{nearest(name, known)}"
            raise LogError(f"there is no option {name!r}; the repairs of a log are {hint}")


def _drop_missing(raw: RawLog) -> RawLog:
    """Drop rows with missing observations; without action or cost, a row still ends a piece."""
    bad, starts = [NO_ROWS], [NO_ROWS]
    for name in raw.columns:
        rows = find_missing(raw, name)
        if name in raw.actions:
            starts.append(rows + 1)
        elif name == raw.cost:
            # The step that leads to this row has no cost, so a new episode begins here.
            starts.append(rows)
        else:
            bad.append(rows)
    return raw.cut(np.concatenate(starts)).drop(np.concatenate(bad))


def find_missing(raw: RawLog, name: str) -> np.ndarray:
    """Rows without a finite number (not required: last action and first cost of an episode)."""
    bad = ~np.isfinite(raw.columns[name])
    if name in raw.actions or name == raw.cost:
        bad[[group[-1 if name in raw.actions else 0] for group in raw.in_time]] = False
    return np.flatnonzero(bad)


def find_returns(raw: RawLog) -> np.ndarray:
    """Rows at which an episode continues after rows of another."""
    starts = np.flatnonzero(np.diff(raw.part, prepend=-1))
    _, first = np.unique(raw.part[starts], return_index=True)
    return np.delete(starts, first)


def find_backward(raw: RawLog) -> tuple[np.ndarray, np.ndarray]:
    """Rows at which the time of an episode restarts (goes back to the start of the preceding rows,
    or further), and rows that are only out of order."""
    over, back = [NO_ROWS], [NO_ROWS]
    for group in raw.groups:
        times = raw.times[group]  # type: ignore[index]
        places = np.flatnonzero(np.diff(times) < 0) + 1
        starts = times[places] <= times[np.append(0, places)[:-1]]
        starts &= len(group) >= LEAST_RUN * (len(places) + 1)
        over.append(group[places[starts]])
        back.append(group[places[~starts]])
    return np.concatenate(over), np.concatenate(back)


def find_duplicates(raw: RawLog) -> np.ndarray:
    """Rows with the same time as an earlier row of the episode."""
    if raw.times is None:
        return NO_ROWS
    order = np.lexsort((raw.times, raw.part))
    same = (np.diff(raw.part[order]) == 0) & (np.diff(raw.times[order]) == 0)
    return np.sort(order[1:][same])


def find_gaps(raw: RawLog, tolerance: float = GAP) -> tuple[np.ndarray, np.ndarray, float]:
    """Rows after steps of unusual length, those lengths, and the usual step."""
    rows = np.concatenate([NO_ROWS, *raw.in_time])
    steps = np.diff(raw.times[rows])  # type: ignore[index]
    forward = (steps > 0) & (np.diff(raw.part[rows]) == 0)
    usual = float(np.median(steps[forward])) if forward.any() else 0.0
    odd = forward & (np.abs(steps - usual) > tolerance * usual)
    return rows[1:][odd], steps[odd], usual


def find_stuck(raw: RawLog) -> dict[str, list[np.ndarray]]:
    """For each observation, unusually long constant stretches of rows in which others change."""
    groups = [group for group in raw.in_time if len(group) > 1]
    rows = np.concatenate([NO_ROWS, *groups])
    # Whether each step changes a value; missing values and episode boundaries count as changes.
    apart = np.diff(raw.part[rows]) != 0
    columns = {name: raw.values[name][rows] for name in (*raw.observations, *raw.actions)}
    moves = {name: ~(own[1:] == own[:-1]) | apart for name, own in columns.items()}
    found = {}
    for name in raw.observations:
        # A single column has no others to compare with.
        others = [moves[other] for other in moves if other != name] or [~moves[name]]
        moving = np.append(np.any(others, axis=0), False)
        # Constant stretches of the column, each with the step that ends it.
        ends = np.append(np.flatnonzero(moves[name]), len(moving) - 1)
        lengths = np.diff(ends, prepend=-1)
        rare = max(RARE, int(RARE_PART * len(lengths)))
        least = TIMES * np.sort(lengths)[-rare - 1] if len(lengths) > rare else np.inf
        long = np.flatnonzero(lengths >= max(LEAST, least))
        stretches = [np.arange(ends[i] + 1 - lengths[i], ends[i] + 1) for i in long]
        found[name] = [rows[one] for one in stretches if moving[one[:-1]].any()]
    return found


def find_far(values: np.ndarray) -> np.ndarray:
    """Rows whose distance from the median exceeds a million times the 95 % quantile of these
    distances: beyond the range of any sensor and the digits of single precision."""
    known = values[np.isfinite(values)]
    if not len(known):
        return NO_ROWS
    middle = float(np.median(known))
    with np.errstate(over="ignore", invalid="ignore"):
        usual = float(np.quantile(np.abs(known - middle), USUAL)) or max(abs(middle), 1.0)
        far = np.abs(values - middle) > FAR * usual
    return np.flatnonzero(far & np.isfinite(values))
