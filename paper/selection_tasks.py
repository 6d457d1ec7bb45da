"""The tasks on which the choice of a policy is tested: the paper's plants, and three others."""

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import NamedTuple

from paper import control_problems
from paper.control_problems import LIMITS, ControlProblem
from paper.outside_tasks import OUTSIDE
from twofold.plant.embedding import embed

WIND = "wind (m/s)"


class Task(NamedTuple):
    """A problem, the planning horizon, the source of logs, and how policies are evaluated."""

    problem: Callable[[], ControlProblem]
    horizon: int = 50
    seeds: tuple[int, ...] = (0, 1, 2)
    starts: int = 1000
    repeats: int = 2


def turbine_with_wind() -> ControlProblem:
    """The wind turbine, with the wind replayed from the log."""
    problem = control_problems.turbine()
    known = problem.embed.keywords["known"]  # type: ignore[attr-defined]
    seen = partial(
        embed,
        history=5,
        action_history=0,
        targets=list(LIMITS),
        exogenous=[WIND],
        known=known,
        deltas=False,
        transforms=LIMITS,
    )
    return replace(problem, embed=seen)


TASKS = {
    "pendulum": Task(partial(OUTSIDE.__getitem__, "pendulum")),
    "reactor": Task(partial(OUTSIDE.__getitem__, "reactor")),
    "four_tank": Task(partial(OUTSIDE.__getitem__, "four_tank")),
    "wet_chicken": Task(control_problems.river, horizon=25),
    "wind": Task(turbine_with_wind, starts=500, repeats=1),
    "industrial_behaviour": Task(control_problems.industrial),
    "industrial_random": Task(control_problems.industrial_random),
}
NOISY_TASKS = "wet_chicken", "industrial_behaviour"
