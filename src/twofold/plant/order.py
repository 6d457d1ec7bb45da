"""Faults in the order of rows: times that go back, start over, repeat or leave gaps, and episodes
that come back."""

from collections.abc import Iterator

import numpy as np

from twofold.plant.finding import Finding, count
from twofold.tables.frame import Frame

# Parts of the usual step: what differs by more than the first is a gap, by more than the second it
# is said to be uneven. Runs shorter than the third are rows out of order, not runs of their own.
GAP, UNEVEN, LEAST_RUN = 0.5, 0.1, 5


def faults(frame: Frame) -> Iterator[Finding]:
    """All faults of order."""
    yield from returning(frame)
    if frame.times is not None:
        yield from _out_of_order(frame)
        yield from _duplicates(frame)
        yield from _gaps(frame)


def returns(frame: Frame) -> np.ndarray:
    """Rows at which an episode goes on after rows of another one."""
    starts = np.flatnonzero(np.diff(frame.part, prepend=-1))
    _, first = np.unique(frame.part[starts], return_index=True)
    return np.delete(starts, first)


def restarts(frame: Frame) -> np.ndarray:
    """Rows at which the time of an episode goes back to where the rows before began, or further."""
    return np.concatenate([np.zeros(0, int), *(_backward(frame, g)[0] for g in frame.groups)])


def duplicates(frame: Frame) -> np.ndarray:
    """Rows whose time another row of the episode, before it in the source, has already."""
    if frame.times is None:
        return np.zeros(0, int)
    order = np.lexsort((np.arange(len(frame)), frame.times, frame.part))
    same = (np.diff(frame.part[order]) == 0) & (np.diff(frame.times[order]) == 0)
    return np.sort(order[1:][same])


def gaps(frame: Frame, tolerance: float = GAP) -> tuple[np.ndarray, np.ndarray, float]:
    """Rows after steps of another length, those lengths, and the usual step."""
    rows, steps = [np.zeros(0, int)], [np.zeros(0)]
    for group in frame.in_time:
        rows.append(group[1:])
        steps.append(np.diff(frame.times[group]))  # type: ignore[index]
    row, step = np.concatenate(rows), np.concatenate(steps)
    forward = step > 0
    if not forward.any():
        return row[:0], step[:0], 0.0
    usual = float(np.median(step[forward]))
    odd = forward & (np.abs(step - usual) > tolerance * usual)
    return row[odd], step[odd], usual


def _backward(frame: Frame, group: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Rows of an episode where time starts over, and where a row is only out of order."""
    times = frame.times[group]  # type: ignore[index]
    back = np.flatnonzero(np.diff(times) < 0) + 1
    begins = np.concatenate([[0], back[:-1]]) if len(back) else back
    over = times[back] <= times[begins]
    if len(back) and len(group) / (len(back) + 1) < LEAST_RUN:
        over[:] = False
    return group[back[over]], group[back[~over]]


def returning(frame: Frame) -> Iterator[Finding]:
    """Episodes whose rows are mixed with those of others."""
    rows = returns(frame)
    if not len(rows):
        return
    where, names = frame.places(rows), list(dict.fromkeys(frame.part[rows].tolist()))
    said = ", ".join(repr(frame.parts[one]) for one in names[:4]) + (", …" if names[4:] else "")
    sentence = f"rows of another episode lie between those of {said}, which goes on at {where}; "
    if frame.times is None:
        sentence += "name the time column (time=…), or cut there with split_at_restarts=True"
        yield Finding("interleaved", where, sentence)
    else:
        sentence += "rows are put together by the name of their episode"
        yield Finding("interleaved", where, sentence, "warning")


def _out_of_order(frame: Frame) -> Iterator[Finding]:
    pairs = [_backward(frame, group) for group in frame.groups]
    over, back = (np.concatenate([pair[i] for pair in pairs]) for i in (0, 1))
    if len(over):
        where = frame.places(over)
        yield Finding(
            "mixed", where, f"the time starts over at {where}, as if several "
            "episodes were one; name the episode column (episode=…), or cut there with "
            "split_at_restarts=True",
        )  # fmt: skip
    if len(back):
        where = frame.places(back)
        yield Finding(
            "unsorted", where, f"the time goes back at {where}; sort the rows of "
            "each episode with sort=True",
        )  # fmt: skip


def _duplicates(frame: Frame) -> Iterator[Finding]:
    rows = duplicates(frame)
    # Where the time starts over the same times are no doubles.
    if not len(rows) or len(restarts(frame)):
        return
    where = frame.places(rows)
    yield Finding(
        "duplicate", where, f"{count(len(rows), 'row')} with the time of another one, at {where}; "
        "keep the first of each with drop_duplicates=True",
    )  # fmt: skip


def _gaps(frame: Frame) -> Iterator[Finding]:
    rows, steps, usual = gaps(frame)
    if len(rows) and not len(restarts(frame)):
        where = frame.places(rows)
        lengths = f"{steps.min():g}" if len(rows) == 1 else f"{steps.min():g} to {steps.max():g}"
        yield Finding(
            "gap", where, f"the time step is {usual:g}, but {lengths} before "
            f"{where}; cut there with split_at_gaps=True",
        )  # fmt: skip
    rows, steps, usual = gaps(frame, UNEVEN)
    steps = steps[np.abs(steps - usual) <= GAP * usual]
    if len(steps):
        yield Finding(
            "uneven", "time", f"{count(len(steps), 'step')} of the time differ by "
            f"more than {UNEVEN:.0%} from the usual {usual:g} ({steps.min():g} to {steps.max():g})"
            "; the model takes all steps for equal", "warning",
        )  # fmt: skip
