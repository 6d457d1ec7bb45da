"""The risk-sensitive criterion J, and the two risks in it (paper, §5).

Of costs ``c[t, m, n]`` at step t under weight draw m in its roll-out n,

    J = Σ_t { mean c(t) + [ β² E(t) + γ² A(t) ]^½ }

with the epistemic risk ``E(t) = Var_m(E_n c(t))`` and the aleatoric ``A(t) = E_m(Var_n c(t))``; β
is ``epistemic_weight``, γ is ``aleatoric_weight``.
"""

from typing import NamedTuple

import jax.numpy as jnp

from twofold.core.arrays import Array, Float

# A risk below this part of the costs' own spread is rounding, and its root all slope.
SMALLEST = 1e-4


class Risks(NamedTuple):
    """Variances of the cost at each step, in squared units of it."""

    epistemic: Float[Array, "T"]
    aleatoric: Float[Array, "T"]


def risks(costs: Float[Array, "T M N"]) -> Risks:
    """Unbiased estimates of both.

    The mean of N roll-outs varies by ``A/N`` even where all weights are the same. That part of the
    variance between weight draws is taken off, so that E is right on average, and below 0 at times.
    """
    num = costs.shape[2]
    aleatoric = jnp.mean(jnp.var(costs, axis=2, ddof=1), axis=1)
    between = jnp.var(jnp.mean(costs, axis=2), axis=1, ddof=1)
    return Risks(between - aleatoric / num, aleatoric)


def criterion(
    costs: Float[Array, "T M N"],
    epistemic_weight: Float[Array, ""],
    aleatoric_weight: Float[Array, ""],
    cost_scale: Float[Array, ""] | float = 1.0,
) -> Float[Array, ""]:
    """J: expected cost and weighted risk, summed over the horizon.

    ``cost_scale`` is a deviation that is usual for costs: risks far below it count as none.
    """
    epistemic, aleatoric = risks(costs)
    variance = epistemic_weight**2 * epistemic + aleatoric_weight**2 * aleatoric
    least = jnp.square(SMALLEST * cost_scale)
    # Without weights there must be no slope either, whatever the rounding of the variances.
    risk = jnp.where(variance > least, jnp.sqrt(jnp.maximum(variance, least)), 0.0)
    return jnp.sum(jnp.mean(costs, axis=(1, 2)) + risk)
