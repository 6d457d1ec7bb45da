"""The inputs of a campaign: their names, what values they take, and as columns of numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from difflib import get_close_matches
from typing import Any

import numpy as np
from scipy.stats import qmc

from twofold.campaign.errors import CampaignError

Point = dict[str, float | int | str]


@dataclass(frozen=True)
class Continuous:
    """A number between two bounds."""

    name: str
    low: float
    high: float

    def __post_init__(self):
        if not (np.isfinite(self.low) and np.isfinite(self.high) and self.low < self.high):
            raise CampaignError(
                f"{self.name}: bounds must be finite and low < high, got {self.low} and {self.high}"
            )

    width = 1

    def check(self, value: Any) -> float:
        """The value as a float within bounds."""
        number = _number(self.name, value)
        _check_bounds(self, number)
        return number

    def columns(self, values: Sequence[Any]) -> np.ndarray:
        """``[N, 1]``."""
        return np.asarray(values, float)[:, None]

    def place(self, u: np.ndarray) -> list[float]:
        """Values at fractions of the range."""
        return [float(self.low + (self.high - self.low) * v) for v in u]


@dataclass(frozen=True)
class Integer:
    """A whole number between two bounds, both included."""

    name: str
    low: int
    high: int

    def __post_init__(self):
        if not (_whole(self.low) and _whole(self.high) and self.low < self.high):
            raise CampaignError(
                f"{self.name}: bounds must be whole numbers and low < high, got {self.low!r} and "
                f"{self.high!r}"
            )

    width = 1

    def check(self, value: Any) -> int:
        """The value as an int within bounds."""
        number = _number(self.name, value)
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
class Categorical:
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
        if value not in self.choices:
            raise CampaignError(
                f"{self.name} must be one of {', '.join(self.choices)}, got {value!r}"
                f"{_nearest(value, self.choices)}"
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


@dataclass(frozen=True)
class Space:
    """All inputs together, in order."""

    inputs: tuple[Input, ...]

    def __post_init__(self):
        object.__setattr__(self, "inputs", tuple(self.inputs))
        names = self.names
        if not names:
            raise CampaignError("a campaign needs at least one input, got none")
        if len(set(names)) != len(names):
            raise CampaignError(f"inputs need different names, got {', '.join(names)}")

    @property
    def names(self) -> list[str]:
        """Names of the inputs."""
        return [one.name for one in self.inputs]

    def check(self, point: Mapping[str, Any]) -> Point:
        """The point with every value of its kind and within bounds."""
        check_names("input", point, self.names, complete=True)
        return {one.name: one.check(point[one.name]) for one in self.inputs}

    def encode(self, points: Sequence[Point]) -> np.ndarray:
        """Points as rows of numbers, ``[N, columns]``."""
        if not points:
            return np.zeros((0, sum(one.width for one in self.inputs)))
        parts = [one.columns([point[one.name] for point in points]) for one in self.inputs]
        return np.hstack(parts)

    def spread(self, num: int, seed: int) -> list[Point]:
        """Points spread evenly over the space (scrambled Sobol)."""
        sampler = qmc.Sobol(len(self.inputs), scramble=True, rng=np.random.default_rng(seed))
        u = sampler.random_base2(int(np.ceil(np.log2(max(num, 2)))))[:num]
        columns = [one.place(u[:, i]) for i, one in enumerate(self.inputs)]
        return [dict(zip(self.names, row, strict=True)) for row in zip(*columns, strict=True)]

    def plain(self) -> list[dict[str, Any]]:
        """As JSON values."""
        return [{"kind": type(one).__name__.lower()} | asdict(one) for one in self.inputs]

    @classmethod
    def from_plain(cls, plain: Sequence[Mapping[str, Any]]) -> "Space":
        """The space that ``plain`` described."""
        inputs = []
        for one in plain:
            fields = dict(one)
            kind = fields.pop("kind", None)
            if kind not in KINDS:
                raise CampaignError(
                    f"an input's kind must be one of {', '.join(KINDS)}, got {kind!r}"
                )
            inputs.append(KINDS[kind](**fields))
        return cls(tuple(inputs))


def check_names(what: str, given: Mapping[str, Any], known: Sequence[str], complete: bool) -> None:
    """Refuse unknown names, and missing ones where all are needed."""
    for name in given:
        if name not in known:
            raise CampaignError(
                f"there is no {what} {name!r}, only {', '.join(known)}{_nearest(name, known)}"
            )
    missing = [name for name in known if name not in given]
    if complete and missing:
        raise CampaignError(f"the {what} {', '.join(missing)} is missing")


def _nearest(name: Any, known: Sequence[str]) -> str:
    close = get_close_matches(str(name), known, n=1)
    return f"; did you mean {close[0]!r}?" if close else ""


def _whole(value: Any) -> bool:
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


def _number(name: str, value: Any) -> float:
    is_number = isinstance(value, int | float | np.integer | np.floating)
    if not is_number or isinstance(value, bool) or not np.isfinite(value):
        raise CampaignError(f"{name} must be a finite number, got {value!r}")
    return float(value)


def check_output(name: str, value: Any) -> float:
    """A measured value as a float."""
    return _number(name, value)


def _check_bounds(one: Continuous | Integer, value: float) -> None:
    if not one.low <= value <= one.high:
        raise CampaignError(f"{one.name} must lie between {one.low} and {one.high}, got {value:g}")
