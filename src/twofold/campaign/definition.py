"""What a new campaign is made of, checked before anything is written."""

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from twofold.campaign.space import CampaignError, Input, Point, Space, require
from twofold.core.naming import nearest
from twofold.core.persistence import to_plain

if TYPE_CHECKING:
    from twofold.estimators.regressor import BNNLVRegressor

PARTS = ("total", "epistemic", "aleatoric")
NUMBERS = ("proposal", "measurement")
NATS, REASON = "information_nats", "reason"


def define(
    inputs: Sequence[Input],
    outputs: Sequence[str],
    candidates: Sequence[Mapping[str, Any]] | None,
    settings: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """The definition as JSON values."""
    space = Space(tuple(inputs))
    named = outputs and not isinstance(outputs, str)
    require(named, f"a campaign needs a list of outputs, such as ['yield'], got {outputs!r}")
    _check_new_names(space.names, list(outputs))
    return {
        "inputs": space.to_plain(),
        "outputs": list(outputs),
        "candidates": None if candidates is None else _check_candidates(space, candidates),
        "settings": check_model_settings(settings or {}),
    }


def explanation_columns(outputs: Sequence[str]) -> list[str]:
    """Columns of a table of proposals that say what is known and why; nobody fills them in."""
    deviations = [deviation_column(output, part) for output in outputs for part in PARTS]
    return [*deviations, NATS, REASON]


def deviation_column(output: str, part: str) -> str:
    """The column of one part of an output's standard deviation."""
    return f"{output}_{part}_sd"


def check_model_settings(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Settings of the regressor as JSON values, wrong ones refused before they are stored."""
    if not settings:
        return {}
    from twofold.estimators.regressor import BNNLVRegressor
    from twofold.inference.method import nest_options, to_mapping

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
    """All that a fit does with its settings before it sees data."""
    from sklearn.utils import check_random_state

    from twofold.estimators.fitting import check_memory, check_settings
    from twofold.inference.method import resolve_method
    from twofold.model.spec import BNNLV

    check_settings(model)
    check_random_state(model.random_state)
    shape = BNNLV(1, 1, tuple(model.hidden_layer_sizes), model.latent_dim, 1.0, 1.0)
    method = resolve_method(model.inference)
    check_memory(method, shape, 2, model.dtype)
    method.set_up(shape, np.array([2]), model.dtype)


def _check_new_names(inputs: list[str], outputs: list[str]) -> None:
    """Names must differ, and stand for themselves in the heading of a table."""
    names = [*inputs, *outputs]
    for name in names:
        word = isinstance(name, str) and name and name == name.strip()
        require(word, f"a name must be a word, without spaces around it, got {name!r}")
    different = len(set(names)) == len(names)
    require(different, f"outputs need names of their own, got {', '.join(names)}")
    reserved = ", ".join(sorted({*NUMBERS, *explanation_columns(outputs)} & set(names)))
    column = "is the name of a column in the campaign's own tables"
    require(not reserved, f"{reserved} {column}; choose another name")


def _check_candidates(space: Space, candidates: Sequence[Mapping[str, Any]]) -> list[Point]:
    allowed: list[Point] = []
    for index, candidate in enumerate(candidates, start=1):
        point = space.check(candidate)
        if point in allowed:
            both = f"candidates {allowed.index(point) + 1} and {index}"
            raise CampaignError(f"{both} are both at {space.format(point)}; leave one out")
        allowed.append(point)
    require(allowed, "candidates must hold at least one point, or be left out")
    return allowed
