"""The model's log-densities: pure functions of (model, weights, log σ², data), for any sampler.

    log p(W, Σ, z | X, y) = Σ_n log p(y_n | x_n, z_n, W, Σ) + log p(W) + log p(Σ) + log p(z)

up to a constant. ``log_prior`` and ``log_joint`` take one position of a sampler; ``log_likelihood``
and ``log_marginal`` give each datum's term for K draws at once. ``error`` is the known error
variance of each measurement, added to the noise.

``log_marginal`` has the latent input integrated out: ``p(y | x, W) = E_z N(y; f(x, z; W), Σ)``. One
latent input is a one-dimensional integral. Its nodes are the medians of equally probable slices of
a normal WIDENING times as wide as p(z), with importance weights: medians of p(z) itself miss the
tails, and their error is many times as large for the same number. Two latent inputs use the points
of a golden-ratio lattice in the same way; more than two are not supported. The rule is accurate as
long as the noise is no narrower than the change of f from one node to the next: ``nodes_for``
recommends a number of nodes, ``integration_error`` measures the error of a fit.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from scipy.special import logsumexp, ndtri

from twofold.core.arrays import Array, Bool, Float, Scalar
from twofold.core.numerics import gaussian_log_density
from twofold.model import network
from twofold.model.spec import BNNLV, WIDE, layers

LOG_NOISE_PRIOR = (-3.0, 2.0)
LOG_ODDS_PRIOR = (-4.6, 1.0)  # a share of wide noise near 1 %
LOG_VARIANCE_RANGE = (-16.0, 8.0)
WIDENING = 1.5
GOLDEN_RATIO = 0.5 * (1.0 + 5.0**0.5)
MOST_LATENTS = 2
NODES_TIMES_NOISE = {1: 6.0, 2: 3.0}
EXPECTED_NOISE = 0.25
REFINEMENT = 4


class Conditional(NamedTuple):
    """y given x, z and W: a Gaussian for each output or, if log-odds of π are given, two with the
    same mean, the second WIDE times as wide."""

    mean: Float[Array, "K O ..."]
    log_variance: Float[Array, "K O ..."]
    log_odds: Float[Array, "K"] | None

    @property
    def variance(self) -> Float[Array, "K O ..."]:
        variance = jnp.exp(self.log_variance)
        if self.log_odds is None:
            return variance
        share = jax.nn.sigmoid(_append_axes(self.log_odds[:, None], variance))
        return variance * (1.0 + (WIDE**2 - 1.0) * share)

    def add_variance(self, variance: Float[Array, "O ..."] | None) -> "Conditional":
        """The distribution of a measurement of y with an error of this variance."""
        if variance is None:
            return self
        return self._replace(log_variance=jnp.logaddexp(self.log_variance, jnp.log(variance)))

    def log_density(self, y: Float[Array, "O ..."]) -> Float[Array, "K ..."]:
        """``log p(y | x, z, W)``, joint over outputs."""
        log_density = jnp.sum(gaussian_log_density(y, self.mean, self.log_variance), axis=1)
        if self.log_odds is None:
            return log_density
        outputs, log_odds = self.mean.shape[1], _append_axes(self.log_odds, log_density)
        squares = jnp.square(y - self.mean) * jnp.exp(-self.log_variance)
        narrowing = 0.5 * (1.0 - WIDE**-2) * jnp.sum(squares, axis=1) - outputs * np.log(WIDE)
        one = jax.nn.log_sigmoid(-log_odds)
        return log_density + one + jnp.logaddexp(0.0, log_odds + narrowing)


def _append_axes(values: Float[Array, "..."], other: Float[Array, "..."]) -> Float[Array, "..."]:
    """Append axes until there are as many as in the other array."""
    return values.reshape(values.shape + (1,) * (other.ndim - values.ndim))


def conditional(
    model: BNNLV, outputs: Float[Array, "K heads ..."], log_noise: Float[Array, "K noise"]
) -> Conditional:
    """The distribution of y from the network's outputs."""
    base = _append_axes(log_noise[:, : model.outputs], outputs)
    if not model.varying_noise:
        return Conditional(outputs, _add_floor(model, base), None)
    mean, change = outputs[:, : model.outputs], outputs[:, model.outputs :]
    log_variance = jnp.clip(base + 2.0 * change, *LOG_VARIANCE_RANGE)
    return Conditional(mean, _add_floor(model, log_variance), log_noise[:, model.outputs])


def _add_floor(model: BNNLV, log_variance: Float[Array, "K O ..."]) -> Float[Array, "K O ..."]:
    """The log-variance after adding the variance of the noise floor."""
    if not model.noise_floor:
        return log_variance
    floor = 2.0 * jnp.log(jnp.asarray(model.noise_floor, log_variance.dtype))
    return jnp.logaddexp(log_variance, _append_axes(floor, log_variance[0]))


def mean(
    model: BNNLV, weights: Float[Array, "K P"], x: Float[Array, "B D"], z: Float[Array, "K Z B"]
) -> Float[Array, "K O B"]:
    """``f(x, z; W)``: the mean of y given everything but the noise ε."""
    return network.apply(layers(model, weights), x, z, model.activate)[:, : model.outputs]


def log_prior(
    model: BNNLV,
    weights: Float[Array, "P"],
    log_noise: Float[Array, "noise"],
    z: Float[Array, "N Z"] | None = None,
    *,
    log_noise_prior: tuple[float, float] = LOG_NOISE_PRIOR,
) -> Scalar:
    """``log p(W) + log p(Σ)``, plus ``log p(z)`` if z is sampled.

    ``log_noise`` is the log of Σ's diagonal; ``log_noise_prior`` holds mean and deviation of its
    normal prior, in standardised units; a deviation of 0 fixes the noise.
    """
    total = _log_normal(weights, 0.0, model.weight_variance)
    centre, deviation = log_noise_prior
    if deviation:
        total += _log_normal(log_noise[: model.outputs], centre, deviation**2)
    if model.varying_noise:
        centre, deviation = LOG_ODDS_PRIOR
        total += _log_normal(log_noise[model.outputs :], centre, deviation**2)
    return total if z is None else total + _log_normal(z, 0.0, model.latent_variance)


def _log_normal(values: Float[Array, "*n"], centre: float, variance: float) -> Scalar:
    log_variance = jnp.log(jnp.asarray(variance, values.dtype))
    return jnp.sum(gaussian_log_density(values - centre, jnp.zeros(()), log_variance))


def log_likelihood(
    model: BNNLV,
    weights: Float[Array, "K P"],
    log_noise: Float[Array, "K noise"],
    x: Float[Array, "B D"],
    y: Float[Array, "B O"],
    z: Float[Array, "K Z B"],
    error: Float[Array, "B O"] | None = None,
) -> Float[Array, "K B"]:
    """``log p(y | x, z, W)`` of each datum, summed over outputs."""
    outputs = network.apply(layers(model, weights), x, z, model.activate)
    given = conditional(model, outputs, log_noise)
    return given.add_variance(None if error is None else error.T).log_density(y.T)


def log_joint(
    model: BNNLV,
    weights: Float[Array, "P"],
    log_noise: Float[Array, "noise"],
    x: Float[Array, "N D"],
    y: Float[Array, "N O"],
    z: Float[Array, "N Z"] | None = None,
    *,
    nodes: int | None = None,
    log_noise_prior: tuple[float, float] = LOG_NOISE_PRIOR,
    mask: Bool[Array, "N"] | Float[Array, "N"] | None = None,
    power: Scalar | float = 1.0,
    error: Float[Array, "N O"] | None = None,
) -> Scalar:
    """The joint log-density of weights, noise and data: the target of a posterior sampler.

    Without ``z`` the latent input is integrated out over ``nodes`` (``default_nodes``); otherwise
    it is sampled with the weights. ``mask`` holds the weight of each row in the likelihood (False:
    ignored); ``power`` tempers the likelihood.
    """
    if z is None:
        rule = latent_nodes(model, default_nodes(model) if nodes is None else nodes)
        terms = log_marginal(model, weights[None], log_noise[None], x, y, rule, error)[0]
    else:
        terms = log_likelihood(model, weights[None], log_noise[None], x, y, z.T[None], error)[0]
    if mask is not None and mask.dtype != bool:
        terms, mask = mask * terms, mask > 0
    likelihood = jnp.sum(terms if mask is None else jnp.where(mask, terms, 0.0))
    prior = log_prior(model, weights, log_noise, z, log_noise_prior=log_noise_prior)
    return power * likelihood + prior


class Nodes(NamedTuple):
    """Values of z and the logarithms of their weights, which sum to 1."""

    points: Float[Array, "Q Z"]
    log_weights: Float[Array, "Q"]


def latent_nodes(model: BNNLV, num: int) -> Nodes:
    """``num`` weighted values that represent p(z) (all levels, if any); one empty row without z."""
    if model.latents == 0:
        return Nodes(jnp.zeros((1, 0)), jnp.zeros(1))
    if model.latents > MOST_LATENTS:
        raise ValueError(
            f"z can be integrated out for at most {MOST_LATENTS} latent inputs, got "
            f"{model.latents}; use inference='alpha', NUTS(nodes=0) or HMC(nodes=0), which have no "
            "such limit, or a smaller latent_dim"
        )
    if model.latent_levels:
        levels = model.latent_levels
        points = model.latent_variance**0.5 * ndtri((np.arange(levels) + 0.5) / levels)
        return Nodes(jnp.asarray(points[:, None]), jnp.full(levels, -np.log(levels)))
    index = np.arange(num)
    even, golden = (index + 0.5) / num, np.mod(0.5 + index / GOLDEN_RATIO, 1.0)
    standard = ndtri(np.stack([even, golden][: model.latents], axis=1))
    log_weights = -0.5 * (WIDENING**2 - 1.0) * np.sum(np.square(standard), axis=1)
    points = model.latent_variance**0.5 * WIDENING * standard
    # Double precision up to here: in single precision, a lattice point would hit 0.
    return Nodes(jnp.asarray(points), jnp.asarray(log_weights - logsumexp(log_weights)))


def nodes_for(noise_std: float, latents: int = 1) -> int:
    """Number of nodes that keeps the mean error of ``log p(y | x, W)`` below 0.01 nats.

    ``noise_std`` is in standard deviations of y. The rule was measured on a linear f that explains
    all of the variance of y.
    """
    if latents == 0:
        return 1
    return int(np.ceil((NODES_TIMES_NOISE[latents] / noise_std) ** latents))


def default_nodes(model: BNNLV) -> int:
    """Enough nodes for noise of a quarter of the deviation of y; 0 if z is not integrated out."""
    return nodes_for(EXPECTED_NOISE, model.latents) if model.latents <= MOST_LATENTS else 0


def log_marginal(
    model: BNNLV,
    weights: Float[Array, "K P"],
    log_noise: Float[Array, "K noise"],
    x: Float[Array, "B D"],
    y: Float[Array, "B O"],
    nodes: Nodes,
    error: Float[Array, "B O"] | None = None,
) -> Float[Array, "K B"]:
    """``log p(y | x, W)``: the log of the weighted mean of the likelihood over the nodes."""
    (draws, _), rows, count = weights.shape, x.shape[0], nodes.points.shape[0]
    points = nodes.points.astype(x.dtype)
    z = jnp.broadcast_to(points.T[None, :, :, None], (draws, model.latents, count, rows))
    inputs = jnp.tile(x, (count, 1))
    z = z.reshape(draws, model.latents, count * rows)
    outputs = network.apply(layers(model, weights), inputs, z, model.activate)
    outputs = outputs.reshape(draws, -1, count, rows)
    given = conditional(model, outputs, log_noise)
    given = given.add_variance(None if error is None else error.T[:, None])
    terms = given.log_density(y.T[:, None])
    return jax.nn.logsumexp(terms + nodes.log_weights.astype(x.dtype)[:, None], axis=1)


def integration_error(
    model: BNNLV,
    weights: Float[Array, "K P"],
    log_noise: Float[Array, "K noise"],
    x: Float[Array, "B D"],
    y: Float[Array, "B O"],
    num: int,
) -> Scalar:
    """Mean absolute error of ``log p(y | x, W)``, by comparison with REFINEMENT times the nodes."""
    few, many = (latent_nodes(model, count) for count in (num, REFINEMENT * num))
    coarse, fine = (log_marginal(model, weights, log_noise, x, y, nodes) for nodes in (few, many))
    return jnp.mean(jnp.abs(coarse - fine))
