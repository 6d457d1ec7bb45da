"""An amortised ``q(z | x, y)``: one small network for every q(z) (Kingma and Welling 2014).

The encoder maps a standardised (x, y) to the mean of q(z), in deviations of the prior, and to ρ of
its variance (``inference.meanfield``). Its weights are learned with the others, by the same energy;
they are all there is, so that what a fit keeps does not grow with the data. It serves training
alone: predictions draw z from its prior.
"""

from itertools import pairwise
from typing import Any

import jax
import jax.numpy as jnp

from twofold.core.arrays import Array, Float, Key
from twofold.inference.meanfield import Gaussian
from twofold.model import network
from twofold.model.spec import BNNLV

START_RHO = 5.0  # That of the q(z) of a datum: near the prior.


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
    nothing = jnp.zeros((1, 0, rows.shape[0]), rows.dtype)
    outputs = network.apply(encoder_sizes(model, hidden), weights[None], rows, nothing)[0]
    mean, rho = jnp.split(outputs, 2)
    deviation = jnp.sqrt(jnp.asarray(model.latent_variance, rows.dtype))
    return Gaussian(deviation * mean.T, START_RHO + rho.T)


def start(key: Key, model: BNNLV, hidden: tuple[int, ...], dtype: Any) -> Float[Array, "E"]:
    """Random layers that keep the size of what passes, and a last one of zeros: every q(z) begins
    where that of a datum does, near the prior."""
    sizes = encoder_sizes(model, hidden)
    layers = []
    for index, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        last = index == len(sizes) - 2
        deviation = 0.0 if last else (2.0 / fan_in) ** 0.5
        own = jax.random.fold_in(key, index)
        kernel = deviation * jax.random.normal(own, (fan_out * fan_in,), dtype)
        layers += [kernel, jnp.zeros(fan_out, dtype)]
    return jnp.concatenate(layers)
