"""Recording of results: matching them to proposals, detecting duplicates, and corrections."""

import time
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sql

from twofold.campaign import inputs
from twofold.campaign.inputs import CampaignError, Point, is_whole, require
from twofold.campaign.space import Space
from twofold.campaign.storage import MEASUREMENTS, PROPOSALS, Row, insert, rows, update

# Spreadsheets save only the digits shown, about six.
OUTPUT_ROUNDING = 1e-5


class Result(NamedTuple):
    """Measured outputs, their place (a point, the number of a proposal, or, to add missing outputs,
    the number of a measurement), and a note."""

    outputs: Mapping[str, Any]
    point: Mapping[str, Any] | None = None
    proposal: int | None = None
    measurement: int | None = None
    note: str | None = None


def check_result(result: Result, space: Space, outputs: Sequence[str]) -> Result:
    """The result with validated values; unknown names and invalid values are refused."""
    values = check_outputs(result.outputs, outputs)
    require(values, f"give at least one of the outputs {', '.join(outputs)}")
    where = None if result.point is None else space.check(result.point)
    return result._replace(outputs=values, point=where, note=check_note(result.note))


def check_outputs(values: Mapping[str, Any], outputs: Sequence[str]) -> dict[str, float]:
    inputs.check_names("output", values, outputs, complete=False)
    return {name: inputs.check_number(name, value) for name, value in values.items()}


def check_note(note: Any) -> str | None:
    require(note is None or isinstance(note, str), f"a note must be text, got {note!r}")
    return (note or "").strip() or None


# Number of the measurement that holds a result, and whether it was recorded before.
Entry = tuple[int, bool]


class Ledger:
    """The content of a campaign, read once and updated while several results are recorded. Removed
    measurements and cancelled proposals are left out."""

    def __init__(self, connection: sql.Connection):
        self.connection = connection
        self.proposals = {row["number"]: row for row in rows(connection, PROPOSALS)}
        self.measurements: dict[int, Row] = {}
        self._measured_at: dict[Any, list[Row]] = {}
        self._proposals_at: dict[Any, list[int]] = {}
        for number, row in self.proposals.items():
            if row["cancelled"] is None:
                self._proposals_at.setdefault(_key(row["point"]), []).append(number)
        for row in rows(connection, MEASUREMENTS):
            if row["removed"] is None:
                self._enter(row)

    def measurements_at(self, proposal: int | None, point: Point) -> list[Row]:
        """Measurements of a proposal at a point, or, without a proposal, at a point."""
        return self._measured_at.get((proposal, _key(point)), [])

    def find_proposal(self, point: Point) -> int | None:
        """The proposal of a result at a point: one without a result, else the last."""
        same = self._proposals_at.get(_key(point), [])
        unanswered = [number for number in same if not self.measurements_at(number, point)]
        return next(iter(unanswered or same[-1:]), None)

    def find(self, what: str, number: Any) -> Row:
        """A proposal or measurement by number."""
        known = self.measurements if what == "measurement" else self.proposals
        lists = "campaign status and campaign export list them"
        there = is_whole(number) and number in known
        require(there, f"there is no {what} {number!r}; {lists}")
        return known[number]

    def add(self, proposal: int | None, point: Point, result: Result) -> Entry:
        content: Row = {"proposal": proposal, "point": point, "outputs": dict(result.outputs)}
        content["note"] = result.note
        number = insert(self.connection, MEASUREMENTS, **content)
        self._enter(content | {"number": number, "earlier": {}})
        return number, False

    def complete(self, row: Row, result: Result) -> Entry:
        """Add outputs and notes to a measurement without changing existing ones."""
        outputs, note = {**result.outputs, **row["outputs"]}, _join_notes(row["note"], result.note)
        update(self.connection, MEASUREMENTS, row, outputs=outputs, note=note)
        return int(row["number"]), False

    def correct(self, number: int, values: dict[str, float], note: str | None) -> None:
        """Replace outputs, keeping the old values in the history, and add a note."""
        row = self.find("measurement", number)
        outputs, notes = row["outputs"] | values, _join_notes(row["note"], note)
        differs = outputs != row["outputs"]
        same = f"measurement {number} already has these values; give another value"
        require(differs or notes != row["note"], same)
        earlier = row["earlier"] | ({str(time.time()): row["outputs"]} if differs else {})
        changes = {"outputs": outputs, "note": notes, "earlier": earlier}
        update(self.connection, MEASUREMENTS, row, **changes)

    def remove(self, number: int) -> None:
        """Remove a measurement; its row stays in the table."""
        row = self.find("measurement", number)
        update(self.connection, MEASUREMENTS, row, removed=time.time())
        del self.measurements[number]

    def cancel(self, number: int) -> None:
        row = self.find("proposal", number)
        answers = [one for one, m in self.measurements.items() if m["proposal"] == number]
        have = f"measurement {answers[-1]}; remove that instead" if answers else ""
        require(not answers, f"proposal {number} has a result, {have}")
        require(row["cancelled"] is None, f"proposal {number} was cancelled before")
        update(self.connection, PROPOSALS, row, cancelled=time.time())

    def _enter(self, row: Row) -> None:
        self.measurements[row["number"]] = row
        self._measured_at.setdefault((row["proposal"], _key(row["point"])), []).append(row)


def _join_notes(*notes: str | None) -> str | None:
    return "; ".join(dict.fromkeys(note for note in notes if note)) or None


def _key(point: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(point.items()))


def record(ledger: Ledger, space: Space, result: Result, repeat: bool) -> Entry:
    """Add a result as a measurement or further outputs of one; refuse contradictions."""
    values = dict(result.outputs)
    where, proposal = _locate(ledger, space, result)
    earlier = ledger.measurements_at(proposal, where)
    if result.measurement is not None:
        earlier = [row for row in earlier if row["number"] == result.measurement]
    numbered = result.measurement is not None or proposal is not None
    if repeat or not earlier:
        return ledger.add(proposal, where, result)
    rounding = OUTPUT_ROUNDING if numbered else 0.0
    alike = [row for row in earlier if _agree(row["outputs"], values, rounding)]
    partial = [row for row in alike if set(values) - set(row["outputs"])]
    if partial:
        return ledger.complete(partial[-1], result)
    if alike:
        return alike[-1]["number"], True
    if numbered:
        raise CampaignError(_contradiction(earlier[-1], values, proposal))
    return ledger.add(proposal, where, result)


def _locate(ledger: Ledger, space: Space, result: Result) -> tuple[Point, int | None]:
    """The point and, if any, the proposal of a result."""
    what = "proposal" if result.measurement is None else "measurement"
    number = result.proposal if result.measurement is None else result.measurement
    if number is None:
        if result.point is None:
            raise CampaignError("give the proposal or the point at which the outputs were measured")
        return dict(result.point), ledger.find_proposal(dict(result.point))
    row = ledger.find(what, number)
    point, proposal = row["point"], row["proposal"] if what == "measurement" else int(number)
    if result.point is not None and not space.agree(point, result.point):
        raise CampaignError(
            f"{what} {number} is at {space.format(point)}, not at {space.format(result.point)}; "
            "omit the number or the point"
        )
    answers = f"measurement {number} answers proposal {proposal}, not {result.proposal}"
    require(result.proposal in (None, proposal), f"{answers}; omit one of the numbers")
    return point, proposal


def _agree(outputs: Mapping[str, float], values: Mapping[str, float], rounding: float) -> bool:
    both = outputs.keys() & values
    return all(np.isclose(values[name], outputs[name], rtol=rounding, atol=0.0) for name in both)


def _contradiction(row: Row, values: dict[str, float], proposal: int | None) -> str:
    both = [name for name in values if name in row["outputs"]]
    before = ", ".join(f"{name} = {row['outputs'][name]:g}" for name in both)
    given = ", ".join(f"{values[name]:g}" for name in both)
    where = f"proposal {proposal}" if proposal is not None else f"measurement {row['number']}"
    return (
        f"{before} of {where} was recorded before, now {given}; use --repeat (in Python "
        "repeat=True) for a second measurement, or campaign correct to change measurement "
        f"{row['number']}"
    )
