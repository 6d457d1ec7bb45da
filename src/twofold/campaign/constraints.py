"""Linear constraints between the inputs of a campaign, such as ``heat + 2*acid <= 90``."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from twofold.campaign.inputs import ROUNDING, CampaignError, Categorical, Input, require

NUMBER = r"(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?"
SIGNS = {"<": "<=", ">": ">=", "≤": "<=", "≥": ">="}
FORM = "a constraint is a sum of inputs with <= or >=, such as 'heat + 2*acid <= 90'"


@dataclass(frozen=True)
class Constraint:
    """``Σ weight · input <= limit``, up to rounding; ``text`` is the original text."""

    text: str
    weights: tuple[tuple[str, float], ...]
    limit: float
    rounding: float

    def excess(self, values: Mapping[str, Any]) -> Any:
        """By how much a point, or columns of points, exceed the limit."""
        return sum(weight * np.asarray(values[name]) for name, weight in self.weights) - self.limit


def parse_constraint(text: str, inputs: Sequence[Input]) -> Constraint:
    """Parse a linear inequality over numeric inputs; both sides may contain inputs and numbers."""
    ranges = {one.name: one.high - one.low for one in inputs if not isinstance(one, Categorical)}
    sides = re.split("([<>]=|[<>≤≥])", text)
    two = "; write a double inequality as two constraints" if len(sides) > 3 else ""
    require(len(sides) == 3, f"{FORM}, got {text!r}{two}")
    left, sign, right = sides
    sign = SIGNS.get(sign, sign)
    sums = dict.fromkeys(["", *ranges], 0.0)
    for side, factor in ((left, 1.0), (right, -1.0)):
        for name, weight in _parse_terms(side.strip(), list(ranges), text):
            sums[name] += weight * (factor if sign == "<=" else -factor)
    limit = -sums.pop("")
    weights = tuple((name, weight) for name, weight in sums.items() if weight)
    finite = weights and np.isfinite([limit, *dict(weights).values()]).all()
    require(finite, f"{FORM}, got {text!r}, which restricts no input")
    rounding = ROUNDING * sum(abs(weight) * ranges[name] for name, weight in weights)
    return Constraint(text, weights, limit, rounding)


def _parse_terms(side: str, names: Sequence[str], text: str) -> Iterator[tuple[str, float]]:
    """The input and weight of each term of a sum; the name of a constant term is empty."""
    known = "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True)) or "(?!)"
    after = rf"(?P<name>{known})(?:\s*\*\s*(?P<by>{NUMBER}))?"
    before = rf"(?P<weight>{NUMBER})(?:\s*\*?\s*(?P<of>{known}))?"
    term, position = re.compile(rf"\s*(?P<plus>[+-]?)\s*(?:{after}|{before})\s*"), 0
    while position < max(len(side), 1):
        match = term.match(side, position)
        if match is None or (position and not match["plus"]):
            numeric = f"the numeric inputs are {', '.join(names) or 'none'}"
            problem = f"cannot read {side[position:]!r} in {text!r}, and {numeric}"
            raise CampaignError(f"{FORM}; {problem}")
        weight = float(match["weight"] or match["by"] or 1.0)
        yield match["name"] or match["of"] or "", -weight if match["plus"] == "-" else weight
        position = match.end()
