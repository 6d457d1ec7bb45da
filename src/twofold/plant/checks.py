"""What is wrong with a log: every fault has a kind, a place and a sentence that says what to do."""

import re
from collections.abc import Iterator, Sequence, Sized
from dataclasses import dataclass, replace
from typing import Any, Literal, TypeAlias

import numpy as np

from twofold.plant import mending
from twofold.plant.log import Log, LogError
from twofold.plant.mending import GAP
from twofold.plant.raw_log import RawLog, raw_log_of
from twofold.tables.sentinels import sentinels

# Names under which a column that nobody asked for is probably the time or the episode.
LIKELY = {
    "time": {"time", "t", "timestamp", "datetime", "date", "step"},
    "episode": {"episode", "run", "batch", "trial", "run_id", "batch_id", "episode_id"},
}
# Numbers with another decimal mark than was said, or with marks between thousands.
MARKED = re.compile(r"[+-]?(\d+[.,]\d+|\d{1,3}([.,'_\s]\d{3})+([.,]\d+)?)(e[+-]?\d+)?", re.I)
# A step that differs from the usual one by more than this part of it is said to be uneven.
UNEVEN = 0.1
Severity: TypeAlias = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """A fault: ``kind`` in a word, ``where`` it is, a ``sentence`` with what to do about it.

    An error has to be mended before the log can be learnt from; a warning should be looked at.
    """

    kind: str
    where: str
    sentence: str
    severity: Severity = "error"
    column: str | None = None
    source: str = "the log"

    def __str__(self) -> str:
        return f"{self.severity}: {self.source}: {self.sentence}"


def check(what: Any, *, history: int = 1, strict: bool = False) -> list[Finding]:
    """The faults of a ``Log``, or of the ``RawLog`` that ``read_raw_log`` gives.

    ``history`` is the number of rows that a model will look back over. ``strict`` raises a
    ``LogError`` that lists all findings.
    """
    if not isinstance(what, Log | RawLog):
        raise LogError(
            f"check takes a Log or a RawLog (read_raw_log gives one), got {type(what).__name__}"
        )
    raw = raw_log_of(what) if isinstance(what, Log) else what
    findings = [finding for find in CHECKS for finding in find(raw)]
    findings += find_short_episodes(raw, history)
    findings = [replace(finding, source=raw.source) for finding in findings]
    if strict and findings:
        raise log_error(raw.source, findings)
    return findings


def log_error(source: str, findings: Sequence[Finding]) -> LogError:
    """An error that lists findings, errors first."""
    ordered = sorted(findings, key=lambda finding: finding.severity != "error")
    lines = [f"  - {finding.severity}: {finding.sentence}" for finding in ordered]
    return LogError("\n".join([f"{source}: {_count(findings, 'fault')} found", *lines]))


def find_texts(raw: RawLog) -> Iterator[Finding]:
    """Cells that are neither numbers nor blank."""
    for name, cells in raw.texts.items():
        words = list(dict.fromkeys(cells.values()))
        examples = ", ".join(map(repr, words[:3])) + (", …" if len(words) > 3 else "")
        remedy = _remedy(words) or f"if it means no value, pass missing=[{examples}]"
        if name == raw.time:
            remedy = f"write times as numbers or like 2024-03-01 06:00:00, or {remedy}"
        said = f"column {name!r} has text in {_count(cells, 'row')} ({examples}) at"
        yield from _at(raw, "text", list(cells), said, remedy, column=name)


def find_missing(raw: RawLog) -> Iterator[Finding]:
    """Cells that are blank, NaN or infinite."""
    columns = raw.values | ({} if raw.times is None else {raw.time: raw.times})
    for name, values in columns.items():
        measured = name in raw.values
        rows = mending.missing_rows(raw, name) if measured else np.flatnonzero(~np.isfinite(values))
        rows = np.setdiff1d(rows, list(raw.texts.get(name, {})))
        infinite = int(np.isinf(values[rows]).sum())
        what = f"{len(rows) - infinite:,} missing" + f" and {infinite:,} infinite" * (infinite > 0)
        said = f"column {name!r} has {what} of {len(raw):,} values, at"
        remedy = "leave those rows out with drop_missing=True"
        yield from _at(raw, "missing", rows, said, remedy, column=name)


def find_sentinels(raw: RawLog) -> Iterator[Finding]:
    """Numbers that seem to say that there is no value."""
    for name in (one for one in raw.values if one not in raw.actions):
        for value in sentinels(raw.values[name]):
            rows = np.flatnonzero(raw.values[name] == value)
            said = f"column {name!r} is {value:.15g} in {_count(rows, 'row')}, far from all its "
            remedy = f"if it means no value, pass missing=[{value:.15g}]"
            yield from _at(
                raw, "sentinel", rows, f"{said}other values, at", remedy, "warning", name
            )


def find_stuck_sensors(raw: RawLog) -> Iterator[Finding]:
    """Sensors that are stuck, and columns that never change."""
    for name, own in mending.find_stuck(raw).items():
        yield from _constant(raw, name, "it tells the model nothing: leave it out")
        most = _count(max(own, key=len, default=()), "row")
        said = f"column {name!r} stands still for up to {most} while others move, at"
        remedy = "if the sensor was stuck, leave those rows out with drop_stuck=True"
        yield from _at(
            raw, "stuck", [row for rows in own for row in rows], said, remedy, "warning", name
        )


def find_bad_actions(raw: RawLog) -> Iterator[Finding]:
    """Actions out of bounds, but for rounding, and actions from which nothing can be learnt."""
    for name, (low, high) in raw.actions.items():
        values, slack = raw.values[name], 1e-6 * (high - low)
        yield from _constant(raw, name, "what it does cannot be learnt from this log")
        rows = np.flatnonzero((values < low - slack) | (values > high + slack))
        said = (
            f"action {name!r} leaves its bounds {low:g} and {high:g} in {_count(rows, 'row')} "
            f"({_range(values[rows])}), at"
        )
        remedy = "widen the bounds or pass clip_actions=True"
        yield from _at(raw, "out_of_bounds", rows, said, remedy, column=name)


def find_short_episodes(raw: RawLog, history: int) -> Iterator[Finding]:
    """Episodes without a single step that a model can learn from."""
    groups = raw.groups
    brief = [group for group in groups if len(group) <= history]
    if not brief:
        return
    names = [f"{raw.parts[raw.part[group[0]]]!r} ({len(group)})" for group in brief]
    said = ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
    all_of_them = len(brief) == len(groups)
    yield Finding(
        "short", f"episodes {said}", f"{len(brief)} of "
        f"{_count(groups, 'episode')} have too few rows to learn from, at least {history + 1} "
        f"are needed: {said}; " + ("use a shorter history" if all_of_them else "they are left out"),
        "error" if all_of_them else "warning",
    )  # fmt: skip


def find_unnamed_columns(raw: RawLog) -> Iterator[Finding]:
    """A column that looks like the time or the episode, which nobody has named."""
    is_named = {"time": raw.times is not None, "episode": len(raw.parts) > 1}
    for role, names in LIKELY.items():
        likely = [name for name in raw.others if name.casefold() in names]
        if likely and not is_named[role]:
            yield Finding(
                "unnamed", f"column {likely[0]!r}", f"no {role} column was named; "
                f"if {likely[0]!r} is one, pass {role}={likely[0]!r}", "warning", likely[0],
            )  # fmt: skip


def find_mixed_episodes(raw: RawLog) -> Iterator[Finding]:
    """Episodes whose rows are mixed with those of others."""
    rows = mending.returns(raw)
    names = list(dict.fromkeys(raw.part[rows].tolist()))
    some = ", ".join(repr(raw.parts[one]) for one in names[:4]) + (", …" if names[4:] else "")
    said = f"rows of another episode lie between those of {some}, which goes on at"
    if raw.times is None:
        remedy = "name the time column (time=…), or cut there with split_at_restarts=True"
        yield from _at(raw, "interleaved", rows, said, remedy)
    else:
        remedy = "rows are put together by the name of their episode"
        yield from _at(raw, "interleaved", rows, said, remedy, "warning")


def find_disorder(raw: RawLog) -> Iterator[Finding]:
    """Times that start over, go back, repeat, leave gaps or are uneven."""
    if raw.times is None:
        return
    over, back = mending.backward_rows(raw)
    said = "as if several episodes were one, the time starts over at"
    remedy = "name the episode column (episode=…), or cut there with split_at_restarts=True"
    yield from _at(raw, "mixed", over, said, remedy)
    remedy = "sort the rows of each episode with sort=True"
    yield from _at(raw, "unsorted", back, "the time goes back at", remedy)
    # Where the time starts over the same times are no duplicates, and its steps no gaps.
    if not len(over):
        rows = mending.duplicates(raw)
        said = f"{_count(rows, 'row')} with the time of another one, at"
        remedy = "keep the first of each with drop_duplicates=True"
        yield from _at(raw, "duplicate", rows, said, remedy)
        rows, steps, usual = mending.gaps(raw)
        said = f"the time step is {usual:g}, but {_range(steps)} before"
        yield from _at(raw, "gap", rows, said, "cut there with split_at_gaps=True")
    _, steps, usual = mending.gaps(raw, UNEVEN)
    steps = steps[np.abs(steps - usual) <= GAP * usual]
    if len(steps):
        yield Finding(
            "uneven", "time", f"{_count(steps, 'step')} of the time differ by more than "
            f"{UNEVEN:.0%} from the usual {usual:g} ({_range(steps)}); the model takes all steps "
            "for equal", "warning",
        )  # fmt: skip


def _at(
    raw: RawLog,
    kind: str,
    rows: Sequence[int] | np.ndarray,
    said: str,
    remedy: str,
    severity: Severity = "error",
    column: str | None = None,
) -> Iterator[Finding]:
    """The finding at some rows, if there are any."""
    if len(rows):
        where = raw.places(rows)
        yield Finding(kind, where, f"{said} {where}; {remedy}", severity, column)


def _remedy(words: Sequence[str]) -> str:
    """What to do about numbers among texts, if there are any."""
    marks = {re.sub(r"[\deE+-]", "", word) for word in words if MARKED.fullmatch(word)}
    for mark, name in ((",", "comma"), (".", "point")):
        if mark in marks:
            return (
                f"if the {name} is decimal, pass decimal={mark!r}; if it sets thousands apart, "
                "take it out"
            )
    return "take out what sets thousands apart" if marks else ""


def _constant(raw: RawLog, name: str, so: str) -> Iterator[Finding]:
    known = raw.values[name][np.isfinite(raw.values[name])]
    if len(known) > 1 and known.min() == known.max():
        sentence = f"column {name!r} is {known[0]:g} in every row; {so}"
        yield Finding("constant", f"column {name!r}", sentence, "warning", name)


def _count(what: Sized, unit: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{len(what):,} {unit}{'' if len(what) == 1 else 's'}"


def _range(values: np.ndarray) -> str:
    """``2 to 5``, or ``2`` if there is no other value."""
    ends = (values.min(), values.max()) if len(values) else ()
    return " to ".join(dict.fromkeys(f"{end:g}" for end in ends))


CHECKS = (
    find_texts, find_missing, find_sentinels, find_mixed_episodes, find_disorder,
    find_stuck_sensors, find_bad_actions, find_unnamed_columns,
)  # fmt: skip
