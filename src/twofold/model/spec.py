"""The model: ``y = f(x, z; W) + ε`` with ``w ~ N(0, λ)``, ``z ~ N(0, γ_z)``, ``ε ~ N(0, Σ)``.

``f`` is a network (of ReLUs, in the paper) that takes the latent input ``z`` beside ``x``; ``Σ`` is
diagonal. Depeweg et al. (2018), Section 2. All other packages see a posterior as draws of W and Σ.

Four options go beyond the paper. With ``varying_noise`` the network has a second output g for each
y, and ``log Σ(x, z) = log Σ + 2 g(x, z; W)``; with a small probability π of each draw, all outputs
of a row have WIDE times the deviation. With ``scaled_prior`` W are standard normal and the
network's own weights are W times a scale: √2 over the root of the fan-in, times a learnt scale for
each layer and each input (their logarithms are further entries of W). With ``linear_skip`` a linear
function of x, with the inputs' scales, is added to f: it extrapolates where the network saturates.
With ``latent_levels`` one latent input takes that many equally probable values, the medians of
slices of N(0, γ_z), both when it is integrated out and in predictions.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp
from jax.scipy.special import ndtr, ndtri

from twofold.core.arrays import Array, Float, Key
from twofold.model import network

WIDE = 10.0
GAIN = 2.0**0.5
LOG_SCALE_DEVIATION = 0.5
NOISE_HEAD_SCALE = 0.3


@dataclass(frozen=True)
class BNNLV:
    """Shapes and priors of a Bayesian neural network with latent inputs."""

    inputs: int
    outputs: int
    hidden: tuple[int, ...]
    latents: int
    weight_variance: float
    latent_variance: float
    varying_noise: bool = False
    scaled_prior: bool = False
    noise_floor: tuple[float, ...] = ()
    activation: str = "relu"
    latent_levels: int = 0
    linear_skip: bool = False

    def __post_init__(self) -> None:
        for name, least in (("inputs", 1), ("outputs", 1), ("latents", 0), ("latent_levels", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, got {getattr(self, name)}")
        if any(units < 1 for units in self.hidden):
            raise ValueError(f"every entry of hidden must be at least 1, got {self.hidden}")
        if self.linear_skip and not self.scaled_prior:
            raise ValueError("linear_skip needs scaled_prior=True, whose input scales it shares")
        if self.latent_levels and self.latents != 1:
            raise ValueError(
                f"latent_levels={self.latent_levels} needs latents=1, got latents={self.latents}"
            )
        for name in ("weight_variance", "latent_variance"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")
        if self.noise_floor and len(self.noise_floor) != self.outputs:
            raise ValueError(
                f"noise_floor needs {self.outputs} entries, one per output, got {self.noise_floor}"
            )

    @property
    def sizes(self) -> tuple[int, ...]:
        """Layer sizes, from the inputs (latent ones included) to the outputs (means, then
        log-variances of varying noise)."""
        heads = 2 if self.varying_noise else 1
        return (self.inputs + self.latents, *self.hidden, heads * self.outputs)

    @property
    def num_weights(self) -> int:
        """P, the number of weights, biases and learnt scales."""
        return network.num_weights(self.sizes) + self.num_scales + self.num_skip

    @property
    def num_scales(self) -> int:
        """Number of learnt scales: one per layer and input."""
        return len(self.sizes) - 1 + self.inputs if self.scaled_prior else 0

    @property
    def num_skip(self) -> int:
        """Number of weights of the skip connection."""
        return self.outputs * self.inputs if self.linear_skip else 0

    @property
    def activate(self) -> network.Activation:
        return network.ACTIVATIONS[self.activation]

    @property
    def num_noise(self) -> int:
        """Length of ``log_noise``: log Σ of each output, and the log-odds of π."""
        return self.outputs + self.varying_noise


def layers(model: BNNLV, weights: Float[Array, "K P"]) -> network.Layers:
    """The network's layers for K draws of W."""
    raw_layers = network.unflatten(model.sizes, weights)
    if not model.scaled_prior:
        return raw_layers
    count = len(raw_layers)
    first_scale = network.num_weights(model.sizes)
    last_scale = first_scale + model.num_scales
    scales = jnp.exp(LOG_SCALE_DEVIATION * weights[:, first_scale:last_scale])
    layer_scales, input_scales = scales[:, :count], scales[:, count:]
    latent_scale = (model.inputs / model.latent_variance) ** 0.5
    latent_scales = jnp.full((len(weights), model.latents), latent_scale).astype(weights.dtype)
    columns = jnp.concatenate([input_scales, latent_scales], axis=1) / model.inputs**0.5
    scaled: list[network.Layer | network.Skip] = []
    for index, (kernel, bias) in enumerate(raw_layers):
        fan_in = 1.0 if index == 0 else kernel.shape[-1] ** -0.5
        kernel = kernel * (GAIN * fan_in * layer_scales[:, index, None, None])
        if index == 0:
            kernel, bias = kernel * columns[:, None, :], GAIN * bias
        if index == count - 1 and model.varying_noise:
            rows = jnp.repeat(jnp.array([1.0, NOISE_HEAD_SCALE], weights.dtype), model.outputs)
            kernel, bias = kernel * rows[:, None], bias * rows
        scaled.append(network.Layer(kernel, bias))
    if model.linear_skip:
        skip = weights[:, last_scale:].reshape(-1, model.outputs, model.inputs)
        skip = skip * (input_scales / model.inputs**0.5)[:, None]
        unused = ((0, 0), (0, model.sizes[-1] - model.outputs), (0, 0))
        scaled.append(network.Skip(jnp.pad(skip, unused)))
    return tuple(scaled)


def latent_values(model: BNNLV, standard: Float[Array, "*shape"]) -> Float[Array, "*shape"]:
    """Draws of z from standard normal draws; with levels, the level of the slice each falls in."""
    if model.latent_levels:
        slices = jnp.floor(ndtr(standard) * model.latent_levels)
        slices = jnp.clip(slices, 0, model.latent_levels - 1)
        standard = ndtri((slices + 0.5) / model.latent_levels).astype(standard.dtype)
    return jnp.sqrt(model.latent_variance).astype(standard.dtype) * standard


class Draws(NamedTuple):
    """M posterior draws of weights and noise."""

    weights: Float[Array, "M P"]
    log_noise: Float[Array, "M noise"]


@runtime_checkable
class Posterior(Protocol):
    """Interface of a posterior."""

    def sample(self, key: Key, num: int) -> Draws:
        """``num`` draws of weights and noise."""


class SampledPosterior(NamedTuple):
    """R equally probable draws, from Markov chains or an ensemble."""

    weights: Float[Array, "R P"]
    log_noise: Float[Array, "R O"]

    @classmethod
    def of_chains(cls, weights: Any, log_noise: Any) -> "SampledPosterior":
        """Merge the draws ``[C, R, …]`` of all chains."""
        return cls(*(leaf.reshape(-1, leaf.shape[-1]) for leaf in (weights, log_noise)))

    # Compiled as one program: compiling each step separately would take as long.
    @partial(jax.jit, static_argnames="num")
    def sample(self, key: Key, num: int) -> Draws:
        """``num`` draws in random order; none is repeated before all have been used."""
        available = self.weights.shape[0]
        rounds = -(-num // available)
        keys = jax.random.split(key, rounds)
        orders = jax.vmap(lambda one: jax.random.permutation(one, available))(keys)
        chosen = orders.reshape(-1)[:num]
        return Draws(jnp.asarray(self.weights)[chosen], jnp.asarray(self.log_noise)[chosen])
