"""``twofold campaign``: ask where to measure next, tell what was found."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twofold.cli.config import Config
from twofold.cli.errors import CommandError
from twofold.cli.output import TABLES, AsJson, check_place, csv_text, say, show_json
from twofold.cli.run import Run

if TYPE_CHECKING:
    from twofold.campaign import Campaign, Status

app = typer.Typer(help="Ask where to measure next, tell what was found.", no_args_is_help=True)

Place = Annotated[str, typer.Argument(help="The campaign's file, or a database URL.")]
SETTING = "NAME=VALUE of the model, such as epochs=10000."
TABLE = ("--table", "--csv")
Out = Annotated[Path | None, typer.Option(*TABLE, help="Write a *.csv or *.parquet file instead.")]


@app.command()
def init(
    place: Place,
    input: Annotated[
        list[str], typer.Option(help="NAME=LOW..HIGH, NAME=LOW..HIGH:int, or NAME=a|b|c")
    ],
    output: Annotated[list[str], typer.Option(help="The name of an output.")],
    candidates: Annotated[
        Path | None, typer.Option(help="CSV or Parquet file of the only points allowed.")
    ] = None,
    setting: Annotated[list[str] | None, typer.Option(help=SETTING)] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Make a new campaign.

    Example: twofold campaign init oven.db --input heat=20..80 --input "acid=citric|lactic"
    --output yield
    """
    from twofold.campaign import Campaign, Space
    from twofold.campaign.table import read_points
    from twofold.campaign.text import parse_input, parse_settings

    space = Space(tuple(parse_input(text) for text in input))
    allowed = None if candidates is None else read_points(candidates, space)
    settings = parse_settings(setting or [])
    made = Campaign.create(place, space.inputs, output, candidates=allowed, settings=settings)
    if as_json:
        names = {"inputs": made.space.names, "outputs": made.outputs}
        show_json({"campaign": place, **names, "settings": made.settings})
    else:
        print(f"created {place}")


@app.command()
def configure(
    place: Place,
    settings: Annotated[list[str] | None, typer.Argument(help=SETTING)] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Replace the settings of the model; without any, go back to the defaults.

    Example: twofold campaign configure oven.db epochs=10000
    """
    from twofold.campaign import Campaign
    from twofold.campaign.text import parse_settings

    campaign = Campaign.open(place)
    campaign.configure(parse_settings(settings or []))
    if as_json:
        show_json({"settings": campaign.settings})
    else:
        print(f"settings: {campaign.settings or 'the defaults'}")


@app.command()
def ask(
    ctx: typer.Context,
    place: Place,
    num: Annotated[int, typer.Option("--num", "-n", help="How many points.")] = 1,
    out: Out = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Propose points to measure.

    Example: twofold campaign ask oven.db --num 5 --table next.csv
    """
    from rich.console import Console

    from twofold.campaign import Campaign
    from twofold.campaign.table import columns_of, proposal_row
    from twofold.campaign.text import proposals_table
    from twofold.core.compilation import enable_compile_cache

    run = Run(ctx)
    campaign = Campaign.open(place)
    check_place(out, TABLES)
    enable_compile_cache()
    with run.timed("ask"):
        proposals = campaign.ask(num)
    curve = campaign.status().curve
    run.metrics |= {"proposals": float(len(proposals))} | (curve[-1] if curve else {})
    rows = [proposal_row(one, campaign.outputs) for one in proposals]
    if out is not None:
        _write(out, columns_of(rows))
    run.write(out)
    if as_json:
        show_json([one._asdict() for one in proposals])
    elif out is None:
        Console().print(proposals_table(proposals, campaign))


@app.command()
def tell(
    place: Place,
    values: Annotated[
        list[str] | None, typer.Argument(help="NAME=VALUE of outputs, inputs.")
    ] = None,
    proposal: Annotated[int | None, typer.Option(help="The number of the proposal.")] = None,
    source: Annotated[
        Path | None, typer.Option(*TABLE, help="CSV or Parquet file of many results.")
    ] = None,
    repeat: Annotated[bool, typer.Option(help="A second measurement of the same.")] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Record results.

    Example: twofold campaign tell oven.db --proposal 3 yield=0.71
    """
    from twofold.campaign import Campaign
    from twofold.campaign.table import told
    from twofold.campaign.text import parse_pairs

    campaign = Campaign.open(place)
    if (source is None) == (not values):
        raise CommandError("tell NAME=VALUE …, or --table FILE, one of the two")
    if source is not None and proposal is not None:
        raise CommandError("--proposal goes with NAME=VALUE; a table has a column for it")
    if source is not None:
        _tell_table(campaign, source, repeat, as_json)
        return
    result = told(campaign, parse_pairs(values or []))
    if proposal is not None:
        if result.proposal not in (None, proposal):
            raise CommandError(f"proposal={result.proposal} and --proposal {proposal} differ")
        result = result._replace(proposal=proposal)
    number = campaign.tell_all([result], repeat)[0]
    if as_json:
        show_json({"recorded": [number]})
    else:
        print(f"recorded measurement {number}")


@app.command()
def status(place: Place, as_json: AsJson = False) -> None:
    """How far the campaign is, and whether to go on.

    Example: twofold campaign status oven.db
    """
    from twofold.campaign import Campaign

    campaign = Campaign.open(place)
    found = campaign.status()
    if as_json:
        show_json(found._asdict() | {"pending": [one._asdict() for one in found.pending]})
    else:
        _show_status(found, campaign)


@app.command()
def export(place: Place, out: Out = None, as_json: AsJson = False) -> None:
    """All measurements, as CSV, Parquet or JSON.

    Example: twofold campaign export oven.db --table results.csv
    """
    from twofold.campaign import Campaign
    from twofold.campaign.table import columns_of

    campaign = Campaign.open(place)
    check_place(out, TABLES)
    rows = campaign.export()
    headings = ["measurement", "proposal", *campaign.space.names, *campaign.outputs]
    columns = columns_of(rows, headings)
    if out is not None:
        _write(out, columns)
    if as_json:
        show_json(rows)
    elif out is None:
        print(csv_text(columns), end="")


@app.command()
def refit(
    ctx: typer.Context,
    places: Annotated[list[str], typer.Argument(help="The campaigns' files.")],
    executor: Annotated[
        str, typer.Option(help="Where to run jobs: local (one by one, here) or ray.")
    ] = "local",
    as_json: AsJson = False,
) -> None:
    """Fit the models of campaigns that have been told something new, ready for the next ask.

    Example: twofold campaign refit oven.db mill.db --executor ray
    """
    from twofold.campaign import refit as refit_all
    from twofold.core.compilation import enable_compile_cache

    run = Run(ctx)
    enable_compile_cache()
    with run.timed("refit"):
        found = refit_all(places, executor)
    run.write(None)
    if as_json:
        show_json([one._asdict() for one in found])
        return
    for one in found:
        print(f"{one.place}: a model of {one.measurements} measurements")


def _show_status(found: "Status", campaign: "Campaign") -> None:
    """Counts, what was left to learn, what is open, and what to do."""
    from rich.console import Console

    from twofold.campaign.text import curve_table, pending_table

    print(f"{found.measurements} measurements, {found.complete} complete")
    if found.curve:
        Console().print(curve_table(found.curve))
    if found.pending:
        Console().print(pending_table(found.pending, campaign))
    print(found.advice)


def _tell_table(campaign: "Campaign", source: Path, repeat: bool, as_json: bool) -> None:
    """Record the rows of a table that are filled in and new."""
    from twofold.campaign.table import read_results

    results, blank = read_results(source, campaign)
    numbers = campaign.tell_all(results, repeat, skip_known=not repeat)
    known = len(results) - len(numbers)
    if as_json:
        show_json({"recorded": numbers, "known": known, "blank": blank})
        return
    counts = [f"recorded {len(numbers)}"]
    counts += [f"{known} were recorded before"] if known else []
    counts += [f"{blank} have no result yet"] if blank else []
    print(", ".join(counts))


def _write(out: Path, columns: dict[str, list[Any]]) -> None:
    from twofold.tables import files

    files.write(out, columns)
    say(f"wrote {out}")
