"""The inputs of a campaign: their kinds and bounds, points, and points as rows of numbers; and
the definition of a new campaign, checked before anything is written."""

import json
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from twofold.core.naming import nearest
from twofold.core.persistence import to_plain

if TYPE_CHECKING:
    from twofold.estimators.regressor import BNNLVRegressor

# As fractions of a range: proposals are multiples of the first, because no instrument is set to
# sixteen digits; values that differ by less than the second are the same but for rounding (of a
# table that shows three or four digits, or of the instrument), too little for a model to notice.
STEP, ROUNDING = 1e-4, 1e-3
# The squares of ranges, and whole numbers up to here, are exact enough in double precision.
NARROWEST, LARGEST = 1e-150, 2**53

Point = dict[str, float | int | str]
PARTS = ("total", "epistemic", "aleatoric")
NUMBERS = ("proposal", "measurement")
NATS = "information_nats"


class CampaignError(ValueError):
    """A wrong name, value, point or file; the campaign is as it was before."""


def require(condition: Any, message: str) -> None:
    """Raise a ``CampaignError`` unless the condition holds."""
    if not condition:
        raise CampaignError(message)


def check_number(name: str, value: Any) -> float:
    """The value as a finite float."""
    try:
        number = (
            float(value) if is_whole(value) or isinstance(value, float | np.floating) else np.nan
        )
    except OverflowError:
        number = np.inf
    require(np.isfinite(number), f"{name} must be a finite number, got {reprlib.repr(value)}")
    return number


def is_whole(value: Any) -> bool:
    """Whether a value is a whole number, of Python or NumPy."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool)


class _Input:
    """What all kinds share; values that are never rounded agree if they are equal."""

    def agree(self, one: Any, other: Any) -> bool:
        """Whether two values are the same, but for rounding where there is any."""
        return bool(one == other)

    def format(self, value: Any) -> str:
        """The value as text, with as many digits as a proposal has."""
        return str(value)


@dataclass(frozen=True)
class _Number(_Input):
    """A number between two bounds, both included; one column."""

    name: str
    low: Any
    high: Any
    width = 1

    def columns(self, values: Sequence[Any]) -> np.ndarray:
        """``[N, 1]``."""
        return np.asarray(values, float)[:, None]

    def check(self, value: Any) -> float | int:
        """The value as a number within bounds."""
        number = check_number(self.name, value)
        rule = f"{self.name} must lie between {self.low} and {self.high}"
        require(self.low <= number <= self.high, f"{rule}, got {number:.10g}")
        return number


@dataclass(frozen=True)
class Continuous(_Number):
    """A number between two bounds."""

    def __post_init__(self):
        for bound in (self.low, self.high):
            check_number(f"a bound of {self.name}", bound)
        given, size = f"got {self.low} and {self.high}", self.high - self.low
        require(size > 0, f"{self.name}: bounds must be finite and low < high, {given}")
        problem = "the range is too narrow or too wide to compute with"
        fits = NARROWEST < size < 1.0 / NARROWEST
        require(fits, f"{self.name}: {problem}, {given}; use other units")

    def at_fractions(self, u: np.ndarray) -> list[float]:
        """Values at fractions of the range, rounded to a multiple of ``STEP``."""
        values = np.round(self.low + (self.high - self.low) * u, self._decimals)
        return np.clip(values, self.low, self.high).tolist()

    def agree(self, one: Any, other: Any) -> bool:
        return bool(abs(one - other) <= ROUNDING * (self.high - self.low))

    def format(self, value: Any) -> str:
        return f"{round(value, self._decimals):.10g}"

    @property
    def _decimals(self) -> int:
        return int(np.ceil(-np.log10(STEP * (self.high - self.low))))


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
        """The value as an int within bounds."""
        number = check_number(self.name, value)
        require(number == round(number), f"{self.name} must be a whole number, got {value!r}")
        return int(super().check(number))

    def at_fractions(self, u: np.ndarray) -> list[int]:
        """Values at fractions of the range, all equally often."""
        count = self.high - self.low + 1
        return [int(self.low + min(int(v * count), count - 1)) for v in u]


@dataclass(frozen=True)
class Categorical(_Input):
    """One of several words; one column for each of them."""

    name: str
    choices: tuple[str, ...]

    def __post_init__(self):
        object.__setattr__(self, "choices", tuple(self.choices))
        words = all(isinstance(choice, str) for choice in self.choices)
        rule = f"{self.name}: choices must be at least two different words, got {self.choices!r}"
        require(words and len(set(self.choices)) == self.width >= 2, rule)

    @property
    def width(self) -> int:
        """How many columns of numbers the input becomes."""
        return len(self.choices)

    def check(self, value: Any) -> str:
        """The value, if it is one of the choices."""
        rule = f"{self.name} must be one of {', '.join(self.choices)}, got {value!r}"
        known = isinstance(value, str) and value in self.choices
        require(known, f"{rule}{nearest(value, self.choices)}")
        return str(value)

    def columns(self, values: Sequence[Any]) -> np.ndarray:
        """``[N, choices]``, one-hot."""
        return np.eye(self.width)[[self.choices.index(value) for value in values]]

    def at_fractions(self, u: np.ndarray) -> list[str]:
        """Values at fractions of the list, all equally often."""
        return [self.choices[min(int(v * self.width), self.width - 1)] for v in u]


Input = Continuous | Integer | Categorical
KINDS = {kind.__name__.lower(): kind for kind in (Continuous, Integer, Categorical)}


@dataclass(frozen=True)
class Space:
    """All inputs together, in order."""

    inputs: tuple[Input, ...]

    def __post_init__(self):
        object.__setattr__(self, "inputs", tuple(self.inputs))
        names = self.names
        require(names, "a campaign needs at least one input, got none")
        different = len(set(names)) == len(names)
        require(different, f"inputs need different names, got {', '.join(map(str, names))}")

    @property
    def names(self) -> list[str]:
        """Names of the inputs."""
        return [one.name for one in self.inputs]

    @property
    def width(self) -> int:
        """Columns of numbers that a point becomes."""
        return sum(one.width for one in self.inputs)

    def check(self, point: Mapping[str, Any]) -> Point:
        """The point with every value of its kind and within bounds."""
        check_names("input", point, self.names, complete=True)
        return {one.name: one.check(point[one.name]) for one in self.inputs}

    def agree(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        """Whether two points are the same but for rounding."""
        return all(i.agree(one[i.name], other[i.name]) for i in self.inputs)

    def format(self, point: Mapping[str, Any]) -> str:
        """A point in words."""
        return ", ".join(f"{one.name} = {one.format(point[one.name])}" for one in self.inputs)

    def encode(self, points: Sequence[Point]) -> np.ndarray:
        """Points as rows of numbers, ``[N, columns]``."""
        if not points:
            return np.zeros((0, self.width))
        return np.hstack([one.columns([p[one.name] for p in points]) for one in self.inputs])

    def spread(self, num: int, seed: int) -> list[Point]:
        """Points spread evenly over the space (scrambled Sobol)."""
        from scipy.stats import qmc

        sampler = qmc.Sobol(len(self.inputs), scramble=True, rng=np.random.default_rng(seed))
        u = sampler.random_base2(int(np.ceil(np.log2(max(num, 2)))))[:num]
        columns = [one.at_fractions(u[:, i]) for i, one in enumerate(self.inputs)]
        return [dict(zip(self.names, row, strict=True)) for row in zip(*columns, strict=True)]

    def to_plain(self) -> list[dict[str, Any]]:
        """As JSON values."""
        return [{"kind": type(one).__name__.lower()} | asdict(one) for one in self.inputs]

    @classmethod
    def from_plain(cls, plain: Sequence[Mapping[str, Any]]) -> "Space":
        """The space that ``to_plain`` described."""
        inputs = []
        for own in map(dict, plain):
            kind = str(own.pop("kind", None))
            rule = f"an input's kind must be one of {', '.join(KINDS)}"
            require(kind in KINDS, f"{rule}, got {kind!r}")
            inputs.append(KINDS[kind](**own))
        return cls(tuple(inputs))


def check_names(what: str, given: Mapping[str, Any], known: Sequence[str], complete: bool) -> None:
    """Refuse unknown names, and missing ones where all are needed."""
    if not isinstance(given, Mapping):
        raise CampaignError(f"expected a mapping from each {what} to its value, got {given!r}")
    for name in given:
        if name not in known:
            raise CampaignError(
                f"there is no {what} {name!r}, only {', '.join(known)}{nearest(name, known)}"
            )
    missing = ", ".join(name for name in known if name not in given)
    require(not (complete and missing), f"the {what} {missing} is missing")


def define(
    inputs: Sequence[Input],
    outputs: Sequence[str],
    candidates: Sequence[Mapping[str, Any]] | None,
    settings: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The definition as JSON values."""
    space = Space(tuple(inputs))
    named = outputs and not isinstance(outputs, str)
    require(named, f"a campaign needs a list of outputs, such as ['yield'], got {outputs!r}")
    _check_new_names(space.names, list(outputs))
    return {
        "inputs": space.to_plain(),
        "outputs": list(outputs),
        "candidates": None if candidates is None else _check_candidates(space, candidates),
        "settings": check_model_settings(settings or {}),
    }


def explanation_columns(outputs: Sequence[str]) -> list[str]:
    """Columns of a table of proposals that say what is known and why; nobody fills them in."""
    return [*(f"{output}_{part}_sd" for output in outputs for part in PARTS), NATS, "reason"]


def check_model_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the regressor as JSON values, wrong ones refused before they are stored."""
    if not settings:
        return {}
    from twofold.estimators.regressor import BNNLVRegressor
    from twofold.inference.method import nest_options, to_mapping

    settings = nest_options(settings)
    known = set(BNNLVRegressor().get_params(deep=False)) - {"checkpoint", "checkpoint_seconds"}
    if unknown := sorted(set(settings) - known):
        raise CampaignError(
            f"the model of a campaign has no setting {', '.join(unknown)}; valid settings: "
            f"{', '.join(sorted(known))}{nearest(unknown[0], known)}"
        )
    try:
        _rehearse(BNNLVRegressor(**settings))
        if not isinstance(settings.get("inference", ""), str | dict):
            settings["inference"] = to_mapping(settings["inference"])
        plain: dict[str, Any] = to_plain(settings)
        json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CampaignError(f"settings: {error}") from error
    return plain


def _rehearse(model: "BNNLVRegressor") -> None:
    """All that a fit does with its settings before it sees data."""
    from sklearn.utils import check_random_state

    from twofold.core.numerics import Standardizer
    from twofold.estimators.fitting import about_data, check_memory
    from twofold.estimators.validation import check_settings
    from twofold.inference.method import resolve_method

    check_settings(model)
    check_random_state(model.random_state)
    one = Standardizer(np.zeros(1), np.ones(1))
    method, shape = resolve_method(model.inference), about_data(model, one, one, 1, "", 2).model
    check_memory(method, shape, 2, model.dtype)
    method.set_up(shape, np.array([2]), model.dtype)


def _check_new_names(inputs: list[str], outputs: list[str]) -> None:
    """Names must differ, and stand for themselves in the heading of a table."""
    names = [*inputs, *outputs]
    for name in names:
        word = isinstance(name, str) and name and name == name.strip()
        require(word, f"a name must be a word, without spaces around it, got {name!r}")
    different = len(set(names)) == len(names)
    require(different, f"outputs need names of their own, got {', '.join(names)}")
    reserved = ", ".join(sorted({*NUMBERS, *explanation_columns(outputs)} & set(names)))
    column = "is the name of a column in the campaign's own tables"
    require(not reserved, f"{reserved} {column}; choose another name")


def _check_candidates(space: Space, candidates: Sequence[Mapping[str, Any]]) -> list[Point]:
    allowed: list[Point] = []
    for index, candidate in enumerate(candidates, start=1):
        point = space.check(candidate)
        if point in allowed:
            both = f"candidates {allowed.index(point) + 1} and {index}"
            raise CampaignError(f"{both} are both at {space.format(point)}; leave one out")
        allowed.append(point)
    require(allowed, "candidates must hold at least one point, or be left out")
    return allowed
