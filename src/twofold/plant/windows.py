"""Windows of a log's recent past, cut from all episodes."""

from typing import Any, NamedTuple

import numpy as np

from twofold.plant.errors import LogError
from twofold.plant.log import Log


class Window(NamedTuple):
    """The last H observations, newest last, and the H − 1 actions between them."""

    observations: Any
    actions: Any


class Steps(NamedTuple):
    """Steps with all of their history: windows ``[N, H, D]`` and ``[N, H - 1, A]``, the action
    then applied, and the observation that came of it."""

    windows: Window
    actions: np.ndarray
    next_observations: np.ndarray


def steps(log: Log, history: int) -> Steps:
    """Every step that has ``history`` observations before it, episode by episode."""
    long_enough = [episode for episode in log.episodes if len(episode) >= history]
    if not long_enough:
        longest = max(len(episode) + 1 for episode in log.episodes)
        raise LogError(
            f"a history of {history} needs episodes of at least {history + 1} rows, but the "
            f"longest has {longest}; use a shorter history"
        )
    parts = [_of_episode(one.observations, one.actions, history) for one in long_enough]
    observations, past, actions, following = (
        np.concatenate([part[i] for part in parts]) for i in range(4)
    )
    return Steps(Window(observations, past), actions, following)


def _of_episode(
    observations: np.ndarray, actions: np.ndarray, history: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    first = np.arange(len(actions) - history + 1)[:, None]
    return (
        observations[first + np.arange(history)],
        actions[first + np.arange(history - 1)],
        actions[history - 1 :],
        observations[history:],
    )
