"""``ask`` where to measure, ``tell`` what was measured; no result is ever lost.

A campaign is a database (``campaign.storage``) with the names and ranges of its inputs, the names
of its outputs, every proposal and every measurement. A model is fitted by ``ask``, never by
``tell``; proposals without a result are taken into account by the next ones.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twofold.active.choice import Assessment, advise, assess, choose_batch, is_enough, left_to_learn
from twofold.campaign import space as definition
from twofold.campaign.recording import Ledger, Result, check_result, record
from twofold.campaign.space import CampaignError, Input, Point, Space, is_whole, require
from twofold.campaign.storage import CURVE, MEASUREMENTS, PROPOSALS, Fit, Storage, count, insert
from twofold.core.jobs import Job, run_jobs
from twofold.inference.method import upgrade_settings

if TYPE_CHECKING:
    from twofold.estimators.regressor import BNNLVRegressor

MOST_ASKED = 10_000  # points, which are compared with each other in memory
# Candidates of a question, and points over which what is left to learn is averaged.
POOL, REFERENCE, REFERENCE_SEED = 256, 128, 2**31 - 1
SPREAD = "evenly spread: too few measurements for a model yet"


class Proposal(NamedTuple):
    """A point to measure, what is known there, and why it was chosen."""

    number: int
    point: Point
    split: dict[str, Any]
    reason: str


class Status(NamedTuple):
    """How far a campaign is; ``curve`` says what was left to learn, one row for each model."""

    measurements: int
    complete: int
    pending: list[Proposal]
    curve: list[dict[str, float]]
    consider_stopping: bool
    advice: str


class Snapshot(NamedTuple):
    """What a campaign holds at one moment, read once."""

    proposals: list[dict[str, Any]]
    measurements: list[dict[str, Any]]
    curve: list[dict[str, Any]]

    @property
    def pending(self) -> list[Proposal]:
        """Proposals without a measurement."""
        answered = {row["proposal"] for row in self.measurements}
        rows = [{name: row[name] for name in Proposal._fields} for row in self.proposals]
        return [Proposal(**row) for row in rows if row["number"] not in answered]

    def complete(self, outputs: Sequence[str]) -> list[dict[str, Any]]:
        """Measurements that have every output."""
        return [row for row in self.measurements if len(row["outputs"]) == len(outputs)]


class Campaign:
    """A series of measurements; made by ``Campaign.create`` or ``Campaign.open``."""

    def __init__(self, storage: Storage):
        self._storage = storage
        try:
            stored = storage.definition
            self.space = Space.from_plain(stored["inputs"])
            self.outputs: list[str] = [str(name) for name in stored["outputs"]]
            self.candidates: list[Point] | None = stored["candidates"]
            self.settings: dict[str, Any] = upgrade_settings(stored["settings"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            problem = f"the campaign is damaged: its definition cannot be read ({error!r})"
            raise CampaignError(f"{problem}; restore it from a copy") from error

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
        return cls(Storage.create(place, definition.define(inputs, outputs, candidates, settings)))

    @classmethod
    def open(cls, place: Any) -> "Campaign":
        """The campaign at a path or database URL."""
        return cls(Storage.open(place))

    def configure(self, settings: Mapping[str, Any]) -> None:
        """Replace the settings of the model, for every process that opens the campaign from now."""
        checked = definition.check_model_settings(settings)
        self._storage.redefine({"settings": checked})
        self.settings = checked

    def ask(self, num: int = 1) -> list[Proposal]:
        """``num`` points to measure next; they are recorded, and pending until they are told."""
        self._check_num(num)
        snapshot = self._read()
        model, curve_row = None, None
        if self._missing(snapshot) <= 0:
            model, name, _, warm = self._fit(snapshot)
            if name not in {row["model"] for row in snapshot.curve}:
                reference = self.space.encode(self.space.spread(REFERENCE, REFERENCE_SEED))
                numbers = left_to_learn(assess(model, reference)) | {"warm": float(warm)}
                seen = len(snapshot.complete(self.outputs))
                curve_row = {"measurements": seen, "numbers": numbers, "model": name}
        while True:
            chosen = self._choose(model, int(num), snapshot)
            with self._storage.writing() as connection:
                # If another process has asked meanwhile, its points are underway: choose others.
                if count(connection, PROPOSALS) == len(snapshot.proposals):
                    if curve_row is not None:
                        insert(connection, CURVE, **curve_row)
                    return [Proposal(insert(connection, PROPOSALS, **one), **one) for one in chosen]
            snapshot = self._read()

    @property
    def model_file(self) -> Path | None:
        """Where the model is stored: beside an SQLite file, else nowhere."""
        return self._storage.model_file

    def model(self) -> "BNNLVRegressor":
        """The model of all complete measurements, fitted if they or the settings have changed.

        Its rows are those of ``campaign.space.encode(points)``.
        """
        return self.fit_model().model

    def fit_model(self) -> Fit:
        """As ``model``, with its name and whether it is stored in ``model_file``."""
        snapshot = self._read()
        require(self._missing(snapshot) <= 0, advise([], self._missing(snapshot), 0))
        return self._fit(snapshot)

    def load_model(self) -> "BNNLVRegressor | None":
        """The model that chose the last proposals, if its file is there; nothing is fitted.

        It does not include later measurements.
        """
        return self._storage.load_model((self.space.width, len(self.outputs)))

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
        return self.tell_all([Result(outputs, point, proposal)], repeat)[0]

    def tell_all(
        self, results: Sequence[Result], repeat: bool = False, skip_known: bool = False
    ) -> list[int]:
        """Record several measurements as ``tell`` does: all of them, or, if one is wrong, none.

        With ``skip_known`` a result that was recorded before this call is left out instead of
        refused, so that a table may be told again when more of it has been filled in.
        """
        checked = [check_result(result, self.space, self.outputs) for result in results]
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

    def pending(self) -> list[Proposal]:
        """Proposals that have no measurement yet."""
        return self._read().pending

    def status(self) -> Status:
        """Counts, pending proposals, the curve of what is left to learn, and whether to go on."""
        snapshot = self._read()
        curve = [{"measurements": row["measurements"]} | row["numbers"] for row in snapshot.curve]
        counts = len(snapshot.measurements), len(snapshot.complete(self.outputs))
        advice = advise(curve, self._missing(snapshot), counts[1])
        return Status(*counts, snapshot.pending, curve, is_enough(curve), advice)

    def export(self) -> list[dict[str, Any]]:
        """Every measurement as one flat row: its number, its proposal, inputs and outputs."""
        return [
            {"measurement": row["number"], "proposal": row["proposal"]}
            | (row["point"] | dict.fromkeys(self.outputs) | row["outputs"])
            for row in self._read().measurements
        ]

    def _read(self) -> Snapshot:
        return Snapshot(*self._storage.read(PROPOSALS, MEASUREMENTS, CURVE))

    def _missing(self, snapshot: Snapshot) -> int:
        """How many complete measurements a first model still needs; not above 0 if none.

        It needs two for each column of numbers, and four more.
        """
        return 2 * self.space.width + 4 - len(snapshot.complete(self.outputs))

    def _fit(self, snapshot: Snapshot) -> Fit:
        complete = snapshot.complete(self.outputs)
        x = self.space.encode([row["point"] for row in complete])
        y = np.array([[row["outputs"][name] for name in self.outputs] for row in complete])
        return self._storage.load_or_fit(self.settings, x, y)

    def _check_num(self, num: Any) -> None:
        require(is_whole(num) and num >= 1, f"ask for at least 1 point, got {num!r}")
        require(num <= MOST_ASKED, f"ask for at most {MOST_ASKED} points at once, got {num}")
        most = MOST_ASKED if self.candidates is None else len(self.candidates)
        require(num <= most, f"there are {most} candidates, got num={num}")

    def _choose(
        self, model: "BNNLVRegressor | None", num: int, snapshot: Snapshot
    ) -> list[dict[str, Any]]:
        """Evenly spread points, or, with a model, those that teach most together."""
        asked = len(snapshot.proposals)
        if model is None:
            evenly = self._spread(num, asked)
            return [{"point": point, "split": {}, "reason": SPREAD} for point in evenly]
        pool = self.candidates or self.space.spread(max(POOL, 4 * num), seed=asked + 1)
        underway = [proposal.point for proposal in snapshot.pending]
        free = [point for point in pool if point not in underway]
        points = [*underway, *(free if len(free) >= num else pool)]
        known = assess(model, self.space.encode(points))
        taken = range(len(underway))
        chosen = choose_batch(known.information, known.means, known.aleatoric, num, taken)
        return self._describe([points[i] for i in chosen], known, chosen)

    def _spread(self, num: int, asked: int) -> list[Point]:
        if self.candidates is None:
            return self.space.spread(asked + num, seed=0)[asked:]
        order = np.random.default_rng(0).permutation(len(self.candidates))
        return [self.candidates[order[(asked + i) % len(order)]] for i in range(num)]

    def _describe(
        self, points: list[Point], known: Assessment, chosen: np.ndarray
    ) -> list[dict[str, Any]]:
        """Chosen points with their information, and the widths of the parts in units of the
        outputs: standard deviations of Gaussians with the same entropies."""
        widths = known.split.equivalent_deviations().parts._asdict()
        described = []
        for point, i in zip(points, chosen, strict=True):
            deviations = {
                part: dict(zip(self.outputs, values[i].tolist(), strict=True))
                for part, values in widths.items()
            }
            nats = float(known.information[i])
            split = {definition.NATS: nats, "standard_deviation": deviations}
            reason = f"expected to teach {nats:.2f} nats about the model"
            described.append({"point": point, "split": split, "reason": reason})
        return described


class Refit(NamedTuple):
    """A campaign whose model is up to date: how many measurements it knows, and which it is."""

    place: str
    measurements: int
    model: str


def refit(places: Sequence[Any], executor: str = "local") -> list[Refit]:
    """Fit the models of all campaigns whose measurements or settings are newer than their models.

    A model is kept in the file beside its campaign, where ``Campaign.ask`` finds it; one that is up
    to date is left as it is. ``executor`` is ``"local"`` or ``"ray"``; Ray's workers on other
    machines must see the same files.
    """
    # Workers may be in another folder, where a relative path leads nowhere.
    absolute = [str(p) if "://" in str(p) else str(Path(p).resolve()) for p in places]
    named = zip(map(str, places), absolute, strict=True)
    jobs = [Job(place, update_model, (where,), {}) for place, where in named]
    try:
        results = run_jobs(jobs, executor=executor)
    except KeyboardInterrupt as stopped:
        kept = "models that were fitted are kept, and the same call fits the others"
        raise KeyboardInterrupt(f"stopped by Ctrl-C; {kept}") from stopped
    return [Refit(str(place), *result) for place, result in zip(places, results, strict=True)]


def update_model(place: str) -> tuple[int, str]:
    """Bring one model up to date; returns its number of measurements and its name."""
    campaign = Campaign.open(place)
    kept = "models are stored beside campaigns in SQLite files"
    require(campaign.model_file, f"the model of {place} would be lost: {kept}")
    fit = campaign.fit_model()
    require(fit.stored, f"the model of {place} could not be written beside it")
    return campaign.status().complete, fit.name
