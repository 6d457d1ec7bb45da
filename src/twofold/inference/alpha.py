"""Black-box α-divergence minimisation: Adam on the α-energy of a mean field.

With normalised densities the energy of the mean field q is (Hernández-Lobato et al. 2016; Depeweg
et al. 2018, §2)

    E_α(q) = −(1/α) Σ_n log E_{W, z_n ~ q} [ ( p(y_n | x_n, z_n, W)
                                              · (p(W) / q(W))^{1/N} · p(z_n) / q(z_n) )^α ],

estimated with K joint draws and minibatches. α → 0 is variational Bayes, α = 1 the paper's choice.
With z *integrated out* (``model.density``) the likelihood is that of y given W alone, and there is
no q(z) and no ratio p(z)/q(z). With an *encoder* (``inference.meanfield``) a network computes each
q(z), and nothing is stored per datum. Otherwise each datum's q(z) has its own optimiser moments and
step count, which are updated when the datum is in the minibatch.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from twofold.core.arrays import Array, Bool, Float, Key, Scalar
from twofold.core.numerics import Padded, padded_size, power_log_mean_exp, select
from twofold.inference import loop, meanfield
from twofold.inference.loop import Algorithm, Batch, Index, Info, Result, Schedule, Setup, Weights
from twofold.inference.meanfield import Gaussian, MeanFieldPosterior
from twofold.inference.method import (
    MIN_EPOCHS,
    Method,
    check_flag,
    check_layers,
    check_positive,
    integer,
    number,
    option,
    optional,
)
from twofold.model.density import latent_nodes, log_likelihood, log_marginal
from twofold.model.spec import BNNLV

ADAM = optax.scale_by_adam()
# The authors multiply the rate by N/B, which for large N would be many prior deviations per step.
MAX_LATENT_RATE = 0.5
ENCODER_STREAM = 2**31 - 1  # larger than any epoch
COUNT_BYTES = 4


@dataclass(frozen=True)
class Config:
    """Settings compiled into the program; everything else may change without recompiling. z is
    integrated out over ``nodes``. With ``nodes=0`` every datum has a q(z), as in the paper, or,
    with the hidden units of an ``encoder``, a q(z) computed from x and y by a network."""

    model: BNNLV
    batch_size: int
    draws: int
    nodes: int
    encoder: tuple[int, ...] | None

    @property
    def sampled_latents(self) -> int:
        """Number of latent inputs sampled from a q(z): 0 if they are integrated out."""
        return 0 if self.nodes else self.model.latents

    @property
    def latents(self) -> int:
        """Number of latent inputs for which every datum stores its own q(z)."""
        return self.sampled_latents if self.encoder is None else 0


@dataclass(frozen=True, kw_only=True)
class Alpha(Method):
    """A mean field, fitted by black-box α-divergence minimisation: the paper's method.

    Parameters
    ----------
    alpha : float in (0, 1]
        The divergence: 1 is the paper's choice, 1e-6 is variational Bayes.
    draws : int
        Number K of joint draws of weights and latents per update.
    nodes : int
        Number of nodes over which the latent input is integrated out; 0 gives every datum a q(z),
        as in the paper.
    encoder : list of int or None
        Hidden units of a network that gives every datum its q(z), such as ``[20]``.
    epochs : int or None
        Passes over the data; None gives at least 100 passes and 60,000 updates.
    batch_size : int
        Rows of a minibatch.
    learning_rate : float
        Adam's rate.
    learning_rate_decay : bool
        Whether the rate falls to zero along half a cosine.
    """

    name: ClassVar[str] = "alpha"
    differing: ClassVar[tuple[str, ...]] = ("alpha",)
    min_updates: ClassVar[int] = 60_000

    alpha: float = option(1.0, number("(0, 1]", "; for variational Bayes use alpha=1e-6"))
    draws: int = option(50, integer(1))
    nodes: int = option(0, integer(0))
    encoder: tuple[int, ...] | None = option(None, optional(check_layers))
    epochs: int | None = option(None, optional(integer(1)))
    batch_size: int = option(75, integer(1))
    learning_rate: float = option(5e-3, check_positive)
    learning_rate_decay: bool = option(True, check_flag)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.encoder is not None and self.nodes:
            given = f"nodes={self.nodes} and encoder={list(self.encoder)}"
            raise ValueError(f"nodes and encoder exclude each other, got {given}; set one of them")

    def config(self, model: BNNLV, batch_size: int) -> Config:
        if self.encoder is not None and not model.latents:
            raise ValueError("encoder needs a latent input, got latent_dim=0; set latent_dim=1")
        if self.nodes:
            latent_nodes(model, self.nodes)
        return Config(model, batch_size, self.draws, self.nodes, self.encoder)

    def set_up(self, model: BNNLV, sizes: np.ndarray, dtype: str) -> Setup:
        """Set up the run; without ``epochs``, the smallest data set determines its length."""
        # No larger than the largest data set: empty slots would waste time.
        slots = min(self.batch_size, padded_size(int(sizes.max())))
        batches = -(-sizes // slots)
        epochs = int(self.epochs or max(MIN_EPOCHS, -(-self.min_updates // batches.min())))
        rates = self.learning_rate, self.learning_rate_decay
        length = jnp.int32(epochs), jnp.int32(batches.max())
        schedule = Schedule(*length, *(jnp.asarray(rate, dtype) for rate in rates))
        config = self.config(model, int(slots))
        return Setup(config, build(config), schedule, epochs, batches, "epochs")

    def problems(self, methods: "Sequence[Alpha]", data: Padded) -> "Problem":
        return Problem(data, jnp.asarray([one.alpha for one in methods], data.x.dtype))

    def finish(self, config: Config, states: Any, energies: np.ndarray, epochs: int) -> Result:
        posteriors = jax.vmap(partial(posterior, config))(states)
        only = jax.tree.map(lambda leaf: np.asarray(leaf[0]), posteriors)
        return Result(only, config.nodes, loop.convergence(energies[:, 0], epochs))


class Shared(NamedTuple):
    """Parameters shared by all data: q(W), the noise, and the encoder, if any."""

    weights: Gaussian
    log_noise: Float[Array, "O"]
    encoder: Float[Array, "E"] | None = None


class Problem(NamedTuple):
    """One member's data and its α."""

    data: Padded
    alpha: Scalar


class State(NamedTuple):
    """Parameters and optimiser moments; those of q(z) have one row per datum, and the latent
    moments are None if no datum has its own q(z)."""

    shared: Shared
    shared_moments: Any
    latents: Gaussian
    latent_moments: Any


def alpha_energy(
    log_likelihood: Float[Array, "K B"],
    log_ratio_weights: Float[Array, "K"],
    log_ratio_latents: Float[Array, "K B"],
    alpha: Scalar | float,
    num_data: Scalar | float,
    mask: Float[Array, "B"],
    weights: Weights | None = None,
) -> Scalar:
    """The minibatch estimate of ``E_α`` from log-densities at K joint draws.

    The log-ratios are ``log p − log q`` of the weights and of each datum's latent input. A datum of
    weight w counts as w data with the same q(z): its term is multiplied by w, and N is Σ w.
    """
    count = num_data if weights is None else weights.total
    sites = log_likelihood + log_ratio_weights[:, None] / count + log_ratio_latents
    scale = num_data / jnp.maximum(jnp.sum(mask), 1.0)
    terms = mask * power_log_mean_exp(sites, alpha)
    return -scale * jnp.sum(terms if weights is None else weights.own * terms)


def draw_noise(config: Config, key: Key, dtype: Any) -> Float[Array, "K noise"]:
    """Standard normal numbers for one update: for the weights, then for the latent inputs."""
    model = config.model
    count = model.num_weights + config.sampled_latents * config.batch_size
    if dtype == jnp.float32:
        return meanfield.fast_normal(key, (config.draws, count))
    return jax.random.normal(key, (config.draws, count), dtype)


def batch_energy(
    config: Config,
    shared: Shared,
    latents: Gaussian,
    batch: Batch,
    alpha: Scalar | float,
    noise: Float[Array, "K noise"],
) -> Scalar:
    """``alpha_energy`` at the draws of W and z that reparametrisation makes from ``noise``."""
    model = config.model
    weight_noise, latent_noise = noise[:, : model.num_weights], noise[:, model.num_weights :]
    variance = meanfield.weight_variance(shared.weights.rho, model.weight_variance)
    weights = meanfield.reparametrise(shared.weights.mean, jnp.sqrt(variance), weight_noise)
    log_ratio = meanfield.log_prior_ratio(weights, weight_noise, variance, model.weight_variance)

    log_noise = jnp.broadcast_to(shared.log_noise, (config.draws, model.outputs))
    if config.nodes:
        nodes = latent_nodes(model, config.nodes)
        likelihood = log_marginal(model, weights, log_noise, batch.x, batch.y, nodes)
        log_ratio_z = jnp.zeros_like(likelihood)
    else:
        if config.encoder is not None and shared.encoder is not None:
            latents = meanfield.encode(model, config.encoder, shared.encoder, batch.x, batch.y)
        z, log_ratio_z = draw_latents(config, latents, latent_noise)
        likelihood = log_likelihood(model, weights, log_noise, batch.x, batch.y, z)
    ratio = jnp.sum(log_ratio, axis=1)
    data = batch.num_data, batch.importance, batch.weights
    return alpha_energy(likelihood, ratio, log_ratio_z, alpha, *data)


def draw_latents(
    config: Config, latents: Gaussian, noise: Float[Array, "K noise"]
) -> tuple[Float[Array, "K Z B"], Float[Array, "K B"]]:
    """Each datum's z from its q(z), and ``log p(z) − log q(z)``."""
    model = config.model
    noise = noise.reshape(config.draws, model.latents, config.batch_size)
    variance = meanfield.latent_variance(latents.rho.T, model.latent_variance)
    z = meanfield.reparametrise(latents.mean.T, jnp.sqrt(variance), noise)
    log_ratio = meanfield.log_prior_ratio(z, noise, variance, model.latent_variance)
    return z, jnp.sum(log_ratio, axis=1)


def init(config: Config, key: Key, problem: Problem) -> State:
    """As in the authors' code: small random means, narrow q(W), q(z) near its prior."""
    model, dtype = config.model, problem.data.x.dtype
    means = 0.1 * jax.random.normal(key, (model.num_weights,), dtype)
    weights, log_noise = Gaussian(means, jnp.full_like(means, -10.0)), jnp.full(model.outputs, -5.0)
    encoder = None
    if config.encoder is not None:
        encoder_key = jax.random.fold_in(key, ENCODER_STREAM)
        encoder = meanfield.start_encoder(encoder_key, model, config.encoder, dtype)
    shared = Shared(weights, log_noise.astype(dtype), encoder)
    shape = (problem.data.x.shape[0], config.latents)
    latents = Gaussian(jnp.zeros(shape, dtype), jnp.full(shape, meanfield.START_RHO, dtype))
    moments = jax.vmap(ADAM.init)(latents) if config.latents else None
    return State(shared, ADAM.init(shared), latents, moments)


def bytes_per_datum(latents: int, itemsize: int) -> int:
    """Memory of a q(z): mean, ρ and their Adam moments of each latent input, and a step count."""
    return 6 * latents * itemsize + COUNT_BYTES


def update(
    config: Config,
    state: State,
    batch: Batch,
    alpha: Scalar | float,
    noise: Float[Array, "K noise"],
    rate: Scalar,
    nonempty: Bool[Array, ""],
) -> tuple[State, Scalar, Bool[Array, ""]]:
    """One Adam step on a minibatch; ``state`` holds the batch's latents only. Returns the energy
    and whether it was finite; a non-finite step is skipped."""

    def energy_of(parameters: Any) -> Any:
        shared, latents = parameters
        return batch_energy(config, shared, latents, batch, alpha, noise)

    energy, gradients = jax.value_and_grad(energy_of)((state.shared, state.latents))
    finite = loop.all_finite((energy, gradients))
    direction, shared_moments = ADAM.update(gradients[0], state.shared_moments)
    shared = jax.tree.map(lambda p, d: p - rate * d, state.shared, direction)
    latents, latent_moments = state.latents, state.latent_moments
    if config.latents:
        scale = batch.num_data / jnp.maximum(jnp.sum(batch.importance), 1.0)
        latent_rate = jnp.minimum(rate * scale, MAX_LATENT_RATE)
        direction, latent_moments = jax.vmap(ADAM.update)(gradients[1], latent_moments)
        latents = jax.tree.map(lambda p, d: p - latent_rate * d, latents, direction)

    applied = finite & nonempty
    rows = applied & (batch.importance > 0)
    new = State(
        select(applied, shared, state.shared),
        select(applied, shared_moments, state.shared_moments),
        select(rows, latents, state.latents),
        select(rows, latent_moments, state.latent_moments),
    )
    return new, energy, finite


def step(
    config: Config, key: Key, state: State, problem: Problem, schedule: Schedule, epoch: Index
) -> tuple[State, Info]:
    """One epoch: shuffle, cut into batches of nearly equal size, update on each."""
    data, size, dtype = problem.data, config.batch_size, problem.data.x.dtype
    shuffle_key, batch_key = jax.random.split(key)
    batches, batch_at = loop.make_batches(shuffle_key, data, size)
    order = loop.shuffle(shuffle_key, data)
    own_latents = loop.reorder((state.latents, state.latent_moments), order, size)

    def draw(index: Any) -> Float[Array, "K noise"]:
        return draw_noise(config, jax.random.fold_in(batch_key, index), dtype)

    def on_batch(index: Any, carry: Any) -> Any:
        shared, shared_moments, rows, total, skipped = carry
        start, _ = loop.batch_bounds(data.size, batches, index)
        cut = partial(jax.lax.dynamic_slice_in_dim, start_index=start, slice_size=size)
        put = partial(jax.lax.dynamic_update_slice_in_dim, start_index=start, axis=0)
        noise = meanfield.keep_unfused(draw, index, index < schedule.batches)
        local = State(shared, shared_moments, *jax.tree.map(cut, rows))
        rate = loop.learning_rate(schedule, (epoch + index / batches) / schedule.epochs)
        batch, nonempty = batch_at(index), index < batches
        local, energy, finite = update(
            config, local, batch, problem.alpha, noise, rate.astype(dtype), nonempty
        )
        rows = jax.tree.map(put, rows, (local.latents, local.latent_moments))
        total += jnp.where(nonempty & finite, energy / batch.num_data, 0.0)
        skipped += (nonempty & ~finite).astype(skipped.dtype)
        return local.shared, local.shared_moments, rows, total, skipped

    # The loop runs for the longest epoch of all members; surplus batches of a member are empty.
    totals = jnp.zeros((), dtype), jnp.zeros((), int)
    carry = state.shared, state.shared_moments, own_latents, *totals
    carry = jax.lax.fori_loop(0, schedule.batches, on_batch, carry)
    shared, moments, rows, total, skipped = carry
    back = jnp.zeros_like(order).at[order].set(jnp.arange(order.size))
    state = State(shared, moments, *jax.tree.map(lambda leaf: leaf[back], rows))
    return state, Info(total / jnp.maximum(batches - skipped, 1), skipped)


def build(config: Config) -> Algorithm:
    """The algorithm for ``loop.run``, with one ``Problem`` per member."""
    return loop.bind(init, step, config, captured=True)


def posterior(config: Config, state: State) -> MeanFieldPosterior:
    """The fitted q(W) and noise."""
    weights = state.shared.weights
    variance = meanfield.weight_variance(weights.rho, config.model.weight_variance)
    return MeanFieldPosterior(weights.mean, variance, state.shared.log_noise)
