"""What the rest sees of a posterior: draws of the weights and of the noise."""

from typing import NamedTuple, Protocol, runtime_checkable

import jax
import jax.numpy as jnp

from twofold.core.arrays import Array, Float, Key


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
