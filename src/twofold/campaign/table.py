"""CSV files of a campaign: candidates and results in, proposals and measurements out."""

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from twofold.campaign.campaign import Campaign, Told
from twofold.campaign.errors import CampaignError
from twofold.campaign.space import Categorical, Point, Space, check_names

PROPOSAL = "proposal"


def read_rows(path: Path) -> list[tuple[int, dict[str, str]]]:
    """The rows of a CSV file with a heading and their lines; blank cells are left out."""
    try:
        text = path.read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise CampaignError(f"{path} cannot be read as a CSV file: {error}") from error
    reader = csv.reader(io.StringIO(text))
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


def read_points(path: Path, space: Space) -> list[Point]:
    """Candidates: one column for each input."""
    return [
        _at_line(path, line, lambda row=row: space.check(point_of(space, row)))
        for line, row in read_rows(path)
    ]


def read_results(path: Path, campaign: Campaign) -> list[Told]:
    """Results: outputs, and inputs or the number of a proposal."""
    return [
        _at_line(path, line, lambda row=row: campaign.checked(told(campaign, row)))
        for line, row in read_rows(path)
    ]


def told(campaign: Campaign, row: Mapping[str, str]) -> Told:
    """One row of results."""
    inputs = campaign.space.names
    check_names("column", row, [PROPOSAL, *inputs, *campaign.outputs], complete=False)
    outputs = {name: _number(name, row[name]) for name in campaign.outputs if name in row}
    point = point_of(campaign.space, {name: row[name] for name in inputs if name in row})
    number = int(_number(PROPOSAL, row[PROPOSAL])) if PROPOSAL in row else None
    return Told(outputs, point or None, number)


def point_of(space: Space, row: Mapping[str, str]) -> dict[str, Any]:
    """Texts as values of their input's kind."""
    check_names("input", row, space.names, complete=False)
    words = {one.name for one in space.inputs if isinstance(one, Categorical)}
    return {name: v if name in words else _number(name, v) for name, v in row.items()}


def write_rows(rows: Sequence[Mapping[str, Any]]) -> str:
    """Rows as CSV text, a blank cell for what is not there."""
    text = io.StringIO()
    writer = csv.DictWriter(text, list(rows[0]) if rows else [], lineterminator="\n")
    writer.writeheader()
    writer.writerows({k: "" if v is None else v for k, v in row.items()} for row in rows)
    return text.getvalue()


def _number(name: str, text: str) -> float:
    try:
        return float(text)
    except ValueError:
        raise CampaignError(f"{name} must be a number, got {text!r}") from None


def _at_line(path: Path, line: int, read: Any) -> Any:
    try:
        return read()
    except CampaignError as error:
        raise CampaignError(f"{path}, line {line}: {error}") from error
