"""``Past``: where the values of a window are in one flat vector.

For people the values of a column stand side by side, oldest first. Roll-outs keep those of one age
side by side instead, for then a step later everything has moved by one place, and the new values
come at the end. Columns of which more values are seen than of others make a group of their own.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float


@dataclass(frozen=True, eq=False)
class Group:
    """Columns of which equally many values are kept; its part of the vector is ``start:stop``."""

    lags: int
    observed: tuple[int, ...]
    applied: tuple[int, ...]
    start: int

    @property
    def width(self) -> int:
        """The number of its columns."""
        return len(self.observed) + len(self.applied)

    @property
    def stop(self) -> int:
        """Where the next group begins."""
        return self.start + self.lags * self.width


@dataclass(frozen=True, eq=False)
class Past:
    """Places in the vector.

    ``features`` says where each feature of a policy is; ``inputs`` the same for a model's input,
    of the vector with ``computed`` observations and ``applied`` actions behind it. ``newest`` has,
    for each value, the feature that is its column's newest value.
    """

    groups: tuple[Group, ...]
    computed: tuple[int, ...]
    applied: tuple[int, ...]
    features: np.ndarray
    inputs: np.ndarray
    newest: np.ndarray

    @classmethod
    def of(cls, lags: Sequence[int], action_lags: Sequence[int], ahead: Sequence[bool]) -> "Past":
        """For so many values of each observation and action, the action about to be applied among
        them; the values of some observations end one step ahead."""
        kept = [*lags, *(max(own - 1, 0) for own in action_lags)]
        groups = _groups(kept, len(lags))
        places = _places(groups, len(lags), len(kept))
        columns = [column for column, own in enumerate(kept) if own]
        features = [place for column in columns for place in places[column]]
        newest = np.zeros(len(features), np.int32)
        last = np.cumsum([kept[column] for column in columns]) - 1
        for column, feature in zip(columns, last, strict=True):
            newest[places[column]] = feature
        computed = tuple(i for i, own in enumerate(lags) if own and ahead[i])
        applied = tuple(i for i, own in enumerate(action_lags) if own)
        behind = iter(range(len(features), len(features) + len(computed) + len(applied)))
        inputs: list[int] = []
        for column in range(len(lags)):
            own = places[column]
            inputs += [*own[1:], next(behind)] if column in computed else own
        for index in applied:
            inputs += [*places[len(lags) + index], next(behind)]
        listed = np.array(features, np.int32), np.array(inputs, np.int32)
        return cls(groups, computed, applied, *listed, newest)

    def gathered(self, observed: Sequence[Array], applied: Sequence[Array]) -> Float[Array, "F"]:
        """The vector of the last values of each observation and action, oldest first."""
        parts = []
        for group in self.groups:
            own = [observed[index] for index in group.observed]
            own += [applied[index] for index in group.applied]
            parts.append(jnp.stack([column[len(column) - group.lags :] for column in own], axis=1))
        return jnp.concatenate([part.reshape(-1) for part in parts])

    @property
    def ends(self) -> np.ndarray:
        """The places of the newest values, group by group."""
        ends = [np.arange(group.stop - group.width, group.stop) for group in self.groups]
        return np.concatenate(ends).astype(np.int32)

    def arriving(
        self, observed: Float[Array, "D"], applied: Float[Array, "A"]
    ) -> Float[Array, "ends"]:
        """What comes to the ends with a new observation and the action before it."""
        values = []
        for group in self.groups:
            values += [observed[index] for index in group.observed]
            values += [applied[index] for index in group.applied]
        return jnp.stack(values)

    def moved(self, past: Float[Array, "F"], arriving: Float[Array, "ends"]) -> Float[Array, "F"]:
        """The vector one step later."""
        parts, first = [], 0
        for group in self.groups:
            parts.append(past[group.start + group.width : group.stop])
            parts.append(arriving[first : first + group.width])
            first += group.width
        return jnp.concatenate(parts)


def _groups(kept: Sequence[int], observations: int) -> tuple[Group, ...]:
    groups, start = [], 0
    for lags in sorted({own for own in kept if own}):
        columns = [column for column, own in enumerate(kept) if own == lags]
        observed = tuple(column for column in columns if column < observations)
        applied = tuple(column - observations for column in columns if column >= observations)
        groups.append(Group(lags, observed, applied, start))
        start = groups[-1].stop
    return tuple(groups)


def _places(groups: Sequence[Group], observations: int, columns: int) -> list[list[int]]:
    """Of each column, observations first, the places of its values, oldest first."""
    places: list[list[int]] = [[] for _ in range(columns)]
    for group in groups:
        own = [*group.observed, *(observations + index for index in group.applied)]
        for number, column in enumerate(own):
            places[column] = list(range(group.start + number, group.stop, group.width))
    return places
