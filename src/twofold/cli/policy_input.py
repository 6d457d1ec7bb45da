"""What a user types after ``twofold policy``, as Python has it, and mistakes in it as sentences."""

import importlib.util
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from twofold.cli.errors import CommandError
from twofold.cli.settings import check_names, parse_settings, words
from twofold.core.naming import nearest
from twofold.plant.log import Window
from twofold.plant.log_files import read_raw_log
from twofold.plant.policy import LearnedPolicy
from twofold.plant.search import SearchSettings


def numbers(option: str, text: str) -> list[float]:
    """``0,1,2``."""
    try:
        found = [float(word) for word in words(text)]
    except ValueError:
        found = []
    if not found:
        raise CommandError(f"--{option} must be numbers such as 0,1,2, got {text!r}")
    return found


def bounds(text: str) -> tuple[str, tuple[float, float]]:
    """``NAME:LOW:HIGH``."""
    name, *ends = text.rsplit(":", 2)
    try:
        low, high = map(float, ends)
    except ValueError:
        raise CommandError(f"--action must be NAME:LOW:HIGH, got {text!r}") from None
    return name, (low, high)


def transform(text: str) -> tuple[str, str]:
    """``NAME=KIND``."""
    name, sign, kind = text.partition("=")
    if not sign:
        raise CommandError(f"--transform must be NAME=KIND, got {text!r}")
    return name, kind


def function_at(option: str, text: str) -> Callable:
    """``FILE.py:FUNCTION``; the file is run."""
    file, sign, name = text.rpartition(":")
    path = Path(file)
    if not sign or not name:
        raise CommandError(f"--{option} must be FILE.py:FUNCTION, got {text!r}")
    if not path.is_file() or path.suffix != ".py":
        raise CommandError(f"--{option}: there is no Python file {file}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise CommandError(f"--{option}: {path} fails: {type(error).__name__}: {error}") from error
    found = getattr(module, name, None)
    if not callable(found):
        known = [one for one, value in vars(module).items() if callable(value)]
        raise CommandError(f"--{option}: {path} has no function {name!r}{nearest(name, known)}")
    return found


def search_settings(horizon: int, texts: list[str]) -> SearchSettings:
    """Settings of the search, ``NAME=VALUE`` of each."""
    given = parse_settings(texts)
    kinds = {one.name: one.default for one in fields(SearchSettings) if one.name != "horizon"}
    check_names("setting", given, list(kinds))
    for name, value in given.items():
        _check_kind(name, value, kinds[name])
    if "hidden" in given:
        given["hidden"] = tuple(given["hidden"])
    try:
        return SearchSettings(horizon=horizon, **given)
    except ValueError as error:
        raise CommandError(str(error)) from error


def recent_window(policy: LearnedPolicy, path: Path) -> Window:
    """The last rows of a table as a policy wants them; what it does not see may be absent."""
    embedding, history = policy.embedding, policy.history
    seen = [n for n, lags in zip(embedding.observations, embedding.lags, strict=True) if lags]
    ends = zip(embedding.actions, policy.shape.low, policy.shape.high, strict=True)
    done = {name: (low, high) for name, low, high in ends} if policy.sees_actions else {}
    raw = read_raw_log(path, observations=seen, actions=done)
    if len(raw) < history:
        raise CommandError(f"the policy looks back over {history} rows, {path} has {len(raw)}")
    for name, found in raw.texts.items():
        if found:
            raise CommandError(
                f"{path}: {name!r} must be numbers, got {next(iter(found.values()))!r}"
            )
    nothing = np.full(len(raw), np.nan)
    columns = [raw.values.get(name, nothing) for name in embedding.observations]
    past = [raw.values[name][:-1] for name in embedding.actions] if done else None
    return Window(np.stack(columns, axis=1), None if past is None else np.stack(past, axis=1))


def action_after(policy: LearnedPolicy, path: Path) -> np.ndarray:
    """What a policy does after the last rows of a table."""
    window = recent_window(policy, path)
    try:
        return policy.act(*window)
    except ValueError as error:
        raise CommandError(f"{path}: {error}") from error


def _check_kind(name: str, value: Any, default: Any) -> None:
    """A setting is of the kind that its default is."""
    if isinstance(default, bool):
        fine, kind = isinstance(value, bool), "true or false"
    elif isinstance(default, tuple):
        fine = isinstance(value, list) and all(type(one) is int and one > 0 for one in value)
        kind = "numbers of units such as [20,20]"
    else:
        whole = isinstance(default, int)
        fine = type(value) is int or (type(value) is float and not whole)
        kind = "a whole number" if whole else "a number"
    if not fine:
        raise CommandError(f"{name} must be {kind}, got {value!r}")
