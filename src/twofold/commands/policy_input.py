"""What a user types after ``twofold policy``, as Python has it, and mistakes in it as sentences."""

import importlib.util
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np

from twofold.campaign.text import parse_settings
from twofold.estimators.regressor import BNNLVRegressor
from twofold.estimators.validation import check_settings
from twofold.logs import Window, read_frame
from twofold.naming import nearest
from twofold.policies import LearnedPolicy, SearchSettings
from twofold.policies.project import planning_regressor


class PolicyError(ValueError):
    """A mistake of the user's."""


def words(text: str) -> list[str]:
    """``a,b,c``."""
    return [word.strip() for word in text.split(",") if word.strip()]


def numbers(option: str, text: str) -> list[float]:
    """``0,1,2``."""
    try:
        found = [float(word) for word in words(text)]
    except ValueError:
        found = []
    if not found:
        raise PolicyError(f"--{option} must be numbers such as 0,1,2, got {text!r}")
    return found


def bounds(text: str) -> tuple[str, tuple[float, float]]:
    """``NAME:LOW:HIGH``."""
    name, *ends = text.rsplit(":", 2)
    try:
        low, high = map(float, ends)
    except ValueError:
        raise PolicyError(f"--action must be NAME:LOW:HIGH, got {text!r}") from None
    return name, (low, high)


def transform(text: str) -> tuple[str, str]:
    """``NAME=KIND``."""
    name, sign, kind = text.partition("=")
    if not sign:
        raise PolicyError(f"--transform must be NAME=KIND, got {text!r}")
    return name, kind


def function_at(option: str, text: str) -> Callable:
    """``FILE.py:FUNCTION``; the file is run."""
    file, sign, name = text.rpartition(":")
    path = Path(file)
    if not sign or not name:
        raise PolicyError(f"--{option} must be FILE.py:FUNCTION, got {text!r}")
    if not path.is_file() or path.suffix != ".py":
        raise PolicyError(f"--{option}: there is no Python file {file}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise PolicyError(f"--{option}: {path} fails: {type(error).__name__}: {error}") from error
    found = getattr(module, name, None)
    if not callable(found):
        known = [one for one, value in vars(module).items() if callable(value)]
        raise PolicyError(f"--{option}: {path} has no function {name!r}{nearest(name, known)}")
    return found


def search_settings(horizon: int, texts: list[str]) -> SearchSettings:
    """Settings of the search, ``NAME=VALUE`` of each."""
    given = parse_settings(texts)
    kinds = {one.name: one.default for one in fields(SearchSettings) if one.name != "horizon"}
    _check_names("setting", given, list(kinds))
    for name, value in given.items():
        _check_kind(name, value, kinds[name])
    if "hidden" in given:
        given["hidden"] = tuple(given["hidden"])
    try:
        return SearchSettings(horizon=horizon, **given)
    except ValueError as error:
        raise PolicyError(str(error)) from error


def regressor_of(texts: list[str]) -> BNNLVRegressor:
    """The regressor for planning, with ``NAME=VALUE`` of each text."""
    given, regressor = parse_settings(texts), planning_regressor()
    _check_names("model", given, list(regressor.get_params()))
    try:
        regressor.set_params(**given)
        check_settings(regressor)
    except (TypeError, ValueError) as error:
        raise PolicyError(str(error)) from error
    return regressor


def recent_window(policy: LearnedPolicy, path: Path) -> Window:
    """The last rows of a table as a policy wants them; what it does not see may be absent."""
    embedding, history = policy.embedding, policy.history
    seen = [n for n, lags in zip(embedding.observations, embedding.lags, strict=True) if lags]
    ends = zip(embedding.actions, policy.shape.low, policy.shape.high, strict=True)
    done = {name: (low, high) for name, low, high in ends} if policy.sees_actions else {}
    frame = read_frame(path, observations=seen, actions=done)
    if len(frame) < history:
        raise PolicyError(f"the policy looks back over {history} rows, {path} has {len(frame)}")
    for name, found in frame.texts.items():
        if found:
            raise PolicyError(
                f"{path}: {name!r} must be numbers, got {next(iter(found.values()))!r}"
            )
    nothing = np.full(len(frame), np.nan)
    columns = [frame.values.get(name, nothing) for name in embedding.observations]
    past = [frame.values[name][:-1] for name in embedding.actions] if done else None
    return Window(np.stack(columns, axis=1), None if past is None else np.stack(past, axis=1))


def action_after(policy: LearnedPolicy, path: Path) -> np.ndarray:
    """What a policy does after the last rows of a table."""
    window = recent_window(policy, path)
    try:
        return policy.act(*window)
    except ValueError as error:
        raise PolicyError(f"{path}: {error}") from error


def _check_names(option: str, given: dict[str, Any], known: list[str]) -> None:
    for name in given:
        if name not in known:
            raise PolicyError(
                f"--{option} knows {', '.join(known)}, got {name!r}{nearest(name, known)}"
            )


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
        raise PolicyError(f"{name} must be {kind}, got {value!r}")
