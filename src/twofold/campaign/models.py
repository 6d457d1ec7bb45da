"""The model of a campaign, fitted once for the same measurements and settings.

It is kept in a file beside the campaign, which ``twofold.load`` reads too. The file is worth
nothing but time: one that is stale, damaged, foreign or missing is fitted anew.
"""

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils import check_random_state

from twofold.campaign.errors import CampaignError
from twofold.core import persistence
from twofold.core.naming import nearest
from twofold.estimators import memory
from twofold.estimators.methods import METHODS
from twofold.estimators.regressor import BNNLVRegressor, load
from twofold.estimators.training import whole_fits
from twofold.estimators.validation import check_settings, plain
from twofold.model.bnn import BNNLV

DEFAULTS = {"random_state": 0}


def checked_settings(settings: dict[str, Any]) -> dict[str, Any]:
    """Settings of the estimator, wrong ones refused before a campaign is made of them."""
    known = set(BNNLVRegressor().get_params()) - {"checkpoint", "checkpoint_seconds"}
    unknown = sorted(set(settings) - known)
    if unknown:
        raise CampaignError(
            f"the model of a campaign has no setting {', '.join(unknown)}; those there are: "
            f"{', '.join(sorted(known))}{nearest(unknown[0], known)}"
        )
    try:
        _rehearse(BNNLVRegressor(**settings))
        json.dumps(plain(settings), allow_nan=False)
    except (TypeError, ValueError) as error:
        raise CampaignError(f"settings: {error}") from error
    return plain(settings)


def _rehearse(model: BNNLVRegressor) -> None:
    """All that a fit does with its settings before it sees data."""
    check_settings(model)
    check_random_state(model.random_state)
    shape = BNNLV(1, 1, tuple(model.hidden_layer_sizes), model.latent_dim, 1.0, 1.0)
    memory.check_fit([model], shape, 2)
    METHODS[model.inference]([model], shape, np.array([2]))


def fitted(
    file: Path | None, settings: dict[str, Any], x: np.ndarray, y: np.ndarray
) -> BNNLVRegressor:
    """The model of inputs ``[N, D]`` and outputs ``[N, O]``: that of the file, or a new one."""
    wanted = BNNLVRegressor(**(DEFAULTS | settings))
    before = kept(file, (x.shape[1], y.shape[1]))
    if before is not None and identity(before) == _identity(wanted, persistence.fingerprint(x, y)):
        return before
    try:
        with whole_fits():
            wanted.fit(x, y[:, 0] if y.shape[1] == 1 else y)
    except ValueError as error:
        raise CampaignError(f"no model can be fitted: {error}") from error
    if file is not None:
        _keep(wanted, file)
    return wanted


def identity(model: BNNLVRegressor) -> str:
    """The same for models of the same data and settings."""
    return _identity(model, model.fingerprint_)


def _identity(model: BNNLVRegressor, data: str) -> str:
    settings = plain(model.get_params()) | {"verbose": None}
    settings = json.dumps(settings, sort_keys=True)
    return hashlib.sha256(f"{data} {settings}".encode()).hexdigest()


def kept(file: Path | None, shape: tuple[int, int]) -> BNNLVRegressor | None:
    """The model of a file, if it is there and sound, with so many input columns and outputs."""
    try:
        model = None if file is None else load(file)
    except (OSError, ValueError, LookupError, TypeError):
        return None
    if model is None or (model.model_.inputs, model.model_.outputs) != shape:
        return None
    return model


def _keep(model: BNNLVRegressor, file: Path) -> None:
    """Without the file, the next question takes longer; that is all."""
    try:
        model.save(file)
    except OSError:
        return
