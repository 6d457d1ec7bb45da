"""A campaign in a terminal: short words in, tables of proposals and progress out."""

import json
from collections.abc import Sequence
from typing import Any

from rich.table import Table

from twofold.campaign.campaign import Campaign, Proposal
from twofold.campaign.choice import SMALL_SHARE
from twofold.campaign.definition import PARTS
from twofold.campaign.errors import CampaignError
from twofold.campaign.inputs import Categorical, Continuous, Input, Integer

BAR = 20


def parse_input(text: str) -> Input:
    """``NAME=LOW..HIGH``, ``NAME=LOW..HIGH:int`` or ``NAME=a|b|c``."""
    name, values = parse_pair(text)
    if "|" in values:
        return Categorical(name, tuple(word.strip() for word in values.split("|")))
    bounds, _, kind = values.partition(":")
    low, dots, high = bounds.partition("..")
    try:
        if dots and kind == "int":
            return Integer(name, int(low), int(high))
        if dots and not kind:
            return Continuous(name, float(low), float(high))
    except ValueError as error:
        if isinstance(error, CampaignError):
            raise
    raise CampaignError(
        f"an input is NAME=LOW..HIGH, NAME=LOW..HIGH:int or NAME=a|b|c, got {text!r}"
    )


def parse_pair(text: str) -> tuple[str, str]:
    """``NAME=VALUE``."""
    name, sign, value = (part.strip() for part in text.partition("="))
    if not (name and sign and value):
        raise CampaignError(f"expected NAME=VALUE, got {text!r}")
    return name, value


def parse_pairs(texts: Sequence[str]) -> dict[str, str]:
    """``NAME=VALUE`` of each, no name twice."""
    pairs = dict(map(parse_pair, texts))
    if len(pairs) < len(texts):
        raise CampaignError(f"a name stands twice in {' '.join(texts)}; leave one out")
    return pairs


def parse_settings(texts: Sequence[str]) -> dict[str, Any]:
    """``NAME=VALUE`` of each, the value as JSON has it or a plain word."""
    return {name: _value(value) for name, value in parse_pairs(texts).items()}


def proposals_table(proposals: Sequence[Proposal], campaign: Campaign) -> Table:
    """Where to measure and why; and, where a model has chosen, what is known there."""
    explained = any(proposal.split for proposal in proposals)
    parts = [f"{part} sd" for part in PARTS] if explained else []
    table = Table("proposal", *campaign.space.names, *parts, "why")
    for proposal in proposals:
        cells = [_deviations(proposal, part) for part in PARTS] if explained else []
        table.add_row(*_place(proposal, campaign), *cells, proposal.reason)
    return table


def pending_table(proposals: Sequence[Proposal], campaign: Campaign) -> Table:
    """Where something is still to be measured."""
    table = Table("proposal", *campaign.space.names, title="without a result", title_justify="left")
    for proposal in proposals:
        table.add_row(*_place(proposal, campaign))
    return table


def curve_table(curve: Sequence[dict[str, float]]) -> Table:
    """What was left to learn after so many measurements."""
    table = Table("measurements", "left to learn (nats)", "of the variance", "")
    for row in curve:
        share = row["epistemic_share"]
        cells = f"{row['measurements']:.0f}", f"{row['epistemic_nats']:.3f}", f"{share:.1%}"
        table.add_row(*cells, "█" * max(round(BAR * share), 1))
    table.caption = f"below {SMALL_SHARE:.0%} of the variance: consider stopping"
    return table


def _place(proposal: Proposal, campaign: Campaign) -> list[str]:
    point = [one.shown(proposal.point[one.name]) for one in campaign.space.inputs]
    return [str(proposal.number), *point]


def _deviations(proposal: Proposal, part: str) -> str:
    deviations = proposal.split.get("standard_deviation", {}).get(part, {})
    if len(deviations) == 1:
        return f"{next(iter(deviations.values())):.3g}"
    return "\n".join(f"{name} {value:.3g}" for name, value in deviations.items())


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text
