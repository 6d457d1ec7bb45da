"""``twofold campaign``: ask where to measure next, tell the results."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from twofold.cli import terminal
from twofold.cli.fit import Quick, Text, Texts
from twofold.cli.run import Run, verb
from twofold.cli.serve import Place, serve
from twofold.cli.terminal import CommandError, check_place, print_message, print_note, to_table
from twofold.tables import write_table

if TYPE_CHECKING:
    from twofold.campaign import Campaign, Status
    from twofold.campaign.inputs import Input

app = typer.Typer(help="Ask where to measure next, tell the results.", no_args_is_help=True)

SETTING = "Model setting: NAME=VALUE, such as chains=20"
Out = Annotated[Path | None, Option(help="Write a *.csv or *.parquet file instead.")]
Note = Annotated[Text, Option(help="Free text, stored with the measurement and exported.")]
INPUT = "NAME=LOW..HIGH, NAME=LOW..HIGH:int, NAME=LOW..HIGH:log or NAME=a|b|c"
CONSTRAINT = 'Linear inequality of numeric inputs, such as "heat + 2*acid <= 90".'
BAR = 20


@verb(app)
def init(
    run: Run,
    place: Place,
    input: Annotated[list[str], Option(help=INPUT)],
    output: Annotated[list[str], Option(help="Name of an output.")],
    candidates: Annotated[Path | None, Option(help="Table of the points to choose from.")] = None,
    constraint: Annotated[Texts, Option(help=CONSTRAINT)] = None,
    target: Annotated[Text, Option(help="Output to learn (default: all of them).")] = None,
    setting: Annotated[Texts, Option(help=SETTING)] = None,
    quick: Quick = False,
) -> None:
    """Create a new campaign.

    Example: twofold campaign init oven.db --input heat=20..80 --input "acid=citric|lactic"
    --output yield
    """
    from twofold.campaign import Campaign, Space
    from twofold.campaign.table import read_points

    space = Space(tuple(parse_input(text) for text in input))
    allowed = None if candidates is None else read_points(candidates, space)
    settings = terminal.parse_settings(terminal.add_quick(setting or [], quick))
    options: dict[str, Any] = {"constraints": constraint or [], "target": target}
    campaign = Campaign.create(
        place, space.inputs, output, candidates=allowed, settings=settings, **options
    )
    content = {"campaign": place, "inputs": space.names, "outputs": output, **options}
    run.show(content | {"settings": campaign.settings}, f"created {place}")


@verb(app)
def configure(
    run: Run, place: Place, settings: Annotated[Texts, Argument(help=SETTING)] = None
) -> None:
    """Replace the settings of the model; without any, restore the defaults.

    Example: twofold campaign configure oven.db chains=20
    """
    campaign = _open(place)
    campaign.configure(terminal.parse_settings(settings or []))
    settled = campaign.settings
    run.show({"settings": settled}, f"settings: {settled or 'the defaults'}")


@verb(app)
def ask(
    run: Run,
    place: Place,
    num: Annotated[int, Option("--num", "-n", help="Number of points.")] = 1,
    out: Out = None,
) -> None:
    """Propose points to measure.

    Example: twofold campaign ask oven.db --num 5 --out next.csv
    """
    from twofold.campaign.table import proposal_row

    campaign = _open(place)
    check_place(out)
    with run.timed("ask"):
        proposals = campaign.ask(num)
    curve = campaign.status().curve
    run.metrics |= {"proposals": float(len(proposals))} | (curve[-1] if curve else {})
    rows = [proposal_row(one, campaign.outputs) for one in proposals]
    columns = {name: [row[name] for row in rows] for name in rows[0]}
    run.write_table(out, columns)
    shown = _describe_proposals(columns, campaign) if out is None else []
    run.show([one._asdict() for one in proposals], *shown)


@verb(app)
def tell(
    run: Run,
    place: Place,
    values: Annotated[Texts, Argument(help="Outputs and inputs: NAME=VALUE")] = None,
    proposal: Annotated[int | None, Option(help="Number of the proposal.")] = None,
    table: Annotated[Path | None, Option(help="CSV or Parquet file of results.")] = None,
    repeat: Annotated[bool, Option(help="Record a repeated measurement.")] = False,
    note: Note = None,
) -> None:
    """Record results.

    Example: twofold campaign tell oven.db --proposal 3 yield=0.71
    """
    from twofold.campaign.table import parse_result

    campaign = _open(place)
    if (table is None) == (not values):
        raise CommandError("give either NAME=VALUE … or --table FILE")
    pairs = terminal.parse_pairs(values or [])
    for name, value in (("proposal", proposal), ("note", note)):
        if value is not None and table is not None:
            raise CommandError(f"--{name} needs NAME=VALUE; in a table, use the column {name!r}")
        if value is not None and pairs.setdefault(name, str(value)) != str(value):
            raise CommandError(f"{name}={pairs[name]} and --{name} {value} differ")
    if table is not None:
        return _tell_table(run, campaign, table, repeat)
    (number,) = campaign.tell_all([parse_result(campaign, pairs)], repeat)
    run.show({"recorded": [number]}, f"recorded measurement {number}")


@verb(app)
def correct(
    run: Run,
    place: Place,
    measurement: Annotated[int, Argument(help="Number of the measurement.")],
    values: Annotated[Texts, Argument(help="Outputs: NAME=VALUE")] = None,
    note: Note = None,
) -> None:
    """Replace a recorded value; the earlier one stays in the history of the database.

    Example: twofold campaign correct oven.db 1 yield=0.7 --note "misread the scale"
    """
    from twofold.campaign.table import parse_result

    campaign = _open(place)
    result = parse_result(campaign, terminal.parse_pairs(values or []))
    if result.point or result.proposal or result.measurement:
        raise CommandError("inputs cannot be corrected: remove the measurement and record it again")
    campaign.correct(measurement, result.outputs, note=note or result.note)
    run.show({"corrected": measurement}, f"corrected measurement {measurement}")


@verb(app)
def remove(
    run: Run,
    place: Place,
    measurements: Annotated[list[int], Argument(help="Numbers of measurements.")],
) -> None:
    """Remove wrong measurements; they stay in the history of the database.

    Example: twofold campaign remove oven.db 1
    """
    _open(place).remove(*measurements)
    run.show({"removed": measurements}, f"removed {_list_numbers('measurement', measurements)}")


@verb(app)
def cancel(
    run: Run, place: Place, proposals: Annotated[list[int], Argument(help="Numbers of proposals.")]
) -> None:
    """Cancel proposals that will not be measured.

    Example: twofold campaign cancel oven.db 4 5
    """
    _open(place).cancel(*proposals)
    run.show({"cancelled": proposals}, f"cancelled {_list_numbers('proposal', proposals)}")


@verb(app)
def status(run: Run, place: Place) -> None:
    """Show progress and open proposals, and whether more measurements are worthwhile.

    Example: twofold campaign status oven.db
    """
    campaign = _open(place)
    state = campaign.status()
    content = state._asdict() | {"pending": [one._asdict() for one in state.pending]}
    run.show(content, *_describe_status(state, campaign))


@verb(app)
def export(run: Run, place: Place, out: Out = None) -> None:
    """Show all measurements, as CSV, Parquet or JSON.

    Example: twofold campaign export oven.db --out results.csv
    """
    campaign = _open(place)
    check_place(out)
    rows = campaign.export()
    columns = {name: [row[name] for row in rows] for name in campaign.columns}
    if out is not None:
        write_table(out, columns)
        print_message(f"wrote {out}")
    run.show_columns(out, columns)


@verb(app)
def refit(
    run: Run,
    places: Annotated[list[str], Argument(help="Campaign files.")],
    executor: Annotated[str, Option(help="Where to run jobs: local or ray.")] = "local",
) -> None:
    """Fit the models of campaigns with new results, ready for the next ask.

    Example: twofold campaign refit oven.db mill.db --executor ray
    """
    from twofold.campaign import refit as refit_all

    with run.timed("refit"):
        models = refit_all(places, executor)
    run.write(None)
    lines = [f"{one.place}: a model of {one.measurements} measurements" for one in models]
    run.show([one._asdict() for one in models], *lines)


verb(app)(serve)


def _open(place: str) -> "Campaign":
    from twofold.campaign import Campaign

    return Campaign.open(place)


def parse_input(text: str) -> "Input":
    """``NAME=LOW..HIGH``, with ``:int`` or ``:log``, or ``NAME=a|b|c``."""
    from twofold.campaign import Categorical, Continuous, Integer

    name, values = terminal.parse_pair(text)
    if "|" in values:
        return Categorical(name, tuple(word.strip() for word in values.split("|")))
    bounds, _, kind = values.partition(":")
    try:
        low, high = map(int if kind == "int" else float, bounds.split(".."))
    except ValueError:
        kind = "unknown"
    if kind == "int":
        return Integer(name, low, high)
    if kind not in ("", "log"):
        raise CommandError(f"an input is {INPUT}, got {text!r}")
    return Continuous(name, low, high, log=kind == "log")


def _list_numbers(what: str, numbers: Sequence[int]) -> str:
    return f"{what}{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _tell_table(run: Run, campaign: "Campaign", source: Path, repeat: bool) -> None:
    """Record the rows of a table that have outputs and were not recorded before."""
    from twofold.campaign.table import read_results

    results, blank, ignored = read_results(source, campaign)
    if ignored:
        print_note(f"columns unknown to the campaign are ignored: {', '.join(ignored)}")
    numbers = campaign.tell_all(results, repeat, skip_known=not repeat)
    duplicates = len(results) - len(numbers)
    text = f"recorded {len(numbers)}"
    text += f", {duplicates} were recorded before" if duplicates else ""
    text += f", {blank} have no result yet" if blank else ""
    run.show({"recorded": numbers, "known": duplicates, "blank": blank}, text)


def _describe_proposals(columns: dict[str, list[Any]], campaign: "Campaign") -> Iterator[Any]:
    """Proposed points with the predicted uncertainty, if there is a model, else with reasons."""
    from twofold.campaign.definition import NATS

    inputs, texts = {one.name: one for one in campaign.space.inputs}, dict[str, list[str]]()
    reasons = columns.pop("reason")
    for name, cells in columns.items():
        if name in inputs:
            texts[name] = list(map(inputs[name].format, cells))
        elif cells[0] is not None:
            numbers = [f"{cell:.3g}" if isinstance(cell, float) else str(cell) for cell in cells]
            texts[name.replace("_", " ")] = numbers
    yield terminal.to_point_table(texts)
    if all(cell is None for cell in columns[NATS]):
        yield from dict.fromkeys(reasons)


def _describe_status(state: "Status", campaign: "Campaign") -> Iterator[Any]:
    """Counts, the remaining uncertainty, pending proposals, and advice."""
    from twofold.active.choice import SMALL_SHARE

    noun = "measurement" if state.measurements == 1 else "measurements"
    yield f"{state.measurements} {noun}, {state.complete} complete"
    if state.curve:
        rows = []
        for row in state.curve:
            share = row["epistemic_share"]
            cells = [f"{row['measurements']:.0f}", f"{row['epistemic_nats']:.3f}", f"{share:.1%}"]
            rows.append([*cells, "█" * max(round(BAR * share), 1)])
        heading = f"of the variance\n(stop below {SMALL_SHARE:.0%})"
        yield to_table(["measurements", "left to learn (nats)", heading, ""], rows)
    if state.pending:
        inputs, rows = campaign.space.inputs, []
        for one in state.pending:
            rows.append([str(one.number), *(i.format(one.point[i.name]) for i in inputs)])
        yield to_table(["proposal", *campaign.space.names], rows, "without a result")
    yield state.advice
