"""The two entropies of the split, ``H[y|x]`` and ``E_q(W) H[y|x,W]``, at each point.

Given W, y is a mixture of Gaussians: one for each latent draw, centred at ``f(x, z; W)``. An
estimator takes those centres at one point and answers for each weight draw W_m

    cross        −E[log p(y|x)] over y given W_m: its share of the total entropy,
    conditional  H[y|x, W_m].

The mean of the first over m is the total entropy, that of the second the aleatoric one, and their
spread over m gives the Monte Carlo errors of both and of the difference.
"""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

import jax
import jax.numpy as jnp

from twofold.core.arrays import Array, Float, Key
from twofold.model.spec import BNNLV
from twofold.uncertainty.predictive import Nested, means

LONE_DRAWS = 100


class Entropies(NamedTuple):
    """Cross and conditional entropy for each weight draw, in nats."""

    cross: Float[Array, "M *points"]
    conditional: Float[Array, "M *points"]


PointEstimator: TypeAlias = Callable[
    [Key, Float[Array, "L M O"], Float[Array, "M O"]],
    Entropies,
]


def from_samples(surprisals: Callable[[Array], Array]) -> PointEstimator:
    """An estimator that sees nothing but draws of y.

    ``surprisals`` maps samples ``[n, O]`` to estimates ``[n]`` of their ``−log p``. The pooled
    draws give the cross entropies, the draws of each W by themselves the conditional ones.
    """

    def estimate(
        key: Key, centres: Float[Array, "L M O"], log_noise: Float[Array, "M O"]
    ) -> Entropies:
        if centres.shape[0] == 1:
            # Without latent input a single centre stands for all draws of y given W.
            centres = jnp.broadcast_to(centres, (LONE_DRAWS, *centres.shape[1:]))
        noise = jax.random.normal(key, centres.shape, centres.dtype)
        y = jnp.swapaxes(centres + jnp.exp(0.5 * log_noise) * noise, 0, 1)
        draws, latents, outputs = y.shape
        pooled = surprisals(y.reshape(draws * latents, outputs)).reshape(draws, latents)
        return Entropies(jnp.mean(pooled, axis=1), jnp.mean(jax.vmap(surprisals)(y), axis=1))

    return estimate


def entropies(
    estimator: PointEstimator,
    joint: bool,
    key: Key,
    model: BNNLV,
    nested: Nested,
    x: Float[Array, "B D"],
) -> Entropies:
    """Entropies ``[M, O, B]`` of each output, or ``[M, 1, B]`` of all outputs jointly.

    Every point uses the same ``key``, so that its result does not depend on the other points.
    """
    centres = jnp.moveaxis(means(model, nested, x), -1, 0)
    groups = 1 if joint else model.outputs
    outputs = model.outputs // groups
    log_noise = nested.log_noise.reshape(-1, groups, outputs)

    def at_point(centres: Float[Array, "L M O"]) -> Entropies:
        parts = centres.reshape(*centres.shape[:2], groups, outputs)
        found = [estimator(key, parts[:, :, g], log_noise[:, g]) for g in range(groups)]
        return jax.tree.map(lambda *leaves: jnp.stack(leaves, axis=1), *found)

    return jax.tree.map(lambda leaf: jnp.moveaxis(leaf, 0, -1), jax.lax.map(at_point, centres))
