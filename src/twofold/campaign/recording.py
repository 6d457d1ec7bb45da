"""What ``tell`` writes: where a result belongs, and whether it is new."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sql

from twofold.campaign.space import (
    CampaignError,
    Point,
    Space,
    check_names,
    check_number,
    is_whole,
    require,
)  # fmt: skip
from twofold.campaign.storage import MEASUREMENTS, PROPOSALS, Row, insert, rows

# A spreadsheet shows six digits or so of a number, and writes what it shows.
OUTPUT_ROUNDING = 1e-5


class Result(NamedTuple):
    """Measured outputs, and where: a point, the number of a proposal, or, to add outputs that were
    missing, the number of a measurement."""

    outputs: Mapping[str, Any]
    point: Mapping[str, Any] | None = None
    proposal: int | None = None
    measurement: int | None = None


def check_result(result: Result, space: Space, outputs: Sequence[str]) -> Result:
    """The result with every value of its kind, unknown names and bad values refused."""
    check_names("output", result.outputs, outputs, complete=False)
    require(result.outputs, f"tell at least one of the outputs {', '.join(outputs)}")
    values = {name: check_number(name, value) for name, value in result.outputs.items()}
    where = None if result.point is None else space.check(result.point)
    return result._replace(outputs=values, point=where)


# The measurement that holds a result, and whether it did so before.
Entry = tuple[int, bool]


class Ledger:
    """What a campaign holds, read once for many results, and kept up with them."""

    def __init__(self, connection: sql.Connection):
        self.connection = connection
        self.proposals = {row["number"]: row for row in rows(connection, PROPOSALS)}
        self.measurements: dict[int, Row] = {}
        self._measured_at: dict[Any, list[Row]] = {}
        self._proposals_at: dict[Any, list[int]] = {}
        for number, row in self.proposals.items():
            self._proposals_at.setdefault(_key(row["point"]), []).append(number)
        for row in rows(connection, MEASUREMENTS):
            self._note(row)

    def measurements_at(self, proposal: int | None, point: Point) -> list[Row]:
        """Measurements that answer a proposal at a point, or at a point that nobody asked for."""
        return self._measured_at.get((proposal, _key(point)), [])

    def find_proposal(self, point: Point) -> int | None:
        """The proposal that a result at a point answers: one without a result, else the last."""
        same = self._proposals_at.get(_key(point), [])
        unanswered = [number for number in same if not self.measurements_at(number, point)]
        return next(iter(unanswered or same[-1:]), None)

    def add(self, proposal: int | None, point: Point, outputs: dict[str, float]) -> Entry:
        """A measurement of its own."""
        content = {"proposal": proposal, "point": point, "outputs": outputs}
        number = insert(self.connection, MEASUREMENTS, **content)
        self._note(content | {"number": number})
        return number, False

    def complete(self, row: Row, outputs: dict[str, float]) -> Entry:
        """Further outputs of a measurement; those it has stay as they are."""
        row["outputs"] = outputs | row["outputs"]
        change = MEASUREMENTS.update().where(MEASUREMENTS.c.number == row["number"])
        self.connection.execute(change.values(outputs=json.dumps(row["outputs"])))
        return int(row["number"]), False

    def _note(self, row: Row) -> None:
        self.measurements[row["number"]] = row
        self._measured_at.setdefault((row["proposal"], _key(row["point"])), []).append(row)


def _key(point: Mapping[str, Any]) -> tuple[tuple[str, Any], ...]:
    return tuple(sorted(point.items()))


def record(ledger: Ledger, space: Space, result: Result, repeat: bool) -> Entry:
    """Add a result as a measurement, or as further outputs of one; refuse what contradicts."""
    values = dict(result.outputs)
    where, proposal = _locate(ledger, space, result)
    earlier = ledger.measurements_at(proposal, where)
    if result.measurement is not None:
        earlier = [row for row in earlier if row["number"] == result.measurement]
    numbered = result.measurement is not None or proposal is not None
    if repeat or not earlier:
        return ledger.add(proposal, where, values)
    rounding = OUTPUT_ROUNDING if numbered else 0.0
    alike = [row for row in earlier if _agree(row["outputs"], values, rounding)]
    partial = [row for row in alike if set(values) - set(row["outputs"])]
    if partial:
        return ledger.complete(partial[-1], values)
    if alike:
        return alike[-1]["number"], True
    if numbered:
        raise CampaignError(_contradiction(earlier[-1], values, proposal))
    return ledger.add(proposal, where, values)


def _locate(ledger: Ledger, space: Space, result: Result) -> tuple[Point, int | None]:
    """The point that a result belongs to, and the proposal it answers, if any."""
    numbers = {"measurement": result.measurement, "proposal": result.proposal}
    what, number = next(((what, one) for what, one in numbers.items() if one is not None), ("", 0))
    if not what:
        if result.point is None:
            raise CampaignError("say where the outputs were measured: a proposal or a point")
        return dict(result.point), ledger.find_proposal(dict(result.point))
    known = ledger.measurements if what == "measurement" else ledger.proposals
    there = is_whole(number) and number in known
    require(there, f"there is no {what} {number!r}; status and export list what there is")
    point = known[number]["point"]
    if result.point is not None and not space.agree(point, result.point):
        raise CampaignError(
            f"{what} {number} is at {space.format(point)}, not at {space.format(result.point)}; "
            "leave out the number or the point, whichever is wrong"
        )
    if what == "proposal":
        return point, int(number)
    proposal = known[number]["proposal"]
    answers = f"measurement {number} answers proposal {proposal}, not {result.proposal}"
    agree = result.proposal in (None, proposal)
    require(agree, f"{answers}; leave out the number that is wrong")
    return point, proposal


def _agree(outputs: Mapping[str, float], values: Mapping[str, float], rounding: float) -> bool:
    """Whether outputs that are in both are the same."""
    both = outputs.keys() & values
    return all(np.isclose(values[name], outputs[name], rtol=rounding, atol=0.0) for name in both)


def _contradiction(row: Row, values: dict[str, float], proposal: int | None) -> str:
    both = [name for name in values if name in row["outputs"]]
    before = ", ".join(f"{name} = {row['outputs'][name]:g}" for name in both)
    given = ", ".join(f"{values[name]:g}" for name in both)
    where = f"proposal {proposal}" if proposal is not None else f"measurement {row['number']}"
    return (
        f"{before} of {where} was recorded before, now {given}; with repeat=True (--repeat) it is "
        "recorded as a second measurement"
    )
