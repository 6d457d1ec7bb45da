"""The model of a campaign, cached in a file beside an SQLite file; ``twofold.load`` reads it too.
The file is only a cache: if it is damaged, foreign or missing, the model is fitted again; after new
measurements its chains are continued (``ModelFile.continue_fit``)."""

from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twofold.campaign.inputs import CampaignError
from twofold.core import persistence

if TYPE_CHECKING:
    from twofold.estimators.regressor import BNNLVRegressor

# Default settings of a model, and settings that do not affect it.
DEFAULTS, WITHOUT_EFFECT = {"random_state": 0}, {"verbose", "checkpoint", "checkpoint_seconds"}
UNREADABLE = (OSError, ValueError, LookupError, TypeError)
# Chains are continued until the rows have grown by this factor since the last fit from scratch,
# which also selects the form of the model.
MOST_GROWTH = 1.5
CONTINUED = "langevin"


class Fit(NamedTuple):
    """A model, its name (a hash of data and settings), whether it is stored in the file, and
    whether its chains continue those of an earlier model."""

    model: "BNNLVRegressor"
    name: str
    stored: bool
    warm: bool = False


class Origin(NamedTuple):
    """Number of rows of a stored model and of the last model fitted from scratch, and the number of
    corrections and removals included."""

    rows: int
    rows_from_scratch: int
    changes: int = 0

    @property
    def warm(self) -> bool:
        return self.rows > self.rows_from_scratch


class ModelFile:
    """The file of a campaign's model; without a path, nothing is stored."""

    def __init__(self, path: Path | None):
        self.path = path

    def load_or_fit(
        self, settings: dict[str, Any], x: np.ndarray, y: np.ndarray, changes: int = 0
    ) -> Fit:
        """The model of inputs ``[N, D]`` and outputs ``[N, O]``, from the file or newly fitted;
        ``changes`` counts corrections and removals so far."""
        from twofold.estimators.regressor import BNNLVRegressor
        from twofold.estimators.storage import pack, plain_settings, unpack
        from twofold.estimators.training import whole_fits
        from twofold.inference.method import to_mapping

        model = BNNLVRegressor(**(DEFAULTS | settings))
        settings = plain_settings(model) | {"inference": to_mapping(model.inference)}
        used = {name: value for name, value in settings.items() if name not in WITHOUT_EFFECT}
        identity = {"settings": used, "data": persistence.fingerprint(x, y)}
        name = persistence.hash_identity(identity)
        work = None if self.path is None else persistence.WorkFile(self.path, "model", identity)
        if work is not None and (cached := work.find()) is not None:
            with suppress(*UNREADABLE):
                stored = unpack(cached, BNNLVRegressor)
                return Fit(stored, name, True, Origin(**cached.metadata["origin"]).warm)
        targets = y[:, 0] if y.shape[1] == 1 else y
        try:
            with whole_fits():
                scratch = Origin(len(x), len(x), changes)
                continued = self.continue_fit(used, x, targets, scratch)
                model, origin = continued or (model.fit(x, targets), scratch)
        except ValueError as error:
            raise CampaignError(f"no model can be fitted: {error}") from error
        # Without the file, the next request only takes longer.
        with suppress(OSError):
            if work is not None:
                arrays, metadata = pack(model)
                work.write(arrays, metadata | {"origin": origin._asdict()})
                return Fit(model, name, True, origin.warm)
        return Fit(model, name, False, origin.warm)

    def continue_fit(
        self, settings: dict[str, Any], x: np.ndarray, y: np.ndarray, scratch: Origin
    ) -> "tuple[BNNLVRegressor, Origin] | None":
        """Continue the chains of the stored model, if its settings are the same and its rows are a
        part of these; None if a fit from scratch is due. The result depends only on these rows and
        the stored model."""
        from twofold.estimators.regressor import BNNLVRegressor
        from twofold.estimators.storage import unpack

        if self.path is None or settings["inference"]["method"] != CONTINUED:
            return None
        try:
            stored = persistence.read(self.path, "model")
            before = Origin(**stored.metadata["origin"])
            same = stored.metadata["identity"]["settings"] == persistence.to_plain(settings)
            model = unpack(stored, BNNLVRegressor)
        except UNREADABLE:
            return None
        grown = before.rows < len(x) <= MOST_GROWTH * before.rows_from_scratch
        shape = model.model_.inputs, model.model_.outputs, model.y_ndim_
        same &= before.changes == scratch.changes
        same &= shape == (x.shape[1], y.reshape(len(y), -1).shape[1], y.ndim)
        if not (grown and same):
            return None
        model.set_params(warm_start=True).fit(x, y).set_params(warm_start=False)
        # Only a fit from scratch trains ensemble members.
        warm = not len(model.energies_)
        return model, before._replace(rows=len(x)) if warm else scratch

    def load_model(self, shape: tuple[int, int]) -> "BNNLVRegressor | None":
        """The model of the file, if valid and with these numbers of inputs and outputs."""
        from twofold.estimators.regressor import load

        with suppress(*UNREADABLE):
            model = None if self.path is None else load(self.path)
            if model is not None and (model.model_.inputs, model.model_.outputs) == shape:
                return model
        return None
