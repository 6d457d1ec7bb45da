"""The definition of a new campaign, checked before anything is written."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from twofold.campaign.constraints import parse_constraint
from twofold.campaign.inputs import CampaignError, Input, Point, require
from twofold.campaign.space import Space
from twofold.core.naming import nearest
from twofold.core.persistence import to_plain

if TYPE_CHECKING:
    from twofold.estimators.regressor import BNNLVRegressor

PARTS = ("total", "epistemic", "aleatoric")
NUMBERS = ("proposal", "measurement")
NATS, NOTE = "information_nats", "note"
FEWEST = 256  # points that must satisfy the constraints


def define(
    inputs: Sequence[Input], outputs: Sequence[str],
    candidates: Sequence[Mapping[str, Any]] | None, constraints: Sequence[str],
    target: str | None, settings: Mapping[str, Any],
) -> dict[str, Any]:  # fmt: skip
    """The definition as JSON values."""
    limits = tuple(parse_constraint(text, inputs) for text in constraints)
    space = Space(tuple(inputs), limits)
    named = outputs and not isinstance(outputs, str)
    require(named, f"a campaign needs a list of outputs, such as ['yield'], got {outputs!r}")
    _check_new_names(space.names, list(outputs))
    known = f"target must be one of the outputs {', '.join(outputs)}"
    require(target is None or target in outputs, f"{known}, got {target!r}")
    if constraints and candidates is None:
        space.spread(FEWEST, seed=0)
    return {
        "inputs": space.to_plain(),
        "outputs": list(outputs),
        "candidates": None if candidates is None else _check_candidates(space, candidates),
        "constraints": [one.text for one in space.constraints],
        "target": target,
        "settings": check_model_settings(settings),
    }


def explanation_columns(outputs: Sequence[str]) -> list[str]:
    """Columns of a table of proposals that explain them and are ignored by ``tell``."""
    return [*(f"{output}_{part}_sd" for output in outputs for part in PARTS), NATS, "reason"]


def check_model_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the regressor as JSON values; invalid ones are refused."""
    from twofold.inference.method import METHODS, nest_options, to_mapping

    # A method given by name needs no check, which would load JAX.
    if not settings or (len(settings) == 1 and settings.get("inference") in [*METHODS]):
        return dict(settings)
    from twofold.estimators.regressor import BNNLVRegressor

    settings = nest_options(settings)
    known = set(BNNLVRegressor().get_params(deep=False)) - {"checkpoint", "checkpoint_seconds"}
    if unknown := sorted(set(settings) - known):
        raise CampaignError(
            f"the model of a campaign has no setting {', '.join(unknown)}; valid settings: "
            f"{', '.join(sorted(known))}{nearest(unknown[0], known)}"
        )
    try:
        _rehearse(BNNLVRegressor(**settings))
        if not isinstance(settings.get("inference", ""), str | dict):
            settings["inference"] = to_mapping(settings["inference"])
        plain: dict[str, Any] = to_plain(settings)
        json.dumps(plain, allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CampaignError(f"settings: {error}") from error
    return plain


def _rehearse(model: "BNNLVRegressor") -> None:
    """Run all checks of settings that a fit makes before it needs data."""
    from sklearn.utils import check_random_state

    from twofold.core.numerics import Standardizer
    from twofold.estimators.fitting import check_memory, describe_data
    from twofold.estimators.validation import check_settings
    from twofold.inference.method import resolve_method

    check_settings(model)
    check_random_state(model.random_state)
    one = Standardizer(np.zeros(1), np.ones(1))
    method, shape = resolve_method(model.inference), describe_data(model, one, one, 1, "", 2).model
    check_memory(method, shape, 2, model.dtype)
    method.set_up(shape, np.array([2]), model.dtype)


def _check_new_names(inputs: list[str], outputs: list[str]) -> None:
    """Names must be unique, and usable as column names."""
    names = [*inputs, *outputs]
    for name in names:
        word = isinstance(name, str) and name and name == name.strip()
        require(word, f"a name must not be empty or have spaces around it, got {name!r}")
    different = len(set(names)) == len(names)
    require(different, f"names of inputs and outputs must be unique, got {', '.join(names)}")
    reserved = ", ".join(sorted({*NUMBERS, NOTE, *explanation_columns(outputs)} & set(names)))
    column = "is the name of a column in the campaign's own tables"
    require(not reserved, f"{reserved} {column}; choose another name")


def _check_candidates(space: Space, candidates: Sequence[Mapping[str, Any]]) -> list[Point]:
    allowed: list[Point] = []
    for index, point in enumerate(map(space.check_proposable, candidates), start=1):
        if point in allowed:
            both = f"candidates {allowed.index(point) + 1} and {index}"
            raise CampaignError(f"{both} are both at {space.format(point)}; leave one out")
        allowed.append(point)
    require(allowed, "candidates must contain at least one point, or be left out")
    return allowed
