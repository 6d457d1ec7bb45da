"""Total uncertainty = epistemic + aleatoric, by entropy and by variance (paper, Section 3)."""

from typing import Any, NamedTuple

import jax.numpy as jnp

from twofold.typing import Array, Float
from twofold.uncertainty.predictive import Moments
from twofold.uncertainty.quadrature import Entropies


class Decomposition(NamedTuple):
    """The two parts and their sum; entropies in nats, or variances in squared units of y."""

    total: Any
    epistemic: Any
    aleatoric: Any


def by_entropy(entropies: Entropies) -> Decomposition:
    """``H[y|x] − E_q(W) H[y|x,W] = I(y; W)``, the epistemic part."""
    epistemic = entropies.total - entropies.aleatoric
    return Decomposition(entropies.total, epistemic, entropies.aleatoric)


def by_variance(moments: Moments) -> Decomposition:
    """``σ²(y|x) = σ²_q(W)(E[y|W,x]) + E_q(W)[σ²(y|W,x)]``, each ``[O, B]``."""
    epistemic: Float[Array, "O B"] = jnp.var(moments.mean, axis=0)
    aleatoric: Float[Array, "O B"] = jnp.mean(moments.variance, axis=0)
    return Decomposition(epistemic + aleatoric, epistemic, aleatoric)
