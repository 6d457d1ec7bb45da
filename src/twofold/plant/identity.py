"""Which log, cost and settings a folder of policies belongs to, so that nothing is mixed up."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np

from twofold.core import persistence
from twofold.estimators.regressor import BNNLVRegressor
from twofold.estimators.validation import plain
from twofold.plant.cost import Cost
from twofold.plant.embedding import Embedding
from twofold.plant.log import Log
from twofold.plant.probes import cost_fingerprint, embedding_fingerprint
from twofold.plant.search import SearchSettings

FILE = "project.json"
FORMAT_VERSION = 1
# Settings of a regressor that say how it is watched, and not what it learns.
WATCHING = ("checkpoint", "checkpoint_seconds", "verbose")
FINGERPRINTS = ("log", "cost", "embedding")


class ProjectError(ValueError):
    """A folder, a setting or a log that policies cannot be found with."""


def identity(
    log: Log,
    cost: Cost,
    embedding: Embedding,
    regressor: BNNLVRegressor,
    weights: Sequence[tuple[float, float]],
    settings: SearchSettings,
    held_out: float,
    random_state: int,
) -> dict[str, Any]:
    """What must be the same for a search to go on, as JSON has it.

    A known part and a cost are functions; they are known by what they make of the log, and of
    places far beyond it.
    """
    episodes = [part for one in log.episodes for part in (one.observations, one.actions)]
    own = regressor.get_params()
    return plain(
        {
            "log": persistence.fingerprint(*episodes, log.action_low, log.action_high),
            "cost": cost_fingerprint(cost, log),
            "embedding": embedding_fingerprint(embedding, log),
            "observations": embedding.observations,
            "actions": embedding.actions,
            "inputs": embedding.input_names,
            "targets": embedding.target_names,
            "regressor": {name: value for name, value in own.items() if name not in WATCHING},
            "weights": weights,
            "settings": asdict(settings),
            "held_out": held_out,
            "random_state": random_state,
        }
    )


def about(log: Log, held_out: Log, cost: Cost) -> dict[str, Any]:
    """What a report says of a log: its size, and what held-out steps cost as they were run."""
    return {
        "transitions": log.transitions,
        "episodes": len(log.episodes),
        "held_out_transitions": held_out.transitions,
        "logged_cost": float(np.concatenate(cost.of(held_out)).mean()),
    }


def claim(folder: Path, mine: Mapping[str, Any], facts: Mapping[str, Any]) -> None:
    """Make a folder this project's own, or find that it is; any other is refused."""
    if (folder / FILE).exists():
        _refuse_other(folder, read(folder)["identity"], mine)
        return
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ProjectError(
            f"{folder} is not a folder of policies and not empty; give a new or an empty one"
        )
    try:
        folder.mkdir(parents=True, exist_ok=True)
        content = {"format_version": FORMAT_VERSION, "identity": mine, "about": facts}
        persistence.write_text(folder / FILE, json.dumps(content, indent=1))
    except OSError as error:
        raise ProjectError(f"{folder} cannot be written: {error}") from error


def read(folder: Path) -> dict[str, Any]:
    """What is known of a folder: its ``identity``, and what it is ``about``."""
    path = folder / FILE
    if not path.is_file():
        raise ProjectError(f"{folder} is not a folder of policies: it has no {FILE}")
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
        version, found = int(content["format_version"]), {"about": dict(content["about"])}
        found["identity"] = dict(content["identity"])
        found["identity"]["weights"] = _pairs(found["identity"]["weights"])
        if not np.isfinite(found["about"]["logged_cost"]):
            raise ValueError("the logged cost is not a number")
    except (ValueError, KeyError, TypeError, RecursionError, OverflowError) as error:
        why = f"{type(error).__name__}: {error}"
        raise ProjectError(f"{path} is damaged ({why}); restore it from a copy") from error
    if version > FORMAT_VERSION:
        raise ProjectError(f"{path} was written by a newer twofold; upgrade twofold")
    return found


def _pairs(weights: Any) -> list[list[float]]:
    """The weights β and γ of each policy, at least one."""
    pairs = [[float(beta), float(gamma)] for beta, gamma in weights]
    if not pairs:
        raise ValueError("there are no weights")
    return pairs


def _refuse_other(folder: Path, stored: Mapping[str, Any], mine: Mapping[str, Any]) -> None:
    changed = [
        f"another {name}" if name in FINGERPRINTS else _change(name, stored.get(name), value)
        for name, value in mine.items()
        if stored.get(name) != value
    ]
    if changed:
        raise ProjectError(
            f"{folder} belongs to another search: {'; '.join(changed)}. Give this one a folder of "
            "its own"
        )


def _change(name: str, before: Any, now: Any) -> str:
    """What differs, of settings only those that do."""
    if isinstance(before, dict) and isinstance(now, dict):
        parts = [
            _change(key, before.get(key), now[key]) for key in now if now[key] != before.get(key)
        ]
        return f"{name}: {', '.join(parts)}"
    return f"{name} was {before!r}, now {now!r}"


def check_settings(settings: SearchSettings, held_out: float, random_state: Any) -> None:
    """Refuse before a model is fitted what would be refused after it."""
    for name, least in (
        ("horizon", 1),
        ("starts", 1),
        ("epochs", 1),
        ("updates", 1),
        ("weight_draws", 2),
        ("noise_draws", 2),
    ):
        value = getattr(settings, name)
        if not isinstance(value, int | np.integer) or value < least:
            raise ProjectError(f"{name} must be a whole number of at least {least}, got {value!r}")
    if not 0.0 < held_out < 1.0:
        raise ProjectError(f"held_out must be a part between 0 and 1, got {held_out!r}")
    if not isinstance(random_state, int | np.integer) or not 0 <= random_state < 2**31:
        raise ProjectError(
            f"random_state must be a whole number from 0 to 2**31, got {random_state!r}"
        )
