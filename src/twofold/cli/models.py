"""Model files of the command line, a fitted model with the columns and rows of its table in one
file that ``twofold.load`` reads too; and fits to tables, in memory or in blocks."""

import tempfile
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from twofold.cli.run import Run
from twofold.cli.terminal import CommandError, say, split_words

if TYPE_CHECKING:
    from twofold.estimators.regressor import BNNLVRegressor
    from twofold.tables import Table, TableFile

LARGE_BYTES = 2**27
HELD_OUT = 0.1
# Scores of fewer rows say nothing; that of so many has a standard error of a hundredth of a row's.
FEWEST_HELD_OUT, MOST_HELD_OUT = 5, 10_000
# Rows whose entropies are computed for a mean.
MOST_SPLIT = 1_000


class About(NamedTuple):
    """The table that a model is fitted to: its columns, the range of inputs, its file, and which
    rows are held out: a share (None: the default), in a table that is read in blocks
    (``streamed``) drawn one by one."""

    inputs: list[str]
    outputs: list[str]
    low: list[float]
    high: list[float]
    source: str
    sha256: str
    held_out: float | None
    seed: int
    drop_missing: bool
    streamed: bool = False

    @property
    def names(self) -> list[str]:
        """All columns."""
        return [*self.inputs, *self.outputs]


class Rows(NamedTuple):
    """Inputs ``[N, D]`` and outputs ``[N]`` or ``[N, O]``, and their row numbers."""

    x: np.ndarray
    y: np.ndarray
    places: np.ndarray


class Result(NamedTuple):
    """What is known of the table after a fit, rows to evaluate it on, the number of training rows,
    and warnings."""

    about: About
    train: Rows
    test: Rows | None
    rows: int
    doubts: list[str]


def save_model(path: Path, model: "BNNLVRegressor", about: About) -> None:
    """Write both to one file."""
    from twofold.core import persistence
    from twofold.estimators.storage import pack

    stored = pack(model)
    metadata = stored.metadata | {"table": about._asdict()}
    persistence.write(path, "model", stored.arrays, metadata)


def load_model(path: Path) -> "tuple[BNNLVRegressor, About | None]":
    """Read a model, and what its file says about the table: nothing if Python code saved it."""
    from twofold.core import persistence
    from twofold.estimators.regressor import BNNLVRegressor
    from twofold.estimators.storage import unpack

    stored = persistence.read(path, "model")
    table: dict[str, Any] | None = stored.metadata.get("table")
    try:
        about = None if table is None else About(**table)
    except TypeError as error:
        raise CommandError(f"{path} was written by another version of twofold: {error}") from error
    return unpack(stored, BNNLVRegressor), about


class Opened(NamedTuple):
    """A model of a file, what it says about the table, and the names of inputs and outputs."""

    model: "BNNLVRegressor"
    about: About | None
    inputs: list[str]
    outputs: list[str]


def open_model(path: Path, run: Run) -> Opened:
    """The model that a command uses, with the names of its columns."""
    run.reads(path)
    model, about = load_model(path)
    if about is not None:
        return Opened(model, about, about.inputs, about.outputs)
    names = getattr(model, "feature_names_in_", None)
    if names is None:
        raise CommandError(
            f"{path} does not store the names of its {model.n_features_in_} inputs: fit it with "
            "twofold fit, or in Python to a DataFrame"
        )
    outputs = [f"y{index}" for index in range(model.model_.outputs)]
    return Opened(model, None, list(map(str, names)), outputs if len(outputs) > 1 else ["y"])


def find_columns(table: "Table | TableFile", text: str) -> list[str]:
    """``a,b,c``, or the one column of that very name; all of them must exist."""
    from twofold.tables import check_names

    names = [text] if text in table.names else split_words(text)
    check_names(table, names)
    return names


def is_large(path: Path) -> bool:
    """Whether a table is read in blocks: a folder, or a file of more than LARGE_BYTES."""
    return path.is_dir() or (path.is_file() and path.stat().st_size > LARGE_BYTES)


def read_values(
    table: "Table", names: Sequence[str], drop_missing: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Columns of a whole table as numbers, and the row numbers."""
    with name_options():
        values, kept = table.values(names, drop_missing)
    if not len(kept):
        raise CommandError(f"{table.source}: no row has a value in every column")
    return values, kept


def read_inputs(
    path: Path, names: Sequence[str], drop_missing: bool, run: Run
) -> tuple[dict[str, list[Any]], np.ndarray]:
    """The rows of a table that have all inputs of a model, as columns, and those inputs."""
    from twofold.tables import read_table

    table = read_table(path)
    run.reads(path)
    values, kept = read_values(table, names, drop_missing)
    return table.take(kept).to_lists(), values


@contextmanager
def name_options() -> Iterator[None]:
    """Errors of a table name the option of the command line."""
    from twofold.tables import TableError

    try:
        yield
    except TableError as error:
        raise CommandError(str(error).replace("drop_missing=True", "--drop-missing")) from error


def read_rows(table: "Table", about: About) -> tuple[Rows, Rows | None]:
    """Training rows and held-out rows of a model; ``places`` are row numbers of the table."""
    return split_rows(table, *read_values(table, about.names, about.drop_missing), about)


def fit_in_memory(model: "BNNLVRegressor", table: "Table", about: About, run: Run) -> Result:
    """Fit to a whole table."""
    from twofold.inference.method import resolve_method

    values, kept = read_values(table, about.names, about.drop_missing)
    _check_targets(table.source, values[:, len(about.inputs) :], about.outputs)
    share = _choose_share(about.held_out, len(values), resolve_method(model.inference).staged)
    about = about._replace(held_out=share)
    train, test = split_rows(table, values, kept, about)
    with run.timed("fit"):
        doubts = _fit_with_doubts(lambda: model.fit(train.x, train.y), model)
    about = about._replace(low=train.x.min(axis=0).tolist(), high=train.x.max(axis=0).tolist())
    return Result(about, train, test, len(train.x), doubts)


def fit_in_blocks(model: "BNNLVRegressor", table: "TableFile", about: About, run: Run) -> Result:
    """Fit to a table that need not fit into memory."""
    from twofold.estimators.streaming import BLOCK_ROWS, check_streamed, fit_scratch, write_scratch

    inputs, count = len(about.inputs), table.count_rows()
    check_streamed(model, count)
    if count is None:
        count = sum(map(len, table.blocks(BLOCK_ROWS, about.inputs[:1])))
    share = HELD_OUT if about.held_out is None else about.held_out
    share = min(share, MOST_HELD_OUT / max(count, 1))
    aside: list[np.ndarray] = []

    def read_training_rows() -> Iterator[np.ndarray]:
        for block in table.blocks(BLOCK_ROWS, about.names):
            values, kept = block.values(about.names, about.drop_missing)
            held_out = draw_streamed(block.rows[kept], share, about.seed)
            aside.append(values[held_out])
            yield values[~held_out]

    with tempfile.TemporaryDirectory(prefix="twofold-") as folder:
        with run.timed("read"), name_options():
            scratch = write_scratch(Path(folder) / "rows", read_training_rows())
        ends = np.stack([scratch.running.low, scratch.running.high])
        _check_targets(table.source, ends[:, inputs:], about.outputs)
        with run.timed("fit"):
            doubts = _fit_with_doubts(
                lambda: fit_scratch(model, scratch, inputs, min(len(about.outputs), 2)), model
            )
        places = scratch.rows_of(0, about.seed)
        train = to_rows(scratch.read(places), inputs, places)
    held_out = np.concatenate(aside)
    test = to_rows(held_out, inputs, np.arange(len(held_out))) if len(held_out) else None
    low, high = ends[:, :inputs].tolist()
    about = about._replace(low=low, high=high, held_out=share)
    return Result(about, train, test, scratch.rows, doubts)


def evaluate(model: "BNNLVRegressor", result: Result) -> dict[str, float]:
    """The epistemic share of the variance, the out-of-bag score, and scores on held-out rows; all
    beside a linear model's."""
    from twofold.active.choice import epistemic_share, split_by_entropy
    from twofold.estimators.linear import LinearGaussian, cross_validate_linear

    train, test = result.train, result.test
    x = (train if test is None else test).x
    split = split_by_entropy(model, x[:: -(-len(x) // MOST_SPLIT)])
    share = epistemic_share(split.epistemic).mean()
    scores = {"rows fitted": result.rows, "epistemic share of the variance": max(0.0, share)}
    if model.out_of_bag_ is not None:
        score, error, _ = model.out_of_bag_
        scores |= {"out-of-bag log-likelihood (nats)": score, "its standard error": error}
        linear = cross_validate_linear(train.x, train.y) if test is None else None
        if linear is not None:
            scores["linear, cross-validated log-likelihood (nats)"] = linear
    if test is not None:
        scores = {"rows held out": len(test.x)} | scores
        every: dict[str, Any] = {"": model, "linear, ": LinearGaussian.fit(train.x, train.y)}
        for name, one in every.items():
            log_likelihood = one.log_likelihood(test.x, test.y)
            scores[f"{name}held-out log-likelihood (nats)"] = np.mean(log_likelihood)
            error = np.sqrt(np.mean(np.square(one.predict(test.x) - test.y), axis=0))
            errors = zip(result.about.outputs, np.atleast_1d(error), strict=True)
            scores |= {f"{name}held-out RMSE of {output}": value for output, value in errors}
    return {name: float(value) for name, value in scores.items()}


def split_rows(
    table: "Table", values: np.ndarray, places: np.ndarray, about: About
) -> tuple[Rows, Rows | None]:
    """Training rows and held-out rows."""
    share = about.held_out or 0.0
    if about.streamed:
        held_out = draw_streamed(table.rows[places], share, about.seed)
    else:
        held_out = draw_held_out(len(values), share, about.seed)
    inputs = len(about.inputs)
    train, test = (to_rows(values[mask], inputs, places[mask]) for mask in (~held_out, held_out))
    return train, test if held_out.any() else None


def to_rows(values: np.ndarray, inputs: int, places: np.ndarray) -> Rows:
    """Columns as inputs and outputs."""
    targets = values[:, inputs:]
    return Rows(values[:, :inputs], targets[:, 0] if targets.shape[1] == 1 else targets, places)


def draw_held_out(count: int, share: float, seed: int) -> np.ndarray:
    """A mask of the rows to hold out, an exact share of a table in memory."""
    held_out = np.zeros(count, bool)
    held_out[np.random.default_rng(seed).permutation(count)[: round(share * count)]] = True
    return held_out


def draw_streamed(rows: np.ndarray, share: float, seed: int) -> np.ndarray:
    """A mask of the rows to hold out, each drawn by its number and the seed alone (splitmix64;
    Steele, Lea and Flood 2014)."""
    golden = np.uint64(0x9E3779B97F4A7C15)
    words = (rows.astype(np.uint64) + np.uint64(1)) * golden
    for addend in (np.uint64(seed), golden):
        words = words + addend
        words = (words ^ (words >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        words = (words ^ (words >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        words = words ^ (words >> np.uint64(31))
    return (words >> np.uint64(11)) * 2.0**-53 < share


def _check_targets(source: str, targets: np.ndarray, outputs: list[str]) -> None:
    """Refuse targets that nothing can be learnt from."""
    if len(targets) < 2:
        raise CommandError(f"{source} has {len(targets)} row; at least 2 are needed, better 50")
    for name, column in zip(outputs, targets.T, strict=True):
        if column.min() == column.max():
            raise CommandError(
                f"{source}: {name!r} is {column[0]:g} in every row: nothing to learn"
            )


def _fit_with_doubts(fit: Callable[[], Any], model: "BNNLVRegressor") -> list[str]:
    """Fit, and return the warnings about the result."""
    from twofold.estimators.training import whole_fits

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with whole_fits(f"progress is kept in {model.checkpoint}; run the same command to resume"):
            fit()
    ignored = DeprecationWarning, FutureWarning
    return [str(one.message) for one in caught if not issubclass(one.category, ignored)]


def _choose_share(held_out: float | None, rows: int, scores_itself: bool) -> float:
    """The share to hold out of a table in memory: none, unless asked for, of a fit that
    ``scores_itself`` out of bag."""
    if held_out is None and scores_itself:
        return 0.0
    share = HELD_OUT if held_out is None else held_out
    count = round(share * rows)
    if not share or count >= FEWEST_HELD_OUT:
        return share
    if held_out is not None:
        raise CommandError(
            f"{share:g} of {rows} rows are {count}, too few to evaluate a model; hold out a larger "
            "share, or none with --held-out 0"
        )
    say(f"note: {rows} rows are too few to hold some out, so the fit is not evaluated")
    return 0.0
