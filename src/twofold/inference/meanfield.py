"""The mean-field Gaussian approximation ``q(W) q(z)`` (Depeweg et al. 2018, Eq. 1), and its draws.

Each weight and each datum's latent input has its own mean and variance. A variance never exceeds
its prior's (``v = prior · sigmoid(ρ)``), because the α-energy needs ``q`` inside the prior.

Alternatively one small network, the *encoder*, computes every q(z) (amortised inference; Kingma and
Welling 2014): it maps a standardised (x, y) to the mean of q(z), in deviations of the prior, and to
ρ of its variance. Its weights are learned with the others, by the same energy, so the state of a
fit does not grow with the data. It serves training only: predictions draw z from its prior.
"""

import math
from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from twofold.core import numerics
from twofold.core.arrays import Array, Bool, Float, Int, Key, UInt32
from twofold.core.numerics import stratified_normal
from twofold.model import network
from twofold.model.spec import BNNLV, Draws

LATENT_VARIANCE_FLOOR = 1e-6
START_RHO = 5.0  # initial value for every q(z): near the prior


class Gaussian(NamedTuple):
    """Independent Gaussians: means and the unconstrained parameter ρ of their variances."""

    mean: Float[Array, "*shape"]
    rho: Float[Array, "*shape"]


class MeanFieldPosterior(NamedTuple):
    """``q(W)`` after fitting, with the point estimate of the noise."""

    mean: Float[Array, "P"]
    variance: Float[Array, "P"]
    log_noise: Float[Array, "O"]

    def sample(self, key: Key, num: int) -> Draws:
        """``num`` draws from the posterior, spread evenly over each weight's distribution."""
        noise = stratified_normal(key, num, self.mean.shape).astype(self.mean.dtype)
        weights = self.mean + jnp.sqrt(self.variance) * noise
        return Draws(weights, jnp.broadcast_to(self.log_noise, (num, *self.log_noise.shape)))


def weight_variance(rho: Float[Array, "*shape"], prior_variance: float) -> Float[Array, "*shape"]:
    """``v_w = λ sigmoid(ρ_w)``."""
    return prior_variance * jax.nn.sigmoid(rho)


def latent_variance(rho: Float[Array, "*shape"], prior_variance: float) -> Float[Array, "*shape"]:
    """``v_z = 1e-6 + (γ_z − 2e-6) sigmoid(ρ_z)``."""
    floor = LATENT_VARIANCE_FLOOR
    return floor + (prior_variance - 2 * floor) * jax.nn.sigmoid(rho)


@jax.custom_vjp
def reparametrise(
    mean: Float[Array, "*shape"], deviation: Float[Array, "*shape"], noise: Float[Array, "K *shape"]
) -> Float[Array, "K *shape"]:
    """K draws ``mean + deviation · noise``; the gradient's sums over draws are matrix products,
    which XLA runs several times faster on a CPU than its own reductions."""
    return mean + deviation * noise


def _reparametrise_backward(noise: Any, gradient: Any) -> tuple[Any, Any, None]:
    over_draws = partial(jnp.einsum, "k,k...->...", jnp.ones(noise.shape[0], noise.dtype))
    return over_draws(gradient), over_draws(gradient * noise), None


reparametrise.defvjp(
    lambda m, d, noise: (reparametrise(m, d, noise), noise), _reparametrise_backward
)


def log_prior_ratio(
    value: Float[Array, "*shape"],
    noise: Float[Array, "*shape"],
    variance: Float[Array, "..."],
    prior_variance: float,
) -> Float[Array, "*shape"]:
    """``log p(w) − log q(w)`` at ``w = mean + sqrt(variance) · noise``, elementwise."""
    log_shrinkage = jnp.log(variance / prior_variance)
    return 0.5 * (log_shrinkage + jnp.square(noise) - jnp.square(value) / prior_variance)


def encoder_sizes(model: BNNLV, hidden: tuple[int, ...]) -> tuple[int, ...]:
    """Layer sizes of the encoder: from x and y to the mean and ρ of each latent input."""
    return (model.inputs + model.outputs, *hidden, 2 * model.latents)


def encode(
    model: BNNLV,
    hidden: tuple[int, ...],
    weights: Float[Array, "E"],
    x: Float[Array, "B D"],
    y: Float[Array, "B O"],
) -> Gaussian:
    """``q(z | x, y)`` of each row: means and ρ, ``[B, Z]``."""
    rows = jnp.concatenate([x, y], axis=1)
    no_latents = jnp.zeros((1, 0, rows.shape[0]), rows.dtype)
    layers = network.unflatten(encoder_sizes(model, hidden), weights[None])
    mean, rho = jnp.split(network.apply(layers, rows, no_latents)[0], 2)
    deviation = jnp.sqrt(jnp.asarray(model.latent_variance, rows.dtype))
    return Gaussian(deviation * mean.T, START_RHO + rho.T)


def start_encoder(key: Key, model: BNNLV, hidden: tuple[int, ...], dtype: Any) -> Float[Array, "E"]:
    """Random layers that preserve the scale of activations, the last zero: q(z) near its prior."""
    sizes = encoder_sizes(model, hidden)
    layers = []
    for index, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        last = index == len(sizes) - 2
        deviation = 0.0 if last else (2.0 / fan_in) ** 0.5
        layer_key = jax.random.fold_in(key, index)
        kernel = deviation * jax.random.normal(layer_key, (fan_out * fan_in,), dtype)
        layers += [kernel, jnp.zeros(fan_out, dtype)]
    return jnp.concatenate(layers)


def mix(words: UInt32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """A bijection of 32-bit words in which every input bit affects every output bit. Wellons'
    ``lowbias32`` (2018): two multiplications between three shifts."""
    words = (words ^ (words >> 16)) * jnp.uint32(0x7FEB352D)
    words = (words ^ (words >> 15)) * jnp.uint32(0x846CA68B)
    return words ^ (words >> 16)


def fast_normal(key: Key, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Standard normal numbers in float32, from a cheaper generator than ``jax.random``'s. Each
    counter is mixed twice, with half of the key each time. Training spends much of its time on
    noise, and needs neither cryptographic quality nor far tails (|z| stays below 5.5)."""
    first, second = jax.random.key_data(key)
    counters = jax.lax.iota(jnp.uint32, math.prod(shape))
    words = mix(mix(counters ^ first) + second)
    uniform = (words >> 8).astype(jnp.float32) * 2.0**-23 + (2.0**-24 - 1.0)
    return (math.sqrt(2.0) * jax.lax.erf_inv(uniform)).reshape(shape)


def keep_unfused(draw: Callable[..., Any], index: Int[Array, ""], always: Bool[Array, ""]) -> Any:
    """``draw(index)``, kept out of XLA's fusions on a CPU by a condition that always holds. XLA
    would fuse the generator into each of the many uses of its numbers, and so run it again for
    every point and hidden unit. On a GPU the condition gained nothing, so it is left out there."""
    if not numerics.on_cpu():
        return draw(index)
    return jax.lax.cond(always, draw, lambda i: jnp.zeros_like(draw(i)), index)
