"""``decompose``: split the predictive uncertainty of any posterior, at any number of points."""

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core import sharding
from twofold.core.arrays import Array, Float, Key
from twofold.model.posterior import Posterior
from twofold.model.spec import BNNLV
from twofold.uncertainty import entropy, mixture, quadrature
from twofold.uncertainty.chunks import FEWEST_ROWS, OnProgress, in_chunks, rows_at_once
from twofold.uncertainty.decomposition import Decomposition, Split, by_entropy, by_variance
from twofold.uncertainty.entropies import PointEstimator, entropies, from_samples
from twofold.uncertainty.predictive import DRAW_AXES, Nested, moments, nest

ESTIMATORS: dict[str, PointEstimator] = {
    "quadrature": quadrature.integrate,
    "mixture": mixture.average,
    **{name: from_samples(function) for name, function in entropy.ESTIMATORS.items()},
}
ENTROPY_STREAM = 2**31 - 1  # apart from the small numbers that splitting a key uses


@sharding.by_rows(static=["model"], rows=["x"])
def _variance_split(model: BNNLV, nested: Nested, x: Float[Array, "B D"]) -> Split:
    return _rows_first(by_variance(moments(model, nested, x)))


@sharding.by_rows(static=["estimator", "joint", "model"], rows=["x"], draws={"nested": DRAW_AXES})
def _entropy_split(
    estimator: PointEstimator,
    joint: bool,
    key: Key,
    model: BNNLV,
    nested: Nested,
    x: Float[Array, "B D"],
) -> Split:
    return _rows_first(by_entropy(entropies(estimator, joint, key, model, nested, x)))


def _rows_first(split: Split) -> Split:
    return jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), split)


def choose_estimator(name: str | PointEstimator, joint: bool, outputs: int) -> PointEstimator:
    """The estimator of that name; ``"auto"`` is quadrature where it can be, else the mixture's."""
    if callable(name):
        return name
    several = joint and outputs > 1
    if name == "auto":
        name = "mixture" if several else "quadrature"
    if name not in ESTIMATORS:
        raise ValueError(f"estimator must be 'auto' or one of {sorted(ESTIMATORS)}, got {name!r}")
    if name == "quadrature" and several:
        raise ValueError(
            "quadrature integrates one output at a time, but joint entropies of "
            f"{outputs} outputs were asked for; use estimator='mixture', or joint=False"
        )
    return ESTIMATORS[name]


def decompose(
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
) -> Decomposition:
    """Total, epistemic and aleatoric uncertainty at each row of ``x``, with Monte Carlo errors.

    Everything is in the model's own (standardised) units. Arrays are ``[N, O]``; with ``joint``
    the entropies are those of all outputs together, ``[N, 1]``. ``weights`` × ``latents`` nested
    draws serve all points, so that a result depends neither on other points nor on the chunks.
    ``estimator`` is a name in ESTIMATORS or a function like those there.
    """
    x = np.asarray(x, np.float64)
    if x.ndim != 2 or not len(x):
        raise ValueError(f"x must be an array [N, D] with at least one row, got shape {x.shape}")
    if by not in ("entropy", "variance"):
        raise ValueError(f"by must be 'entropy' or 'variance', got {by!r}")
    if joint and by == "variance":
        raise ValueError("joint outputs are split by entropy only; use by='entropy'")
    nested = nest(key, model, posterior, weights, latents)
    fewest = FEWEST_ROWS
    if by == "variance":
        function = partial(_variance_split, model, nested)
    else:
        chosen = choose_estimator(estimator, joint, model.outputs)
        # Other estimators cost too much for rows that nobody asked for.
        fewest = FEWEST_ROWS if chosen is quadrature.integrate else 1
        entropy_key = jax.random.fold_in(key, ENTROPY_STREAM)
        function = partial(_entropy_split, chosen, joint, entropy_key, model, nested)
    limit = rows_at_once(model, weights, latents)
    dtype = nested.weights.dtype
    split: Split = in_chunks(function, [x], limit, dtype, on_progress, fewest)
    return Decomposition(by, *split.parts, split.errors)
