"""One input of a campaign: its name, what values it takes, and as columns of numbers."""

import reprlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twofold.campaign.errors import CampaignError
from twofold.core.naming import nearest

# As parts of a range: what is proposed is a whole number of the first, for no instrument is set to
# sixteen digits; what differs by less than the second is the same but for rounding, of a table that
# shows three or four digits or of the instrument itself, and nothing that a model of a few hundred
# measurements could tell apart.
STEP, ROUNDING = 1e-4, 1e-3
# The squares of ranges, and whole numbers up to here, are exact enough in double precision.
NARROWEST, LARGEST = 1e-150, 2**53


@dataclass(frozen=True)
class Continuous:
    """A number between two bounds."""

    name: str
    low: float
    high: float

    def __post_init__(self):
        for bound in (self.low, self.high):
            check_number(f"a bound of {self.name}", bound)
        if not self.low < self.high:
            raise CampaignError(
                f"{self.name}: bounds must be finite and low < high, got {self.low} and {self.high}"
            )
        if not NARROWEST < self.high - self.low < 1.0 / NARROWEST:
            raise CampaignError(
                f"{self.name}: the range from {self.low} to {self.high} is too narrow or too wide "
                "to compute with; use other units"
            )

    width = 1

    def check(self, value: Any) -> float:
        """The value as a float within bounds."""
        number = check_number(self.name, value)
        _check_bounds(self, number)
        return number

    def columns(self, values: Sequence[Any]) -> np.ndarray:
        """``[N, 1]``."""
        return np.asarray(values, float)[:, None]

    def place(self, u: np.ndarray) -> list[float]:
        """Values at fractions of the range, with as many digits as make sense."""
        values = np.round(self.low + (self.high - self.low) * u, self._decimals)
        return [float(v) for v in np.clip(values, self.low, self.high)]

    def agree(self, one: Any, other: Any) -> bool:
        """Whether two values are the same but for rounding."""
        return bool(abs(one - other) <= ROUNDING * (self.high - self.low))

    def shown(self, value: Any) -> str:
        """The value with as many digits as a proposal has."""
        return f"{round(value, self._decimals):.10g}"

    @property
    def _decimals(self) -> int:
        return int(np.ceil(-np.log10(STEP * (self.high - self.low))))


class Exact:
    """Values that nothing rounds."""

    def agree(self, one: Any, other: Any) -> bool:
        """Whether two values are the same."""
        return bool(one == other)

    def shown(self, value: Any) -> str:
        """The value as text."""
        return str(value)


@dataclass(frozen=True)
class Integer(Exact):
    """A whole number between two bounds, both included."""

    name: str
    low: int
    high: int

    def __post_init__(self):
        whole = _whole(self.low) and _whole(self.high)
        if not (whole and -LARGEST <= self.low < self.high <= LARGEST):
            raise CampaignError(
                f"{self.name}: bounds must be whole numbers of at most 2**53 and low < high, got "
                f"{self.low!r} and {self.high!r}"
            )

    width = 1

    def check(self, value: Any) -> int:
        """The value as an int within bounds."""
        number = check_number(self.name, value)
        if number != round(number):
            raise CampaignError(f"{self.name} must be a whole number, got {value!r}")
        _check_bounds(self, number)
        return int(number)

    def columns(self, values: Sequence[Any]) -> np.ndarray:
        """``[N, 1]``."""
        return np.asarray(values, float)[:, None]

    def place(self, u: np.ndarray) -> list[int]:
        """Values at fractions of the range, all equally often."""
        count = self.high - self.low + 1
        return [int(self.low + min(int(v * count), count - 1)) for v in u]


@dataclass(frozen=True)
class Categorical(Exact):
    """One of a few words."""

    name: str
    choices: tuple[str, ...]

    def __post_init__(self):
        object.__setattr__(self, "choices", tuple(self.choices))
        words = all(isinstance(choice, str) for choice in self.choices)
        if not words or len(set(self.choices)) != len(self.choices) or len(self.choices) < 2:
            raise CampaignError(
                f"{self.name}: choices must be at least two different words, got {self.choices!r}"
            )

    @property
    def width(self) -> int:
        """One column for each choice."""
        return len(self.choices)

    def check(self, value: Any) -> str:
        """The value, if it is one of the choices."""
        if not isinstance(value, str) or value not in self.choices:
            raise CampaignError(
                f"{self.name} must be one of {', '.join(self.choices)}, got {value!r}"
                f"{nearest(value, self.choices)}"
            )
        return str(value)

    def columns(self, values: Sequence[Any]) -> np.ndarray:
        """``[N, choices]``, a one where the choice is."""
        index = [self.choices.index(value) for value in values]
        return np.eye(len(self.choices))[index]

    def place(self, u: np.ndarray) -> list[str]:
        """Values at fractions of the list, all equally often."""
        count = len(self.choices)
        return [self.choices[min(int(v * count), count - 1)] for v in u]


Input = Continuous | Integer | Categorical
KINDS = {kind.__name__.lower(): kind for kind in (Continuous, Integer, Categorical)}


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def check_number(name: str, value: Any) -> float:
    """The value as a finite float."""
    is_number = isinstance(value, int | float | np.integer | np.floating)
    try:
        number = float(value) if is_number and not isinstance(value, bool) else np.nan
    except OverflowError:
        number = np.inf
    if not np.isfinite(number):
        raise CampaignError(f"{name} must be a finite number, got {reprlib.repr(value)}")
    return number


def _check_bounds(one: Continuous | Integer, value: float) -> None:
    if not one.low <= value <= one.high:
        raise CampaignError(
            f"{one.name} must lie between {one.low} and {one.high}, got {value:.10g}"
        )
