"""The mean-field Gaussian approximation ``q(W) q(z)`` (Depeweg et al. 2018, Eq. 1).

Each weight and each datum's latent input has its own mean and variance. A variance never exceeds
its prior's (``v = prior · sigmoid(ρ)``), because the α-energy needs ``q`` inside the prior.
"""

from functools import partial
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from twofold.core.arrays import Array, Float, Key
from twofold.core.numerics import stratified_normal
from twofold.model.posterior import Draws

LATENT_VARIANCE_FLOOR = 1e-6


class Gaussian(NamedTuple):
    """Independent Gaussians: means and the unconstrained parameter ρ of their variances."""

    mean: Float[Array, "*shape"]
    rho: Float[Array, "*shape"]


class MeanFieldPosterior(NamedTuple):
    """``q(W)`` after fitting, with the point estimate of the noise; what predictions need."""

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


def _reparametrise_forward(mean: Any, deviation: Any, noise: Any) -> tuple[Any, Any]:
    return reparametrise(mean, deviation, noise), noise


def _reparametrise_backward(noise: Any, gradient: Any) -> tuple[Any, Any, None]:
    ones = jnp.ones(noise.shape[0], noise.dtype)
    over_draws = partial(jnp.einsum, "k,k...->...", ones)
    return over_draws(gradient), over_draws(gradient * noise), None


reparametrise.defvjp(_reparametrise_forward, _reparametrise_backward)


def log_prior_ratio(
    value: Float[Array, "*shape"],
    noise: Float[Array, "*shape"],
    variance: Float[Array, "..."],
    prior_variance: float,
) -> Float[Array, "*shape"]:
    """``log p(w) − log q(w)`` at ``w = mean + sqrt(variance) · noise``, elementwise."""
    log_shrinkage = jnp.log(variance / prior_variance)
    return 0.5 * (log_shrinkage + jnp.square(noise) - jnp.square(value) / prior_variance)
