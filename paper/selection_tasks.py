"""The tasks on which the choice of a policy is tested: the paper's plants, and three others."""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from paper import control_problems, frontiers, industrial_random_batch
from paper.control_problems import LIMITS, ControlProblem
from paper.outside_tasks import OUTSIDE
from twofold.plant.embedding import embed
from twofold.plant.search import SearchSettings

WIND = "wind (m/s)"


@dataclass(frozen=True)
class Task:
    """A problem, the settings of its model where they are not the defaults, and of its search."""

    problem: Callable[[], ControlProblem]
    settings: SearchSettings
    regressor: dict[str, Any] = field(default_factory=dict)
    starts: int = 1000
    repeats: int = 2


def turbine_with_wind() -> ControlProblem:
    """The wind turbine, whose wind is replayed from the log."""
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


def _as_frontier(frontier: frontiers.Frontier) -> Task:
    method = frontier.methods[0]
    return Task(frontier.problem, method.settings, method.regressor)


BATCH = industrial_random_batch.METHOD
TASKS = {
    **{
        name: Task(partial(OUTSIDE.__getitem__, name), SearchSettings(horizon=50))
        for name in OUTSIDE
    },
    "wet_chicken": _as_frontier(frontiers.RIVER),
    "wind": Task(
        turbine_with_wind,
        SearchSettings(50, 16, 4, 4, learning_rate=3e-3),
        {"hidden_layer_sizes": (50, 50)},
        repeats=1,
    ),
    "industrial_behaviour": _as_frontier(frontiers.INDUSTRIAL),
    "industrial_random": Task(control_problems.industrial_random, BATCH.settings, BATCH.regressor),
}
