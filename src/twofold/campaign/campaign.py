"""``ask`` where to measure, ``tell`` what was found, and nothing told is ever lost.

A campaign is a database (``campaign.storage``) with the names and ranges of its inputs, the names
of its outputs, every proposal and every measurement. A model is fitted when it is asked, never when
it is told; proposals that nobody has measured yet are taken into account by the next ones.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from twofold.campaign import choice, models
from twofold.campaign.definition import define
from twofold.campaign.errors import CampaignError
from twofold.campaign.inputs import Input, check_number
from twofold.campaign.recording import Ledger, Told, record
from twofold.campaign.space import Point, Space, check_names
from twofold.campaign.storage import (
    MEASUREMENTS,
    PROPOSALS,
    SNAPSHOTS,
    Storage,
    count,
    insert,
    rows,
)
from twofold.estimators.regressor import BNNLVRegressor

# So many points are compared with each other in memory.
MOST_ASKED = 10_000


class Proposal(NamedTuple):
    """A point to measure, what is known there, and why it was chosen."""

    number: int
    point: Point
    split: dict[str, Any]
    reason: str


class Status(NamedTuple):
    """How far a campaign is; ``curve`` holds what each model found, oldest first."""

    measurements: int
    complete: int
    pending: list[Proposal]
    curve: list[dict[str, float]]
    consider_stopping: bool
    advice: str


class Campaign:
    """A series of measurements; made by ``Campaign.create`` or ``Campaign.open``."""

    def __init__(self, storage: Storage):
        self._storage = storage
        try:
            self._take(storage.about("definition"))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise CampaignError(
                f"the campaign is damaged: its definition cannot be read ({error!r}); restore it "
                "from a copy"
            ) from error

    def _take(self, definition: Mapping[str, Any]) -> None:
        self.space = Space.from_plain(definition["inputs"])
        self.outputs: list[str] = [str(name) for name in definition["outputs"]]
        self.candidates: list[Point] | None = definition["candidates"]
        self.settings: dict[str, Any] = dict(definition["settings"])

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
        return cls(Storage.create(place, define(inputs, outputs, candidates, settings)))

    @classmethod
    def open(cls, place: Any) -> "Campaign":
        """The campaign at a path or database URL."""
        return cls(Storage.open(place))

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Replace the settings of the model, for every process that opens the campaign from now."""
        checked = models.checked_settings(dict(settings))
        self._storage.redefine(self._storage.about("definition") | {"settings": checked})
        self.settings = checked

    def ask(self, num: int = 1) -> list[Proposal]:
        """``num`` points to measure next; they are recorded, and stay open until told."""
        if not isinstance(num, int | np.integer) or isinstance(num, bool) or num < 1:
            raise CampaignError(f"ask for at least 1 point, got {num!r}")
        if num > MOST_ASKED:
            raise CampaignError(f"ask for at most {MOST_ASKED} points at once, got {num}")
        if self.candidates is not None and num > len(self.candidates):
            raise CampaignError(f"there are {len(self.candidates)} candidates, got num={num}")
        points, targets = self._complete()
        model = self._fitted(points, targets) if self._missing(points) <= 0 else None
        if model is not None:
            self._note(model, len(points))
        while True:
            proposals = self._propose(model, int(num))
            if proposals is not None:
                return proposals

    def model(self) -> BNNLVRegressor:
        """The model of all complete measurements, fitted if they are more than at the last time.

        Its rows are those of ``campaign.space.encode(points)``.
        """
        points, targets = self._complete()
        if self._missing(points) > 0:
            raise CampaignError(choice.advice([], self._missing(points), 0))
        return self._fitted(points, targets)

    def kept_model(self) -> BNNLVRegressor | None:
        """The model that chose the last proposals, if its file is there; nothing is fitted.

        Measurements that have come since are not in it.
        """
        shape = sum(one.width for one in self.space.inputs), len(self.outputs)
        return models.kept(self._storage.model_file, shape)

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

    def tell_all(
        self, results: Sequence[Told], repeat: bool = False, skip_known: bool = False
    ) -> list[int]:
        """Record several measurements as ``tell`` does: all of them, or, if one is wrong, none.

        With ``skip_known`` a result that was recorded before this call is left out instead of
        refused, so that a table may be told again when more of it has been filled in.
        """
        checked = [self.checked(result) for result in results]
        numbers = []
        with self._storage.writing() as connection:
            ledger = Ledger(connection)
            before = set(ledger.measurements)
            for result in checked:
                number, known = record(ledger, self.space, result, repeat)
                if known and not (skip_known and number in before):
                    raise CampaignError(
                        f"the same result is measurement {number} already; with repeat=True "
                        "(--repeat) it is recorded as a second one"
                    )
                if not known:
                    numbers.append(number)
        return numbers

    def checked(self, result: Told) -> Told:
        """The result with every value of its kind, unknown names and bad values refused."""
        check_names("output", result.outputs, self.outputs, complete=False)
        if not result.outputs:
            raise CampaignError(f"tell at least one of the outputs {', '.join(self.outputs)}")
        values = {name: check_number(name, value) for name, value in result.outputs.items()}
        where = None if result.point is None else self.space.check(result.point)
        return result._replace(outputs=values, point=where)

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
        points, _ = self._complete()
        advice = choice.advice(curve, self._missing(points), len(points))
        enough = choice.is_enough(curve)
        return Status(len(measurements), len(points), self.pending(), curve, enough, advice)

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

    def _missing(self, points: Sequence[Point]) -> int:
        """How many complete measurements a first model still needs; not above 0 if none."""
        return choice.fewest(self.space) - len(points)

    def _fitted(self, points: Sequence[Point], targets: np.ndarray) -> BNNLVRegressor:
        x = self.space.encode(points)
        return models.fitted(self._storage.model_file, self.settings, x, targets)

    def _propose(self, model: BNNLVRegressor | None, num: int) -> list[Proposal] | None:
        """Choose and record; None if another process has asked meanwhile, for its points are
        underway then, and others should be chosen."""
        with self._storage.reading() as connection:
            asked = count(connection, PROPOSALS)
        pending = [proposal.point for proposal in self.pending()]
        chosen = choice.choose(self, model, num, pending, asked)
        with self._storage.writing() as connection:
            if count(connection, PROPOSALS) != asked:
                return None
            numbers = [insert(connection, PROPOSALS, **one._asdict()) for one in chosen]
        return [Proposal(number, *one) for number, one in zip(numbers, chosen, strict=True)]

    def _note(self, model: BNNLVRegressor, measurements: int) -> None:
        """Add a point to the curve, once for each model."""
        name = models.identity(model)
        with self._storage.reading() as connection:
            if name in {row["model"] for row in rows(connection, SNAPSHOTS)}:
                return
        numbers = choice.snapshot(model, self.space)
        with self._storage.writing() as connection:
            if name not in {row["model"] for row in rows(connection, SNAPSHOTS)}:
                insert(
                    connection, SNAPSHOTS, measurements=measurements, numbers=numbers, model=name
                )
