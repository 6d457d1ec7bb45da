"""The paper's Table 1: learn by what a measurement teaches (I), by all uncertainty (H), at random.

Two blocks of networks, the paper's posterior (mean field, α = 1) and the library's default, and a
block of Gaussian processes. The arms of a block that have the same columns learn side by side.
"""

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from twofold.experiments.learning import Arm, Course, Fit, Size, learn, networks, processes
from twofold.experiments.learning_problems import LEARNING_PROBLEMS
from twofold.experiments.records import Record

SEEDS = [2000, 2001, 2002, 2003, 2004]
GROUPS = {"toys": ("heteroscedastic", "bimodal"), "river": ("wet_chicken",)}
FULL = Size()
SMOKE = Size(rounds=2, pool=8, taken=2, scored=1, refitted=2, rows=30, tests=10)
SMOKE_SETTINGS = {"n_weight_draws": 4, "n_latent_draws": 4, "batch_size": 8}
PAPER: dict[str, Any] = {"inference": "alpha", "alpha": 1.0}


class Training(NamedTuple):
    """Updates of a network in each round, and settings of the estimator."""

    updates: int
    settings: dict[str, Any]


class Block(NamedTuple):
    """Methods, and how the networks of each group are trained (None: Gaussian processes)."""

    methods: tuple[str, ...]
    training: dict[str, Training] | None


BLOCKS = {
    "paper": Block(
        ("epistemic", "total", "random"),
        {
            "toys": Training(10_000, PAPER),
            "river": Training(5_000, PAPER | {"batch_size": 250}),
        },
    ),
    "default": Block(
        ("epistemic", "total", "random"),
        {
            "toys": Training(5_000, {}),
            "river": Training(5_000, {"inference_options": {"members": 16}}),
        },
    ),
    "gp": Block(("gp",), None),
}


def arms_of(block: str, group: str, smoke: bool) -> list[Arm]:
    """Every learner of a block with the columns of a group."""
    return [
        Arm(problem, method, seed)
        for problem in GROUPS[group]
        for method in BLOCKS[block].methods
        for seed in (SEEDS[:2] if smoke else SEEDS)
    ]


def advance(block: str, smoke: bool, work: Path) -> dict[str, Course]:
    """Run a block to its end, from where it stopped; returns the course of each group."""
    return {group: _advance(block, group, smoke, work) for group in GROUPS}


def _advance(block: str, group: str, smoke: bool, work: Path) -> Course:
    arms, size = arms_of(block, group, smoke), SMOKE if smoke else FULL
    fit, settings = _fit(block, group, arms, size, smoke)
    return learn(arms, fit, size, work / f"table1-{block}-{group}.course", settings)


def _fit(
    block: str, group: str, arms: list[Arm], size: Size, smoke: bool
) -> tuple[Fit, dict[str, Any]]:
    training = BLOCKS[block].training
    if training is None:
        return processes(arms, size), {}
    updates, settings = training[group]
    if smoke:
        updates, settings = 6, settings | SMOKE_SETTINGS
    return networks(arms, size, updates, settings), {"updates": updates} | settings


def run(smoke: bool, work: Path, output: Path) -> Record:
    """All blocks, what is left of them, and the record with its curves."""
    size = SMOKE if smoke else FULL
    record = Record(
        "table1",
        {
            "size": size._asdict(),
            "training": {
                name: {group: t._asdict() for group, t in (block.training or {}).items()}
                for name, block in BLOCKS.items()
            },
        },
        SEEDS[:2] if smoke else SEEDS,
    )
    courses = {block: advance(block, smoke, work) for block in BLOCKS}
    record.add("repetitions", len(SEEDS[:2] if smoke else SEEDS))
    record.add("iterations", size.rounds)
    record.add("seconds", sum(c.seconds for own in courses.values() for c in own.values()))
    oracle = _oracle(courses["default"], smoke, size, record)
    for block, groups in courses.items():
        record.add(f"seconds/{block}", sum(course.seconds for course in groups.values()))
        for group, course in groups.items():
            _measure(block, arms_of(block, group, smoke), course, oracle, record)
    _write_curves(courses, size, smoke, output / "table1.csv")
    return record


def _oracle(
    courses: dict[str, Course], smoke: bool, size: Size, record: Record
) -> dict[tuple[str, int], float]:
    """Mean log-density of the true process on each repetition's test points.

    The river's has no density; it is seen through the noise that the default's networks end with.
    """
    found = {}
    for group, course in courses.items():
        arms = arms_of("default", group, smoke)
        blur = np.mean(
            [course.noise[i] for i, arm in enumerate(arms) if arm.method == "epistemic"], 0
        )
        if group == "river":
            for name, value in zip("xy", blur, strict=True):
                record.add(f"wet_chicken/oracle/noise_{name}", value)
        for arm in arms:
            problem = LEARNING_PROBLEMS[arm.problem]
            x, y = (part[: size.tests] for part in problem.test(arm.seed))
            found[arm.problem, arm.seed] = problem.log_density(x, y, blur).mean()
    for name in LEARNING_PROBLEMS:
        own = [value for (problem, _), value in found.items() if problem == name]
        record.add(f"{name}/oracle/test_log_likelihood", np.mean(own))
    return found


def _measure(
    block: str,
    arms: list[Arm],
    course: Course,
    oracle: dict[tuple[str, int], float],
    record: Record,
) -> None:
    """Final scores of each problem and method; differences are those of the same repetition."""
    final = dict(zip(arms, course.scores[-1], strict=True))
    for problem in dict.fromkeys(arm.problem for arm in arms):
        by_method: dict[str, np.ndarray] = {}
        for method in BLOCKS[block].methods:
            own = [arm for arm in arms if arm[:2] == (problem, method)]
            scores = np.array([final[arm] for arm in own])
            place = f"{problem}/gp" if method == "gp" else f"{problem}/{method}/{block}"
            units = [np.log(_deviations(problem, arm.seed)).sum() for arm in own]
            gaps = [oracle[problem, arm.seed] - final[arm] for arm in own]
            record.add_mean(f"{place}/test_log_likelihood", scores)
            record.add_mean(f"{place}/test_log_likelihood_standardised", scores + units)
            record.add_mean(f"{place}/oracle_gap", gaps)
            by_method[method] = scores
        for method in by_method:
            if method != "epistemic" and "epistemic" in by_method:
                gain = by_method["epistemic"] - by_method[method]
                record.add_mean(f"{problem}/epistemic_over_{method}/{block}", gain)


def _deviations(problem: str, seed: int) -> np.ndarray:
    """Of the outputs that a repetition begins with."""
    y = LEARNING_PROBLEMS[problem].initial(seed).y
    return np.atleast_1d(y.std(axis=0))


def _write_curves(
    courses: dict[str, dict[str, Course]], size: Size, smoke: bool, path: Path
) -> None:
    """Mean and standard error over repetitions of every scored round."""
    rounds = [n for n in range(size.rounds + 1) if n % size.scored == 0 or n == size.rounds]
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["block", "problem", "method", "iteration", "mean", "se"])
        for block, groups in courses.items():
            for group, course in groups.items():
                arms = arms_of(block, group, smoke)
                for problem, method in dict.fromkeys(arm[:2] for arm in arms):
                    own = [i for i, arm in enumerate(arms) if arm[:2] == (problem, method)]
                    scores = course.scores[:, own]
                    errors = scores.std(axis=1, ddof=1) / np.sqrt(len(own))
                    for row in zip(rounds, scores.mean(axis=1), errors, strict=True):
                        number, mean, error = row
                        writer.writerow(
                            [block, problem, method, number, f"{mean:.4f}", f"{error:.4f}"]
                        )


PARTS: dict[str, Callable[[bool, Path], Any]] = {
    f"table1_{block}": lambda smoke, work, block=block: advance(block, smoke, work)
    for block in BLOCKS
}
