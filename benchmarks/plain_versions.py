"""Plain versions of optimised functions, with the same results."""

import jax
import jax.numpy as jnp

from paper.wind.plain_wind import hub_wind, rotor_wind
from twofold.core.arrays import Array, Float, Int
from twofold.envs.wind import dynamics
from twofold.envs.wind.dynamics import Commands, Plant, Table
from twofold.envs.wind.params import Turbine
from twofold.envs.wind.turbulence import Wind
from twofold.model import density
from twofold.model.density import Conditional
from twofold.model.spec import BNNLV
from twofold.uncertainty.neighbours import pad_ends
from twofold.uncertainty.predictive import Moments, Nested


def means_at(
    model: BNNLV, nested: Nested, z: Float[Array, "M Z"], x: Float[Array, "B D"]
) -> Float[Array, "M O B"]:
    """One latent draw for each weight draw, with one small product each."""
    shape = (*z.shape, x.shape[0])
    return density.mean(model, nested.weights, x, jnp.broadcast_to(z[..., None], shape))


def means(model: BNNLV, nested: Nested, x: Float[Array, "B D"]) -> Float[Array, "L M O B"]:
    """Latent draws one by one."""
    return jax.lax.map(lambda z: means_at(model, nested, z, x), nested.latents)


def moments(model: BNNLV, nested: Nested, x: Float[Array, "B D"]) -> Moments:
    """Accumulated over the latent draws (Welford)."""

    def accumulate(carry, z):
        count, mean, squares = carry
        values = means_at(model, nested, z, x)
        new_mean = mean + (values - mean) / (count + 1)
        return (count + 1, new_mean, squares + (values - mean) * (values - new_mean)), None

    zeros = jnp.zeros((nested.weights.shape[0], model.outputs, x.shape[0]), x.dtype)
    (count, mean, squares), _ = jax.lax.scan(accumulate, (0, zeros, zeros), nested.latents)
    return Moments(mean, squares / count + jnp.exp(nested.log_noise)[..., None])


def components(model: BNNLV, nested: Nested, x: Float[Array, "B D"]) -> Conditional:
    """The same with constant noise."""
    return Conditional(means(model, nested, x), nested.log_noise[None, :, :, None], None)


def ranked(values: Float[Array, "n"]) -> tuple[Float[Array, "n"], Int[Array, "n"]]:
    """Sort values and indices together."""
    places = jnp.arange(values.shape[0])
    ascending, order = jax.lax.sort((values, places), num_keys=1, is_stable=False)
    return ascending, jnp.zeros_like(order).at[order].set(places, unique_indices=True)


def ranked_distances(values: Float[Array, "n"], k: int) -> Float[Array, "n"]:
    """Windows one by one."""
    n, around = values.shape[0], pad_ends(values, k)

    def narrow(j: Int[Array, ""], distance: Float[Array, "n"]) -> Float[Array, "n"]:
        left = jax.lax.dynamic_slice_in_dim(around, k - j, n)
        right = jax.lax.dynamic_slice_in_dim(around, 2 * k - j, n)
        return jnp.minimum(distance, jnp.maximum(values - left, right - values))

    return jax.lax.fori_loop(0, k + 1, narrow, jnp.full(n, jnp.inf, values.dtype))


def step(
    turbine: Turbine, table: Table, plant: Plant, wind: Float[Array, ""], commands: Commands
) -> Plant:
    """A Runge-Kutta step, stage by stage."""
    size, commands = turbine.time_step, dynamics.limit(turbine.actuators, commands)

    def stage(carry, coefficients):
        rates, total = carry
        share, weight = coefficients
        moved = jax.tree.map(lambda value, rate: value + share * size * rate, plant, rates)
        rates = dynamics.derivative(turbine, table, moved, wind, commands)
        return (rates, jax.tree.map(lambda sum, rate: sum + weight * rate, total, rates)), None

    still = jax.tree.map(jnp.zeros_like, plant)
    coefficients = jnp.array([0.0, 0.5, 0.5, 1.0]), jnp.array([1.0, 2.0, 2.0, 1.0]) / 6.0
    (_, mean), _ = jax.lax.scan(stage, (still, still), coefficients)
    return jax.tree.map(lambda value, rate: value + size * rate, plant, mean)


def winds(
    wind: Wind, start: Float[Array, ""], spacing: float, num: int
) -> tuple[Float[Array, "num"], Float[Array, ""]]:
    """All sinusoids at all times."""
    times = start + spacing * jnp.arange(num)
    return rotor_wind(wind, times), hub_wind(wind, times).mean()
