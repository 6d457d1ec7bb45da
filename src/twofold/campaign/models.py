"""The model of a campaign, fitted once for the same measurements and settings.

It is stored in a file beside the campaign, which ``twofold.load`` reads too. The file saves nothing
but time: if it is stale, damaged, foreign or missing, the model is fitted again.
"""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twofold.campaign.space import CampaignError
from twofold.core import persistence, resume

if TYPE_CHECKING:
    from twofold.estimators.regressor import BNNLVRegressor

DEFAULTS = {"random_state": 0}
# What does not change the model.
WITHOUT_EFFECT = {"verbose", "checkpoint", "checkpoint_seconds"}
UNREADABLE = (OSError, ValueError, LookupError, TypeError)


class Fit(NamedTuple):
    """A model, a name that only models of the same data and settings share, and whether its file
    holds it."""

    model: "BNNLVRegressor"
    name: str
    stored: bool


def load_or_fit(file: Path | None, settings: dict[str, Any], x: np.ndarray, y: np.ndarray) -> Fit:
    """The model of inputs ``[N, D]`` and outputs ``[N, O]``: that of the file, or a new one."""
    from twofold.estimators import storage
    from twofold.estimators.regressor import BNNLVRegressor
    from twofold.estimators.training import whole_fits
    from twofold.inference.method import to_mapping

    model = BNNLVRegressor(**(DEFAULTS | settings))
    settings = storage.plain_settings(model) | {"inference": to_mapping(model.inference)}
    used = {name: value for name, value in settings.items() if name not in WITHOUT_EFFECT}
    identity = {"settings": used, "data": persistence.fingerprint(x, y)}
    name = resume.fingerprint(identity)
    work = None if file is None else resume.WorkFile(file, "model", identity)
    found = None if work is None else work.find()
    if found is not None:
        with suppress(*UNREADABLE):
            return Fit(storage.unpack(found, BNNLVRegressor), name, True)
    try:
        with whole_fits():
            model.fit(x, y[:, 0] if y.shape[1] == 1 else y)
    except ValueError as error:
        raise CampaignError(f"no model can be fitted: {error}") from error
    # Without the file, the next question takes longer; that is all.
    with suppress(OSError):
        if work is not None:
            work.write(*storage.pack(model))
            return Fit(model, name, True)
    return Fit(model, name, False)


def load_model(file: Path | None, shape: tuple[int, int]) -> "BNNLVRegressor | None":
    """The model of a file, if it is there and sound, with so many input columns and outputs."""
    from twofold.estimators.regressor import load

    with suppress(*UNREADABLE):
        model = None if file is None else load(file)
        if model is not None and (model.model_.inputs, model.model_.outputs) == shape:
            return model
    return None
