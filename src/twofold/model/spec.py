"""The model: ``y = f(x, z; W) + ε`` with ``w ~ N(0, λ)``, ``z ~ N(0, γ_z)``, ``ε ~ N(0, Σ)``.

``f`` is a ReLU network that takes the latent input ``z`` beside ``x``; ``Σ`` is diagonal.
Depeweg et al. (2018), Section 2. What the rest sees of a posterior is draws of W and Σ.
"""

from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from twofold.core.arrays import Array, Float, Key
from twofold.model import network


@dataclass(frozen=True)
class BNNLV:
    """Shapes and priors of a Bayesian neural network with latent inputs."""

    inputs: int
    outputs: int
    hidden: tuple[int, ...]
    latents: int
    weight_variance: float
    latent_variance: float

    def __post_init__(self) -> None:
        for name in ("inputs", "outputs"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} must be at least 1, got {getattr(self, name)}")
        if any(units < 1 for units in self.hidden):
            raise ValueError(f"every hidden layer needs at least 1 unit, got {self.hidden}")
        if self.latents < 0:
            raise ValueError(f"latents must be 0 (no latent input) or positive, got {self.latents}")
        for name in ("weight_variance", "latent_variance"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name} must be positive, got {getattr(self, name)}")

    @property
    def sizes(self) -> tuple[int, ...]:
        """Layer sizes, from the inputs (latent ones included) to the outputs."""
        return (self.inputs + self.latents, *self.hidden, self.outputs)

    @property
    def num_weights(self) -> int:
        """P, the number of weights and biases."""
        return network.num_weights(self.sizes)


def prior_deviation(model: BNNLV) -> float:
    """Root of the prior variance of f at a standardised input (one with ``‖x‖² = D``).

    Behind a ReLU half of the second moment is left.
    """
    second_moment = model.inputs + model.latents * model.latent_variance
    variance = model.weight_variance * (second_moment + 1.0)
    for units in model.hidden:
        variance = model.weight_variance * (units * 0.5 * variance + 1.0)
    return float(variance**0.5)


class Draws(NamedTuple):
    """M draws of everything that is fixed along a prediction: the weights and the noise."""

    weights: Float[Array, "M P"]
    log_noise: Float[Array, "M O"]


@runtime_checkable
class Posterior(Protocol):
    """All that is asked of an inference method's result."""

    def sample(self, key: Key, num: int) -> Draws:
        """``num`` draws of weights and noise."""
        ...


class SampledPosterior(NamedTuple):
    """R equally probable draws, as Markov chains and ensembles leave them."""

    weights: Float[Array, "R P"]
    log_noise: Float[Array, "R O"]

    @classmethod
    def of_chains(
        cls, weights: Float[Array, "C R P"], log_noise: Float[Array, "C R O"]
    ) -> "SampledPosterior":
        """The draws of all chains together."""
        return cls(
            weights.reshape(-1, weights.shape[-1]), log_noise.reshape(-1, log_noise.shape[-1])
        )

    def sample(self, key: Key, num: int) -> Draws:
        """``num`` of the draws in random order, none twice before all have been used once."""
        available = self.weights.shape[0]
        rounds = -(-num // available)
        keys = jax.random.split(key, rounds)
        orders = jax.vmap(lambda one: jax.random.permutation(one, available))(keys)
        chosen = orders.reshape(-1)[:num]
        return Draws(jnp.asarray(self.weights)[chosen], jnp.asarray(self.log_noise)[chosen])
