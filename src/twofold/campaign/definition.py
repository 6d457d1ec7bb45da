"""What a new campaign is made of, checked before anything is written."""

from collections.abc import Mapping, Sequence
from typing import Any

from twofold.campaign.errors import CampaignError
from twofold.campaign.inputs import Input
from twofold.campaign.models import checked_settings
from twofold.campaign.space import Point, Space

PARTS = ("total", "epistemic", "aleatoric")
NUMBERS = ("proposal", "measurement")
NATS, REASON = "information_nats", "reason"


def define(
    inputs: Sequence[Input],
    outputs: Sequence[str],
    candidates: Sequence[Mapping[str, Any]] | None,
    settings: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The definition as JSON values."""
    space = Space(tuple(inputs))
    if isinstance(outputs, str) or not outputs:
        raise CampaignError(
            f"a campaign needs a list of outputs, such as ['yield'], got {outputs!r}"
        )
    _check_new_names(space.names, list(outputs))
    return {
        "inputs": space.plain(),
        "outputs": list(outputs),
        "candidates": None if candidates is None else _checked_candidates(space, candidates),
        "settings": checked_settings(dict(settings or {})),
    }


def explaining_columns(outputs: Sequence[str]) -> list[str]:
    """Columns of a table of proposals that say what is known and why; nobody fills them in."""
    deviations = [deviation_column(output, part) for output in outputs for part in PARTS]
    return [*deviations, NATS, REASON]


def deviation_column(output: str, part: str) -> str:
    """The column of one part of an output's standard deviation."""
    return f"{output}_{part}_sd"


def _check_new_names(inputs: list[str], outputs: list[str]) -> None:
    """Names must differ, and stand for themselves in the heading of a table."""
    names = [*inputs, *outputs]
    for name in names:
        if not isinstance(name, str) or not name or name != name.strip():
            raise CampaignError(f"a name must be a word, without spaces around it, got {name!r}")
    if len(set(names)) != len(names):
        raise CampaignError(f"outputs need names of their own, got {', '.join(names)}")
    taken = sorted({*NUMBERS, *explaining_columns(outputs)} & set(names))
    if taken:
        raise CampaignError(
            f"{', '.join(taken)} is what a column of the campaign's own tables is called; choose "
            "another name"
        )


def _checked_candidates(space: Space, candidates: Sequence[Mapping[str, Any]]) -> list[Point]:
    allowed: list[Point] = []
    for place, candidate in enumerate(candidates, start=1):
        point = space.check(candidate)
        if point in allowed:
            raise CampaignError(
                f"candidates {allowed.index(point) + 1} and {place} are both at "
                f"{space.shown(point)}; leave one out"
            )
        allowed.append(point)
    if not allowed:
        raise CampaignError("candidates must hold at least one point, or be left out")
    return allowed
