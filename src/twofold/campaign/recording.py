"""What ``tell`` writes: where a result belongs, and whether it is news."""

import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sql

from twofold.campaign.errors import CampaignError
from twofold.campaign.space import Point, Space
from twofold.campaign.storage import MEASUREMENTS, PROPOSALS, insert, rows

# A spreadsheet shows six digits or so of a number, and writes what it shows.
OUTPUT_ROUNDING = 1e-5
Row = dict[str, Any]


class Told(NamedTuple):
    """Measured outputs, and where: a point, the number of a proposal, or, to add outputs that were
    missing, the number of a measurement."""

    outputs: Mapping[str, Any]
    point: Mapping[str, Any] | None = None
    proposal: int | None = None
    measurement: int | None = None


class Recorded(NamedTuple):
    """The measurement that holds a result, and whether it did so before."""

    number: int
    known: bool


def record(connection: sql.Connection, space: Space, result: Told, repeat: bool) -> Recorded:
    """Add a result as a measurement, or as further outputs of one; refuse what contradicts."""
    values = dict(result.outputs)
    measurements = rows(connection, MEASUREMENTS)
    where, proposal = _locate(connection, space, result, measurements)
    earlier = [row for row in measurements if row["proposal"] == proposal and row["point"] == where]
    if result.measurement is not None:
        earlier = [row for row in earlier if row["number"] == result.measurement]
    numbered = result.measurement is not None or proposal is not None
    if repeat or not earlier:
        return _added(connection, proposal, where, values)
    rounding = OUTPUT_ROUNDING if numbered else 0.0
    alike = [row for row in earlier if _agree(row["outputs"], values, rounding)]
    partial = [row for row in alike if set(values) - set(row["outputs"])]
    if partial:
        return _completed(connection, partial[-1], values)
    if alike:
        return Recorded(alike[-1]["number"], known=True)
    if numbered:
        raise CampaignError(_contradiction(earlier[-1], values, proposal))
    return _added(connection, proposal, where, values)


def _locate(
    connection: sql.Connection, space: Space, result: Told, measurements: list[Row]
) -> tuple[Point, int | None]:
    """The point that is told about, and the proposal it answers, if any."""
    if result.measurement is not None:
        known = {row["number"]: row for row in measurements}
        row = _numbered("measurement", result.measurement, known)
        _check_point(space, f"measurement {row['number']}", row["point"], result.point)
        return row["point"], row["proposal"]
    proposals = {row["number"]: row for row in rows(connection, PROPOSALS)}
    if result.proposal is not None:
        row = _numbered("proposal", result.proposal, proposals)
        _check_point(space, f"proposal {row['number']}", row["point"], result.point)
        return row["point"], row["number"]
    if result.point is None:
        raise CampaignError("say where the outputs were measured: a proposal or a point")
    where = dict(result.point)
    told = {row["proposal"] for row in measurements}
    same = [number for number, row in proposals.items() if row["point"] == where]
    unanswered = [number for number in same if number not in told]
    return where, (unanswered or same[-1:] or [None])[0]


def _numbered(what: str, number: Any, known: dict[int, Row]) -> Row:
    if number not in known:
        raise CampaignError(f"there is no {what} {number!r}; status and export list what there is")
    return known[number]


def _check_point(space: Space, what: str, expected: Point, given: Mapping[str, Any] | None) -> None:
    if given is not None and not space.agree(expected, given):
        raise CampaignError(
            f"{what} is at {space.shown(expected)}, not at {space.shown(given)}; leave out the "
            "number or the point, whichever is wrong"
        )


def _agree(outputs: Mapping[str, float], values: Mapping[str, float], rounding: float) -> bool:
    """Whether outputs that are in both are the same."""
    both = [name for name in values if name in outputs]
    return all(np.isclose(values[name], outputs[name], rtol=rounding, atol=0.0) for name in both)


def _contradiction(row: Row, values: dict[str, float], proposal: int | None) -> str:
    both = [name for name in values if name in row["outputs"]]
    told = ", ".join(f"{name} = {row['outputs'][name]:g}" for name in both)
    given = ", ".join(f"{values[name]:g}" for name in both)
    where = f"proposal {proposal}" if proposal is not None else f"measurement {row['number']}"
    return (
        f"{told} of {where} was told before, now {given}; with repeat=True (--repeat) this is "
        "recorded as a second measurement"
    )


def _added(
    connection: sql.Connection, proposal: int | None, where: Point, values: dict[str, float]
) -> Recorded:
    number = insert(connection, MEASUREMENTS, proposal=proposal, point=where, outputs=values)
    return Recorded(number, known=False)


def _completed(connection: sql.Connection, row: Row, values: dict[str, float]) -> Recorded:
    """Add further outputs to a measurement; those it has stay as they are."""
    merged = json.dumps(values | row["outputs"])
    matching = MEASUREMENTS.c.number == row["number"]
    connection.execute(MEASUREMENTS.update().where(matching).values(outputs=merged))
    return Recorded(int(row["number"]), known=False)
