"""The paper's Table 1: active learning by epistemic (I) or total (H) uncertainty, or at random.

Two posteriors, the paper's (mean field, α = 1) and the library's quick ensemble, and Gaussian
processes. Arms of a block with the same columns learn in parallel, in one program.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from paper.learning import (
    Arm,
    Course,
    Size,
    fit_networks,
    fit_processes,
    learn,
    read_course,
    read_origin,
)
from paper.learning_problems import LEARNING_PROBLEMS
from paper.records import Context, Record, standard_error
from twofold.core.jobs import Job, run_jobs
from twofold.core.persistence import WorkFile, write_text

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
    """Strategies, the posterior's name in the record, and training of the networks of each group
    (no training: Gaussian processes)."""

    methods: tuple[str, ...]
    posterior: str
    training: dict[str, Training]


PAPER: dict[str, Any] = {"inference": "alpha", "alpha": 1.0}
PAPER_TRAINING = {
    "toys": Training(10_000, PAPER),
    "river": Training(5_000, PAPER | {"batch_size": 250}),
}
# A small quick ensemble, because there are 151 rounds.
QUICK = Training(600, {"inference": "ensemble", "members": 10})
DEFAULT_TRAINING = {"toys": QUICK, "river": QUICK}
BLOCKS = {
    "paper": Block(METHODS, "paper", PAPER_TRAINING),
    "default": Block(METHODS, "default", DEFAULT_TRAINING),
    "together": Block(("together",), "default", DEFAULT_TRAINING),
    "gp": Block(("gp",), "gp", {}),
}
RIVER = "wet_chicken"
CURVE_COLUMNS = "posterior,problem,method,iteration,mean,se"
Final = tuple[str, str, str, int]  # posterior, problem, method, seed


class Part(NamedTuple):
    """Arms of a block that learn in parallel."""

    block: str
    group: str
    arms: list[Arm]
    size: Size
    training: Training | None

    @property
    def name(self) -> str:
        """Name of its job, also used in the record."""
        return f"{self.block}/{self.group}"

    @property
    def settings(self) -> dict[str, Any]:
        """All settings that affect its numbers, besides arms and size."""
        if self.training is None:
            return {}
        return {"updates": self.training.updates} | self.training.settings

    def file(self, work: Path) -> WorkFile:
        """The file of its course."""
        identity = {"arms": self.arms, "size": self.size, "settings": self.settings}
        return WorkFile(work / f"table_1-{self.block}-{self.group}.course", "course", identity)

    def learn(self, work: Path) -> Course:
        """Run the part to the end, resuming if possible."""
        fit = (
            fit_processes(self.arms, self.size)
            if self.training is None
            else fit_networks(self.arms, self.size, *self.training)
        )
        return learn(self.arms, fit, self.size, self.file(work))


def list_parts(smoke: bool, block: str | None = None) -> list[Part]:
    """All parts, or those of one block."""
    seeds, size = (SEEDS[:2], SMOKE) if smoke else (SEEDS, FULL)
    parts = []
    for name, definition in BLOCKS.items():
        for group, problems in GROUPS.items():
            training = definition.training.get(group)
            if smoke and training is not None:
                training = Training(6, training.settings | SMOKE_SETTINGS)
            arms = [
                Arm(p, method, s) for p in problems for method in definition.methods for s in seeds
            ]
            if block in (None, name):
                parts.append(Part(name, group, arms, size, training))
    return parts


def learn_part(number: int, smoke: bool, work: Path) -> None:
    """Run a part to the end; its course is its result."""
    list_parts(smoke)[number].learn(work)


def learn_block(block: str, context: Context) -> list[Path]:
    """Run a block to the end, resuming if possible."""
    parts = list_parts(context.smoke, block)
    for part in parts:
        part.learn(context.work)
    return [] if context.smoke else [part.file(context.work).path for part in parts]


def learn_all_blocks(context: Context) -> Record:
    """Run the remaining parts of all blocks, as jobs or here; write the record and its curves."""
    parts = list_parts(context.smoke)
    if context.executor is not None:
        work = context.work.resolve()
        jobs = [
            Job(part.name, learn_part, (number, context.smoke, work), {})
            for number, part in enumerate(parts)
        ]
        run_jobs(jobs, executor=context.executor)
    for part in parts:
        part.learn(context.work)
    return compose_record(context)


def compose_record(context: Context) -> Record:
    """The record of all finished parts, and the curves of all parts; parts that were learnt
    elsewhere stay as they were recorded."""
    seeds, size = (SEEDS[:2], SMOKE) if context.smoke else (SEEDS, FULL)
    parts = list_parts(context.smoke)
    courses = [(part, read_course(part.file(context.work), len(part.arms))) for part in parts]
    if not any(course.rounds for _, course in courses):
        raise SystemExit(
            f"there is nothing in {context.work} to make a record of; run a part first"
        )
    complete = [(part, course) for part, course in courses if course.rounds == size.rounds + 1]
    settings = {
        "size": size._asdict(),
        "parts": {part.name: part.settings for part in parts},
        "rounds_done": {part.name: course.rounds for part, course in courses},
        "made_by": {p.name: read_origin(p.file(context.work)) for p, c in courses if c.rounds},
    }
    record = Record("table1", settings, seeds)
    record.add("repetitions", len(seeds))
    record.add("iterations", size.rounds)
    record.add("seconds", sum(course.seconds for _, course in complete))
    for part, course in complete:
        record.add(f"seconds/{part.name}", course.seconds)
    defaults = [(part.arms, course) for part, course in complete if part.block == "default"]
    oracle = add_oracles(defaults, size, record)
    finals = {
        (BLOCKS[part.block].posterior, *arm): score
        for part, course in complete
        for arm, score in zip(part.arms, course.scores[-1], strict=True)
    }
    add_scores(finals, oracle, record)
    curves = [(BLOCKS[part.block].posterior, part.arms, course) for part, course in courses]
    write_curves(curves, size, context.output / "table1.csv")
    return record


def add_oracles(
    courses: Sequence[tuple[Sequence[Arm], Course]], size: Size, record: Record
) -> dict[tuple[str, int], float]:
    """Mean log-density of the true process on each repetition's test points.

    The river has no density; it is convolved with the final noise of the networks that learn by
    epistemic uncertainty.
    """
    oracles: dict[tuple[str, int], float] = {}
    for arms, course in courses:
        teaching = [i for i, arm in enumerate(arms) if arm.method == "epistemic"]
        blur = course.noise[teaching].mean(axis=0)
        for arm in arms:
            problem = LEARNING_PROBLEMS[arm.problem]
            x, y = (part[: size.tests] for part in problem.test(arm.seed))
            oracles[arm.problem, arm.seed] = float(problem.log_density(x, y, blur).mean())
        if arms[0].problem == RIVER:
            for name, value in zip("xy", blur, strict=True):
                record.add(f"{RIVER}/oracle/noise_{name}", value)
    for name in dict.fromkeys(problem for problem, _ in oracles):
        values = [value for (problem, _), value in oracles.items() if problem == name]
        record.add(f"{name}/oracle/test_log_likelihood", float(np.mean(values)))
    return oracles


def add_scores(
    finals: Mapping[Final, float], oracle: Mapping[tuple[str, int], float], record: Record
) -> None:
    """Final scores in raw and standardised units, gaps to the oracle, and gains of one strategy
    over another, paired by repetition."""
    for posterior, problem, method in dict.fromkeys(final[:3] for final in finals):
        seeds = [s for *place, s in finals if tuple(place) == (posterior, problem, method)]
        scores = np.array([finals[posterior, problem, method, seed] for seed in seeds])
        place = f"{problem}/gp" if method == "gp" else f"{problem}/{method}/{posterior}"
        units = np.array([np.log(_deviations(problem, seed)).sum() for seed in seeds])
        record.add_mean(f"{place}/test_log_likelihood", scores)
        record.add_mean(f"{place}/test_log_likelihood_standardised", scores + units)
        # The density of the river is known only with the noise of the default's networks.
        if (problem, seeds[0]) in oracle and (problem != RIVER or posterior == "default"):
            gaps = [oracle[problem, seed] for seed in seeds] - scores
            record.add_mean(f"{place}/oracle_gap", gaps)
        reference = (posterior, problem, "epistemic")
        if method != "epistemic" and (*reference, seeds[0]) in finals:
            gain = np.array([finals[(*reference, seed)] for seed in seeds]) - scores
            if method == "together":
                record.add_mean(f"{problem}/together_over_epistemic/{posterior}", -gain)
            else:
                record.add_mean(f"{problem}/epistemic_over_{method}/{posterior}", gain)


def _deviations(problem: str, seed: int) -> np.ndarray:
    """Standard deviations of the initial outputs of a repetition."""
    return np.atleast_1d(LEARNING_PROBLEMS[problem].initial(seed).y.std(axis=0))


def write_curves(
    courses: Sequence[tuple[str, Sequence[Arm], Course]], size: Size, path: Path
) -> None:
    """Write mean and standard error over repetitions of every scored round; curves of an earlier
    file stay if no complete one replaces them."""
    rounds = [n for n in range(size.rounds + 1) if n % size.scored == 0 or n == size.rounds]
    known = path.read_text().splitlines()[1:] if path.exists() else []
    complete = [one for one in courses if one[2].rounds == size.rounds + 1]
    renewed = {(p, *arm[:2]) for p, arms, _ in complete for arm in arms}
    kept = [row for row in known if tuple(row.split(",")[:3]) not in renewed]
    lines = [CURVE_COLUMNS, *kept]
    for posterior, arms, course in courses if not kept else complete:
        for problem, method in dict.fromkeys(arm[:2] for arm in arms):
            indices = [i for i, arm in enumerate(arms) if arm[:2] == (problem, method)]
            for number, scores in zip(rounds, course.scores[:, indices], strict=False):
                error = standard_error(scores)
                numbers = f"{number},{scores.mean():.4f},{error:.4f}"
                lines.append(f"{posterior},{problem},{method},{numbers}")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "\n".join(lines) + "\n")
