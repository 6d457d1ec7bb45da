"""Reading, checking and writing logs: CSV and Parquet files, and data frames.

Every fault has a kind, a location and a message with the remedy.
"""

import re
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence, Sized
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any, Literal

import numpy as np

from twofold.plant import raw_log
from twofold.plant.log import Log, LogError, LogWarning, check_bounds, check_unique
from twofold.plant.raw_log import GAP, RawLog, check_repairs, repair, to_raw_log
from twofold.tables import Table, check_names, read_table, write_table
from twofold.tables.dates import ORDERS
from twofold.tables.table import sentinels

# Names of columns that are probably the time or the episode.
LIKELY = {
    "time": {"time", "t", "timestamp", "datetime", "date", "step"},
    "episode": {"episode", "run", "batch", "trial", "run_id", "batch_id", "episode_id"},
}
# Numbers with an unexpected decimal mark, or with thousands separators.
MARKED = re.compile(r"[+-]?(\d+[.,]\d+|\d{1,3}([.,'_\s]\d{3})+([.,]\d+)?)(e[+-]?\d+)?", re.I)
# A step is uneven if it differs by more than this fraction; number of examples in a message.
UNEVEN, FEW = 0.1, 3
SENTENCES = {
    "text": "column {column!r} has text in {rows} ({examples}) at {where}; {remedy}",
    "missing": "column {column!r} has {what} of {all:,} values, at {where}; drop those rows with "
    "drop_missing=True",
    "sentinel": "column {column!r} is {value:.15g} in {rows}, far from all its other values, at "
    "{where}; if it marks missing values, pass missing=[{value:.15g}]",
    "far": "column {column!r} is {range} in {rows}, more than a million times its usual spread, at "
    "{where}; correct it, or if it marks missing values, pass missing={values} and "
    "drop_missing=True",
    "interleaved": "rows of other episodes lie between those of {episodes}, which continues at "
    "{where}; {remedy}",
    "mixed": "the time restarts at {where}, as if several episodes were joined; name the episode "
    "column (episode=…), or cut there with split_at_restarts=True",
    "unsorted": "the time goes back at {where}; sort the rows of each episode with sort=True",
    "duplicate": "{rows} with the time of another one, at {where}; keep the first of each with "
    "drop_duplicates=True",
    "gap": "the time step is {usual:g}, but {range} before {where}; cut there with "
    "split_at_gaps=True",
    "uneven": "{steps} of the {where} differ by more than {part} from the usual {usual:g} "
    "({range}); the model assumes equal steps",
    "constant": "{where} is {value:g} in every row; {remedy}",
    "stuck": "column {column!r} is constant for up to {most} while others change, at {where}; if "
    "the sensor was stuck, drop those rows with drop_stuck=True",
    "out_of_bounds": "action {column!r} leaves its bounds {low:g} and {high:g} in {rows} "
    "({range}), at {where}; widen the bounds or pass clip_actions=True",
    "unnamed": "no {role} column was named; if {column!r} is one, pass {role}={column!r}",
    "short": "{brief} of {all} have fewer than the {least} rows needed: {where}; {remedy}",
}
WARNINGS = ("sentinel", "uneven", "constant", "stuck", "unnamed")
# Kind, rows or a place in words (empty: no fault), and the values in the message.
Fault = tuple[str, Any, dict[str, Any]]


def read_log(
    source: Any,
    *,
    observations: Sequence[str],
    actions: Mapping[str, tuple[float, float]],
    episode: str | None = None,
    time: str | None = None,
    cost: str | None = None,
    date_order: str | None = None,
    missing: Sequence[str | float] = (),
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str = "utf-8-sig",
    history: int = 1,
    strict: bool = False,
    **repairs: bool,
) -> Log:
    """Read a log from a CSV or Parquet file or a pandas ``DataFrame``, with one row per time step.

    The columns are those of ``read_raw_log``. Faults that make the log unusable raise a
    ``LogError`` that lists them all with the option that repairs each (``sort=True``,
    ``split_at_gaps=True``, …: see ``repair``); other faults are warnings, or errors if ``strict``.
    ``history`` is the number of past rows that the model will see.
    """
    check_repairs(repairs)
    found = read_raw_log(
        source, observations=observations, actions=actions, episode=episode, time=time, cost=cost,
        date_order=date_order, missing=missing, delimiter=delimiter, decimal=decimal,
        encoding=encoding,
    )  # fmt: skip
    raw = repair(found, **repairs)
    if not len(raw):
        raise LogError(f"{found.source}: no row of {len(found)} is left after the repairs")
    # Neither is repaired: dropping rows with text would drop all rows with decimal commas.
    cut = repairs.get("split_at_restarts") and raw.times is None
    before = chain(_text_faults(found), () if cut else _interleaved_faults(found))
    after = _column_faults(raw), _order_faults(raw), _other_faults(raw, history)
    findings = [*_findings(found, before), *_findings(raw, chain(*after))]
    if any(finding.severity == "error" or strict for finding in findings):
        ordered = sorted(findings, key=lambda finding: finding.severity != "error")
        lines = [f"  - {finding.severity}: {finding.sentence}" for finding in ordered]
        raise LogError("\n".join([f"{raw.source}: {_count(findings, 'fault')} found", *lines]))
    for finding in findings:
        warnings.warn(f"{finding.source}: {finding.sentence}", LogWarning, stacklevel=2)
    return raw.log()


def read_raw_log(
    source: Any,
    *,
    observations: Sequence[str],
    actions: Mapping[str, tuple[float, float]],
    episode: str | None = None,
    time: str | None = None,
    cost: str | None = None,
    date_order: str | None = None,
    missing: Sequence[str | float] = (),
    delimiter: str | None = None,
    decimal: str | None = None,
    encoding: str = "utf-8-sig",
) -> RawLog:
    """Read the named columns of a table without repairs, for ``check``.

    ``observations`` names the sensor columns, ``actions`` those applied from a row on, with their
    bounds; in the last row of an episode they may be blank. ``episode`` and ``time`` (numbers or
    dates) name further columns, ``cost`` one with the cost of arriving at a row. ``missing`` lists
    markers for missing values, words or numbers (in the time column, only words). ``date_order``
    ("day-first", "month-first") resolves dates like 03/04/2025 if the column is ambiguous.
    ``decimal`` is the decimal mark (default: detected).
    """
    if date_order not in (None, *ORDERS):
        raise LogError(f"date_order must be {' or '.join(map(repr, ORDERS))}, got {date_order!r}")
    if decimal not in (None, ".", ","):
        raise LogError(f"decimal must be '.' or ',', got {decimal!r}")
    table = read_table(source, delimiter=delimiter, encoding=encoding)
    table = replace(table, decimal=decimal or table.decimal)
    missing = [missing] if isinstance(missing, str | int | float) else list(missing)
    observations = (observations,) if isinstance(observations, str) else tuple(observations)
    given = [*observations, *actions, *(one for one in (episode, time, cost) if one is not None)]
    check_unique(given)
    check_names(table, given)
    bounds = _bounds(table, actions, missing)
    names = [name for name in given if name not in (episode, time)]
    read = {name: table.numbers(name, missing) for name in names}
    texts = {name: column.texts for name, column in read.items()}
    times = None
    if time is not None:
        times, texts[time] = table.times(time, missing, date_order)
    part, parts = _episodes(table, episode)
    return RawLog(
        table.source, table.unit, table.rows, observations, bounds, part=part, parts=parts,
        values={name: column.values for name, column in read.items()}, times=times,
        time=time or "time", cost=cost, texts=texts,
        others=tuple(name for name in table.names if name not in given),
    )  # fmt: skip


def write_log(log: Log, path: Any) -> None:
    """Write a log as a CSV or Parquet file that ``read_log`` reads back exactly.

    Its columns are ``episode``, ``step``, ``time`` (if known), observations, actions (blank in the
    last row of an episode) and ``cost`` (blank in the first).
    """
    raw = to_raw_log(log)
    columns: dict[str, Any] = {"episode": [raw.parts[one] for one in raw.part], "step": raw.rows}
    if raw.times is not None:
        columns["time"] = raw.times
    for name in sorted(columns.keys() & raw.values.keys()):
        raise LogError(f"{name!r} is a column of every written log; rename that column of the log")
    write_table(path, columns | raw.values)


def _bounds(
    table: Table, actions: Any, missing: Sequence[str | float]
) -> dict[str, tuple[float, float]]:
    """Checked bounds; without bounds, the error shows the range in the table."""
    if isinstance(actions, Mapping):
        return {name: check_bounds(name, bounds) for name, bounds in actions.items()}
    names = [actions] if isinstance(actions, str) else list(actions)
    check_names(table, names)
    columns = {name: table.numbers(name, missing).values for name in names}
    ranges = [f"{one!r}: ({np.nanmin(own):g}, {np.nanmax(own):g})" for one, own in columns.items()]
    raise LogError(
        "actions need bounds, which policies respect: pass a mapping such as "
        f"actions={{{', '.join(ranges)}}} (the range in {table.source})"
    )


def _episodes(table: Table, episode: str | None) -> tuple[np.ndarray, tuple[str, ...]]:
    """The episode number of each row, by first appearance, and the names of the episodes."""
    if episode is None:
        return np.zeros(len(table), int), ("0",)
    labels = table.labels(episode)
    blank = [row for row, label in zip(table.rows, labels, strict=True) if label in ("", "nan")]
    if blank:
        raise LogError(
            f"{table.source}: the episode column {episode!r} is blank in {len(blank)} rows, the "
            f"first of them {table.unit} {blank[0]}; fill it in, or delete those rows"
        )
    parts = {label: number for number, label in enumerate(dict.fromkeys(labels))}
    return np.array([parts[label] for label in labels]), tuple(parts)


@dataclass(frozen=True)
class Finding:
    """A fault: its ``kind`` in a word, ``where`` it is, and a ``sentence`` with the remedy. Errors
    must be repaired before the log can be used; warnings should be inspected."""

    kind: str
    where: str
    sentence: str
    severity: Literal["error", "warning"] = "error"
    column: str | None = None
    source: str = "the log"

    def __str__(self) -> str:
        return f"{self.severity}: {self.source}: {self.sentence}"


def check(what: Any, *, history: int = 1) -> list[Finding]:
    """Find the faults of a ``Log`` or a ``RawLog``, for a model that sees ``history`` rows."""
    if not isinstance(what, Log | RawLog):
        raise LogError(
            f"check takes a Log or a RawLog (from read_raw_log), got {type(what).__name__}"
        )
    raw = to_raw_log(what) if isinstance(what, Log) else what
    faults = _text_faults(raw), _column_faults(raw), _interleaved_faults(raw), _order_faults(raw)
    return [*_findings(raw, chain(*faults, _other_faults(raw, history)))]


def _findings(raw: RawLog, faults: Iterable[Fault]) -> Iterator[Finding]:
    for kind, at, facts in faults:
        if len(at):
            facts["where"] = where = at if isinstance(at, str) else raw.places(at)
            severity = facts.get("severity", "warning" if kind in WARNINGS else "error")
            sentence = SENTENCES[kind].format(rows=_count(at, "row"), **facts)
            yield Finding(kind, where, sentence, severity, facts.get("column"), raw.source)


def _text_faults(raw: RawLog) -> Iterator[Fault]:
    """Cells that are neither a number nor blank, by column."""
    for name, texts in raw.texts.items():
        words = list(dict.fromkeys(texts.values()))
        examples = _list(list(map(repr, words)), FEW)
        remedy = number = _remedy(words)
        if not number:
            remedy = f"if it marks missing values, pass missing={words[:FEW]}"
        if name == raw.time:
            remedy = f"write times as numbers or like 2024-03-01 06:00:00, or {remedy}"
        elif not number and np.isnan(raw.values[name]).all():
            remedy = "write its values as numbers, such as 0 and 1 for off and on"
        yield "text", list(texts), {"column": name, "examples": examples, "remedy": remedy}


def _column_faults(raw: RawLog) -> Iterator[Fault]:
    """Values that are missing, sentinels, far, constant or stuck, and actions out of bounds."""
    stuck = raw_log.find_stuck(raw)
    for name, column in raw.columns.items():
        rows = np.setdiff1d(raw_log.find_missing(raw, name), list(raw.texts.get(name, ())))
        infinite = int(np.isinf(column[rows]).sum())
        what = f"{len(rows) - infinite:,} missing" + f" and {infinite:,} infinite" * (infinite > 0)
        yield "missing", rows, {"column": name, "what": what, "all": len(raw)}
        if name not in raw.values:
            continue
        values = raw.values[name]
        if name in raw.actions:
            (low, high), remedy = raw.actions[name], "its effect cannot be learnt from this log"
            slack = 1e-6 * (high - low)
            rows = np.flatnonzero((values < low - slack) | (values > high + slack))
            facts = {"column": name, "low": low, "high": high, "range": _range(values[rows])}
            yield "out_of_bounds", rows, facts
        else:
            remedy = "it carries no information; do not name it as an observation"
            yield from _odd_values(name, values)
        known = values[np.isfinite(values)]
        if name != raw.cost and len(known) > 1 and known.min() == known.max():
            facts = {"column": name, "value": known[0], "remedy": remedy}
            yield "constant", f"column {name!r}", facts
        still = stuck.get(name, [])
        most = _count(max(still, key=len, default=()), "row")
        yield "stuck", [row for rows in still for row in rows], {"column": name, "most": most}


def _odd_values(name: str, values: np.ndarray) -> Iterator[Fault]:
    """Sentinels, and values that no sensor can have measured."""
    far, marks = raw_log.find_far(values), sentinels(values)
    for value in marks:
        rows = np.flatnonzero(values == value)
        severity = "error" if np.isin(rows, far).any() else "warning"
        yield "sentinel", rows, {"column": name, "value": value, "severity": severity}
    rows = far[~np.isin(values[far], marks)]
    numbers = np.unique(values[rows]).tolist()[:FEW]
    yield "far", rows, {"column": name, "range": _range(values[rows]), "values": numbers}


def _interleaved_faults(raw: RawLog) -> Iterator[Fault]:
    """Episodes whose rows are interleaved with others."""
    rows = raw_log.find_returns(raw)
    episodes = _list([repr(raw.parts[one]) for one in dict.fromkeys(raw.part[rows].tolist())])
    facts = {"severity": "warning", "remedy": "rows are grouped by the name of their episode"}
    if raw.times is None:
        facts = {
            "remedy": "name the time column (time=…), or cut there with split_at_restarts=True"
        }
    yield "interleaved", rows, {"episodes": episodes, **facts}


def _order_faults(raw: RawLog) -> Iterator[Fault]:
    """Times that restart, go back, repeat, have gaps or are uneven."""
    if raw.times is None:
        return
    over, back = raw_log.find_backward(raw)
    yield "mixed", over, {}
    yield "unsorted", back, {}
    # At a restart, equal times are not duplicates, and the step is not a gap.
    if not len(over):
        yield "duplicate", raw_log.find_duplicates(raw), {}
        rows, steps, usual = raw_log.find_gaps(raw)
        yield "gap", rows, {"usual": usual, "range": _range(steps)}
    _, steps, usual = raw_log.find_gaps(raw, UNEVEN)
    steps = steps[np.abs(steps - usual) <= GAP * usual]
    facts = {"steps": _count(steps, "step"), "part": f"{UNEVEN:.0%}", "range": _range(steps)}
    yield "uneven", "time" if len(steps) else "", {"usual": usual, **facts}


def _other_faults(raw: RawLog, history: int) -> Iterator[Fault]:
    """An unused column that looks like the time or the episode, and episodes without any step."""
    is_named = {"time": raw.times is not None, "episode": len(raw.parts) > 1}
    for role, names in LIKELY.items():
        likely = [name for name in raw.others if name.casefold() in names]
        if likely and not is_named[role]:
            yield "unnamed", f"column {likely[0]!r}", {"column": likely[0], "role": role}
    brief = [group for group in raw.groups if len(group) <= history]
    short = [f"{raw.parts[raw.part[group[0]]]!r} ({len(group)})" for group in brief]
    facts = {"brief": len(brief), "all": _count(raw.groups, "episode"), "least": history + 1}
    facts |= {"severity": "warning", "remedy": "they are dropped"}
    if len(brief) == len(raw.groups):
        facts |= {"severity": "error", "remedy": "use a shorter history"}
    yield "short", f"episodes {_list(short)}" if brief else "", facts


def _remedy(words: Sequence[str]) -> str:
    """The remedy for numbers among texts, if any."""
    marks = {re.sub(r"[\deE+-]", "", word) for word in words if MARKED.fullmatch(word)}
    for mark, name in ((",", "comma"), (".", "point")):
        if mark in marks:
            decimal = f"if the {name} is a decimal mark, pass decimal={mark!r}"
            return f"{decimal}; if it separates thousands, remove it"
    return "remove thousands separators" if marks else ""


def _count(what: Sized, unit: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{len(what):,} {unit}{'' if len(what) == 1 else 's'}"


def _list(words: Sequence[str], most: int = 4) -> str:
    return ", ".join(words[:most]) + (", …" if len(words) > most else "")


def _range(values: np.ndarray) -> str:
    """``2 to 5``, or ``2`` if there is no other value."""
    ends = (values.min(), values.max()) if len(values) else ()
    return " to ".join(dict.fromkeys(f"{end:g}" for end in ends))
