"""``twofold campaign``: ask where to measure next, tell what was found."""

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from twofold.campaign import Campaign, CampaignError, Space, Status
from twofold.campaign.table import proposal_row, read_points, read_results, told, write_rows
from twofold.campaign.text import (
    curve_table,
    parse_input,
    parse_pairs,
    parse_settings,
    pending_table,
    proposals_table,
)
from twofold.compilation import enable_compile_cache

app = typer.Typer(help="Ask where to measure next, tell what was found.")

Place = Annotated[str, typer.Argument(help="The campaign's file, or a database URL.")]
SETTING = "NAME=VALUE of the model, such as epochs=10000."
Out = Annotated[Path | None, typer.Option("--csv", help="Write a CSV file instead.")]


@app.command()
def init(
    place: Place,
    input: Annotated[
        list[str], typer.Option(help="NAME=LOW..HIGH, NAME=LOW..HIGH:int, or NAME=a|b|c")
    ],
    output: Annotated[list[str], typer.Option(help="The name of an output.")],
    candidates: Annotated[Path | None, typer.Option(help="CSV of the only points allowed.")] = None,
    setting: Annotated[list[str] | None, typer.Option(help=SETTING)] = None,
) -> None:
    """Make a new campaign.

    Example: twofold campaign init oven.db --input heat=20..80 --input "acid=citric|lactic"
    --output yield
    """
    space = Space(tuple(parse_input(text) for text in input))
    allowed = None if candidates is None else read_points(candidates, space)
    settings = parse_settings(setting or [])
    Campaign.create(place, space.inputs, output, candidates=allowed, settings=settings)
    print(f"created {place}")


@app.command()
def configure(
    place: Place, settings: Annotated[list[str] | None, typer.Argument(help=SETTING)] = None
) -> None:
    """Replace the settings of the model; without any, go back to the defaults.

    Example: twofold campaign configure oven.db epochs=10000
    """
    campaign = Campaign.open(place)
    campaign.configure(parse_settings(settings or []))
    print(f"settings: {campaign.settings or 'the defaults'}")


@app.command()
def ask(
    place: Place,
    num: Annotated[int, typer.Option("--num", "-n", help="How many points.")] = 1,
    out: Out = None,
) -> None:
    """Propose points to measure.

    Example: twofold campaign ask oven.db --num 5 --csv next.csv
    """
    campaign = Campaign.open(place)
    check_writable(out)
    enable_compile_cache()
    proposals = campaign.ask(num)
    if out is None:
        Console().print(proposals_table(proposals, campaign))
    else:
        write(out, write_rows([proposal_row(p, campaign.outputs) for p in proposals]))


@app.command()
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
    if source is not None and proposal is not None:
        raise CampaignError("--proposal goes with NAME=VALUE; a table has a column for it")
    if source is not None:
        tell_table(campaign, source, repeat)
        return
    result = told(campaign, parse_pairs(values or []))
    if proposal is not None:
        if result.proposal not in (None, proposal):
            raise CampaignError(f"proposal={result.proposal} and --proposal {proposal} differ")
        result = result._replace(proposal=proposal)
    number = campaign.tell_all([result], repeat)[0]
    print(f"recorded measurement {number}")


@app.command()
def status(place: Place) -> None:
    """How far the campaign is, and whether to go on.

    Example: twofold campaign status oven.db
    """
    campaign = Campaign.open(place)
    show_status(campaign.status(), campaign)


@app.command()
def export(place: Place, out: Out = None) -> None:
    """All measurements as CSV.

    Example: twofold campaign export oven.db --csv results.csv
    """
    campaign = Campaign.open(place)
    headings = ["measurement", "proposal", *campaign.space.names, *campaign.outputs]
    text = write_rows(campaign.export(), headings)
    if out is None:
        print(text, end="")
    else:
        write(out, text)


def show_status(found: Status, campaign: Campaign) -> None:
    """Counts, what was left to learn, what is open, and what to do."""
    print(f"{found.measurements} measurements, {found.complete} complete")
    if found.curve:
        Console().print(curve_table(found.curve))
    if found.pending:
        Console().print(pending_table(found.pending, campaign))
    print(found.advice)


def tell_table(campaign: Campaign, source: Path, repeat: bool) -> None:
    """Record the rows of a table that are filled in and new."""
    results, blank = read_results(source, campaign)
    numbers = campaign.tell_all(results, repeat, skip_known=not repeat)
    known = len(results) - len(numbers)
    counts = [f"recorded {len(numbers)}"]
    counts += [f"{known} were recorded before"] if known else []
    counts += [f"{blank} have no result yet"] if blank else []
    print(", ".join(counts))


def check_writable(out: Path | None) -> None:
    """Refuse a place that a file cannot be written to before there is something to write."""
    if out is not None and (out.is_dir() or not out.parent.is_dir()):
        raise CampaignError(f"{out} cannot be written: expected a file in a folder that exists")


def write(out: Path, text: str) -> None:
    """Write a file, or say why not."""
    try:
        out.write_text(text, encoding="utf-8")
    except OSError as error:
        raise CampaignError(f"{out} cannot be written: {error}") from error
    print(f"wrote {out}")
