"""What the original industrial benchmark costs under known policies: the numbers to be met.

PyPI's ``industrial_benchmark_python``, with the episodes of ``twofold.envs.industrial.task``.
"""

from collections.abc import Callable
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np

from paper.records import Record
from twofold.envs.industrial.task import (
    HIGH_MIDDLE,
    HISTORY,
    HORIZON,
    LONGEST_EXTRA,
    LOW_MIDDLE,
    PUSH,
    PUSH_DEVIATION,
    SETPOINTS,
)

PACKAGE = "industrial_benchmark_python"
SEED = 0
EPISODES, SMOKE_EPISODES = 10_000, 20


def run(smoke: bool, work: Path) -> Record:
    """Mean cost per step of each policy; ``smoke`` is a rehearsal on few episodes."""
    del work
    plant = load_plant()
    num = SMOKE_EPISODES if smoke else EPISODES
    record = Record("systems", {"episodes": num, PACKAGE: version(PACKAGE)}, [SEED])
    # NumPy 2 has no ``numpy.float``, which the original calls.
    with mock.patch.object(np, "float", float, create=True):
        for name, act in POLICIES.items():
            costs = [episode_cost(plant, act, episode) for episode in range(num)]
            record.add_mean(f"industrial/original/{name}/cost", costs)
    return record


def load_plant() -> Callable[..., Any]:
    """The original's class of plants."""
    try:
        return import_module(f"{PACKAGE}.IDS").IDS
    except ImportError as error:
        raise ImportError(
            f"this needs {PACKAGE}, which is not installed; pip install 'twofold[dev]'"
        ) from error


def episode_cost(plant: Callable[..., Any], act: Callable[..., np.ndarray], episode: int) -> float:
    """Mean cost per step of one episode; all policies share its beginning."""
    rng = np.random.default_rng([SEED, episode])
    found = plant(rng.choice(SETPOINTS), inital_seed=episode)
    for _ in range(HISTORY + rng.integers(LONGEST_EXTRA)):
        found.step(random(rng, found.state))
    costs = []
    for _ in range(HORIZON):
        found.step(act(rng, found.state))
        costs.append(found.state["cost"])
    return float(np.mean(costs))


def zero(rng: np.random.Generator, state: dict[str, Any]) -> np.ndarray:
    """No change."""
    return np.zeros(3)


def random(rng: np.random.Generator, state: dict[str, Any]) -> np.ndarray:
    """Changes uniform between their bounds."""
    return rng.uniform(-1.0, 1.0, 3)


def behaviour(rng: np.random.Generator, state: dict[str, Any]) -> np.ndarray:
    """The paper's behaviour policy, written down anew."""
    action = random(rng, state)
    for place, value in enumerate((state["v"], state["g"])):
        push = rng.normal(PUSH, PUSH_DEVIATION)
        if value < LOW_MIDDLE:
            action[place] = push
        elif value > HIGH_MIDDLE:
            action[place] = -push
    return np.clip(action, -1.0, 1.0)


POLICIES = {"zero": zero, "random": random, "behaviour": behaviour}
