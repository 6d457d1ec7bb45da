"""The input space: points, and their encoding as rows of numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import compress
from typing import Any

import numpy as np

from twofold.campaign.constraints import Constraint, parse_constraint
from twofold.campaign.inputs import KINDS, Input, Point, check_names, require

# Maximum number of doublings of the points tried to satisfy the constraints.
DOUBLINGS = 10


@dataclass(frozen=True)
class Space:
    """The inputs, in order, and the constraints between them."""

    inputs: tuple[Input, ...]
    constraints: tuple[Constraint, ...] = ()

    def __post_init__(self):
        object.__setattr__(self, "inputs", tuple(self.inputs))
        names = self.names
        require(names, "a campaign needs at least one input, got none")
        different = len(set(names)) == len(names)
        require(different, f"inputs need different names, got {', '.join(map(str, names))}")

    @property
    def names(self) -> list[str]:
        return [one.name for one in self.inputs]

    @property
    def width(self) -> int:
        """Number of feature columns of a point."""
        return sum(one.width for one in self.inputs)

    def check(self, point: Mapping[str, Any]) -> Point:
        """The point with validated values, within bounds; constraints apply to proposals only."""
        check_names("input", point, self.names, complete=True)
        return {one.name: one.check(point[one.name]) for one in self.inputs}

    def check_proposable(self, point: Mapping[str, Any]) -> Point:
        """Like ``check``, and refuse points that violate the constraints."""
        checked = self.check(point)
        for one in self.constraints:
            holds = one.excess(checked) <= one.rounding
            require(holds, f"{self.format(checked)} violates the constraint {one.text}")
        return checked

    def agree(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        """Whether two points are equal up to rounding."""
        return all(i.agree(one[i.name], other[i.name]) for i in self.inputs)

    def format(self, point: Mapping[str, Any]) -> str:
        return ", ".join(f"{one.name} = {one.format(point[one.name])}" for one in self.inputs)

    def encode(self, points: Sequence[Point]) -> np.ndarray:
        """Points as rows of numbers, ``[N, columns]``."""
        if not points:
            return np.zeros((0, self.width))
        return np.hstack([one.columns([p[one.name] for p in points]) for one in self.inputs])

    def spread(self, num: int, seed: int) -> list[Point]:
        """Points spread evenly over the feasible space (scrambled Sobol)."""
        from scipy.stats import qmc

        sampler = qmc.Sobol(len(self.inputs), scramble=True, rng=np.random.default_rng(seed))
        first = last = int(np.ceil(np.log2(max(num, 2))))
        points = self._to_points(sampler.random_base2(first))
        while len(points) < num and last < first + DOUBLINGS:
            points += self._to_points(sampler.random_base2(last))
            last += 1
        room = f"the constraints leave less than 1/{2**DOUBLINGS} of the space"
        remedy = "relax them, narrow the ranges of the inputs, or list candidates"
        require(len(points) >= num, f"{room}; {remedy}")
        return points[:num]

    def find_allowed(self, points: Sequence[Point]) -> np.ndarray:
        met = np.ones(len(points), bool)
        for one in self.constraints:
            met &= one.excess({name: [p[name] for p in points] for name, _ in one.weights}) <= 0.0
        return met

    def _to_points(self, u: np.ndarray) -> list[Point]:
        """Points at fractions of the ranges ``[N, inputs]`` that satisfy the constraints."""
        columns = [one.at_fractions(u[:, i]) for i, one in enumerate(self.inputs)]
        points = [dict(zip(self.names, row, strict=True)) for row in zip(*columns, strict=True)]
        return list(compress(points, self.find_allowed(points)))

    def to_plain(self) -> list[dict[str, Any]]:
        return [{"kind": type(one).__name__.lower()} | asdict(one) for one in self.inputs]

    @classmethod
    def from_plain(
        cls, plain: Sequence[Mapping[str, Any]], constraints: Sequence[str] = ()
    ) -> "Space":
        """Restore a space from the output of ``to_plain``."""
        inputs = []
        for fields in map(dict, plain):
            kind = str(fields.pop("kind", None))
            rule = f"an input's kind must be one of {', '.join(KINDS)}"
            require(kind in KINDS, f"{rule}, got {kind!r}")
            inputs.append(KINDS[kind](**fields))
        return cls(tuple(inputs), tuple(parse_constraint(text, inputs) for text in constraints))
