"""``ask`` where to measure, ``tell`` what was found, and nothing told is ever lost.

A campaign is a database (``campaign.storage``) with the names and ranges of its inputs, the names
of its outputs, every proposal and every measurement. A model is fitted when it is asked, never when
it is told; proposals that nobody has measured yet are taken into account by the next ones.
"""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import sqlalchemy as sql

from twofold.campaign import choice
from twofold.campaign.errors import CampaignError
from twofold.campaign.space import Input, Point, Space, check_names, check_output
from twofold.campaign.storage import MEASUREMENTS, PROPOSALS, SNAPSHOTS, Storage, insert, rows


class Proposal(NamedTuple):
    """A point to measure, what is known there, and why it was chosen."""

    number: int
    point: Point
    split: dict[str, Any]
    reason: str


class Told(NamedTuple):
    """Measured outputs, and where: a point, or the number of a proposal."""

    outputs: Mapping[str, Any]
    point: Mapping[str, Any] | None = None
    proposal: int | None = None


class Status(NamedTuple):
    """How far a campaign is; ``curve`` holds what each model found, oldest first."""

    measurements: int
    complete: int
    pending: list[Proposal]
    curve: list[dict[str, float]]
    advice: str


class Campaign:
    """A series of measurements; made by ``Campaign.create`` or ``Campaign.open``."""

    def __init__(self, storage: Storage):
        definition = storage.about("definition")
        self._storage = storage
        self.space = Space.from_plain(definition["inputs"])
        self.outputs: list[str] = definition["outputs"]
        self.candidates: list[Point] | None = definition["candidates"]
        self.settings: dict[str, Any] = definition["settings"]

    @classmethod
    def create(
        cls,
        place: Any,
        inputs: Sequence[Input],
        outputs: Sequence[str],
        *,
        candidates: Sequence[Mapping[str, Any]] | None = None,
        settings: Mapping[str, Any] | None = None,
    ) -> "Campaign":
        """A new campaign at a path or database URL.

        ``candidates``, where given, are the only points that are ever proposed; ``settings`` are
        those of the ``BNNLVRegressor`` that is fitted.
        """
        space, outputs = Space(tuple(inputs)), list(outputs)
        names = [*space.names, *outputs]
        if not outputs or len(set(names)) != len(names):
            raise CampaignError(
                f"a campaign needs outputs, with names of their own, got {', '.join(outputs)}"
            )
        allowed = None if candidates is None else [space.check(point) for point in candidates]
        if allowed is not None and not allowed:
            raise CampaignError("candidates must hold at least one point, or be left out")
        definition = {
            "inputs": space.plain(),
            "outputs": outputs,
            "candidates": allowed,
            "settings": choice.checked_settings(dict(settings or {})),
        }
        return cls(Storage.create(place, definition))

    @classmethod
    def open(cls, place: Any) -> "Campaign":
        """The campaign at a path or database URL."""
        return cls(Storage.open(place))

    def ask(self, num: int = 1) -> list[Proposal]:
        """``num`` points to measure next; they are recorded, and stay open until told."""
        if not isinstance(num, int | np.integer) or isinstance(num, bool) or num < 1:
            raise CampaignError(f"ask for at least 1 point, got {num!r}")
        if self.candidates is not None and num > len(self.candidates):
            raise CampaignError(f"there are {len(self.candidates)} candidates, got num={num}")
        points, targets = self._complete()
        pending = [proposal.point for proposal in self.pending()]
        with self._storage.reading() as connection:
            asked = len(rows(connection, PROPOSALS))
        found = choice.choose(self, int(num), points, targets, pending, asked)
        with self._storage.writing() as connection:
            if found.snapshot is not None:
                insert(connection, SNAPSHOTS, measurements=len(points), numbers=found.snapshot)
            return [
                Proposal(
                    insert(connection, PROPOSALS, point=point, split=split, reason=reason),
                    point,
                    split,
                    reason,
                )
                for point, split, reason in found.points
            ]

    def tell(
        self,
        outputs: Mapping[str, Any],
        *,
        point: Mapping[str, Any] | None = None,
        proposal: int | None = None,
        repeat: bool = False,
    ) -> int:
        """Record a measurement, on disk when this returns; returns its number.

        Say where by the number of a proposal, or by a point, asked for or not. Outputs may come one
        by one; a second value of the same output at a proposal needs ``repeat=True``, which makes
        it a measurement of its own.
        """
        return self.tell_all([Told(outputs, point, proposal)], repeat)[0]

    def tell_all(self, results: Sequence[Told], repeat: bool = False) -> list[int]:
        """Record several measurements as ``tell`` does: all of them, or, if one is wrong, none."""
        checked = [self.checked(result) for result in results]
        with self._storage.writing() as connection:
            return [self._record(connection, result, repeat) for result in checked]

    def checked(self, result: Told) -> Told:
        """The result with every value of its kind, unknown names and bad values refused."""
        check_names("output", result.outputs, self.outputs, complete=False)
        if not result.outputs:
            raise CampaignError(f"tell at least one of the outputs {', '.join(self.outputs)}")
        values = {name: check_output(name, value) for name, value in result.outputs.items()}
        where = None if result.point is None else self.space.check(result.point)
        return Told(values, where, result.proposal)

    def _record(self, connection: sql.Connection, result: Told, repeat: bool) -> int:
        values = dict(result.outputs)
        where, proposal = self._locate(connection, result.point, result.proposal)
        earlier = [
            row
            for row in rows(connection, MEASUREMENTS)
            if row["proposal"] == proposal and row["point"] == where
        ]
        partial = [row for row in earlier if not set(values) & set(row["outputs"])]
        if partial and not repeat:
            return _complete_row(connection, partial[-1], values)
        if earlier and proposal is not None and not repeat:
            known = sorted(set(values) & set(earlier[-1]["outputs"]))
            raise CampaignError(
                f"{', '.join(known)} of proposal {proposal} was told before; with repeat=True "
                "(--repeat) this is recorded as a second measurement"
            )
        return insert(connection, MEASUREMENTS, proposal=proposal, point=where, outputs=values)

    def pending(self) -> list[Proposal]:
        """Proposals that have no measurement yet."""
        with self._storage.reading() as connection:
            told = {row["proposal"] for row in rows(connection, MEASUREMENTS)}
            every = rows(connection, PROPOSALS)
        return [
            Proposal(row["number"], row["point"], row["split"], row["reason"])
            for row in every
            if row["number"] not in told
        ]

    def status(self) -> Status:
        """Counts, open proposals, the curve of remaining uncertainty, and whether to go on."""
        with self._storage.reading() as connection:
            measurements = rows(connection, MEASUREMENTS)
            snapshots = rows(connection, SNAPSHOTS)
        curve = [{"measurements": row["measurements"]} | row["numbers"] for row in snapshots]
        complete = len(self._complete()[0])
        missing = choice.fewest(self.space) - complete
        return Status(
            len(measurements), complete, self.pending(), curve, choice.advice(curve, missing)
        )

    def export(self) -> list[dict[str, Any]]:
        """Every measurement as one flat row: its number, its proposal, inputs and outputs."""
        with self._storage.reading() as connection:
            measurements = rows(connection, MEASUREMENTS)
        blank = dict.fromkeys(self.outputs)
        return [
            {"measurement": row["number"], "proposal": row["proposal"]}
            | row["point"]
            | blank
            | row["outputs"]
            for row in measurements
        ]

    def _complete(self) -> tuple[list[Point], np.ndarray]:
        """Points and outputs ``[N, O]`` of all measurements that have every output."""
        with self._storage.reading() as connection:
            every = rows(connection, MEASUREMENTS)
        whole = [row for row in every if len(row["outputs"]) == len(self.outputs)]
        values = [[row["outputs"][name] for name in self.outputs] for row in whole]
        return [row["point"] for row in whole], np.array(values).reshape(-1, len(self.outputs))

    def _locate(
        self, connection: sql.Connection, where: Any, proposal: int | None
    ) -> tuple[Point, int | None]:
        """The point that is told about, and the proposal it answers, if any."""
        known = {row["number"]: row["point"] for row in rows(connection, PROPOSALS)}
        if proposal is None:
            if where is None:
                raise CampaignError("say where the outputs were measured: a proposal or a point")
            told = {row["proposal"] for row in rows(connection, MEASUREMENTS)}
            answers = [n for n, point in known.items() if point == where and n not in told]
            partly = [n for n, point in known.items() if point == where]
            return where, (answers or partly[-1:] or [None])[0]
        if proposal not in known:
            raise CampaignError(f"there is no proposal {proposal!r}; status lists those there are")
        if where is not None and where != known[proposal]:
            raise CampaignError(
                f"proposal {proposal} is at {known[proposal]}, not at {where}; leave one out"
            )
        return known[proposal], proposal


def _complete_row(connection: sql.Connection, row: dict[str, Any], values: dict[str, float]) -> int:
    """Add further outputs to a measurement."""
    merged = json.dumps(row["outputs"] | values)
    matching = MEASUREMENTS.c.number == row["number"]
    connection.execute(MEASUREMENTS.update().where(matching).values(outputs=merged))
    return int(row["number"])
