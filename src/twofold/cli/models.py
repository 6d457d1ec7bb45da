"""Model files of the command line: a fitted model and a description of its table, in one file that
``twofold.load`` reads too."""

from dataclasses import asdict
from pathlib import Path, PureWindowsPath
from typing import TYPE_CHECKING, Any, NamedTuple

from twofold.cli.run import Run
from twofold.cli.terminal import CommandError
from twofold.core import content, persistence
from twofold.tables.coding import Column

if TYPE_CHECKING:
    from twofold.estimators.regressor import BNNLVRegressor


class About(NamedTuple):
    """The table that a model is fitted to: input columns and outputs, names and checksums of its
    files (several if rows were added), held-out share (None: the default; rows of a ``streamed``
    table are drawn one by one), columns of weights, errors and groups, and quality of the fit as a
    sentence."""

    columns: list[Column]
    outputs: list[str]
    tables: list[tuple[str, str]]
    held_out: float | None
    seed: int
    drop_missing: bool
    streamed: bool = False
    weight: str | None = None
    errors: list[str] | None = None
    group: str | None = None
    verdict: str = ""

    @property
    def inputs(self) -> list[str]:
        return [one.name for one in self.columns]

    @property
    def features(self) -> list[str]:
        """The inputs of the model."""
        return [name for one in self.columns for name in one.features]

    @property
    def numbers(self) -> list[str]:
        """Numeric columns other than inputs."""
        return [*self.outputs, *filter(None, [self.weight]), *(self.errors or [])]


def save_model(path: Path, model: "BNNLVRegressor", about: About) -> None:
    from twofold.estimators.storage import pack

    stored = pack(model)
    table = about._asdict() | {"columns": [asdict(one) for one in about.columns]}
    metadata = stored.metadata | {"table": table, "columns": about.features}
    persistence.write(path, "model", stored.arrays, metadata)


def load_model(path: Path) -> "tuple[BNNLVRegressor, About]":
    """Read a model, which then takes arrays without names, and the description of its table (only
    column names if Python code saved it)."""
    from twofold.estimators.regressor import BNNLVRegressor
    from twofold.estimators.storage import unpack

    def build(stored: persistence.Stored) -> "tuple[BNNLVRegressor, About]":
        model = unpack(stored, BNNLVRegressor)
        about = _unpack_about(stored.metadata.get("table"), model)
        model.__dict__.pop("feature_names_in_", None)
        return model, about

    return persistence.load(path, "model", build)


def _unpack_about(table: Any, model: "BNNLVRegressor") -> About:
    """The stored description of the table, checked against the model. Of a path only the file name
    is used: the path may be from another machine."""
    if table is None:
        names, outputs = getattr(model, "feature_names_in_", ()), model.model_.outputs
        called = [f"y{index}" for index in range(outputs)] if outputs > 1 else ["y"]
        return About([Column(str(name)) for name in names], called, [], None, 0, False)
    columns = table.get("columns") if isinstance(table, dict) else None
    if not isinstance(columns, list):
        raise persistence.FileFormatError("its table has no columns")
    built = [content.build(Column, one, "column") for one in columns]
    about = content.build(About, table | {"columns": []}, "table")._replace(columns=built)
    sizes = len(about.features), len(about.outputs)
    if sizes != (model.model_.inputs, model.model_.outputs) or not about.tables:
        raise persistence.FileFormatError("its table has other columns than its model")
    return about._replace(tables=[(PureWindowsPath(n).name, digest) for n, digest in about.tables])


def open_model(path: Path, run: Run) -> "tuple[BNNLVRegressor, About]":
    run.reads(path)
    model, about = load_model(path)
    if not about.columns:
        raise CommandError(
            f"{path} does not store the names of its {model.n_features_in_} inputs: fit it with "
            "twofold fit, or in Python to a DataFrame"
        )
    return model, about
