"""``twofold``: the command line."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.table import Table

from twofold.campaign import Campaign, CampaignError, Categorical, Continuous, Integer, Told
from twofold.campaign.campaign import Proposal
from twofold.campaign.space import Input, Space
from twofold.campaign.table import read_points, read_results, told, write_rows

BAD_INPUT = 2

app = typer.Typer(help="Predict, split the uncertainty in two, and decide with each part.")
campaign_app = typer.Typer(help="Ask where to measure next, tell what was found.")
app.add_typer(campaign_app, name="campaign")

Place = Annotated[str, typer.Argument(help="The campaign's file, or a database URL.")]
Out = Annotated[Path | None, typer.Option("--csv", help="Write a CSV file instead.")]


@app.callback()
def about() -> None:
    """Predict, split the uncertainty in two, and decide with each part."""


@campaign_app.command()
def init(
    place: Place,
    input: Annotated[
        list[str], typer.Option(help="NAME=LOW..HIGH, NAME=LOW..HIGH:int, or NAME=a|b|c")
    ],
    output: Annotated[list[str], typer.Option(help="The name of an output.")],
    candidates: Annotated[Path | None, typer.Option(help="CSV of the only points allowed.")] = None,
) -> None:
    """Make a new campaign.

    Example: twofold campaign init oven.db --input heat=20..80 --input "acid=citric|lactic"
    --output yield
    """
    space = Space(tuple(parse_input(text) for text in input))
    allowed = None if candidates is None else read_points(candidates, space)
    Campaign.create(place, space.inputs, output, candidates=allowed)
    print(f"created {place}")


@campaign_app.command()
def ask(
    place: Place,
    num: Annotated[int, typer.Option("--num", "-n", help="How many points.")] = 1,
    out: Out = None,
) -> None:
    """Propose points to measure.

    Example: twofold campaign ask oven.db --num 5 --csv next.csv
    """
    campaign = Campaign.open(place)
    proposals = campaign.ask(num)
    if out is not None:
        out.write_text(write_rows([proposal_row(p, campaign.outputs) for p in proposals]))
        return
    show_proposals(proposals, campaign)


@campaign_app.command()
def tell(
    place: Place,
    values: Annotated[
        list[str] | None, typer.Argument(help="NAME=VALUE of outputs, inputs.")
    ] = None,
    proposal: Annotated[int | None, typer.Option(help="The number of the proposal.")] = None,
    source: Annotated[Path | None, typer.Option("--csv", help="CSV of many results.")] = None,
    repeat: Annotated[bool, typer.Option(help="A second measurement of the same.")] = False,
) -> None:
    """Record results.

    Example: twofold campaign tell oven.db --proposal 3 yield=0.71
    """
    campaign = Campaign.open(place)
    if (source is None) == (not values):
        raise CampaignError("tell NAME=VALUE …, or --csv FILE, one of the two")
    if source is not None:
        results = read_results(source, campaign)
    else:
        pairs = dict(parse_pair(text) for text in values or [])
        one = told(campaign, pairs)
        results = [Told(one.outputs, one.point, proposal)]
    numbers = campaign.tell_all(results, repeat)
    print(f"recorded {len(numbers)}")


@campaign_app.command()
def status(place: Place) -> None:
    """How far the campaign is, and whether to go on.

    Example: twofold campaign status oven.db
    """
    campaign = Campaign.open(place)
    found = campaign.status()
    print(f"{found.measurements} measurements, {found.complete} complete")
    if found.curve:
        table = Table("measurements", "left to learn (nats)", "share of the variance")
        for row in found.curve:
            table.add_row(
                f"{row['measurements']:.0f}",
                f"{row['epistemic_nats']:.3f}",
                f"{row['epistemic_share']:.1%}",
            )
        Console().print(table)
    if found.pending:
        show_proposals(found.pending, campaign)
    print(found.advice)


@campaign_app.command()
def export(place: Place, out: Out = None) -> None:
    """All measurements as CSV.

    Example: twofold campaign export oven.db --csv results.csv
    """
    text = write_rows(Campaign.open(place).export())
    if out is None:
        print(text, end="")
    else:
        out.write_text(text)


def parse_input(text: str) -> Input:
    """``NAME=LOW..HIGH``, ``NAME=LOW..HIGH:int`` or ``NAME=a|b|c``."""
    name, values = parse_pair(text)
    if "|" in values:
        return Categorical(name, tuple(values.split("|")))
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
    name, sign, value = text.partition("=")
    if not (name and sign and value):
        raise CampaignError(f"expected NAME=VALUE, got {text!r}")
    return name, value


def proposal_row(proposal: Proposal, outputs: list[str]) -> dict[str, object]:
    """A proposal as a row of a file that ``tell --csv`` takes, once its outputs are filled in."""
    return {"proposal": proposal.number} | proposal.point | dict.fromkeys(outputs)


def show_proposals(proposals: list[Proposal], campaign: Campaign) -> None:
    """A table for people."""
    table = Table("proposal", *campaign.space.names, "epistemic", "aleatoric", "why")
    for proposal in proposals:
        parts = proposal.split.get("standard_deviation")
        cells = [
            ", ".join(f"{name} ± {value:.3g}" for name, value in parts[part].items())
            if parts
            else "–"
            for part in ("epistemic", "aleatoric")
        ]
        point = (f"{v:.4g}" if isinstance(v, float) else str(v) for v in proposal.point.values())
        table.add_row(str(proposal.number), *point, *cells, proposal.reason)
    Console().print(table)


def main() -> None:
    """Run; a mistake of the user is one sentence on stderr and exit code 2."""
    try:
        app()
    except CampaignError as error:
        print(f"twofold: {error}", file=sys.stderr)
        raise SystemExit(BAD_INPUT) from error
