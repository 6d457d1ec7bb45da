"""A posterior that is a set of draws, as Markov chains and ensembles leave it."""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from twofold.core.arrays import Array, Float, Key
from twofold.inference.base import Draws


class SampledPosterior(NamedTuple):
    """R draws of weights and noise, all equally probable."""

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
