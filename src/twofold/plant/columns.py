"""The columns of a log as model inputs: each through a transform, all in one flat vector.

A non-negative, long-tailed cost is transformed by ``log(1 + c)``; a bounded column by the logit of
its position in the range, which predictions then cannot leave. Values beyond the range are clipped.
"""

import inspect
import math
import traceback
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from typing import Any, Literal, get_args

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float
from twofold.core.naming import nearest
from twofold.plant.log import LogError, LogWarning

Kind = Literal["identity", "log1p", "logit", "log1p_logit"]
KINDS = get_args(Kind)
# Margin beyond the data on either side, as a fraction of their range.
MARGIN = 0.05
# Values are clipped to this distance from a bound, as a fraction of the range: logits stay finite.
EDGE = 1e-6


@dataclass(frozen=True)
class Transform:
    """The transform of a column; ``low`` and ``high`` bound it after the logarithm, if any."""

    kind: Kind = "identity"
    low: float = 0.0
    high: float = 1.0

    def __post_init__(self):
        if self.kind not in KINDS:
            hint = nearest(self.kind, KINDS)
            raise LogError(f"a transform is one of {', '.join(KINDS)}, got {self.kind!r}{hint}")
        if not self.low < self.high:
            raise LogError(f"a transform needs low < high, got {self.low:g} and {self.high:g}")

    def forward(self, value: Float[Array, "..."]) -> Float[Array, "..."]:
        """From the column's units to the model's."""
        if self.kind.startswith("log1p"):
            value = jnp.log1p(value)
        if not self.kind.endswith("logit"):
            return value
        place = jnp.clip((value - self.low) / (self.high - self.low), EDGE, 1.0 - EDGE)
        return jnp.log(place) - jnp.log1p(-place)

    def clamp(self, seen: Float[Array, "..."]) -> Float[Array, "..."]:
        """``forward(inverse(seen))``, computed directly."""
        if not self.kind.endswith("logit"):
            return seen
        edge = math.log1p(-EDGE) - math.log(EDGE)
        return jnp.clip(seen, -edge, edge)

    def inverse(self, seen: Float[Array, "..."]) -> Float[Array, "..."]:
        """From the model's units to the column's."""
        if self.kind.endswith("logit"):
            # 1/2 + tanh/2 is the logistic function without overflow.
            seen = self.low + (self.high - self.low) * (0.5 + 0.5 * jnp.tanh(0.5 * seen))
        return jnp.expm1(seen) if self.kind.startswith("log1p") else seen


def saturate(seen: Float[Array, "..."], low: float, high: float) -> Float[Array, "..."]:
    """Limit a prediction of a column that was logged between ``low`` and ``high``: unchanged up to
    one width of that range beyond either end, then saturating smoothly before two widths."""
    width = high - low
    inner = jnp.clip(seen, low - width, high + width)
    return inner + width * jnp.tanh((seen - inner) / width)


def choose_range(transform: Transform, values: np.ndarray) -> tuple[float, float]:
    """The range of a column's transformed values, of positive width even if it is constant."""
    seen = np.log1p(values) if transform.kind.startswith("log1p") else values
    low, high = float(seen.min()), float(seen.max())
    return (low, high) if low < high else (low, low + (abs(low) or 1.0))


def choose_transform(name: str, transform: Any, values: np.ndarray) -> Transform:
    """A transform by name; bounds contain the values and a margin of 5 % on either side."""
    if isinstance(transform, Transform):
        return transform
    kind = Transform(transform).kind
    values = _take_logarithm(name, kind, values)
    if not kind.endswith("logit"):
        return Transform(kind)
    low, high = float(values.min()), float(values.max())
    if not low < high:
        raise LogError(
            f"{name!r} is {low:g} in every row and so has no range for {kind!r}; use another "
            "transform, or leave the column out"
        )
    margin = MARGIN * (high - low)
    return Transform(kind, low - margin, high + margin)


def check_seen(name: str, transform: Transform, values: np.ndarray) -> None:
    """Raise for values without a logarithm; warn about values beyond the bounds."""
    seen = _take_logarithm(name, transform.kind, values)
    beyond = values[(seen < transform.low) | (seen > transform.high)]
    if len(beyond) and transform.kind.endswith("logit"):
        after = ", with bounds after the logarithm" * transform.kind.startswith("log1p")
        ends = np.array([transform.low, transform.high])
        low, high = np.expm1(ends) if after else ends
        message = (
            f"{name!r} leaves the range of its transform, {low:g} to {high:g}, in {len(beyond):,} "
            f"of {len(values):,} values ({beyond.min():g} to {beyond.max():g}), which are clipped; "
            f"exclude them when scoring predictions, or widen the range{after}: "
            f"transforms={{{name!r}: Transform({transform.kind!r}, low, high)}}"
        )
        warnings.warn(message, LogWarning, stacklevel=4)


def _take_logarithm(name: str, kind: Kind, values: np.ndarray) -> np.ndarray:
    """The values after the logarithm, if the transform has one."""
    if not kind.startswith("log1p"):
        return values
    if values.min() <= -1.0:
        raise LogError(
            f"{name!r} must be above -1 for its transform log(1 + value), but its smallest value "
            f"is {values.min():g}; correct those rows, or use another transform"
        )
    return np.log1p(values)


@contextmanager
def user_errors(
    function: Any, call: str, rule: str, has: str, known: Sequence[str] = ()
) -> Iterator[None]:
    """Convert errors of a user's function into a ``LogError`` with file and line."""
    try:
        yield
    except LogError:
        raise
    except KeyError as error:
        hint = nearest(str(error.args[0]), known)
        where = place_of(function, error)
        raise LogError(f"{where}{call} asks for {error}, but {has}{hint}") from error
    except Exception as error:
        why = f"{type(error).__name__}: {str(error).partition(chr(10))[0]}"
        must = f"must {rule}; it " if isinstance(error, jax.errors.JAXTypeError) else ""
        raise LogError(f"{place_of(function, error)}{call} {must}failed with {why}") from error


def place_of(function: Any, error: Exception | None = None) -> str:
    """The file and line of a user's function, or of the error in it, as the start of a sentence."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    if code is None:
        return ""
    frames = traceback.walk_tb(error.__traceback__ if error else None)
    lines = [line for frame, line in frames if frame.f_code.co_filename == code.co_filename]
    return f"{code.co_filename}:{lines[-1] if lines else code.co_firstlineno}: "


@dataclass(frozen=True, eq=False)
class Past:
    """Layout of the flat vector of past values. Its blocks are groups of columns (observations,
    then actions) with equally many lags. Values of the same lag are adjacent, so that one step
    later all move by one place and new values enter at the ends.

    ``features`` holds the index of each feature of a policy, ``inputs`` that of each model input in
    the vector followed by the observations ``ahead`` and the ``applied`` actions. ``newest`` holds,
    by value, the feature with the newest value of its column, ``ends`` indices of newest values.
    """

    groups: dict[int, list[int]]
    ahead: tuple[int, ...]
    applied: tuple[int, ...]
    features: np.ndarray
    inputs: np.ndarray
    newest: np.ndarray
    ends: np.ndarray

    @classmethod
    def of(cls, lags: Sequence[int], action_lags: Sequence[int], ahead: Sequence[bool]) -> "Past":
        """The layout for these numbers of lags of each observation and action (including the action
        about to be applied); the lags of some observations end one step ahead."""
        kept = [*lags, *(max(own - 1, 0) for own in action_lags)]
        groups, places, start = dict[int, list[int]](), [list[int]() for _ in kept], 0
        for size in sorted({own for own in kept if own}):
            columns = groups[size] = [column for column, own in enumerate(kept) if own == size]
            stop = start + size * len(columns)
            for place, column in enumerate(columns, start):
                places[column] = list(range(place, stop, len(columns)))
            start = stop
        features = [place for own in places for place in own]
        newest = np.zeros(len(features), np.int32)
        for own in filter(None, places):
            newest[own] = features.index(own[-1])
        ends = [places[column][-1] for columns in groups.values() for column in columns]
        known = tuple(i for i, own in enumerate(lags) if own and ahead[i])
        applied = tuple(i for i, own in enumerate(action_lags) if own)
        inputs, behind = list[int](), count(len(features))
        for column, own in enumerate(places):
            if column in known:
                inputs += [*own[1:], next(behind)]
            else:
                inputs += [*own, next(behind)] if column - len(lags) in applied else own
        listed = (np.array(each, np.int32) for each in (features, inputs, newest, ends))
        return cls(groups, known, applied, *listed)

    def gather(self, observed: Sequence[Array], applied: Sequence[Array]) -> Float[Array, "F"]:
        """The vector of the last values of each observation and action, oldest first."""
        columns, parts = [*observed, *applied], []
        for lags, group in self.groups.items():
            own = [columns[i][len(columns[i]) - lags :] for i in group]
            parts.append(jnp.stack(own, axis=1).reshape(-1))
        return jnp.concatenate(parts)

    def arrivals(
        self, observed: Float[Array, "D"], applied: Float[Array, "A"]
    ) -> Float[Array, "ends"]:
        """The new values at the ends, from a new observation and the action before it."""
        values = [*observed, *applied]
        return jnp.stack([values[i] for group in self.groups.values() for i in group])

    def shift(self, past: Float[Array, "F"], arrivals: Float[Array, "ends"]) -> Float[Array, "F"]:
        """The vector one step later."""
        sizes = [[lags * len(group), len(group)] for lags, group in self.groups.items()]
        stops = np.cumsum(sizes, axis=0)[:-1]
        blocks = zip(jnp.split(past, stops[:, 0]), jnp.split(arrivals, stops[:, 1]), strict=True)
        return jnp.concatenate([part for old, new in blocks for part in (old[len(new) :], new)])
