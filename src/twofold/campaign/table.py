"""Tables of a campaign: candidates and results in, proposals and measurements out."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from twofold.campaign.campaign import Campaign, Proposal
from twofold.campaign.definition import (
    NATS,
    NUMBERS,
    PARTS,
    REASON,
    deviation_column,
    explaining_columns,
)
from twofold.campaign.errors import CampaignError
from twofold.campaign.inputs import Categorical
from twofold.campaign.recording import Told
from twofold.campaign.space import Point, Space, check_names
from twofold.logs import files


def read_rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    """The rows of a table with a heading and their lines; blank cells are left out."""
    if path.suffix.lower() in files.PARQUET:
        return _read_parquet(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CampaignError(f"{path} cannot be read as a CSV file: {error}") from error
    try:
        return _parsed(path, text)
    except csv.Error as error:
        raise CampaignError(f"{path} cannot be read as a CSV file: {error}") from error


def _parsed(path: Path, text: str) -> list[tuple[int, dict[str, str]]]:
    reader = csv.reader(io.StringIO(text), delimiter=_delimiter(text))
    headings = [heading.strip() for heading in next(reader, [])]
    if not any(headings):
        raise CampaignError(f"{path} is empty: expected a heading and at least one row")
    if len(set(headings)) != len(headings):
        raise CampaignError(f"{path} has two columns of one name: {', '.join(headings)}")
    rows = []
    for line, cells in enumerate(reader, start=2):
        if len(cells) > len(headings):
            raise CampaignError(
                f"{path}, line {line}: {len(cells)} cells for {len(headings)} columns"
            )
        pairs = zip(headings, (cell.strip() for cell in cells), strict=False)
        row = {heading: cell for heading, cell in pairs if cell}
        if row:
            rows.append((line, row))
    if not rows:
        raise CampaignError(f"{path} has a heading but no rows")
    return rows


def _read_parquet(path: Path) -> list[tuple[int, dict[str, str]]]:
    try:
        table = files.read(path, None, "utf-8")
    except files.LogError as error:
        raise CampaignError(str(error)) from error
    names = list(table.columns)
    rows = zip(*table.columns.values(), strict=True)
    return [
        (line, {name: str(cell) for name, cell in zip(names, row, strict=True) if _given(cell)})
        for line, row in enumerate(rows, start=1)
    ]


def _given(cell: Any) -> bool:
    return cell is not None and cell == cell and str(cell).strip() != ""


def _delimiter(text: str) -> str:
    """What the heading is divided by: spreadsheets of many countries write semicolons."""
    heading = text.partition("\n")[0]
    return max(",;\t", key=heading.count)


def read_points(path: Path, space: Space) -> list[Point]:
    """Candidates: one column for each input."""
    return [
        _at_line(path, line, lambda row=row: space.check(point_of(space, row)))
        for line, row in read_rows(path)
    ]


def read_results(path: Path, campaign: Campaign) -> tuple[list[Told], int]:
    """Results: outputs, and inputs or a number; and how many rows have all their outputs blank."""
    found = [
        _at_line(path, line, lambda row=row: _filled_in(campaign, row))
        for line, row in read_rows(path)
    ]
    results = [result for result in found if result is not None]
    return results, len(found) - len(results)


def _filled_in(campaign: Campaign, row: Mapping[str, str]) -> Told | None:
    result = told(campaign, row)
    return campaign.checked(result) if result.outputs else None


def told(campaign: Campaign, row: Mapping[str, str]) -> Told:
    """One row of results; what a table of proposals explains beside them is passed over."""
    inputs, outputs = campaign.space.names, campaign.outputs
    explaining = [name for name in explaining_columns(outputs) if name in row]
    check_names("column", row, [*NUMBERS, *inputs, *outputs, *explaining], complete=False)
    values = {name: _number(name, row[name]) for name in outputs if name in row}
    point = point_of(campaign.space, {name: row[name] for name in inputs if name in row})
    numbers = {name: _whole(name, row[name]) for name in NUMBERS if name in row}
    return Told(values, point or None, **numbers)


def proposal_row(proposal: Proposal, outputs: Sequence[str]) -> dict[str, Any]:
    """A proposal as a row of a table that ``tell`` takes, once its outputs are filled in."""
    deviations = proposal.split.get("standard_deviation")
    explained = {
        deviation_column(name, part): None if deviations is None else deviations[part][name]
        for name in outputs
        for part in PARTS
    }
    why = {NATS: proposal.split.get(NATS), REASON: proposal.reason}
    blank = dict.fromkeys(outputs)
    return {"proposal": proposal.number} | proposal.point | blank | explained | why


def point_of(space: Space, row: Mapping[str, str]) -> dict[str, Any]:
    """Texts as values of their input's kind."""
    check_names("input", row, space.names, complete=False)
    words = {one.name for one in space.inputs if isinstance(one, Categorical)}
    return {name: v if name in words else _number(name, v) for name, v in row.items()}


def columns_of(
    rows: Sequence[Mapping[str, Any]], headings: Sequence[str] = ()
) -> dict[str, list[Any]]:
    """Rows as columns, None for what is not there; without rows the headings alone."""
    return {name: [row[name] for row in rows] for name in (rows[0] if rows else headings)}


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise CampaignError(f"{name} must be a number, got {text!r}") from None


def _whole(name: str, text: str) -> int:
    number = _number(name, text)
    if not number.is_integer():
        raise CampaignError(f"{name} must be a whole number, got {text!r}")
    return int(number)


def _at_line(path: Path, line: int, read: Any) -> Any:
    try:
        return read()
    except CampaignError as error:
        raise CampaignError(f"{path}, line {line}: {error}") from error
