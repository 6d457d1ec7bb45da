"""What the page of a fitted model is about: the model, its data, and what it says of them."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from twofold.report.figures import label
from twofold.uncertainty.decomposition import Parts

MOST_ROWS = 4000


class Table(NamedTuple):
    """Inputs ``[N, D]``, outputs ``[N, O]``, and what these rows are called: ``row 17``."""

    x: np.ndarray
    y: np.ndarray
    names: np.ndarray


class Subject(NamedTuple):
    """A fitted model, the rows it was fitted to and rows it has not seen, if there are any."""

    model: Any
    data: Table
    held_out: Table | None
    inputs: list[str]
    outputs: list[str]
    rows: int

    @property
    def judged(self) -> Table:
        """The rows that scores are computed from."""
        return self.data if self.held_out is None else self.held_out


class Found(NamedTuple):
    """Predictive means and variances at some rows, each ``[N, O]``, in units of y."""

    mean: np.ndarray
    variances: Parts

    def deviations(self) -> Parts:
        """Square roots of the variances."""
        return Parts(*(np.sqrt(part) for part in self.variances))


def subject(
    model: Any,
    X: Any,
    y: Any,
    inputs: Sequence[str],
    outputs: Sequence[str],
    held_out: Any,
    rows: Sequence[str] | None = None,
) -> Subject:
    """All of it checked; of long tables, as many rows as a page can show, spread evenly."""
    names, answers = list(inputs), list(outputs)
    for what, given in (("inputs", names), ("outputs", answers)):
        if len(set(given)) != len(given):
            raise ValueError(f"expected {what} with different names, got {', '.join(given)}")
    data = _table(X, y, names, answers, 2, rows)
    unseen = None if held_out is None else _table(held_out[0], held_out[1], names, answers, 1)
    return Subject(model, data, unseen, names, answers, len(np.asarray(X)))


def found(model: Any, x: np.ndarray) -> Found:
    """The model's predictive moments at rows ``[N, D]``."""
    means, variances = model.conditional_moments(x)
    epistemic, aleatoric = np.var(means, axis=0).T, np.mean(variances, axis=0).T
    return Found(np.mean(means, axis=0).T, Parts(epistemic + aleatoric, epistemic, aleatoric))


def entropies(model: Any, x: np.ndarray, variances: Parts) -> Parts:
    """Entropies ``[N, O]``; those of Gaussians with the same variances where any is not known."""
    split = model.decompose(x)
    parts = Parts(*(part.reshape(len(x), -1) for part in split.parts))
    if np.all(np.isfinite(parts.total)):
        return parts
    total, aleatoric = (
        0.5 * np.log(2.0 * np.pi * np.e * part) for part in (variances.total, variances.aleatoric)
    )
    return Parts(total, total - aleatoric, aleatoric)


def evenly(rows: int, most: int) -> np.ndarray:
    """At most so many of the rows, spread evenly."""
    return np.linspace(0, rows - 1, min(rows, most)).astype(int)


def shown(value: float) -> str:
    """A number with four digits, or all those of a whole number."""
    if not np.isfinite(value):
        return "—"
    whole = value == round(value) and abs(value) < 1e7
    return f"{value:.0f}" if whole else f"{value:.4g}"


def _table(
    X: Any,
    y: Any,
    inputs: list[str],
    outputs: list[str],
    fewest: int,
    rows: Sequence[str] | None = None,
) -> Table:
    x, targets = np.asarray(X, np.float64), np.asarray(y, np.float64)
    targets = targets.reshape(len(targets), -1)
    expected = (len(x), len(inputs)), (len(x), len(outputs))
    if (x.shape, targets.shape) != expected or len(x) < fewest:
        named = ", ".join(label(name) for name in [*inputs, *outputs])
        raise ValueError(
            f"expected at least {fewest} rows of {len(inputs)} inputs and {len(outputs)} outputs "
            f"({named}), got X {x.shape} and y {targets.shape}; name every column"
        )
    bad = np.count_nonzero(~np.isfinite(x)) + np.count_nonzero(~np.isfinite(targets))
    if bad:
        raise ValueError(f"expected finite numbers, got {bad} of NaN or infinity; drop these rows")
    kept = evenly(len(x), MOST_ROWS)
    names = [f"row {number + 1}" for number in range(len(x))] if rows is None else list(rows)
    if len(names) != len(x):
        raise ValueError(f"expected a name for each of {len(x)} rows, got {len(names)}")
    return Table(x[kept], targets[kept], np.array(names)[kept])
