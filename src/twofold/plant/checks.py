"""What is wrong with a log: every fault has a kind, a place and a sentence."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from twofold.plant import order
from twofold.plant.errors import LogError
from twofold.plant.finding import Finding, count, listed
from twofold.plant.log import Log
from twofold.plant.raw_log import RawLog, raw_log_of
from twofold.plant.runs import stuck
from twofold.tables.sentinels import sentinels

# Names under which a column that nobody asked for is probably the time or the episode.
LIKELY = {
    "time": {"time", "t", "timestamp", "datetime", "date", "step"},
    "episode": {"episode", "run", "batch", "trial", "run_id", "batch_id", "episode_id"},
}
# Numbers with another decimal mark than was said, or with marks between thousands.
MARKED = re.compile(r"[+-]?(\d+[.,]\d+|\d{1,3}([.,'_\s]\d{3})+([.,]\d+)?)(e[+-]?\d+)?", re.I)


def check(what: Any, *, history: int = 1, strict: bool = False) -> list[Finding]:
    """The faults of a ``Log``, or of the ``RawLog`` that ``read_raw_log`` gives.

    ``history`` is the number of rows that a model will look back over. ``strict`` raises a
    ``LogError`` that lists whatever was found.
    """
    if not isinstance(what, Log | RawLog):
        raise LogError(
            f"check takes a Log or a RawLog (read_raw_log gives one), got {type(what).__name__}"
        )
    raw = raw_log_of(what) if isinstance(what, Log) else what
    findings = [finding for faults in CHECKS for finding in faults(raw)]
    findings += short(raw, history)
    findings = [replace(finding, source=raw.source) for finding in findings]
    if strict and findings:
        raise faulty(raw.source, findings)
    return findings


def faulty(source: str, findings: list[Finding]) -> LogError:
    """The error that lists findings."""
    return LogError(f"{source}: {count(len(findings), 'fault')} found\n{listed(findings)}")


def missing(raw: RawLog, name: str) -> np.ndarray:
    """Rows without a finite number where there should be one: the last action of an episode and
    the cost of its first row (of its last, if costs stand beside actions) are not needed."""
    bad = ~np.isfinite(raw.values[name])
    if name in raw.actions or name == raw.cost:
        last = name in raw.actions or raw.cost_at == "departure"
        bad[[group[-1 if last else 0] for group in raw.in_time]] = False
    return np.flatnonzero(bad)


def out_of_bounds(raw: RawLog, name: str) -> np.ndarray:
    """Rows whose action is not between its bounds, but for rounding."""
    low, high = raw.actions[name]
    values, slack = raw.values[name], 1e-6 * (high - low)
    return np.flatnonzero((values < low - slack) | (values > high + slack))


def texts(raw: RawLog) -> Iterator[Finding]:
    """Cells that are neither numbers nor blank."""
    for name, cells in raw.texts.items():
        if not cells:
            continue
        where = raw.places(list(cells))
        words = list(dict.fromkeys(cells.values()))
        said = ", ".join(map(repr, words[:3])) + (", …" if len(words) > 3 else "")
        remedy = _remedy(words) or f"if it means no value, pass missing=[{said}]"
        if name == raw.time:
            remedy = f"write times as numbers or like 2024-03-01 06:00:00, or {remedy}"
        yield Finding(
            "text", where, f"column {name!r} has text in "
            f"{count(len(cells), 'row')} ({said}) at {where}; {remedy}", column=name,
        )  # fmt: skip


def not_numbers(raw: RawLog) -> Iterator[Finding]:
    """Cells that are blank, NaN or infinite."""
    columns = raw.values | ({} if raw.times is None else {raw.time: raw.times})
    for name in columns:
        rows = missing(raw, name) if name in raw.values else (
            np.flatnonzero(~np.isfinite(columns[name]))
        )  # fmt: skip
        rows = np.setdiff1d(rows, list(raw.texts.get(name, {})))
        if not len(rows):
            continue
        infinite = int(np.isinf(columns[name][rows]).sum())
        what = f"{len(rows) - infinite:,} missing and {infinite:,} infinite" if infinite else (
            f"{len(rows):,} missing"
        )  # fmt: skip
        where = raw.places(rows)
        yield Finding(
            "missing", where, f"column {name!r} has {what} of {len(raw):,} "
            f"values, at {where}; leave those rows out with drop_missing=True", column=name,
        )  # fmt: skip


def not_measured(raw: RawLog) -> Iterator[Finding]:
    """Numbers that seem to say that there is no value."""
    for name in (one for one in raw.values if one not in raw.actions):
        for value in sentinels(raw.values[name]):
            rows = np.flatnonzero(raw.values[name] == value)
            where = raw.places(rows)
            yield Finding(
                "sentinel", where, f"column {name!r} is {value:.15g} in "
                f"{count(len(rows), 'row')}, far from all its other values, at {where}; if it "
                f"means no value, pass missing=[{value:.15g}]", "warning", name,
            )  # fmt: skip


def standing_still(raw: RawLog) -> Iterator[Finding]:
    """Sensors that are stuck, and columns that never change."""
    stretches = stuck(raw)
    for name in raw.observations:
        if _constant(raw.values[name]):
            yield _never_changes(raw, name, "it tells the model nothing: leave it out")
        own = [stretch.rows for stretch in stretches if stretch.column == name]
        if own:
            where, most = raw.places(np.concatenate(own)), max(map(len, own))
            yield Finding(
                "stuck", where, f"column {name!r} stands still for up to "
                f"{count(most, 'row')} while others move, at {where}; if the sensor was stuck, "
                "leave those rows out with drop_stuck=True", "warning", name,
            )  # fmt: skip


def actions(raw: RawLog) -> Iterator[Finding]:
    """Actions out of bounds, and actions from which nothing can be learnt."""
    for name, (low, high) in raw.actions.items():
        if _constant(raw.values[name]):
            yield _never_changes(raw, name, "what it does cannot be learnt from this log")
        rows = out_of_bounds(raw, name)
        if len(rows):
            where, values = raw.places(rows), raw.values[name][rows]
            yield Finding(
                "out_of_bounds", where, f"action {name!r} leaves its bounds "
                f"{low:g} and {high:g} in {count(len(rows), 'row')} ({values.min():g} to "
                f"{values.max():g}), at {where}; widen the bounds or pass clip_actions=True",
                column=name,
            )  # fmt: skip


def short(raw: RawLog, history: int) -> Iterator[Finding]:
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
        f"{count(len(groups), 'episode')} have too few rows to learn from, at least {history + 1} "
        f"are needed: {said}; " + ("use a shorter history" if all_of_them else "they are left out"),
        "error" if all_of_them else "warning",
    )  # fmt: skip


def unnamed(raw: RawLog) -> Iterator[Finding]:
    """A column that looks like the time or the episode, which nobody has named."""
    is_named = {"time": raw.times is not None, "episode": len(raw.parts) > 1}
    for role, names in LIKELY.items():
        found = [name for name in raw.others if name.casefold() in names]
        if found and not is_named[role]:
            yield Finding(
                "unnamed", f"column {found[0]!r}", f"no {role} column was named; "
                f"if {found[0]!r} is one, pass {role}={found[0]!r}", "warning", found[0],
            )  # fmt: skip


def _remedy(words: Sequence[str]) -> str:
    """What to do about numbers among texts, if there are any."""
    marks = {re.sub(r"[\deE+-]", "", word) for word in words if MARKED.fullmatch(word)}
    if "," in marks:
        return "if the comma is decimal, pass decimal=','; if it sets thousands apart, take it out"
    if "." in marks:
        return "if the point is decimal, pass decimal='.'; if it sets thousands apart, take it out"
    return "take out what sets thousands apart" if marks else ""


def _constant(values: np.ndarray) -> bool:
    known = values[np.isfinite(values)]
    return len(known) > 1 and known.min() == known.max()


def _never_changes(raw: RawLog, name: str, so: str) -> Finding:
    value = raw.values[name][np.isfinite(raw.values[name])][0]
    sentence = f"column {name!r} is {value:g} in every row; {so}"
    return Finding("constant", f"column {name!r}", sentence, "warning", name)


CHECKS = (texts, not_numbers, not_measured, order.faults, standing_still, actions, unnamed)
