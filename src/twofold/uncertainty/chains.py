"""Convergence diagnostics of chains, computed for their predictions.

Permuting the hidden units does not change a network, so two perfect chains may never agree on a
weight. They must agree on the predictions: the mean and the deviation of y given W.
"""

from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.special import ndtri

from twofold.core.arrays import Array, Float
from twofold.model.spec import BNNLV
from twofold.uncertainty.predictive import Nested, latent_draws, moments

GOOD_R_HAT = 1.05
GOOD_ESS = 100
FEWEST_DRAWS = 4
NODES = 32


class Diagnostics(NamedTuple):
    """The worst R-hat and effective sample size of any prediction, and the divergences. The first
    two are None if they cannot be computed: with fewer than FEWEST_DRAWS draws per chain, or if all
    predictions are constant."""

    r_hat_max: float | None
    ess_min: float | None
    divergences: int


@partial(jax.jit, static_argnames="model")
def predictive_trace(
    model: BNNLV,
    weights: Float[Array, "C R P"],
    log_noise: Float[Array, "C R O"],
    x: Float[Array, "B D"],
) -> Float[Array, "C R quantities"]:
    """``E[y|x,W]`` and ``log Var[y|x,W]`` along each chain, at each point and output."""
    nodes = _nodes(model).astype(weights.dtype)

    def of_chain(chain: tuple[Array, Array]) -> Float[Array, "R quantities"]:
        draws = len(chain[0])
        z = jnp.broadcast_to(nodes[:, None], (len(nodes), draws, model.latents))
        mean, variance = moments(model, Nested(*chain, z), x)
        parts = mean, jnp.log(variance)
        return jnp.concatenate([part.reshape(draws, -1) for part in parts], axis=1)

    return jax.lax.map(of_chain, (weights, log_noise))


def _nodes(model: BNNLV) -> Float[Array, "L Z"]:
    """Equally probable values of z, the same for all chains."""
    if model.latents != 1 or model.latent_levels:
        return latent_draws(jax.random.key(0), model, NODES, 1)[:, 0]
    medians = ndtri((jnp.arange(NODES) + 0.5) / NODES)
    return jnp.sqrt(model.latent_variance) * medians[:, None]


def diagnose(trace: Float[Array, "C R quantities"], divergences: int) -> Diagnostics:
    """Rank-normalised split R-hat and bulk effective sample size (Vehtari et al. 2021)."""
    if not np.isfinite(trace).all():
        return Diagnostics(None, None, int(divergences))
    varying = trace[..., np.ptp(trace, axis=(0, 1)) > 0]
    if trace.shape[1] < FEWEST_DRAWS or not varying.size:
        return Diagnostics(None, None, int(divergences))
    worst, least = map(float, _extremes(varying))
    known = np.isfinite(worst + least)
    return Diagnostics(worst if known else None, least if known else None, int(divergences))


@jax.jit
def _extremes(trace: Float[Array, "C R quantities"]) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """The largest R-hat and the smallest effective sample size."""
    # Imported late: this loads all of blackjax, which predictions do not need.
    from blackjax.diagnostics import ess_bulk, rhat

    return jnp.max(rhat(trace)), jnp.min(ess_bulk(trace))


def advice(diagnostics: Diagnostics) -> str | None:
    """A warning about the chains; None if they have converged."""
    problems, (r_hat, ess, divergences) = [], diagnostics
    if r_hat is None or ess is None:
        problems.append(
            "convergence of the chains cannot be judged (too few draws, or constant "
            "predictions); increase warmup and samples"
        )
    elif r_hat > GOOD_R_HAT:
        problems.append(
            f"the chains disagree on predictions (R-hat {r_hat:.2f}, should be below "
            f"{GOOD_R_HAT}); increase warmup and samples"
        )
    if ess is not None and ess < GOOD_ESS:
        problems.append(
            f"the effective sample size is only {ess:.0f} (should be {GOOD_ESS}); increase "
            "samples or thin"
        )
    if divergences:
        problems.append(f"{divergences} transitions diverged; raise target_acceptance")
    return "; ".join(problems) or None
