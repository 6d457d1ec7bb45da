"""Total uncertainty = epistemic + aleatoric, by entropy and by variance (paper, Section 3).

Both splits are means over the M weight draws of a quantity known for each draw; its spread over the
draws gives a Monte Carlo standard error (too large for evenly spread draws, as of a mean field).
"""

from dataclasses import dataclass, replace
from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core import sharding
from twofold.core.arrays import Array, Float, Key
from twofold.core.numerics import LOG_TWO_PI
from twofold.model.spec import BNNLV, Posterior
from twofold.uncertainty import predictive
from twofold.uncertainty.entropies import Entropies, PointEstimator, average, entropies, integrate
from twofold.uncertainty.predictive import Moments, Nested, OnProgress, moments, nest
from twofold.uncertainty.sample_entropy import from_samples, nearest_neighbour

ESTIMATORS: dict[str, PointEstimator] = {
    "quadrature": integrate,
    "mixture": average,
    "nearest_neighbour": from_samples(nearest_neighbour),
}
ENTROPY_STREAM = 2**31 - 1  # apart from the small numbers that splitting a key uses
DOUBTFUL_ERRORS = 3.0
GAUSSIAN = 0.5 * (LOG_TWO_PI + 1.0)  # entropy of a standard normal


class Parts(NamedTuple):
    """One number, or one array of them, for each part of the uncertainty."""

    total: Any
    epistemic: Any
    aleatoric: Any


class Split(NamedTuple):
    """The parts and their Monte Carlo standard errors."""

    parts: Parts
    errors: Parts


def by_entropy(entropies: Entropies) -> Split:
    """``H[y|x] − E_q(W) H[y|x,W] = I(y; W)``, the epistemic part."""
    cross, conditional = entropies
    return _means_over_draws(Parts(cross, cross - conditional, conditional))


def by_variance(moments: Moments) -> Split:
    """``σ²(y|x) = σ²_q(W)(E[y|W,x]) + E_q(W)[σ²(y|W,x)]``, each ``[O, B]``."""
    squares = jnp.square(moments.mean - jnp.mean(moments.mean, axis=0))
    return _means_over_draws(Parts(squares + moments.variance, squares, moments.variance))


def _means_over_draws(terms: Parts) -> Split:
    """Means and their standard errors (unknown for a single draw)."""

    def error(term: Float[Array, "M *rest"]) -> Float[Array, "*rest"]:
        if len(term) == 1:
            return jnp.full_like(term[0], jnp.nan)
        return jnp.std(term, axis=0, ddof=1) / jnp.sqrt(len(term))

    return Split(Parts(*(jnp.mean(term, axis=0) for term in terms)), Parts(*map(error, terms)))


def choose_estimator(name: str | PointEstimator, joint: bool, model: BNNLV) -> PointEstimator:
    """The estimator of a name; ``"auto"`` is quadrature where possible, otherwise ``"mixture"``."""
    if callable(name):
        return name
    several = joint and model.outputs > 1
    if isinstance(name, str) and name == "auto":
        name = "mixture" if several else "quadrature"
    if not isinstance(name, str) or name not in ESTIMATORS:
        raise ValueError(f"estimator must be 'auto' or one of {sorted(ESTIMATORS)}, got {name!r}")
    if name == "quadrature" and several:
        raise ValueError(
            "quadrature integrates one output at a time, but joint entropies of "
            f"{model.outputs} outputs were asked for; use estimator='mixture', or joint=False"
        )
    return ESTIMATORS[name]


def check_request(by: str, joint: bool) -> None:
    if not isinstance(by, str) or by not in SPLITS:
        raise ValueError(f"by must be 'entropy' or 'variance', got {by!r}")
    if joint and by == "variance":
        raise ValueError("joint outputs are split by entropy only; use by='entropy'")


def split_nested(
    by: str,
    joint: bool,
    estimator: PointEstimator,
    model: BNNLV,
    key: Key,
    nested: Nested,
    x: Float[Array, "B D"],
) -> Split:
    """The split by nested draws at each point, in arrays ``[B, O]``."""
    if by == "variance":
        split = by_variance(moments(model, nested, x))
    else:
        entropy_key = jax.random.fold_in(key, ENTROPY_STREAM)
        split = by_entropy(entropies(estimator, joint, entropy_key, model, nested, x))
    return jax.tree.map(lambda leaf: jnp.swapaxes(leaf, 0, 1), split)


_by_rows = partial(sharding.by_rows, static=["by", "joint", "estimator", "model"], rows=["x"])
SPLITS = {
    "variance": _by_rows()(split_nested),
    "entropy": _by_rows(draws={"nested": predictive.DRAW_AXES})(split_nested),
}


def decompose(
    key: Key,
    model: BNNLV,
    posterior: Posterior,
    x: Float[Array, "B D"],
    by: str = "entropy",
    *,
    joint: bool = False,
    estimator: str | PointEstimator = "auto",
    weights: int = 100,
    latents: int = 100,
) -> Split:
    """Total, epistemic and aleatoric uncertainty at each row of ``x``, with Monte Carlo errors.

    A pure function for ``jax.jit`` (all arguments but ``key``, ``posterior`` and ``x`` are static)
    and ``jax.vmap`` over keys, posteriors or sets of points. Everything is in the model's
    standardised units. Arrays are ``[B, O]``; with ``joint`` the entropies are joint over outputs,
    ``[B, 1]``. All points share the same ``weights`` × ``latents`` nested draws, so a result does
    not depend on the other points. ``estimator`` is a name in ESTIMATORS or a function like those
    there. ``decompose_rows`` does the same for any number of rows.
    """
    check_request(by, joint)
    chosen = choose_estimator(estimator, joint, model)
    nested = nest(key, model, posterior, weights, latents)
    return split_nested(by, joint, chosen, model, key, nested, x)


@dataclass(frozen=True)
class Decomposition:
    """The parts at each row: in nats (by ``"entropy"``), in squared units of y (``"variance"``), or
    in units of y (``"deviation"`` and ``"width"``).

    ``standard_errors`` holds the Monte Carlo error of each number under the same three names;
    ``joint`` tells whether the entropies are joint over outputs.
    """

    by: str
    total: np.ndarray
    epistemic: np.ndarray
    aleatoric: np.ndarray
    standard_errors: Parts
    joint: bool = False

    @property
    def parts(self) -> Parts:
        return Parts(self.total, self.epistemic, self.aleatoric)

    def take(self, index: Any) -> "Decomposition":
        """The decomposition of some rows, or of what an index of its arrays selects."""
        both = self.parts, self.standard_errors
        parts, errors = jax.tree.map(lambda part: part[index], both)
        return replace(self, **parts._asdict(), standard_errors=errors)

    @property
    def doubtful(self) -> np.ndarray:
        """Mask of estimates of the epistemic part that are significantly negative. There the bias
        of the entropy estimator exceeds the epistemic part."""
        return self.epistemic < -DOUBTFUL_ERRORS * self.standard_errors.epistemic - 1e-5

    def standard_deviations(self) -> "Decomposition":
        """Square roots of a split by variance, in units of y; they do not add up."""
        if self.by != "variance":
            raise ValueError("standard deviations need a split by variance; use by='variance'")
        roots = Parts(*(np.sqrt(part) for part in self.parts))
        with np.errstate(divide="ignore", invalid="ignore"):
            errors = (e / (2.0 * root) for e, root in zip(self.standard_errors, roots, strict=True))
            return Decomposition("deviation", *roots, Parts(*errors))

    def equivalent_deviations(self) -> "Decomposition":
        """Deviations of Gaussians with these entropies, ``exp(H) / √(2πe)``, in units of y.

        ``aleatoric`` is the typical width of the noise, ``epistemic`` is ``√(total² − aleatoric²)``
        (0 if the epistemic entropy is negative). A few outlying draws of W hardly change them.
        """
        if self.by != "entropy" or self.joint:
            raise ValueError("equivalent deviations need by='entropy' and joint=False")
        total, aleatoric = (np.exp(h - GAUSSIAN) for h in (self.total, self.aleatoric))
        epistemic = aleatoric * np.sqrt(np.expm1(2.0 * np.maximum(self.epistemic, 0.0)))
        # The error of the difference accounts for the correlation of the two entropies.
        errors, t, a = self.standard_errors, np.square(total), np.square(aleatoric)
        v_total, v_difference, v_aleatoric = map(np.square, errors)
        variance = (t - a) * (t * v_total - a * v_aleatoric) + t * a * v_difference
        with np.errstate(divide="ignore", invalid="ignore"):
            error = np.sqrt(np.maximum(variance, 0.0)) / epistemic
        errors = Parts(total * errors.total, error, aleatoric * errors.aleatoric)
        return Decomposition("width", total, epistemic, aleatoric, errors)


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
) -> Decomposition:
    """``decompose`` at any number of rows; the result does not depend on chunks."""
    x = np.asarray(x, np.float64)
    if x.ndim != 2 or not len(x):
        raise ValueError(f"x must be an array [N, D] with at least one row, got shape {x.shape}")
    check_request(by, joint)
    chosen = choose_estimator(estimator, joint, model)
    nested = nest(key, model, posterior, weights, latents)
    # Slower estimators are too expensive for padding rows.
    fewest = predictive.FEWEST_ROWS if by == "variance" or chosen is integrate else 1
    shared = by, joint, chosen, model, key, nested
    limit = predictive.rows_at_once(model, weights, latents)
    dtype = nested.weights.dtype
    split: Split = predictive.in_chunks(SPLITS[by], shared, [x], limit, dtype, on_progress, fewest)
    return Decomposition(by, *split.parts, split.errors, joint and model.outputs > 1)
