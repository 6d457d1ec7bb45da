"""Entropies of a one-dimensional y by integrating its density: almost exact, no neighbours needed.

Given W, y is a mixture of Gaussians, one for each latent draw, so its density is known in closed
form; the mean over W is the predictive density. Both are smooth on the scale of the noise, so the
trapezoidal rule on a grid finer than that errs far less than the Monte Carlo error of the draws.
"""

import math
import warnings
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import xlogy

from twofold.model.bnn import BNNLV
from twofold.numerics import gaussian_log_density
from twofold.typing import Array, Float
from twofold.uncertainty.predictive import Nested, means

FEWEST_POINTS, MOST_POINTS = 512, 65_536
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


def grid_points(sharpness: float) -> int:
    """Points for a spacing of at most half a noise deviation, as one of a few powers of two."""
    needed = 2.0 * (sharpness + 2.0 * MARGIN_DEVIATIONS)
    points = max(FEWEST_POINTS, 2 ** math.ceil(math.log2(needed)))
    if points > MOST_POINTS:
        warnings.warn(
            f"the noise is {sharpness:,.0f} times narrower than the predictions' range, too narrow "
            f"for a grid of {MOST_POINTS:,} points; entropies are not reliable here",
            RuntimeWarning,
            stacklevel=2,
        )
    return min(points, MOST_POINTS)


def sharpness(model: BNNLV, nested: Nested, x: Float[Array, "B D"]) -> Float[Array, ""]:
    """The widest range of component centres at any point, in deviations of the narrowest noise."""
    centres = means(model, nested, x)[:, :, 0]
    widest = jnp.max(jnp.max(centres, axis=(0, 1)) - jnp.min(centres, axis=(0, 1)))
    return widest * jnp.exp(-0.5 * jnp.min(nested.log_noise))


def mixture_entropies(
    centres: Float[Array, "L M"], log_noise: Float[Array, "M"], points: int = FEWEST_POINTS
) -> tuple[Float[Array, ""], Float[Array, ""]]:
    """Total and mean conditional entropy of M equal mixtures of L Gaussians."""
    margin = MARGIN_DEVIATIONS * jnp.exp(0.5 * jnp.max(log_noise))
    low, high = jnp.min(centres) - margin, jnp.max(centres) + margin
    grid = jnp.linspace(low, high, points)
    spacing = (high - low) / (points - 1)

    def add_component(density, row):
        return density + jnp.exp(gaussian_log_density(grid, row[:, None], log_noise[:, None])), None

    zeros = jnp.zeros((centres.shape[1], points), centres.dtype)
    density, _ = jax.lax.scan(add_component, zeros, centres)
    density = density / centres.shape[0]
    conditional = entropy_of_density(density, spacing)
    return entropy_of_density(jnp.mean(density, axis=0), spacing), jnp.mean(conditional)


def entropies(
    model: BNNLV, nested: Nested, x: Float[Array, "B D"], points: int = FEWEST_POINTS
) -> Entropies:
    """Total and aleatoric entropy at each point, for a model with one output."""
    centres = jnp.moveaxis(means(model, nested, x)[:, :, 0], -1, 0)
    pairs = jax.lax.map(lambda c: mixture_entropies(c, nested.log_noise[:, 0], points), centres)
    return Entropies(*pairs)
