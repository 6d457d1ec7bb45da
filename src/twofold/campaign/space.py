"""The inputs of a campaign together: points, their checks, and as rows of numbers."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.stats import qmc

from twofold.campaign.errors import CampaignError
from twofold.campaign.inputs import KINDS, Input
from twofold.core.naming import nearest

Point = dict[str, float | int | str]


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

    def agree(self, one: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
        """Whether two points are the same but for rounding."""
        return all(i.agree(one[i.name], other[i.name]) for i in self.inputs)

    def shown(self, point: Mapping[str, Any]) -> str:
        """A point in words."""
        return ", ".join(f"{one.name} = {one.shown(point[one.name])}" for one in self.inputs)

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
    if not isinstance(given, Mapping):
        raise CampaignError(f"expected a mapping from each {what} to its value, got {given!r}")
    for name in given:
        if name not in known:
            raise CampaignError(
                f"there is no {what} {name!r}, only {', '.join(known)}{nearest(name, known)}"
            )
    missing = [name for name in known if name not in given]
    if complete and missing:
        raise CampaignError(f"the {what} {', '.join(missing)} is missing")
