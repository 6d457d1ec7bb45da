"""The inputs of a campaign: kinds, bounds and validation."""

import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twofold.core.naming import nearest

# As fractions of a range: proposals are multiples of the first (no instrument can be set to sixteen
# digits); values that differ by less than the second (rounding) count as equal.
STEP, ROUNDING = 1e-4, 1e-3
# Limits within which squares of ranges and whole numbers are accurate in double precision.
NARROWEST, LARGEST = 1e-150, 2**53

Point = dict[str, float | int | str]


class CampaignError(ValueError):
    """A wrong name, value, point or file; the campaign is unchanged."""


def require(condition: Any, message: str) -> None:
    if not condition:
        raise CampaignError(message)


def check_number(name: str, value: Any) -> float:
    """The value as a finite float."""
    numeric = is_whole(value) or isinstance(value, float | np.floating)
    try:
        number = float(value) if numeric else np.nan
    except OverflowError:
        number = np.inf
    require(np.isfinite(number), f"{name} must be a finite number, got {reprlib.repr(value)}")
    return number


def is_whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


class _Input:
    def agree(self, one: Any, other: Any) -> bool:
        """Whether two values are equal, for continuous inputs up to rounding."""
        return bool(one == other)

    def format(self, value: Any) -> str:
        """The value as text, rounded like proposals."""
        return str(value)


@dataclass(frozen=True)
class _Number(_Input):
    """A number between two inclusive bounds; one column."""

    name: str
    low: Any
    high: Any
    width = 1

    def columns(self, values: Sequence[Any]) -> np.ndarray:
        return np.asarray(values, float)[:, None]

    def check(self, value: Any) -> float | int:
        number = check_number(self.name, value)
        rule = f"{self.name} must lie between {self.low} and {self.high}"
        require(self.low <= number <= self.high, f"{rule}, got {number:.10g}")
        return number


@dataclass(frozen=True)
class Continuous(_Number):
    """A number between two bounds; with ``log``, sampled and modelled on a logarithmic scale."""

    log: bool = False

    def __post_init__(self):
        for bound in (self.low, self.high):
            check_number(f"a bound of {self.name}", bound)
        given, size = f"got {self.low} and {self.high}", self.high - self.low
        require(size > 0, f"{self.name}: bounds must be finite and low < high, {given}")
        problem = "the range is too narrow or too wide to compute with"
        fits = NARROWEST < size < 1.0 / NARROWEST
        require(fits, f"{self.name}: {problem}, {given}; use other units")
        positive = not self.log or self.low > 0
        require(positive, f"{self.name}: a logarithmic scale needs bounds above 0, {given}")

    def columns(self, values: Sequence[Any]) -> np.ndarray:
        return self._to_scale(super().columns(values))

    def at_fractions(self, u: np.ndarray) -> list[float]:
        """Values at fractions of the range, rounded to a multiple of ``STEP``."""
        values = self._to_scale(self.low) + self._size * u
        if self.log:
            values = np.array([float(self.format(value)) for value in np.exp(values)])
        else:
            values = np.round(values, self._decimals)
        return np.clip(values, self.low, self.high).tolist()

    def agree(self, one: Any, other: Any) -> bool:
        return bool(abs(self._to_scale(one) - self._to_scale(other)) <= ROUNDING * self._size)

    def format(self, value: Any) -> str:
        if self.log:
            return f"{value:.{max(self._decimals, 0) + 1}g}"
        return f"{round(value, self._decimals):.10g}"

    def _to_scale(self, value: Any) -> Any:
        return np.log(value) if self.log else value

    @property
    def _size(self) -> Any:
        return self._to_scale(self.high) - self._to_scale(self.low)

    @property
    def _decimals(self) -> int:
        return int(np.ceil(-np.log10(STEP * self._size)))


@dataclass(frozen=True)
class Integer(_Number):
    """A whole number between two bounds, both included."""

    def __post_init__(self):
        whole = all(is_whole(bound) for bound in (self.low, self.high))
        rule = "bounds must be whole numbers of at most 2**53 and low < high"
        given = f"got {self.low!r} and {self.high!r}"
        inside = whole and -LARGEST <= self.low < self.high <= LARGEST
        require(inside, f"{self.name}: {rule}, {given}")

    def check(self, value: Any) -> int:
        number = check_number(self.name, value)
        require(number == round(number), f"{self.name} must be a whole number, got {value!r}")
        return int(super().check(number))

    def at_fractions(self, u: np.ndarray) -> list[int]:
        """Values at fractions of the range, each equally often."""
        count = self.high - self.low + 1
        return [int(self.low + min(int(v * count), count - 1)) for v in u]


@dataclass(frozen=True)
class Categorical(_Input):
    """One of several words; one column per word."""

    name: str
    choices: tuple[str, ...]

    def __post_init__(self):
        object.__setattr__(self, "choices", tuple(self.choices))
        words = all(isinstance(choice, str) for choice in self.choices)
        rule = f"{self.name}: choices must be at least two different words, got {self.choices!r}"
        require(words and len(set(self.choices)) == self.width >= 2, rule)

    @property
    def width(self) -> int:
        return len(self.choices)

    def check(self, value: Any) -> str:
        rule = f"{self.name} must be one of {', '.join(self.choices)}, got {value!r}"
        known = isinstance(value, str) and value in self.choices
        require(known, f"{rule}{nearest(value, self.choices)}")
        return str(value)

    def columns(self, values: Sequence[Any]) -> np.ndarray:
        return np.eye(self.width)[[self.choices.index(value) for value in values]]

    def at_fractions(self, u: np.ndarray) -> list[str]:
        return [self.choices[min(int(v * self.width), self.width - 1)] for v in u]


Input = Continuous | Integer | Categorical
KINDS = {kind.__name__.lower(): kind for kind in (Continuous, Integer, Categorical)}


def check_names(what: str, given: Mapping[str, Any], known: Sequence[str], complete: bool) -> None:
    """Refuse unknown names and, with ``complete``, missing ones."""
    if not isinstance(given, Mapping):
        raise CampaignError(f"expected a mapping from each {what} to its value, got {given!r}")
    for name in given:
        names = f"{', '.join(known)}{nearest(name, known)}" if name not in known else ""
        require(name in known, f"there is no {what} {name!r}, only {names}")
    missing = ", ".join(name for name in known if name not in given)
    require(not (complete and missing), f"the {what} {missing} is missing")
