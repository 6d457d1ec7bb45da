"""Active learning on the paper's problems, many arms at once, resumable after every round.

An arm is a problem, a strategy and a repetition. A round depends only on the data so far and the
round number, so a killed course resumes exactly, on the same kind of device.
"""

import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
from rich.progress import track

from paper.fits import fit_seeds, split_jointly
from paper.gp import GPRegressor
from paper.learning_problems import LEARNING_PROBLEMS
from paper.records import commit, device, versions
from twofold import BNNLVRegressor
from twofold.active import (
    Data,
    Round,
    Setting,
    choose_batch,
    choose_best,
    epistemic_score,
    pool_loop,
    random_score,
    total_score,
)
from twofold.core.persistence import WorkFile
from twofold.inference.method import nest_options, resolve_method

Refit = Callable[[int, list[Data]], list[Any]]
ARRAYS = ("x", "y", "scores", "noise")
ORIGIN = {"commit": commit, "device": device, "versions": versions}


class Arm(NamedTuple):
    """One learner."""

    problem: str
    method: str
    seed: int


class Size(NamedTuple):
    """Size of a run; ``rows`` and ``tests`` truncate the data for a smoke run."""

    rounds: int = 150
    pool: int = 50
    taken: int = 5
    scored: int = 5
    refitted: int = 10
    rows: int | None = None
    tests: int | None = None


class Course(NamedTuple):
    """Progress of a set of arms: points measured, and test log-likelihoods ``[rounds, A]``.

    ``noise [A, O]`` holds the additive noise of the last models, if they have one.
    """

    rounds: int
    x: np.ndarray
    y: np.ndarray
    scores: np.ndarray
    noise: np.ndarray
    seconds: float


def fit_networks(arms: Sequence[Arm], size: Size, updates: int, settings: dict[str, Any]) -> Refit:
    """A function that fits the networks of all arms from scratch in each round, in one program
    shared by all rounds."""
    method: Any = resolve_method(nest_options(settings)["inference"])

    def length(rows: int) -> dict[str, int]:
        if method.staged:
            return {"updates": updates}
        return {"epochs": -(-updates // -(-rows // method.batch_size))}

    def fit(number: int, data: list[Data]) -> list[BNNLVRegressor]:
        longest = max(len(learner_data.x) for learner_data in data)
        arguments = {**settings, **length(longest), "verbose": False}
        seeds = [1000 * arm.seed + number for arm in arms]
        capacity = longest + size.taken * (size.rounds - number)
        return fit_seeds(arguments, seeds, data, capacity=capacity)

    return fit


def fit_processes(arms: Sequence[Arm], size: Size) -> Refit:
    """A function that fits Gaussian processes, with hyperparameters refitted every few rounds."""
    known: dict[int, GPRegressor] = {}

    def fit(number: int, data: list[Data]) -> list[GPRegressor]:
        later = number % size.refitted
        for index, (arm, learner_data) in enumerate(zip(arms, data, strict=True)):
            if later == 0 or index not in known:
                # The data to which the current hyperparameters were fitted.
                then = len(learner_data.x) - size.taken * later
                new = GPRegressor(shared=True, random_state=arm.seed)
                known[index] = new.fit(learner_data.x[:then], learner_data.y[:then])
            known[index].condition(learner_data.x, learner_data.y)
        return [known[index] for index in range(len(arms))]

    return fit


def choose(method: str, model: Any, pool: np.ndarray, num: int, seed: int) -> np.ndarray:
    """The points that a strategy chooses from a pool."""
    if method == "random":
        return choose_best(random_score(seed, len(pool)), num)
    if method == "gp":
        return choose_best(model.entropy(pool), num)
    split = split_jointly(model, pool)
    if method == "total":
        return choose_best(total_score(split), num)
    if method == "epistemic":
        return choose_best(epistemic_score(split), num)
    if method == "together":
        means, variances = model.conditional_moments(pool)
        return choose_batch(epistemic_score(split), means, variances.mean(axis=0), num)
    raise ValueError(f"unknown strategy {method!r}")


def learn(arms: Sequence[Arm], fit: Refit, size: Size, file: WorkFile) -> Course:
    """Run all rounds of all arms, resuming from the file."""
    problems = [LEARNING_PROBLEMS[arm.problem] for arm in arms]
    course = read_course(file, len(arms))
    tests = [problem.test(arm.seed) for problem, arm in zip(problems, arms, strict=True)]
    setting = Setting(
        fit,
        lambda i, number: problems[i].pool(arms[i].seed, number, size.pool),
        lambda i, number, model, pool: choose(
            arms[i].method, model, pool, size.taken, 1000 * arms[i].seed + number
        ),
        lambda i, number, x: problems[i].measure(arms[i].seed, number, x),
    )
    first = course.rounds
    data = [
        _grow(problem.initial(arm.seed), size, course, index)
        for index, (problem, arm) in enumerate(zip(problems, arms, strict=True))
    ]
    started = time.perf_counter() - course.seconds
    rounds = pool_loop(setting, data, size.rounds, first)
    for done in track(rounds, file.path.stem, size.rounds + 1, first):
        course = _advance(done, course, tests, size)
        course = course._replace(seconds=time.perf_counter() - started)
        arrays = {name: getattr(course, name) for name in ARRAYS}
        numbers = {"rounds": course.rounds, "seconds": course.seconds}
        file.write(arrays, {**numbers, **{name: of() for name, of in ORIGIN.items()}})
    return course


def _grow(initial: Data, size: Size, course: Course, index: int) -> Data:
    start = Data(initial.x[: size.rows], initial.y[: size.rows])
    return start.extend(Data(course.x[index], course.y[index])) if course.rounds else start


def _advance(done: Round, course: Course, tests: Sequence[Data], size: Size) -> Course:
    scores = course.scores
    if done.number % size.scored == 0 or done.number == size.rounds:
        new = [
            model.log_likelihood(test.x[: size.tests], test.y[: size.tests]).mean()
            for model, test in zip(done.models, tests, strict=True)
        ]
        scores = np.concatenate([scores, [new]])
    measured = size.taken * min(done.number + 1, size.rounds)
    x, y = (
        np.stack([array[-measured:] for array in arrays]) for arrays in zip(*done.data, strict=True)
    )
    noise = np.array([getattr(model, "noise_std_", [np.nan]) for model in done.models])
    return Course(done.number + 1, x, y, scores, noise, course.seconds)


def read_course(file: WorkFile, arms: int) -> Course:
    """The stored course, or an empty one; a course of other arms or settings is refused."""
    stored = file.read()
    if stored is None:
        none = np.zeros((arms, 0))
        return Course(0, none, none, np.zeros((0, arms)), none, 0.0)
    about = stored.metadata
    return Course(about["rounds"], **stored.arrays, seconds=about["seconds"])


def read_origin(file: WorkFile) -> dict[str, Any]:
    """Commit, device and versions of the last round of a course."""
    stored = file.read()
    return {name: "unknown" if stored is None else stored.metadata[name] for name in ORIGIN}
