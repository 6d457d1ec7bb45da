"""The α-energy of a mean field (Hernández-Lobato et al. 2016; Depeweg et al. 2018, §2).

With normalised densities the energy of the mean field q is

    E_α(q) = −(1/α) Σ_n log E_{W, z_n ~ q} [ ( p(y_n | x_n, z_n, W)
                                              · (p(W) / q(W))^{1/N} · p(z_n) / q(z_n) )^α ],

estimated with K joint draws and minibatches. α → 0 is variational Bayes, α = 1 the paper's choice.
With z *integrated out* (``model.density``) the likelihood is that of y given W alone, the ratio
of p(z) and q(z) falls away, and there is no q(z). With an *encoder* (``inference.amortised``) a
network gives each datum its q(z), and nothing is kept for a datum.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from twofold.core import numerics
from twofold.core.arrays import Array, Bool, Float, Int, Key, UInt32
from twofold.core.numerics import power_log_mean_exp
from twofold.inference import amortised
from twofold.inference.meanfield import (
    Gaussian,
    latent_variance,
    log_prior_ratio,
    reparametrise,
    weight_variance,
)
from twofold.model.density import latent_nodes, log_likelihood, log_marginal
from twofold.model.spec import BNNLV


@dataclass(frozen=True)
class Config:
    """What is compiled into the program; everything else may change without recompiling.

    ``nodes`` latent nodes integrate z out; with 0, the paper's way, every datum has a q(z), its own
    or, with the hidden units of an ``encoder``, one that a network makes of x and y.
    """

    model: BNNLV
    batch_size: int
    draws: int
    nodes: int
    encoder: tuple[int, ...] | None

    @property
    def drawn(self) -> int:
        """Latent inputs that are drawn from a q(z): none where they are integrated out."""
        return 0 if self.nodes else self.model.latents

    @property
    def latents(self) -> int:
        """Latent inputs for which every datum keeps a q(z) of its own."""
        return self.drawn if self.encoder is None else 0


class Shared(NamedTuple):
    """Parameters every datum shares: q(W), the noise, and the encoder where there is one."""

    weights: Gaussian
    log_noise: Float[Array, "O"]
    encoder: Float[Array, "E"] | None = None


class Batch(NamedTuple):
    """A minibatch of at most B data; slots with ``mask`` 0 are empty."""

    x: Float[Array, "B D"]
    y: Float[Array, "B O"]
    mask: Float[Array, "B"]
    num_data: Float[Array, ""]


def alpha_energy(
    log_likelihood: Float[Array, "K B"],
    log_ratio_weights: Float[Array, "K"],
    log_ratio_latents: Float[Array, "K B"],
    alpha: Float[Array, ""] | float,
    num_data: Float[Array, ""] | float,
    mask: Float[Array, "B"],
) -> Float[Array, ""]:
    """The minibatch estimate of ``E_α`` from log-densities at K joint draws.

    The log-ratios are ``log p − log q`` of the weights and of each datum's latent input.
    """
    sites = log_likelihood + log_ratio_weights[:, None] / num_data + log_ratio_latents
    scale = num_data / jnp.maximum(jnp.sum(mask), 1.0)
    return -scale * jnp.sum(mask * power_log_mean_exp(sites, alpha))


def draw_noise(config: Config, key: Key, dtype: Any) -> Float[Array, "K noise"]:
    """Standard normal numbers for one update: the weights' first, then the latent inputs'."""
    model = config.model
    count = model.num_weights + config.drawn * config.batch_size
    if dtype == jnp.float32:
        return fast_normal(key, (config.draws, count))
    return jax.random.normal(key, (config.draws, count), dtype)


def batch_energy(
    config: Config,
    shared: Shared,
    latents: Gaussian,
    batch: Batch,
    alpha: Float[Array, ""] | float,
    noise: Float[Array, "K noise"],
) -> Float[Array, ""]:
    """``alpha_energy`` at the W and z that ``noise`` gives by reparametrisation."""
    model = config.model
    weight_noise, latent_noise = noise[:, : model.num_weights], noise[:, model.num_weights :]
    variance = weight_variance(shared.weights.rho, model.weight_variance)
    weights = reparametrise(shared.weights.mean, jnp.sqrt(variance), weight_noise)
    log_ratio = log_prior_ratio(weights, weight_noise, variance, model.weight_variance)

    log_noise = jnp.broadcast_to(shared.log_noise, (config.draws, model.outputs))
    if config.nodes:
        nodes = latent_nodes(model, config.nodes)
        likelihood = log_marginal(model, weights, log_noise, batch.x, batch.y, nodes)
        log_ratio_z = jnp.zeros_like(likelihood)
    else:
        if config.encoder is not None and shared.encoder is not None:
            latents = amortised.encode(model, config.encoder, shared.encoder, batch.x, batch.y)
        z, log_ratio_z = draw_latents(config, latents, latent_noise)
        likelihood = log_likelihood(model, weights, log_noise, batch.x, batch.y, z)
    ratio = jnp.sum(log_ratio, axis=1)
    return alpha_energy(likelihood, ratio, log_ratio_z, alpha, batch.num_data, batch.mask)


def draw_latents(
    config: Config, latents: Gaussian, noise: Float[Array, "K noise"]
) -> tuple[Float[Array, "K Z B"], Float[Array, "K B"]]:
    """Each datum's z from its q(z), and ``log p(z) − log q(z)``."""
    model = config.model
    noise = noise.reshape(config.draws, model.latents, config.batch_size)
    variance = latent_variance(latents.rho.T, model.latent_variance)
    z = reparametrise(latents.mean.T, jnp.sqrt(variance), noise)
    log_ratio = log_prior_ratio(z, noise, variance, model.latent_variance)
    return z, jnp.sum(log_ratio, axis=1)


def mix(words: UInt32[Array, "*shape"]) -> UInt32[Array, "*shape"]:
    """A bijection of 32-bit words in which every input bit moves every output bit.

    Wellons' ``lowbias32`` (2018): two multiplications between three shifts.
    """
    words = (words ^ (words >> 16)) * jnp.uint32(0x7FEB352D)
    words = (words ^ (words >> 15)) * jnp.uint32(0x846CA68B)
    return words ^ (words >> 16)


def fast_normal(key: Key, shape: tuple[int, ...]) -> Float[Array, "..."]:
    """Standard normal numbers in float32, from a cheaper generator than ``jax.random``'s.

    Each number's counter is mixed twice, with half of the key each time; training spends a good
    part of its time on noise, and needs no cryptography and no far tail (|z| stays below 5.5).
    """
    first, second = jax.random.key_data(key)
    counters = jax.lax.iota(jnp.uint32, math.prod(shape))
    words = mix(mix(counters ^ first) + second)
    uniform = (words >> 8).astype(jnp.float32) * 2.0**-23 + (2.0**-24 - 1.0)
    return (math.sqrt(2.0) * jax.lax.erf_inv(uniform)).reshape(shape)


def fenced(draw: Callable[..., Any], index: Int[Array, ""], always: Bool[Array, ""]) -> Any:
    """``draw(index)``, kept out of XLA's fusions on a CPU by a condition that always holds.

    XLA would fuse the generator into each of the many uses of its numbers, and so run it again for
    every point and hidden unit. On a GPU the condition gained nothing, so it is left out there.
    """
    if not numerics.on_cpu():
        return draw(index)
    return jax.lax.cond(always, draw, lambda i: jnp.zeros_like(draw(i)), index)
