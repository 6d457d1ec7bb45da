"""What a claim of the paper is, and the numbers that speak for or against it."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

CLOSE = 2.0  # standard errors within which a number is too near to its line to tell
BLANK = "\N{NO-BREAK SPACE}"
STRONG = 0.7  # a rank correlation above this is called one

Values: TypeAlias = Mapping[str, float]


class Number(NamedTuple):
    """A mean over seeds and its standard error."""

    mean: float
    error: float = 0.0

    def shown(self, digits: int) -> str:
        """``mean ± error``, not to be broken into lines."""
        mean = f"{self.mean:.{digits}f}"
        return f"{mean}{BLANK}±{BLANK}{self.error:.{digits}f}" if self.error else mean


class Check(NamedTuple):
    """A number, the line that decides, and the side of it that is right; ``text`` is shown instead
    of the number."""

    number: Number
    line: float = 0.0
    above: bool = True
    digits: int = 2
    label: str = ""
    text: str = ""

    def shown(self) -> str:
        """The number in words."""
        return f"{self.label} {self.text or self.number.shown(self.digits)}".strip()


class Claim(NamedTuple):
    """A sentence of the paper and how it is checked.

    ``checks`` finds the numbers of the paper's own posterior in a record, ``others`` those of the
    ensemble; None where nothing was measured, for a ``reason``.
    """

    place: str
    text: str
    checks: Callable[[Values], list[Check]] | None = None
    others: Callable[[Values], list[Check]] | None = None
    published: str = ""
    reason: str = ""


def number(values: Values, name: str) -> Number:
    """A quantity of a record with its error."""
    return Number(values[f"{name}/mean"], values[f"{name}/se"])


def difference(values: Values, first: str, second: str) -> Number:
    """Of two quantities whose errors are independent."""
    one, other = number(values, first), number(values, second)
    return Number(one.mean - other.mean, float(np.hypot(one.error, other.error)))


def over_seeds(found: Sequence[float] | np.ndarray) -> Number:
    """Mean and standard error of one value for each seed."""
    values = np.asarray(found, float)
    error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return Number(float(values.mean()), float(error))


def correlated(own: Number) -> list[Check]:
    """A rank correlation: in part if it is above 0, wholly if above ``STRONG``."""
    return [Check(own), Check(own, STRONG)]
