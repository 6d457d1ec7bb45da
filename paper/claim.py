"""Claims of the paper, and the numbers that decide them."""

from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

CLOSE = 2.0  # standard errors from the threshold within which a number is undecided
BLANK = "\N{NO-BREAK SPACE}"
STRONG = 0.7  # threshold of a strong rank correlation

Values: TypeAlias = Mapping[str, float]


class Number(NamedTuple):
    """A mean over seeds and its standard error."""

    mean: float
    error: float = 0.0

    def shown(self, digits: int) -> str:
        """``mean ± error``, with non-breaking spaces."""
        mean = f"{self.mean:.{digits}f}"
        return f"{mean}{BLANK}±{BLANK}{self.error:.{digits}f}" if self.error else mean


class Check(NamedTuple):
    """A number, its threshold, and the side of the threshold that confirms the claim; ``text`` is
    shown instead of the number."""

    number: Number
    line: float = 0.0
    above: bool = True
    digits: int = 2
    label: str = ""
    text: str = ""

    def shown(self) -> str:
        """The number as text."""
        return f"{self.label} {self.text or self.number.shown(self.digits)}".strip()


class Claim(NamedTuple):
    """A sentence of the paper and how it is checked.

    ``checks`` reads the numbers of the paper's posterior from a record, ``others`` those of the
    default; None if nothing was measured, with the ``reason``.
    """

    place: str
    text: str
    checks: Callable[[Values], list[Check]] | None = None
    others: Callable[[Values], list[Check]] | None = None
    published: str = ""
    reason: str = ""


def number(values: Values, name: str) -> Number:
    """A quantity of a record with its standard error."""
    return Number(values[f"{name}/mean"], values[f"{name}/se"])


def difference(values: Values, first: str, second: str) -> Number:
    """Difference of two quantities with independent errors."""
    one, other = number(values, first), number(values, second)
    return Number(one.mean - other.mean, float(np.hypot(one.error, other.error)))


def over_seeds(given: Sequence[float] | np.ndarray) -> Number:
    """Mean and standard error over seeds."""
    values = np.asarray(given, float)
    error = values.std(ddof=1) / len(values) ** 0.5 if len(values) > 1 else 0.0
    return Number(float(values.mean()), float(error))


def correlated(correlation: Number) -> list[Check]:
    """Checks of a rank correlation: holds in part above 0, fully above ``STRONG``."""
    return [Check(correlation), Check(correlation, STRONG)]
