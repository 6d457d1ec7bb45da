"""The plain way of what has been made faster: the same numbers, written down as one would first."""

import jax
import jax.numpy as jnp

from twofold.envs.wind.turbulence import Wind, hub_wind, rotor_wind
from twofold.model import bnn
from twofold.model.bnn import BNNLV
from twofold.typing import Array, Float, Int
from twofold.uncertainty.predictive import Moments, Nested


def means_at(
    model: BNNLV, nested: Nested, z: Float[Array, "M Z"], x: Float[Array, "B D"]
) -> Float[Array, "M O B"]:
    """One latent draw for each weight draw, in a small product for each of them."""
    shape = (*z.shape, x.shape[0])
    return bnn.mean(model, nested.weights, x, jnp.broadcast_to(z[..., None], shape))


def means(model: BNNLV, nested: Nested, x: Float[Array, "B D"]) -> Float[Array, "L M O B"]:
    """One latent draw after another."""
    return jax.lax.map(lambda z: means_at(model, nested, z, x), nested.latents)


def moments(model: BNNLV, nested: Nested, x: Float[Array, "B D"]) -> Moments:
    """Accumulated one latent draw after another (Welford)."""

    def accumulate(carry, z):
        count, mean, squares = carry
        values = means_at(model, nested, z, x)
        new_mean = mean + (values - mean) / (count + 1)
        return (count + 1, new_mean, squares + (values - mean) * (values - new_mean)), None

    zeros = jnp.zeros((nested.weights.shape[0], model.outputs, x.shape[0]), x.dtype)
    (count, mean, squares), _ = jax.lax.scan(accumulate, (0, zeros, zeros), nested.latents)
    return Moments(mean, squares / count + jnp.exp(nested.log_noise)[..., None])


def ranked(values: Float[Array, "n"]) -> tuple[Float[Array, "n"], Int[Array, "n"]]:
    """Values and places sorted together."""
    places = jnp.arange(values.shape[0])
    ascending, order = jax.lax.sort((values, places), num_keys=1, is_stable=False)
    return ascending, jnp.zeros_like(order).at[order].set(places, unique_indices=True)


def winds(
    wind: Wind, start: Float[Array, ""], spacing: float, num: int
) -> tuple[Float[Array, "num"], Float[Array, ""]]:
    """All sinusoids at all times."""
    times = start + spacing * jnp.arange(num)
    return rotor_wind(wind, times), hub_wind(wind, times).mean()
