"""Entropies of a one-dimensional y by integrating its density: almost exact, no neighbours needed.

Given W, y is a mixture of Gaussians, one for each latent draw, so its density is known in closed
form; the mean over W is the predictive density. Both are smooth, so the trapezoidal rule on a grid
finer than the noise is accurate far beyond the Monte Carlo error of the draws.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import xlogy

from twofold.model.bnn import BNNLV
from twofold.numerics import gaussian_log_density
from twofold.typing import Array, Float
from twofold.uncertainty.predictive import Nested, means

GRID_POINTS = 512
MARGIN_DEVIATIONS = 6.0


class Entropies(NamedTuple):
    """``H[y|x]`` and ``E_q(W) H[y|x,W]`` at each point, in nats."""

    total: Float[Array, "B"]
    aleatoric: Float[Array, "B"]


def entropy_of_density(
    density: Float[Array, "*batch G"], spacing: Float[Array, ""]
) -> Float[Array, "*batch"]:
    """``−∫ p log p`` from values on an even grid that covers all the mass (trapezoidal rule)."""
    return -spacing * jnp.sum(xlogy(density, density), axis=-1)


def mixture_entropies(
    centres: Float[Array, "L M"], log_noise: Float[Array, "M"]
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Total and mean conditional entropy of M equal mixtures of L Gaussians."""
    margin = MARGIN_DEVIATIONS * jnp.exp(0.5 * jnp.max(log_noise))
    low, high = jnp.min(centres) - margin, jnp.max(centres) + margin
    grid = jnp.linspace(low, high, GRID_POINTS)
    spacing = (high - low) / (GRID_POINTS - 1)

    def add_component(density, row):
        return density + jnp.exp(gaussian_log_density(grid, row[:, None], log_noise[:, None])), None

    zeros = jnp.zeros((centres.shape[1], GRID_POINTS), centres.dtype)
    density, _ = jax.lax.scan(add_component, zeros, centres)
    density = density / centres.shape[0]
    conditional = entropy_of_density(density, spacing)
    return entropy_of_density(jnp.mean(density, axis=0), spacing), jnp.mean(conditional)


def entropies(model: BNNLV, nested: Nested, x: Float[Array, "B D"]) -> Entropies:
    """Total and aleatoric entropy at each point, for a model with one output."""
    centres = jnp.moveaxis(means(model, nested, x)[:, :, 0], -1, 0)
    pairs = jax.lax.map(lambda c: mixture_entropies(c, nested.log_noise[:, 0]), centres)
    return Entropies(*pairs)
