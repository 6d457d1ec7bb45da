"""Stretches of equal values, and those of them that only a sensor that is stuck would give."""

from typing import NamedTuple

import numpy as np

from twofold.plant.raw_log import RawLog

# A column is stuck if it stands still for this many rows and for this many times its usual stretch,
LEAST, TIMES = 10, 3
# while something else moves: a plant at rest has no stuck sensors. The usual stretch is the longest
# but for so many, or for this part of all: what a column does more often is its way (a set-point, a
# valve, a gauge of rain).
RARE, RARE_PART = 4, 0.01


class Stretch(NamedTuple):
    """Rows over which a column stands still."""

    column: str
    rows: np.ndarray


def stuck(raw: RawLog) -> list[Stretch]:
    """Stretches where an observation stands still longer than is its way while others move."""
    groups = [group for group in raw.in_time if len(group) > 1]
    if not groups:
        return []
    columns = [*raw.observations, *raw.actions]
    moves = {name: [_moves(raw.values[name][group]) for group in groups] for name in columns}
    found = []
    for name in raw.observations:
        others = [moves[other] for other in columns if other != name]
        # A column without company is compared with itself alone.
        elsewhere = [np.any(each, axis=0) for each in zip(*others, strict=True)]
        found += _stuck(name, groups, moves[name], elsewhere or [~each for each in moves[name]])
    return found


def _stuck(
    name: str, groups: list[np.ndarray], own: list[np.ndarray], others: list[np.ndarray]
) -> list[Stretch]:
    stretches = [stretch for i, moved in enumerate(own) for stretch in _stretches(i, moved)]
    lengths = np.array([last - first + 1 for _, first, last in stretches])
    rare = max(RARE, int(RARE_PART * len(lengths)))
    if len(lengths) <= rare:
        return []
    limit = max(LEAST, TIMES * np.sort(lengths)[-rare - 1])
    return [
        Stretch(name, groups[i][first : last + 1])
        for (i, first, last), length in zip(stretches, lengths, strict=True)
        if length >= limit and others[i][first:last].any()
    ]


def _moves(values: np.ndarray) -> np.ndarray:
    """Whether each step changes the value; a missing one changes it."""
    return ~(values[1:] == values[:-1])


def _stretches(group: int, moved: np.ndarray) -> list[tuple[int, int, int]]:
    """Group, first and last place of each stretch without a change."""
    bounds = np.flatnonzero(moved)
    firsts, lasts = [0, *(bounds + 1)], [*bounds, len(moved)]
    return [(group, int(a), int(b)) for a, b in zip(firsts, lasts, strict=True)]
