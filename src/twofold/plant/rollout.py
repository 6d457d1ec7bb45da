"""``DynamicsModel``: a fitted regressor as a system, and its roll-outs under policies.

A roll-out uses one weight draw throughout, and new noise at every step:

    a_t = π(s_t),   s_{t+1} = s_t advanced by f(s_t, a_t, z_t; W) + ε_t

where exogenous columns have their logged values.

Arrays are laid out by weight draw M, policy S and particle B (the noise draws of all starts), so
that the model's products run over the particles of all policies at once.

Nothing is standardised or reordered along the way: first layers are converted to the units in which
roll-outs carry values. A layer expects ``(v − own mean) / own scale`` of each of its inputs v;
roll-outs carry ``(v − mean) / scale`` with one mean and scale for all lags of a column:

    kernel · (v − own mean) / own scale + bias
        = kernel · scale / own scale · carried + [kernel · (mean − own mean) / own scale + bias]

Rounding errors are small if the lags of a column have similar means and scales, as in long logs.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.scipy.stats import norm
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from twofold.core import numerics, persistence
from twofold.core.arrays import Array, Float, Key
from twofold.core.numerics import Standardizer
from twofold.estimators.regressor import BNNLVRegressor, fit_many, load
from twofold.estimators.training import whole_fits
from twofold.model import network, spec
from twofold.model.density import conditional
from twofold.model.network import Layer, RowLayer
from twofold.model.spec import BNNLV, WIDE, Draws, Posterior, SampledPosterior
from twofold.plant import imitation, policy
from twofold.plant.cost import Cost, CostFunction, cost_of
from twofold.plant.embedding import Embedding, Seen
from twofold.plant.log import Log, Start, Starts, find_successors, steps
from twofold.plant.moves import find_switches, rates_of
from twofold.plant.policy import DTYPE, LearnedPolicy, PolicyNetwork

# Steps unrolled on a GPU, where they are launched faster than those of a loop.
GPU_STEPS = 10
MODEL, CHECKPOINT = "model.safetensors", "fit.checkpoint"


@dataclass(frozen=True)
class Task:
    """Static arguments of compiled roll-outs."""

    model: BNNLV
    embedding: Embedding
    cost: Cost
    shape: PolicyNetwork


class Scales(NamedTuple):
    """Units of model inputs, outputs and a policy's features, and the deviation of the costs."""

    x: Standardizer
    y: Standardizer
    features: Standardizer
    cost: Float[Array, ""]


class Noise(NamedTuple):
    """Standard normal numbers for z and ε of each step and particle, shared by all policies."""

    latent: Float[Array, "T M B Z"]
    additive: Float[Array, "T M B noise"]


class Trace(NamedTuple):
    """Costs, a policy's standardised inputs before and after each step, new observation, action."""

    costs: Float[Array, "T M S B"]
    features: Float[Array, "T M S B F"]
    reached: Float[Array, "T M S B F"]
    observations: Float[Array, "T M S B D"]
    actions: Float[Array, "T M S B A"]


def draw_noise(key: Key, model: BNNLV, horizon: int, draws: int, particles: int) -> Noise:
    size = model.latents + model.num_noise
    drawn = jax.random.normal(key, (horizon, draws, particles, size), DTYPE)
    return Noise(drawn[..., : model.latents], drawn[..., model.latents :])


def particles(starts: Starts, num: int) -> Starts:
    """Repeat windows ``[starts, …]`` as particles ``[starts · num, …]``, grouped by start."""
    return jax.tree.map(lambda leaf: jnp.repeat(leaf, num, axis=0), starts)


def rollout(
    task: Task,
    scales: Scales,
    weights: Float[Array, "S P"],
    draws: Draws,
    noise: Noise,
    windows: Starts,
    offsets: Float[Array, "T M S B A"] | None = None,
    bounded: bool = False,
) -> Trace:
    """Roll out S policies from the windows ``[B, …]``.

    ``offsets`` are added to the actions before rate limits; gradients in (zero) offsets give the
    sensitivity to actions. ``bounded`` keeps the sums within the bounds.
    """
    layout = draws.weights.shape[0], weights.shape[0], windows.observations.shape[0]
    embedding, places = task.embedding, task.embedding.layout
    # All lags of a column use the mean and scale of its newest value.
    units = scales.features.at(places.newest)
    acting = _carried_policy(task, scales, units, weights, layout[0])
    respond = _carried_model(task, scales, units, draws, layout)

    def each_particle(function: Callable) -> Callable:
        return jax.vmap(jax.vmap(jax.vmap(function)))

    functions = embedding.new_of, embedding.follow, places.arrivals, places.shift, task.cost
    new_of, follow, arrivals, shift, pay = (each_particle(one) for one in functions)
    limited = bool(task.shape.rates)
    at_ends, at_features = units.at(places.ends), units.at(places.features)

    def features(past: Array) -> Array:
        return scales.features.transform(at_features.inverse(past[..., places.features]))

    def step(carry: tuple[Seen, Any], inputs: Any) -> tuple[tuple[Seen, Any], Any]:
        (seen, previous), (latent, additive, offset, coming) = carry, inputs
        action = policy.act(task.shape, acting, seen.past)
        action = action if offset is None else action + offset
        action = policy.clip_actions(task.shape, action) if bounded else action
        action = policy.limit_rates(task.shape, action, previous) if limited else action
        given = () if coming is None else (jnp.broadcast_to(coming, (*layout, coming.shape[-1])),)
        output = respond(seen.past, new_of(seen.newest, action, *given), latent, additive)
        latest, newest = follow(seen.latest, seen.newest, action, output, *given)
        past = shift(seen.past, at_ends.transform(arrivals(latest, action)))
        after = Seen(past, latest, newest), action if limited else None
        return after, (pay(newest, action), seen.past, past, newest, action)

    unroll = 1 if numerics.on_cpu() else GPU_STEPS
    starts = jax.vmap(embedding.see)(windows)
    starts = starts._replace(past=units.transform(starts.past))
    first = starts, windows.actions[:, -1] if limited else None
    begin = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (*layout, *leaf.shape[1:])), first)
    coming = jnp.swapaxes(windows.coming, 0, 1) if isinstance(windows, Start) else None
    inputs = *noise, offsets, coming
    _, (costs, past, reached, *rest) = jax.lax.scan(step, begin, inputs, unroll=unroll)
    return Trace(costs, features(past), features(reached), *rest)


def for_carried(
    layer: Layer, places: np.ndarray, own: Standardizer, carried: Standardizer
) -> Layer:
    """Convert a layer, whose inputs are the carried values at some ``places``, to one that takes
    all carried values; unused ones get weight 0."""
    seen = carried.at(places)
    kernel = layer.kernel * (seen.scale / own.scale)
    bias = layer.bias + layer.kernel @ ((seen.mean - own.mean) / own.scale)
    inverse = np.full(carried.mean.shape[0], len(places))
    inverse[places] = np.arange(len(places))
    unseen = jnp.zeros((*kernel.shape[:-1], 1), kernel.dtype)
    return Layer(jnp.concatenate([kernel, unseen], axis=-1)[..., inverse], bias)


def _carried_policy(
    task: Task, scales: Scales, units: Standardizer, weights: Float[Array, "S P"], draws: int
) -> tuple[RowLayer, ...]:
    """The layers of policies for carried values, copied for all weight draws, which is cheaper than
    transposing the points at every step."""
    first, *rest = network.unflatten(task.shape.sizes, weights)
    layers = for_carried(first, task.embedding.layout.features, scales.features, units), *rest
    copied = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (draws, *leaf.shape)), layers)
    return network.for_rows(copied)


def _carried_model(
    task: Task, scales: Scales, units: Standardizer, draws: Draws, layout: tuple[int, int, int]
) -> Callable[..., Float[Array, "M S B O"]]:
    """The model's output in raw units, from carried values, new values and the shared noise."""
    model = task.model
    (first, *rest), skip = network.split_skip(spec.layers(model, draws.weights))
    inputs, carried = task.embedding.layout.inputs, units.mean.shape[0]
    of_past, of_new = np.flatnonzero(inputs < carried), np.flatnonzero(inputs >= carried)

    def see_carried(kernel: Array, bias: Array) -> Layer:
        past = Layer(kernel[..., of_past], bias)
        return for_carried(past, inputs[of_past], scales.x.at(of_past), units)

    layers = network.for_rows((see_carried(*first), *rest))
    direct: tuple[RowLayer, ...] = ()
    if skip is not None:
        direct = network.for_rows((see_carried(skip.kernel, jnp.zeros(skip.kernel.shape[:-1])),))
    thin = first.kernel[..., np.append(of_new, np.arange(len(inputs), first.kernel.shape[-1]))]

    def for_policies(values: Float[Array, "M B Z"]) -> Float[Array, "M S B Z"]:
        return jnp.broadcast_to(values[:, None], (*layout, values.shape[-1]))

    def respond(past: Array, new: Array, latent: Array, additive: Array) -> Array:
        flat = layout[0], layout[1] * layout[2]
        latents = for_policies(spec.latent_values(model, latent))
        beside = [scales.x.at(of_new).transform(new), latents]
        rows = jnp.concatenate(beside, axis=-1).reshape(*flat, thin.shape[-1])
        more = network.rows_thin(thin, rows) if thin.shape[-1] else None
        y = network.apply_rows(layers, past.reshape(*flat, carried), more, model.activate)
        if skip is not None:
            y += network.rows_affine(direct[0], past.reshape(*flat, carried))
            if of_new.size:
                y += network.rows_thin(skip.kernel[..., of_new], rows[..., : of_new.size])
        noisy = _with_noise(model, draws, y.reshape(*layout, -1), additive[:, None])
        return scales.y.inverse(noisy)

    return respond


def _with_noise(
    model: BNNLV,
    draws: Draws,
    outputs: Float[Array, "M S B heads"],
    normal: Float[Array, "M 1 B noise"],
) -> Float[Array, "M S B O"]:
    """y from the network's outputs and standard normal numbers."""
    given = conditional(model, jnp.moveaxis(outputs, -1, 1), draws.log_noise)
    deviation = jnp.moveaxis(jnp.exp(0.5 * given.log_variance), 1, -1)
    if given.log_odds is not None:
        share = jax.nn.sigmoid(given.log_odds)[:, None, None, None]
        deviation *= jnp.where(norm.sf(normal[..., model.outputs :]) < share, WIDE, 1.0)
    return jnp.moveaxis(given.mean, 1, -1) + deviation * normal[..., : model.outputs]


def values_and_gradients(
    objective: Callable[[Trace], Float[Array, "S"]],
    task: Task,
    scales: Scales,
    weights: Float[Array, "S P"],
    draws: Draws,
    noise: Noise,
    windows: Starts,
) -> tuple[Float[Array, "S"], Float[Array, "S P"]]:
    """An objective of each policy's roll-outs and its gradient in that policy's weights.

    By the chain rule the gradient is ``Σ_t (∂π(s_t)/∂weights)ᵀ ∂J/∂a_t``, where ``∂J/∂a_t``
    includes all consequences of an action, later actions too: it is the gradient in the offsets.
    With it the sum over all steps is one product after the roll-out, instead of one per step.
    """
    steps, draw_count, count, _ = noise.additive.shape
    shape = steps, draw_count, weights.shape[0], count, len(task.shape.low)
    offsets = jnp.zeros(shape, weights.dtype)

    def value(offsets: Array) -> tuple[Array, tuple[Array, Array]]:
        trace = rollout(task, scales, weights, draws, noise, windows, offsets)
        found = objective(trace)
        return jnp.sum(found), (found, trace.features)  # no policy's value depends on another's

    (_, (found, features)), worth = jax.value_and_grad(value, has_aux=True)(offsets)

    def actions(weights: Array) -> Array:
        return policy.act(task.shape, policy.layers_of(task.shape, weights), _by_policy(features))

    _, pull = jax.vjp(actions, weights)
    return found, pull(_by_policy(worth))[0]


def _by_policy(values: Float[Array, "T M S B F"]) -> Float[Array, "S steps F"]:
    """All inputs of each policy, flattened."""
    return jnp.moveaxis(values, 2, 0).reshape(values.shape[2], -1, values.shape[-1])


class DynamicsModel:
    """A regressor fitted to ``embedding.design(log)``, with a cost of observations and actions.
    Roll-outs start anywhere in the ``log``, which also standardises a policy's features.
    ``max_rate`` maps actions to their largest change per step."""

    def __init__(
        self,
        regressor: BNNLVRegressor,
        embedding: Embedding,
        cost: CostFunction | Cost,
        log: Log,
        max_rate: Mapping[str, float] | None = None,
    ):
        check_is_fitted(regressor)
        expected = len(embedding.input_names), len(embedding.target_names)
        found = regressor.model_.inputs, regressor.model_.outputs
        if expected != found:
            raise ValueError(
                f"the embedding gives {expected[0]} inputs and {expected[1]} outputs, but the "
                f"regressor was fitted to {found[0]} and {found[1]}; fit embedding.design(log)"
            )
        self.rates = rates_of(log, max_rate or {})
        embedding = replace(embedding, limited=True) if self.rates else embedding
        self.regressor, self.embedding, self.log = regressor, embedding, log
        self.cost = cost if isinstance(cost, Cost) else cost_of(cost, log)
        windows = embedding.steps(log).windows
        self.starts = jax.tree.map(partial(np.asarray, dtype=DTYPE), windows)
        self.features = np.asarray(jax.jit(jax.vmap(embedding.features))(self.starts))
        self.bounds = tuple(log.action_low.tolist()), tuple(log.action_high.tolist())
        self.switches = find_switches(log)
        costs = np.concatenate(self.cost.of(log))
        self.cost_mean, self.cost_scale = float(costs.mean()), float(costs.std()) or 1.0

    @property
    def posterior(self) -> Posterior:
        """The regressor's posterior, in single precision."""
        return jax.tree.map(partial(jnp.asarray, dtype=DTYPE), self.regressor.posterior_)

    def draws_of(self, wanted: int) -> int:
        """Number of weight draws to use: of a sampled posterior, at most as many as it has, because
        repetitions would bias the variance between them."""
        found = self.regressor.posterior_
        if not isinstance(found, SampledPosterior):
            return wanted
        return max(2, min(wanted, found.weights.shape[0]))

    @cached_property
    def controller(self) -> Float[np.ndarray, "P"]:
        """Weights of an imitation of the logged controller (``twofold.plant.imitation``)."""
        history, shape = self.embedding.history, self.task(imitation.HIDDEN).shape
        actions = steps(self.log, history).actions
        return imitation.imitate(shape, self.features, actions, find_successors(self.log, history))

    @property
    def scales(self) -> Scales:
        seen = Standardizer.fit(self.features.astype(float))
        parts = self.regressor.x_standardizer_, self.regressor.y_standardizer_, seen
        x, y, features = jax.tree.map(partial(jnp.asarray, dtype=DTYPE), parts)
        return Scales(x, y, features, jnp.asarray(self.cost_scale, DTYPE))

    @property
    def fingerprint(self) -> str:
        """Equal for models with the same weights, units, starts, bounds, cost and embedding."""
        functions = self.cost.fingerprint(self.log) + self.embedding.fingerprint(self.log)
        parts = self.regressor.posterior_, self.scales, self.starts
        arrays = [*jax.tree.leaves(parts), self.bounds, np.frombuffer(functions.encode(), np.uint8)]
        arrays += [self.rates] if self.rates else []
        return persistence.fingerprint(*map(np.asarray, arrays))

    def with_regressor(self, regressor: BNNLVRegressor) -> "DynamicsModel":
        """A copy with another regressor, fitted to the same design."""
        other = copy.copy(self)
        other.regressor = regressor
        return other

    def task(self, hidden: tuple[int, ...]) -> Task:
        """The static task for policies with these hidden layers."""
        limits = *self.bounds, self.rates, self.switches
        shape = PolicyNetwork(self.features.shape[1], hidden, *limits)
        return Task(self.regressor.model_, self.embedding, self.cost, shape)

    def under(self, own: LearnedPolicy) -> tuple[Task, Scales, Float[Array, "P"]]:
        """The task, scales and weights for roll-outs under one policy."""
        weights, units = own.leaves
        task = replace(self.task(own.shape.hidden), shape=own.shape)
        return task, self.scales._replace(features=units), weights


def fit_regressors(
    regressors: Sequence[BNNLVRegressor], embedding: Embedding, log: Log, folder: str | Path
) -> list[BNNLVRegressor]:
    """Regressors fitted to a log: read from a folder, or fitted together and stored there.
    Interrupted fits are resumed from their checkpoint. The caller must ensure that the folder
    belongs to the same log and settings (``twofold.core.persistence.claim_folder``)."""
    folder, paths = Path(folder), [Path(folder) / MODEL]
    if len(regressors) > 1:
        paths = [paths[0].with_stem(f"{paths[0].stem}_{n}") for n in range(len(regressors))]
    if all(path.exists() for path in paths):
        return [load(path) for path in paths]
    own = [clone(one).set_params(checkpoint=folder / CHECKPOINT) for one in regressors]
    x, y = embedding.design(log)
    with whole_fits(f"finished parts are in {folder}; the same call resumes from there"):
        fit_many(own, [x] * len(own), [y] * len(own))
    for regressor, path in zip(own, paths, strict=True):
        regressor.set_params(checkpoint=None).save(path)
    return own
