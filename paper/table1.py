"""The paper's Table 1: learn by what a measurement teaches (I), by all uncertainty (H), at random.

Two posteriors, the paper's (mean field, α = 1) and the library's default, and Gaussian processes.
The arms of a block that have the same columns learn side by side, all in one program.
"""

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from paper.learning import Arm, Course, Size, learn, networks, origin, processes, so_far
from paper.records import Record
from paper.table1_curves import write_curves
from paper.table1_record import add_oracles, add_scores
from twofold.core.jobs import Job, run_jobs

SEEDS = [2000, 2001, 2002, 2003, 2004]
GROUPS = {"toys": ("heteroscedastic", "bimodal"), "river": ("wet_chicken",)}
FULL = Size()
SMOKE = Size(rounds=2, pool=8, taken=2, scored=1, refitted=2, rows=30, tests=10)
SMOKE_SETTINGS = {"n_weight_draws": 4, "n_latent_draws": 4, "batch_size": 8}
METHODS = ("epistemic", "total", "random")


class Training(NamedTuple):
    """Updates of a network in each round, and settings of the estimator."""

    updates: int
    settings: dict[str, Any]


class Block(NamedTuple):
    """Ways of choosing, the posterior's name in the record, and how the networks of each group are
    trained (no training: Gaussian processes)."""

    methods: tuple[str, ...]
    posterior: str
    training: dict[str, Training]


PAPER: dict[str, Any] = {"inference": "alpha", "alpha": 1.0}
PAPER_TRAINING = {
    "toys": Training(10_000, PAPER),
    "river": Training(5_000, PAPER | {"batch_size": 250}),
}
DEFAULT_TRAINING = {
    "toys": Training(5_000, {}),
    "river": Training(5_000, {"inference_options": {"members": 16}}),
}
BLOCKS = {
    "paper": Block(METHODS, "paper", PAPER_TRAINING),
    "default": Block(METHODS, "default", DEFAULT_TRAINING),
    "together": Block(("together",), "default", DEFAULT_TRAINING),
    "gp": Block(("gp",), "gp", {}),
}


class Part(NamedTuple):
    """The arms of a block that learn side by side."""

    block: str
    group: str
    arms: list[Arm]
    size: Size
    training: Training | None

    def path(self, work: Path) -> Path:
        """Where its course lies."""
        return work / f"table1-{self.block}-{self.group}.course"

    @property
    def settings(self) -> dict[str, Any]:
        """All that decides its numbers, beside arms and size."""
        if self.training is None:
            return {}
        return {"updates": self.training.updates} | self.training.settings

    def advance(self, work: Path) -> Course:
        """Run it to its end, from where it stopped."""
        fit = (
            processes(self.arms, self.size)
            if self.training is None
            else networks(self.arms, self.size, *self.training)
        )
        return learn(self.arms, fit, self.size, self.path(work), self.settings)

    def so_far(self, work: Path) -> Course:
        """What there is of it."""
        return so_far(self.arms, self.size, self.path(work), self.settings)


def parts(smoke: bool, only: str | None = None) -> Iterator[Part]:
    """All parts, or those of one block."""
    seeds, size = (SEEDS[:2], SMOKE) if smoke else (SEEDS, FULL)
    for name, block in BLOCKS.items():
        for group, problems in GROUPS.items():
            training = block.training.get(group)
            if smoke and training is not None:
                training = Training(6, training.settings | SMOKE_SETTINGS)
            arms = [Arm(p, method, s) for p in problems for method in block.methods for s in seeds]
            if only in (None, name):
                yield Part(name, group, arms, size, training)


def advance(block: str, smoke: bool, work: Path) -> None:
    """Run a block to its end, from where it stopped."""
    for part in parts(smoke, block):
        part.advance(work)


def run(smoke: bool, work: Path, output: Path, executor: str | None = None) -> Record:
    """Run what is left of all blocks, as jobs or here; the record and its curves."""
    if executor is not None:
        jobs = [
            Job(
                f"{part.block}/{part.group}",
                finish,
                (part.block, part.group, smoke, work.resolve()),
                {},
            )
            for part in parts(smoke)
        ]
        run_jobs(jobs, executor=executor)
    for block in BLOCKS:
        advance(block, smoke, work)
    return compose(smoke, work, output)


def finish(block: str, group: str, smoke: bool, work: Path) -> None:
    """Run the part of a block and a group to its end; its course is its result."""
    for part in parts(smoke, block):
        if part.group == group:
            part.advance(work)


def compose(smoke: bool, work: Path, output: Path) -> Record:
    """The record of all parts that have come to their end, and the curves of all, however far."""
    seeds, size = (SEEDS[:2], SMOKE) if smoke else (SEEDS, FULL)
    courses = [(part, part.so_far(work)) for part in parts(smoke)]
    if not any(course.rounds for _, course in courses):
        raise SystemExit(f"there is nothing in {work} to make a record of; run a part first")
    whole = [(part, course) for part, course in courses if course.rounds == size.rounds + 1]
    record = Record(
        "table1",
        {
            "size": size._asdict(),
            "parts": {f"{part.block}/{part.group}": part.settings for part, _ in courses},
            "rounds_done": {f"{part.block}/{part.group}": c.rounds for part, c in courses},
            "made_by": {
                f"{p.block}/{p.group}": origin(p.path(work)) for p, c in courses if c.rounds
            },
        },
        seeds,
    )
    record.add("repetitions", len(seeds))
    record.add("iterations", size.rounds)
    record.add("seconds", sum(course.seconds for _, course in whole))
    for part, course in whole:
        record.add(f"seconds/{part.block}/{part.group}", course.seconds)
    oracle = add_oracles(
        [(part.arms, course) for part, course in whole if part.block == "default"], size, record
    )
    finals = {
        (BLOCKS[part.block].posterior, *arm): score
        for part, course in whole
        for arm, score in zip(part.arms, course.scores[-1], strict=True)
    }
    add_scores(finals, oracle, record)
    write_curves(
        [(BLOCKS[part.block].posterior, part.arms, course) for part, course in courses],
        size,
        output / "table1.csv",
    )
    return record


ADVANCES: dict[str, Callable[[bool, Path], None]] = {
    f"table1_{block}": partial(advance, block) for block in BLOCKS
}
