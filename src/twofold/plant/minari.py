"""Logs as Minari data sets, and back."""

import json
import os
import warnings
from importlib import import_module
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np

from twofold.plant.log import Episode, Log, LogError

# Metadata key for column names and other facts that Minari has no field for.
ENTRY = "twofold"


def write_minari(
    log: Log, dataset_id: str, *, root: Any = None, description: str = "A log", **metadata: Any
) -> Any:
    """Write a log as a Minari data set and return it: rewards are the negative costs (0 if there
    are none), and every episode ends truncated.

    ``root`` is the folder of data sets (default: Minari's own, ``MINARI_DATASETS_PATH``);
    ``metadata`` goes to ``minari.create_dataset_from_buffers``, such as ``author``.
    """
    minari, spaces = _import("minari"), _import("gymnasium.spaces")
    with _data_sets(root), warnings.catch_warnings():
        # Minari warns about each missing piece of metadata.
        warnings.simplefilter("ignore", UserWarning)
        try:
            written = minari.create_dataset_from_buffers(
                dataset_id,
                [_buffer(number, episode) for number, episode in enumerate(log.episodes)],
                observation_space=spaces.Box(-np.inf, np.inf, (len(log.observations),), np.float64),
                action_space=spaces.Box(log.action_low, log.action_high, dtype=np.float64),
                description=description,
                **metadata,
            )
        except ValueError as error:
            raise LogError(f"the data set {dataset_id!r} cannot be written: {error}") from error
    facts: dict[str, Any] = {"observations": log.observations, "actions": log.actions}
    facts["episodes"] = [episode.name for episode in log.episodes]
    facts["costs"] = log.episodes[0].costs is not None
    written.storage.update_metadata({ENTRY: json.dumps(facts)})
    return written


def check_new_name(dataset_id: str) -> None:
    """Refuse an invalid name in advance: Minari would first create a folder for it."""
    parse = _import("minari.dataset.minari_dataset").parse_dataset_id
    path = _import("minari.storage").get_dataset_path
    try:
        parse(dataset_id)
    except (TypeError, ValueError) as error:
        raise LogError(
            "expected a Minari data set such as mine/a-v0, with a version and with two letters or "
            f"more before each slash, got {dataset_id!r}"
        ) from error
    if path(dataset_id).exists():
        raise LogError(f"the Minari data set {dataset_id} exists already; choose another version")


def read_minari(dataset: Any, *, root: Any = None) -> Log:
    """A log from a Minari data set, or from its name; costs are the negative rewards. Columns of a
    data set not written by twofold are called ``observation_0``, …."""
    if isinstance(dataset, str):
        minari = _import("minari")
        with _data_sets(root):
            try:
                dataset = minari.load_dataset(dataset)
            except (FileNotFoundError, ValueError) as error:
                raise LogError(f"there is no Minari data set {dataset!r}: {error}") from error
    entry = json.loads(dataset.storage.metadata.get(ENTRY, "{}"))
    observations, actions = (
        entry.get(f"{kind}s", [f"{kind}_{i}" for i in range(_width(dataset, kind))])
        for kind in ("observation", "action")
    )
    names, bounds, episodes = entry.get("episodes", []), dataset.action_space, []
    for number, one in enumerate(dataset.iterate_episodes()):
        steps = len(one.actions)
        episodes.append(
            Episode(
                np.reshape(one.observations, (steps + 1, -1)),
                np.reshape(one.actions, (steps, -1)),
                -np.asarray(one.rewards) if entry.get("costs", True) else None,
                (one.infos or {}).get("time"),
                names[number] if number < len(names) else str(number),
            )
        )
    return Log(observations, actions, bounds.low.ravel(), bounds.high.ravel(), tuple(episodes))


def _buffer(number: int, episode: Episode) -> Any:
    steps = len(episode)
    costs = np.zeros(steps) if episode.costs is None else episode.costs
    return _import("minari.data_collector").EpisodeBuffer(
        id=number,
        observations=episode.observations,
        actions=episode.actions,
        rewards=list(-costs),
        terminations=[False] * steps,
        truncations=[False] * (steps - 1) + [True],
        infos=None if episode.times is None else {"time": episode.times},
    )


def _width(dataset: Any, kind: str) -> int:
    space = getattr(dataset, f"{kind}_space")
    if type(space).__name__ != "Box":
        raise LogError(
            f"the {kind}s of a log must be arrays of numbers (a Box space), but those of "
            f"{dataset.id} are {space}"
        )
    return int(np.prod(space.shape))


def _data_sets(root: Any) -> Any:
    """Set Minari's folder of data sets temporarily; Minari reads it from the environment only."""
    folder = {} if root is None else {"MINARI_DATASETS_PATH": str(Path(root).absolute())}
    return patch.dict(os.environ, folder)


def _import(module: str) -> Any:
    try:
        return import_module(module)
    except ImportError as error:
        message = "Minari data sets need gymnasium and minari; pip install 'twofold[rl]'"
        raise LogError(message) from error
