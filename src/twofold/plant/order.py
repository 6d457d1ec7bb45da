"""Faults in the order of rows: times that go back, start over, repeat or leave gaps, and episodes
that come back."""

from collections.abc import Iterator

import numpy as np

from twofold.plant.finding import Finding, count
from twofold.plant.raw_log import RawLog

# Parts of the usual step: what differs by more than the first is a gap, by more than the second it
# is said to be uneven. Runs shorter than the third are rows out of order, not runs of their own.
GAP, UNEVEN, LEAST_RUN = 0.5, 0.1, 5


def faults(raw: RawLog) -> Iterator[Finding]:
    """All faults of order."""
    yield from returning(raw)
    if raw.times is not None:
        yield from _out_of_order(raw)
        yield from _duplicates(raw)
        yield from _gaps(raw)


def returns(raw: RawLog) -> np.ndarray:
    """Rows at which an episode goes on after rows of another one."""
    starts = np.flatnonzero(np.diff(raw.part, prepend=-1))
    _, first = np.unique(raw.part[starts], return_index=True)
    return np.delete(starts, first)


def restarts(raw: RawLog) -> np.ndarray:
    """Rows at which the time of an episode goes back to where the rows before began, or further."""
    return np.concatenate([np.zeros(0, int), *(_backward(raw, g)[0] for g in raw.groups)])


def duplicates(raw: RawLog) -> np.ndarray:
    """Rows whose time another row of the episode, before it in the source, has already."""
    if raw.times is None:
        return np.zeros(0, int)
    order = np.lexsort((np.arange(len(raw)), raw.times, raw.part))
    same = (np.diff(raw.part[order]) == 0) & (np.diff(raw.times[order]) == 0)
    return np.sort(order[1:][same])


def gaps(raw: RawLog, tolerance: float = GAP) -> tuple[np.ndarray, np.ndarray, float]:
    """Rows after steps of another length, those lengths, and the usual step."""
    rows, steps = [np.zeros(0, int)], [np.zeros(0)]
    for group in raw.in_time:
        rows.append(group[1:])
        steps.append(np.diff(raw.times[group]))  # type: ignore[index]
    row, step = np.concatenate(rows), np.concatenate(steps)
    forward = step > 0
    if not forward.any():
        return row[:0], step[:0], 0.0
    usual = float(np.median(step[forward]))
    odd = forward & (np.abs(step - usual) > tolerance * usual)
    return row[odd], step[odd], usual


def _backward(raw: RawLog, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of an episode where time starts over, and where a row is only out of order."""
    times = raw.times[group]  # type: ignore[index]
    back = np.flatnonzero(np.diff(times) < 0) + 1
    begins = np.concatenate([[0], back[:-1]]) if len(back) else back
    over = times[back] <= times[begins]
    if len(back) and len(group) / (len(back) + 1) < LEAST_RUN:
        over[:] = False
    return group[back[over]], group[back[~over]]


def returning(raw: RawLog) -> Iterator[Finding]:
    """Episodes whose rows are mixed with those of others."""
    rows = returns(raw)
    if not len(rows):
        return
    where, names = raw.places(rows), list(dict.fromkeys(raw.part[rows].tolist()))
    said = ", ".join(repr(raw.parts[one]) for one in names[:4]) + (", …" if names[4:] else "")
    sentence = f"rows of another episode lie between those of {said}, which goes on at {where}; "
    if raw.times is None:
        sentence += "name the time column (time=…), or cut there with split_at_restarts=True"
        yield Finding("interleaved", where, sentence)
    else:
        sentence += "rows are put together by the name of their episode"
        yield Finding("interleaved", where, sentence, "warning")


def _out_of_order(raw: RawLog) -> Iterator[Finding]:
    pairs = [_backward(raw, group) for group in raw.groups]
    over, back = (np.concatenate([pair[i] for pair in pairs]) for i in (0, 1))
    if len(over):
        where = raw.places(over)
        yield Finding(
            "mixed", where, f"the time starts over at {where}, as if several "
            "episodes were one; name the episode column (episode=…), or cut there with "
            "split_at_restarts=True",
        )  # fmt: skip
    if len(back):
        where = raw.places(back)
        yield Finding(
            "unsorted", where, f"the time goes back at {where}; sort the rows of "
            "each episode with sort=True",
        )  # fmt: skip


def _duplicates(raw: RawLog) -> Iterator[Finding]:
    rows = duplicates(raw)
    # Where the time starts over the same times are no doubles.
    if not len(rows) or len(restarts(raw)):
        return
    where = raw.places(rows)
    yield Finding(
        "duplicate", where, f"{count(len(rows), 'row')} with the time of another one, at {where}; "
        "keep the first of each with drop_duplicates=True",
    )  # fmt: skip


def _gaps(raw: RawLog) -> Iterator[Finding]:
    rows, steps, usual = gaps(raw)
    if len(rows) and not len(restarts(raw)):
        where = raw.places(rows)
        lengths = f"{steps.min():g}" if len(rows) == 1 else f"{steps.min():g} to {steps.max():g}"
        yield Finding(
            "gap", where, f"the time step is {usual:g}, but {lengths} before "
            f"{where}; cut there with split_at_gaps=True",
        )  # fmt: skip
    rows, steps, usual = gaps(raw, UNEVEN)
    steps = steps[np.abs(steps - usual) <= GAP * usual]
    if len(steps):
        yield Finding(
            "uneven", "time", f"{count(len(steps), 'step')} of the time differ by "
            f"more than {UNEVEN:.0%} from the usual {usual:g} ({steps.min():g} to {steps.max():g})"
            "; the model takes all steps for equal", "warning",
        )  # fmt: skip
