"""Active learning on the paper's problems, many arms at once, resumable after every round.

An arm is a problem, a way of choosing and a repetition. What happens in a round depends on the
data so far and the round's number alone, so that a course that was killed goes on exactly, on the
same kind of device.
"""

import json
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from rich.progress import track

from paper.fits import entropies, fit_whole
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
from twofold.core import persistence

Fit = Callable[[int, list[Data]], list[Any]]


class Arm(NamedTuple):
    """One learner."""

    problem: str
    method: str
    seed: int


class Size(NamedTuple):
    """How much is done; ``rows`` and ``tests`` cut the data short, for a rehearsal."""

    rounds: int = 150
    pool: int = 50
    taken: int = 5
    scored: int = 5
    refitted: int = 10
    rows: int | None = None
    tests: int | None = None


class Course(NamedTuple):
    """What a set of arms has done: points measured, and test log-likelihoods ``[rounds, A]``.

    ``noise [A, O]`` holds the additive noise of the last models, where they have one.
    """

    rounds: int
    x: np.ndarray
    y: np.ndarray
    scores: np.ndarray
    noise: np.ndarray
    seconds: float


def networks(arms: Sequence[Arm], size: Size, updates: int, settings: dict[str, Any]) -> Fit:
    """Fits all arms' networks anew in each round, in one program that all rounds share."""

    def fit(number: int, data: list[Data]) -> list[BNNLVRegressor]:
        longest = max(len(own.x) for own in data)
        estimators = [
            BNNLVRegressor(random_state=1000 * arm.seed + number, verbose=False, **settings)
            for arm in arms
        ]
        for estimator in estimators:
            estimator.epochs = -(-updates // -(-longest // estimator.batch_size))
        capacity = longest + size.taken * (size.rounds - number)
        fit_whole(estimators, [own.x for own in data], [own.y for own in data], capacity=capacity)
        return estimators

    return fit


def processes(arms: Sequence[Arm], size: Size) -> Fit:
    """Gaussian processes; hyperparameters are found anew every few rounds."""
    known: dict[int, GPRegressor] = {}

    def fit(number: int, data: list[Data]) -> list[GPRegressor]:
        later = number % size.refitted
        for index, (arm, own) in enumerate(zip(arms, data, strict=True)):
            if later == 0 or index not in known:
                # What the hyperparameters were found from when this round's turn came.
                then = len(own.x) - size.taken * later
                new = GPRegressor(shared=True, random_state=arm.seed)
                known[index] = new.fit(own.x[:then], own.y[:then])
            known[index].condition(own.x, own.y)
        return [known[index] for index in range(len(arms))]

    return fit


def choose(method: str, model: Any, pool: np.ndarray, num: int, seed: int) -> np.ndarray:
    """The points that a method takes from a pool."""
    if method == "random":
        return choose_best(random_score(seed, len(pool)), num)
    if method == "gp":
        return choose_best(model.entropy(pool), num)
    split = entropies(model, pool)
    if method == "total":
        return choose_best(total_score(split), num)
    if method == "epistemic":
        return choose_best(epistemic_score(split), num)
    if method == "together":
        means, variances = model.conditional_moments(pool)
        return choose_batch(epistemic_score(split), means, variances.mean(axis=0), num)
    raise ValueError(f"there is no way of choosing called {method!r}")


def learn(
    arms: Sequence[Arm], fit: Fit, size: Size, path: Path, settings: dict[str, Any]
) -> Course:
    """All rounds of all arms, from where the file at ``path`` left off."""
    problems = [LEARNING_PROBLEMS[arm.problem] for arm in arms]
    identity = _identity(arms, size, settings)
    course = so_far(arms, size, path, settings)
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
        _grown(problem.initial(arm.seed), size, course, index)
        for index, (problem, arm) in enumerate(zip(problems, arms, strict=True))
    ]
    started = time.perf_counter() - course.seconds
    rounds = pool_loop(setting, data, size.rounds, first)
    for done in track(rounds, path.stem, size.rounds + 1, first):
        course = _after(done, course, tests, size)
        course = course._replace(seconds=time.perf_counter() - started)
        _save(path, identity, course)
    return course


def _grown(initial: Data, size: Size, course: Course, index: int) -> Data:
    start = Data(initial.x[: size.rows], initial.y[: size.rows])
    return start.extend(Data(course.x[index], course.y[index])) if course.rounds else start


def _after(done: Round, course: Course, tests: Sequence[Data], size: Size) -> Course:
    scores = course.scores
    if done.number % size.scored == 0 or done.number == size.rounds:
        new = [
            model.log_likelihood(test.x[: size.tests], test.y[: size.tests]).mean()
            for model, test in zip(done.models, tests, strict=True)
        ]
        scores = np.concatenate([scores, [new]])
    measured = size.taken * min(done.number + 1, size.rounds)
    x, y = (np.stack([own[-measured:] for own in every]) for every in zip(*done.data, strict=True))
    noise = np.array([getattr(model, "noise_std_", [np.nan]) for model in done.models])
    return Course(done.number + 1, x, y, scores, noise, course.seconds)


def _save(path: Path, identity: dict[str, Any], course: Course) -> None:
    arrays = {name: getattr(course, name) for name in ("x", "y", "scores", "noise")}
    numbers = {"rounds": course.rounds, "seconds": course.seconds}
    origin = {"commit": commit(), "device": device(), "versions": versions()}
    persistence.write(path, "course", arrays, {"identity": identity, **numbers, **origin})


def origin(path: Path) -> dict[str, Any]:
    """Commit, device and versions that the last round of a course was computed with."""
    about = persistence.read(path, "course").metadata if path.exists() else {}
    return {name: about.get(name, "unknown") for name in ("commit", "device", "versions")}


def so_far(arms: Sequence[Arm], size: Size, path: Path, settings: dict[str, Any]) -> Course:
    """The course at a path, or an empty one; refuses that of other arms or settings."""
    if path.exists():
        stored = persistence.read(path, "course")
        about = stored.metadata
        if about["identity"] != _identity(arms, size, settings):
            raise ValueError(
                f"{path} is the course of other arms or settings; move it away to begin anew"
            )
        return Course(about["rounds"], **stored.arrays, seconds=about["seconds"])
    none = np.zeros((len(arms), 0))
    return Course(0, none, none, np.zeros((0, len(arms))), none, 0.0)


def _identity(arms: Sequence[Arm], size: Size, settings: dict[str, Any]) -> dict[str, Any]:
    """As JSON gives it back."""
    return json.loads(json.dumps({"arms": arms, "size": size, "settings": settings}))
