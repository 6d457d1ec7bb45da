"""Functions of many rows, on the host: a few at a time, so that memory stays bounded."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core import sharding
from twofold.core.arrays import Key
from twofold.model.posterior import Posterior
from twofold.model.spec import BNNLV
from twofold.uncertainty import decomposition
from twofold.uncertainty.entropies import PointEstimator, integrate
from twofold.uncertainty.predictive import DRAW_AXES, nest

CHUNK_VALUES = 2**27
# One program, and so the same rounding, for all small requests.
FEWEST_ROWS = 32
OnProgress = Callable[[int], None]
_by_rows = partial(sharding.by_rows, static=["by", "joint", "estimator", "model"], rows=["x"])
SPLITS = {
    "variance": _by_rows()(decomposition.split_nested),
    "entropy": _by_rows(draws={"nested": DRAW_AXES})(decomposition.split_nested),
}


def rows_at_once(model: BNNLV, weights: int, latents: int) -> int:
    """How many rows' nested draws may be in memory together."""
    return max(1, CHUNK_VALUES // (weights * latents * max(model.sizes)))


def chunk_rows(rows: int, limit: int, fewest: int = FEWEST_ROWS) -> int:
    """The rows of a chunk: a power of two, at least ``fewest``, where one chunk is all."""
    chunks = -(-rows // limit)
    size = -(-rows // chunks) if chunks > 1 else max(fewest, 2 ** (rows - 1).bit_length())
    return min(limit, size)


def in_chunks(
    function: Callable[..., Any],
    columns: Sequence[np.ndarray],
    limit: int,
    dtype: Any,
    on_progress: OnProgress | None = None,
    fewest: int = FEWEST_ROWS,
) -> Any:
    """``function`` of equal chunks of rows (the last one padded), its results joined.

    The results are arrays with the rows first, in float64 on the host. ``on_progress`` is called
    with the number of rows done. A lone chunk is a power of two, at least ``fewest``. Several
    devices share the rows of a chunk, and each may have ``limit`` of them.
    """
    rows = len(columns[0])
    mesh = sharding.devices_for(max(rows, fewest))
    limit *= 1 if mesh is None else mesh.size
    size = sharding.room(mesh, chunk_rows(rows, limit, fewest))
    parts = []
    for start in range(0, rows, size):
        filled = min(size, rows - start)
        chunk = (column[start : start + size] for column in columns)
        padded = (np.pad(column, ((0, size - filled), (0, 0)), "edge") for column in chunk)
        values = sharding.on_host(function(*(_on_device(column, dtype) for column in padded)))
        parts.append(jax.tree.map(lambda v, n=filled: v[:n].astype(np.float64), values))
        if on_progress is not None:
            on_progress(start + filled)
    return jax.tree.map(lambda *leaves: np.concatenate(leaves), *parts)


def _on_device(column: np.ndarray, dtype: Any) -> jax.Array:
    """Numbers in the precision asked for, integers as they are."""
    return jnp.asarray(column, dtype if np.issubdtype(column.dtype, np.floating) else None)


def decompose_rows(
    key: Key,
    model: BNNLV,
    posterior: Posterior,
    x: Any,
    by: str = "entropy",
    *,
    joint: bool = False,
    estimator: str | PointEstimator = "auto",
    weights: int = 100,
    latents: int = 100,
    on_progress: OnProgress | None = None,
) -> decomposition.Decomposition:
    """``decomposition.decompose`` at any number of rows; the result does not depend on chunks."""
    x = np.asarray(x, np.float64)
    if x.ndim != 2 or not len(x):
        raise ValueError(f"x must be an array [N, D] with at least one row, got shape {x.shape}")
    decomposition.check_request(by, joint)
    chosen = decomposition.choose_estimator(estimator, joint, model.outputs)
    nested = nest(key, model, posterior, weights, latents)
    # Slower estimators cost too much for rows that nobody asked for.
    fewest = FEWEST_ROWS if by == "variance" or chosen is integrate else 1
    function = partial(SPLITS[by], by, joint, chosen, model, key, nested)
    limit = rows_at_once(model, weights, latents)
    dtype = nested.weights.dtype
    split: decomposition.Split = in_chunks(function, [x], limit, dtype, on_progress, fewest)
    return decomposition.Decomposition(by, *split.parts, split.errors)
