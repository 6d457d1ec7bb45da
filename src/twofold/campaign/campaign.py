"""``ask`` where to measure, ``tell`` the results.

A campaign is a database (``campaign.storage``) with the names and ranges of its inputs, the names
of its outputs, every proposal and every measurement. ``ask`` fits a model, ``tell`` never does;
pending proposals are taken into account by later ones.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twofold.active.choice import advise, assess, choose_batch, is_enough, left_to_learn
from twofold.campaign import choosing, recording
from twofold.campaign.choosing import Chosen, Proposal
from twofold.campaign.definition import NOTE, NUMBERS, check_model_settings, define
from twofold.campaign.inputs import CampaignError, Input, Point, is_whole, require
from twofold.campaign.models import Fit, ModelFile
from twofold.campaign.recording import Ledger, Result
from twofold.campaign.space import Space
from twofold.campaign.storage import CURVE, MEASUREMENTS, PROPOSALS, Storage, count, insert

if TYPE_CHECKING:
    from twofold.estimators.regressor import BNNLVRegressor

MOST_ASKED = 10_000  # points, which are compared with each other in memory
# Number of reference points over which the remaining uncertainty is averaged.
REFERENCE, REFERENCE_SEED = 128, 2**31 - 1


class Status(NamedTuple):
    """Progress of a campaign; ``curve`` has one row per model with the remaining uncertainty,
    ``missing`` is the number of complete measurements still needed for a first model."""

    measurements: int
    complete: int
    pending: list[Proposal]
    curve: list[dict[str, float]]
    consider_stopping: bool
    advice: str
    missing: int = 0


class Revision(NamedTuple):
    """Texts that change whenever proposals, measurements or the curve do."""

    proposals: str
    measurements: str
    curve: str


class Snapshot(NamedTuple):
    """A consistent snapshot of a campaign; ``recorded`` includes removed measurements."""

    proposals: list[dict[str, Any]]
    recorded: list[dict[str, Any]]
    curve: list[dict[str, Any]]

    @property
    def measurements(self) -> list[dict[str, Any]]:
        return [row for row in self.recorded if row["removed"] is None]

    @property
    def changes(self) -> int:
        """How often a measurement was corrected or removed."""
        return sum(len(row["earlier"]) + (row["removed"] is not None) for row in self.recorded)

    @property
    def pending(self) -> list[Proposal]:
        """Proposals without a measurement, unless they were cancelled."""
        answered = {row["proposal"] for row in self.measurements}
        return [
            Proposal(*(row[name] for name in Proposal._fields))
            for row in self.proposals
            if row["cancelled"] is None and row["number"] not in answered
        ]

    def complete(self, outputs: Sequence[str]) -> list[dict[str, Any]]:
        return [row for row in self.measurements if len(row["outputs"]) == len(outputs)]


class Campaign:
    """A series of measurements; use ``Campaign.create`` or ``Campaign.open``."""

    def __init__(self, storage: Storage):
        self._storage, self._models = storage, ModelFile(storage.model_file)
        try:
            stored = storage.definition
            self.space = Space.from_plain(stored["inputs"], stored["constraints"])
            self.outputs: list[str] = [str(name) for name in stored["outputs"]]
            self.candidates: list[Point] | None = stored["candidates"]
            self.target: str | None = stored["target"]
            require(self.target in (None, *self.outputs), f"no output {self.target!r}")
            self.settings: dict[str, Any] = dict(stored["settings"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            problem = f"the campaign is damaged: its definition cannot be read ({error!r})"
            raise CampaignError(f"{problem}; restore it from a copy") from error

    @classmethod
    def create(
        cls, place: Any, inputs: Sequence[Input], outputs: Sequence[str], *,
        candidates: Sequence[Mapping[str, Any]] | None = None, constraints: Sequence[str] = (),
        target: str | None = None, settings: Mapping[str, Any] | None = None,
    ) -> "Campaign":  # fmt: skip
        """A new campaign at a path or database URL.

        Only ``candidates`` are proposed, if given. Proposals satisfy the ``constraints``, linear
        inequalities such as ``"heat + 2*acid <= 90"``, and are the most informative points about
        the ``target``, one of the outputs (default: all). ``settings`` are those of the
        ``BNNLVRegressor``.
        """
        definition = define(inputs, outputs, candidates, constraints, target, settings or {})
        return cls(Storage.create(place, definition))

    @classmethod
    def open(cls, place: Any) -> "Campaign":
        """The campaign at a path or database URL."""
        return cls(Storage.open(place))

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Replace the settings of the model for every process that opens the campaign later."""
        checked = check_model_settings(settings)
        self._storage.redefine({"settings": checked})
        self.settings = checked

    def ask(self, num: int = 1) -> list[Proposal]:
        """Propose ``num`` points to measure; they are stored, pending until they have results."""
        self.check_num(num)
        snapshot = self._read()
        model, curve_row = None, None
        if self._missing(snapshot) <= 0:
            fit = self._fit(snapshot)
            model, curve_row = fit.model, self._assess(fit, snapshot)
        while True:
            chosen = self._choose(model, int(num), snapshot)
            with self._storage.writing() as connection:
                # If another process has asked meanwhile, its points are pending: choose others.
                if count(connection, PROPOSALS) == len(snapshot.proposals):
                    if curve_row is not None:
                        insert(connection, CURVE, **curve_row)
                    return [Proposal(insert(connection, PROPOSALS, **one), **one) for one in chosen]
            snapshot = self._read()

    def refit(self) -> None:
        """Fit the model and update the learning curve as ``ask`` does, without proposing points."""
        snapshot = self._read()
        if (curve_row := self._assess(self._fit(snapshot), snapshot)) is not None:
            with self._storage.writing() as connection:
                insert(connection, CURVE, **curve_row)

    @property
    def model_file(self) -> Path | None:
        """Path of the stored model, beside an SQLite file; None for other databases."""
        return self._models.path

    def model(self) -> "BNNLVRegressor":
        """The model of all complete measurements, refitted if they or the settings have changed.
        Its inputs are the rows of ``campaign.space.encode(points)``."""
        return self.fit_model().model

    def fit_model(self) -> Fit:
        """Like ``model``, with the name of the model and whether it is stored in ``model_file``."""
        return self._fit(self._read())

    def load_model(self) -> "BNNLVRegressor | None":
        """The stored model that chose the last proposals, or None; it omits later results."""
        return self._models.load_model((self.space.width, len(self.outputs)))

    def tell(
        self, outputs: Mapping[str, Any], *, point: Mapping[str, Any] | None = None,
        proposal: int | None = None, repeat: bool = False, note: str | None = None,
    ) -> int:  # fmt: skip
        """Record a measurement durably; returns its number. It belongs to a ``proposal`` or to an
        arbitrary ``point``. Outputs may be recorded one by one; a second value of the same output
        at a proposal needs ``repeat=True``, which records a separate measurement."""
        return self.tell_all([Result(outputs, point, proposal, note=note)], repeat)[0]

    def tell_all(
        self, results: Sequence[Result], repeat: bool = False, skip_known: bool = False
    ) -> list[int]:
        """Record several measurements like ``tell``: all of them, or none if one is invalid. With
        ``skip_known``, results recorded before this call are skipped instead of refused, so that a
        table can be read again when more of it has been filled in."""
        checked = [recording.check_result(result, self.space, self.outputs) for result in results]
        numbers = []
        with self._storage.writing() as connection:
            ledger = Ledger(connection)
            before = set(ledger.measurements)
            for result in checked:
                number, known = recording.record(ledger, self.space, result, repeat)
                if known and not (skip_known and number in before):
                    raise CampaignError(
                        f"the same result is measurement {number} already; --repeat (in "
                        "Python repeat=True) records it as a second one"
                    )
                if not known:
                    numbers.append(number)
        return numbers

    def correct(
        self, measurement: int, outputs: Mapping[str, Any] | None = None, *, note: str | None = None
    ) -> None:
        """Replace outputs of a measurement (``history`` keeps the old values), or add a note."""
        values, words = outputs or {}, recording.check_note(note)
        require(values or words, f"give a new value of {', '.join(self.outputs)}, or a note")
        checked = recording.check_outputs(values, self.outputs)
        with self._storage.writing() as connection:
            Ledger(connection).correct(measurement, checked, words)

    def remove(self, *measurements: int) -> None:
        """Remove wrong measurements; ``history`` keeps them, and their numbers are not reused."""
        with self._storage.writing() as connection:
            ledger = Ledger(connection)
            for number in measurements:
                ledger.remove(number)

    def cancel(self, *proposals: int) -> None:
        """Cancel proposals; a result that arrives anyway is still recorded."""
        with self._storage.writing() as connection:
            ledger = Ledger(connection)
            for number in proposals:
                ledger.cancel(number)

    def pending(self) -> list[Proposal]:
        """Proposals that have no measurement yet and were not cancelled."""
        return self._read().pending

    def status(self) -> Status:
        """Counts, pending proposals, the learning curve, and advice whether to continue."""
        snapshot = self._read()
        curve = [{"measurements": row["measurements"]} | row["numbers"] for row in snapshot.curve]
        counts = len(snapshot.measurements), len(snapshot.complete(self.outputs))
        advice = advise(curve, self._missing(snapshot), counts[1])
        if curve and curve[-1].get("changes", 0) != snapshot.changes:
            advice += "; measurements were corrected or removed since: ask again to include that"
        missing = max(self._missing(snapshot), 0)
        return Status(*counts, snapshot.pending, curve, is_enough(curve), advice, missing)

    def revision(self) -> Revision:
        """A fingerprint that changes with the content and is cheap to compute."""
        return Revision(*self._storage.measure(PROPOSALS, MEASUREMENTS, CURVE))

    @property
    def columns(self) -> list[str]:
        """Column names of ``export``."""
        return [*NUMBERS[::-1], *self.space.names, *self.outputs, NOTE]

    def export(self) -> list[dict[str, Any]]:
        """Every measurement as one flat row: number, proposal, inputs, outputs, note."""
        rows = [
            {"measurement": row["number"], "proposal": row["proposal"], NOTE: row["note"]}
            | (row["point"] | row["outputs"])
            for row in self._read().measurements
        ]
        return [{name: row.get(name) for name in self.columns} for row in rows]

    def history(self) -> list[dict[str, Any]]:
        """Corrected and removed outputs, and until when they were valid (Unix time)."""
        return [
            {"measurement": row["number"], "until": float(until), "outputs": outputs}
            for row in self._read().recorded
            for until, outputs in (row["earlier"] | {row["removed"]: row["outputs"]}).items()
            if until is not None
        ]

    def _read(self) -> Snapshot:
        return Snapshot(*self._storage.read(PROPOSALS, MEASUREMENTS, CURVE))

    def _missing(self, snapshot: Snapshot) -> int:
        """Complete measurements still needed for a first model, which takes two per feature column
        plus four; zero or less if there are enough."""
        return 2 * self.space.width + 4 - len(snapshot.complete(self.outputs))

    def _fit(self, snapshot: Snapshot) -> Fit:
        require(self._missing(snapshot) <= 0, advise([], self._missing(snapshot), 0))
        complete = snapshot.complete(self.outputs)
        x = self.space.encode([row["point"] for row in complete])
        y = np.array([[row["outputs"][name] for name in self.outputs] for row in complete])
        return self._models.load_or_fit(self.settings, x, y, snapshot.changes)

    def _assess(self, fit: Fit, snapshot: Snapshot) -> dict[str, Any] | None:
        """The uncertainty left by a model, as a row of the curve; None if the last row already has
        this model and the same number of corrections and removals."""
        changes = snapshot.curve[-1]["numbers"].get("changes", 0) if snapshot.curve else None
        if changes == snapshot.changes and fit.name in {row["model"] for row in snapshot.curve}:
            return None
        # With candidates, the constraints may leave too few other points.
        points = self.candidates if self.space.constraints else None
        reference = self.space.encode(points or self.space.spread(REFERENCE, REFERENCE_SEED))
        known = assess(fit.model, reference).select(self._wanted)
        numbers = left_to_learn(known) | {"warm": float(fit.warm), "changes": snapshot.changes}
        seen = len(snapshot.complete(self.outputs))
        return {"measurements": seen, "numbers": numbers, "model": fit.name}

    def check_num(self, num: Any) -> None:
        require(is_whole(num) and num >= 1, f"ask for at least 1 point, got {num!r}")
        require(num <= MOST_ASKED, f"ask for at most {MOST_ASKED} points at once, got {num}")
        most = MOST_ASKED if self.candidates is None else len(self.candidates)
        require(num <= most, f"ask for at most {most} points, one per candidate, got {num}")

    @property
    def _wanted(self) -> list[int]:
        return [i for i, name in enumerate(self.outputs) if self.target in (None, name)]

    def _choose(self, model: "BNNLVRegressor | None", num: int, snapshot: Snapshot) -> Chosen:
        """Evenly spread points, or the most informative batch given the pending points."""
        asked = len(snapshot.proposals)
        if model is None:
            return choosing.choose_evenly(self.space, self.candidates, num, asked)
        pool = self.candidates or self.space.spread(max(choosing.POOL, 4 * num), seed=asked + 1)
        cancelled = [row["point"] for row in snapshot.proposals if row["cancelled"] is not None]
        underway = [proposal.point for proposal in snapshot.pending]
        free = [point for point in pool if point not in underway and point not in cancelled]
        points = [*underway, *(free if len(free) >= num else pool)]
        known = assess(model, self.space.encode(points))
        target, taken = known.select(self._wanted), range(len(underway))
        chosen = choose_batch(target.information, target.means, target.aleatoric, num, taken)
        return choosing.describe_choice(points, chosen, known, target.information, self.outputs)
