"""The predictive distribution ``p(y | x) = ∫∫ p(y | x, z, W) p(z) q(W) dz dW`` (paper, Eq. 2).

The only place where draws are nested: M weight draws, and for each of them L latent draws from the
*prior* (never from q(z): for a new point nothing is known about its z). The same draws serve all
points, so a prediction does not depend on which other points are asked for.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtri

from twofold.inference.base import Posterior
from twofold.model import bnn
from twofold.model.bnn import BNNLV
from twofold.numerics import gaussian_log_density
from twofold.typing import Array, Float, Key


class Nested(NamedTuple):
    """M weight draws and, for each, L latent draws."""

    weights: Float[Array, "M P"]
    log_noise: Float[Array, "M O"]
    latents: Float[Array, "L M Z"]


class Moments(NamedTuple):
    """Mean and variance of y given each weight draw: over z and the noise."""

    mean: Float[Array, "M O B"]
    variance: Float[Array, "M O B"]


def latent_draws(key: Key, model: BNNLV, num: int, members: int) -> Float[Array, "L M Z"]:
    """Draws from p(z): stratified for one latent input, independent for several.

    Stratified means one draw in each of L slices of equal probability, so that L draws cover the
    prior evenly; each single draw still follows it exactly. Without latent input one draw is all.
    """
    deviation = jnp.sqrt(model.latent_variance)
    if model.latents == 0:
        return jnp.zeros((1, members, 0))
    if model.latents > 1:
        return deviation * jax.random.normal(key, (num, members, model.latents))
    within = jax.random.uniform(key, (num, members, 1))
    ranks = (jnp.arange(num)[:, None, None] + within) / num
    # Clipped: a rank rounded to 0 or 1 would be an infinite z.
    return deviation * ndtri(jnp.clip(ranks, 1e-7, 1.0 - 2e-7))


def nest(key: Key, model: BNNLV, posterior: Posterior, weights: int, latents: int) -> Nested:
    """``weights`` draws from the posterior, each with ``latents`` draws of z."""
    weight_key, latent_key = jax.random.split(key)
    draws = posterior.sample(weight_key, weights)
    z = latent_draws(latent_key, model, latents, weights).astype(draws.weights.dtype)
    return Nested(draws.weights, draws.log_noise, z)


def means_at(
    model: BNNLV, nested: Nested, z: Float[Array, "M Z"], x: Float[Array, "B D"]
) -> Float[Array, "M O B"]:
    """``f(x, z; W)`` with one latent draw for each weight draw, shared by all points."""
    shape = (*z.shape, x.shape[0])
    return bnn.mean(model, nested.weights, x, jnp.broadcast_to(z[..., None], shape))


def means(model: BNNLV, nested: Nested, x: Float[Array, "B D"]) -> Float[Array, "L M O B"]:
    """``f(x, z; W)`` for all nested draws; memory grows with L · M · B."""
    return jax.lax.map(lambda z: means_at(model, nested, z, x), nested.latents)


def moments(model: BNNLV, nested: Nested, x: Float[Array, "B D"]) -> Moments:
    """Mean and variance of y given each W, accumulated over latent draws (Welford)."""

    def accumulate(carry, z):
        count, mean, squares = carry
        values = means_at(model, nested, z, x)
        new_mean = mean + (values - mean) / (count + 1)
        return (count + 1, new_mean, squares + (values - mean) * (values - new_mean)), None

    zeros = jnp.zeros((nested.weights.shape[0], model.outputs, x.shape[0]), x.dtype)
    (count, mean, squares), _ = jax.lax.scan(accumulate, (0, zeros, zeros), nested.latents)
    return Moments(mean, squares / count + jnp.exp(nested.log_noise)[..., None])


def log_density(
    model: BNNLV, nested: Nested, x: Float[Array, "B D"], y: Float[Array, "B O"]
) -> Float[Array, "B"]:
    """``log p(y | x)``: the log of the mean likelihood over all nested draws."""

    def accumulate(total, z):
        outputs = means_at(model, nested, z, x)
        terms = gaussian_log_density(y.T, outputs, nested.log_noise[..., None]).sum(axis=1)
        return jnp.logaddexp(total, jax.nn.logsumexp(terms, axis=0)), None

    start = jnp.full(x.shape[0], -jnp.inf, x.dtype)
    total, _ = jax.lax.scan(accumulate, start, nested.latents)
    count = nested.latents.shape[0] * nested.latents.shape[1]
    return total - jnp.log(jnp.asarray(count, x.dtype))


def sample(
    key: Key, model: BNNLV, posterior: Posterior, num: int, x: Float[Array, "B D"]
) -> Float[Array, "num B O"]:
    """Independent draws of y at each point, each with its own W, z and noise."""
    weight_key, latent_key, noise_key = jax.random.split(key, 3)
    draws = posterior.sample(weight_key, num)
    dtype = draws.weights.dtype
    deviation = jnp.sqrt(model.latent_variance).astype(dtype)
    z = deviation * jax.random.normal(latent_key, (num, model.latents, x.shape[0]), dtype)
    outputs = bnn.mean(model, draws.weights, x, z)
    noise = jax.random.normal(noise_key, outputs.shape, dtype)
    return jnp.swapaxes(outputs + jnp.exp(0.5 * draws.log_noise)[..., None] * noise, 1, 2)
