"""Total uncertainty = epistemic + aleatoric, by entropy and by variance (paper, Section 3).

Both splits are means over the M weight draws of something known for each draw; the spread of that
over the draws gives a Monte Carlo standard error. Draws that are spread evenly (as a mean field's
are) err less than it says.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from twofold.core.arrays import Array, Float
from twofold.uncertainty.entropies import Entropies
from twofold.uncertainty.predictive import Moments

DOUBTFUL_ERRORS = 3.0


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
    parts = Parts(*(jnp.mean(term, axis=0) for term in terms))
    return Split(parts, Parts(*(_standard_error(term) for term in terms)))


def _standard_error(terms: Float[Array, "M *rest"]) -> Float[Array, "*rest"]:
    """Of a mean over M draws; of a single draw nothing is known."""
    draws = terms.shape[0]
    if draws == 1:
        return jnp.full(terms.shape[1:], jnp.nan, terms.dtype)
    return jnp.std(terms, axis=0, ddof=1) / jnp.sqrt(draws)


@dataclass(frozen=True)
class Decomposition:
    """The parts at each row: in nats (by ``"entropy"``), in squared units of y (``"variance"``), or
    in units of y (``"deviation"``).

    ``standard_errors`` holds the Monte Carlo error of each number under the same three names.
    """

    by: str
    total: np.ndarray
    epistemic: np.ndarray
    aleatoric: np.ndarray
    standard_errors: Parts

    @property
    def parts(self) -> Parts:
        """Total, epistemic, aleatoric."""
        return Parts(self.total, self.epistemic, self.aleatoric)

    @property
    def doubtful(self) -> np.ndarray:
        """Where the epistemic part, never negative in truth, is so beyond its error.

        There the entropy estimator's bias is larger than what it is asked for.
        """
        return self.epistemic < -DOUBTFUL_ERRORS * self.standard_errors.epistemic - 1e-5

    def standard_deviations(self) -> "Decomposition":
        """Square roots of a split by variance, in units of y; they do not add up."""
        if self.by != "variance":
            raise ValueError("standard deviations need a split by variance; use by='variance'")
        roots = Parts(*(np.sqrt(part) for part in self.parts))
        with np.errstate(divide="ignore", invalid="ignore"):
            errors = (e / (2.0 * root) for e, root in zip(self.standard_errors, roots, strict=True))
            return Decomposition("deviation", *roots, Parts(*errors))
