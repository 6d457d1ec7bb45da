"""Tables of a campaign: candidates and results in, proposals and measurements out."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from twofold.campaign import definition
from twofold.campaign.campaign import Campaign
from twofold.campaign.choosing import Proposal
from twofold.campaign.inputs import CampaignError, Categorical, Point, check_names, require
from twofold.campaign.recording import Result, check_result
from twofold.campaign.space import Space
from twofold.core.naming import nearest, shortened
from twofold.tables import TableError, read_table
from twofold.tables.table import parse_number


def read_rows(path: Path) -> tuple[list[tuple[int, dict[str, str]]], str]:
    """The filled cells of each row of a CSV or Parquet table with its line; the decimal mark."""
    try:
        table = read_table(path)
        columns = {name: table.texts(name) for name in table.names}
    except TableError as error:
        raise CampaignError(str(error)) from error
    rows = [
        (line, {name: cell for name, cell in zip(columns, cells, strict=True) if cell})
        for line, *cells in zip(table.rows.tolist(), *columns.values(), strict=True)
    ]
    return [(line, row) for line, row in rows if row], table.decimal


def read_points(path: Path, space: Space) -> list[Point]:
    """Read candidates: one column per input."""
    rows, decimal = read_rows(path)
    points = []
    for line, row in rows:
        with _at_line(path, line):
            points.append(space.check(parse_point(space, row, decimal)))
    return points


class Results(NamedTuple):
    """Results in a table, the number of rows without outputs, and the ignored columns."""

    results: list[Result]
    blank: int
    ignored: list[str]


def read_results(path: Path, campaign: Campaign) -> Results:
    """Read results: outputs, and inputs or the number of a proposal or measurement."""
    rows, decimal = read_rows(path)
    names = dict.fromkeys(name for _, row in rows for name in row)
    known = [*campaign.columns, *definition.explanation_columns(campaign.outputs)]
    # A column whose name is close to one of the campaign is a misspelling.
    ignored = [name for name in names if name not in known and not nearest(name, known)]
    results = []
    for line, row in rows:
        with _at_line(path, line):
            kept = {name: text for name, text in row.items() if name not in ignored}
            result = parse_result(campaign, kept, decimal)
            if result.outputs:
                results.append(check_result(result, campaign.space, campaign.outputs))
    return Results(results, len(rows) - len(results), ignored)


def parse_result(campaign: Campaign, row: Mapping[str, str], decimal: str = ".") -> Result:
    """Parse one row of results; columns that explain a proposal are ignored."""
    inputs, outputs = campaign.space.names, campaign.outputs
    explaining = definition.explanation_columns(outputs)
    row = {name: text for name, text in row.items() if name not in explaining}
    check_names("column", row, campaign.columns, complete=False)
    values = {name: _number(name, row[name], decimal) for name in outputs if name in row}
    filled = {name: row[name] for name in inputs if name in row}
    point = parse_point(campaign.space, filled, decimal)
    numbers = {name: parse_whole(name, row[name]) for name in definition.NUMBERS if name in row}
    return Result(values, point or None, **numbers, note=row.get(definition.NOTE))


def proposal_row(proposal: Proposal, outputs: Sequence[str]) -> dict[str, Any]:
    """A proposal as a table row for ``tell``, with outputs to fill in."""
    deviations = proposal.split.get("standard_deviation", {})
    known = [deviations.get(part, {}).get(name) for name in outputs for part in definition.PARTS]
    known.append(proposal.split.get(definition.NATS))
    known = [value if value is None else float(f"{value:.6g}") for value in known]
    explained = zip(definition.explanation_columns(outputs), [*known, proposal.reason], strict=True)
    return {"proposal": proposal.number} | proposal.point | dict.fromkeys(outputs) | dict(explained)


def parse_point(space: Space, row: Mapping[str, str], decimal: str = ".") -> dict[str, Any]:
    """Parse texts as values of the inputs."""
    check_names("input", row, space.names, complete=False)
    words = {one.name for one in space.inputs if isinstance(one, Categorical)}
    return {name: v if name in words else _number(name, v, decimal) for name, v in row.items()}


def _number(name: str, text: str, decimal: str = ".", kind: str = "number") -> float:
    try:
        return parse_number(text, decimal)
    except ValueError:
        raise CampaignError(f"{name} must be a {kind}, got {shortened(repr(text))}") from None


def parse_whole(name: str, text: str) -> int:
    number = _number(name, text, kind="whole number")
    require(
        abs(number) < 2**53 and number.is_integer(), f"{name} must be a whole number, got {text!r}"
    )
    return int(number)


@contextmanager
def _at_line(path: Path, line: int) -> Iterator[None]:
    try:
        yield
    except CampaignError as error:
        raise CampaignError(f"{path}, line {line}: {error}") from error
