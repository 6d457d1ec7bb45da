"""Roll-outs of a model under a policy: one weight draw along each, noise anew at every step.

    a_t = π(s_t),   s_{t+1} = s_t advanced by f(s_t, a_t, z_t; W) + ε_t

Arrays are laid out by weight draw M, policy S and particle B (the noise draws of all starts), so
that the model's products run over the particles of all policies at once.

Nothing is standardised or reordered on the way, for first layers are made for what roll-outs carry.
A layer sees ``(v − own mean) / own scale`` of each of its inputs v; carried is
``(v − mean) / scale`` with one mean and one scale for all values of a column:

    kernel · (v − own mean) / own scale + bias
        = kernel · scale / own scale · carried + [kernel · (mean − own mean) / own scale + bias]

Little is lost to rounding if the lags of a column differ little in mean and scale, as they do in
logs that are long beside them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from twofold.core import numerics
from twofold.core.arrays import Array, Float, Key
from twofold.model import network
from twofold.model.network import Layer, RowLayer
from twofold.model.posterior import Draws
from twofold.model.spec import BNNLV
from twofold.plant import policy
from twofold.plant.cost import Cost
from twofold.plant.embedding import Embedding, Seen
from twofold.plant.log import Window
from twofold.plant.policy import DTYPE, PolicyNetwork

# Steps that a GPU gets at once, as it starts them faster than those of a loop.
GPU_STEPS = 10


@dataclass(frozen=True)
class Task:
    """Everything that is fixed when roll-outs are compiled."""

    model: BNNLV
    embedding: Embedding
    cost: Cost
    shape: PolicyNetwork


class Scales(NamedTuple):
    """Means and deviations: of the model's inputs and outputs, of the policy's features, and the
    deviation of the costs."""

    x_mean: Float[Array, "D"]
    x_scale: Float[Array, "D"]
    y_mean: Float[Array, "O"]
    y_scale: Float[Array, "O"]
    feature_mean: Float[Array, "F"]
    feature_scale: Float[Array, "F"]
    cost_scale: Float[Array, ""]


class Noise(NamedTuple):
    """Standard normal numbers for z and ε at every step of every particle, the same for all
    policies."""

    latent: Float[Array, "T M B Z"]
    additive: Float[Array, "T M B O"]


class Trace(NamedTuple):
    """What happened: costs, what the policy saw before each step and after it (standardised), and
    the observation that it came to."""

    costs: Float[Array, "T M S B"]
    features: Float[Array, "T M S B F"]
    reached: Float[Array, "T M S B F"]
    observations: Float[Array, "T M S B D"]


class Units(NamedTuple):
    """Means and scales."""

    mean: Float[Array, "F"]
    scale: Float[Array, "F"]

    def at(self, places: np.ndarray) -> "Units":
        """Those of some values."""
        return Units(self.mean[places], self.scale[places])

    def of(self, values: Float[Array, "*batch F"]) -> Float[Array, "*batch F"]:
        """Values in these units."""
        return (values - self.mean) / self.scale

    def back(self, values: Float[Array, "*batch F"]) -> Float[Array, "*batch F"]:
        """From these units."""
        return values * self.scale + self.mean


def draw_noise(key: Key, model: BNNLV, horizon: int, draws: int, particles: int) -> Noise:
    """Noise for a whole roll-out."""
    size = model.latents + model.outputs
    drawn = jax.random.normal(key, (horizon, draws, particles, size), DTYPE)
    return Noise(drawn[..., : model.latents], drawn[..., model.latents :])


def particles(starts: Window, num: int) -> Window:
    """Windows ``[starts, …]`` as particles ``[starts · num, …]``, those of a start side by side."""
    return Window(*(jnp.repeat(leaf, num, axis=0) for leaf in starts))


def rollout(
    task: Task,
    scales: Scales,
    weights: Float[Array, "S P"],
    draws: Draws,
    noise: Noise,
    windows: Window,
    offsets: Float[Array, "T M S B A"] | None = None,
) -> Trace:
    """Follow S policies from the windows ``[B, …]`` on.

    ``offsets`` are added to their actions: zeros, for those who ask what an action is worth.
    """
    layout = draws.weights.shape[0], weights.shape[0], windows.observations.shape[0]
    embedding, units = task.embedding, carried_units(task, scales)
    acting = _acting(task, scales, units, weights, layout[0])
    respond = _responding(task, scales, units, draws, layout)
    places = embedding.layout
    functions = embedding.new_of, embedding.follow, places.arrivals, places.shift, task.cost
    new_of, follow, arrivals, shift, pay = [_each_particle(one) for one in functions]
    at_ends = units.at(places.ends)

    def step(seen: Seen, inputs: Any) -> tuple[Seen, Any]:
        latent, additive, offset = inputs
        action = policy.act(task.shape, acting, seen.past)
        action = action if offset is None else action + offset
        output = respond(seen.past, new_of(seen.newest, action), latent, additive)
        latest, newest = follow(seen.latest, seen.newest, action, output)
        past = shift(seen.past, at_ends.of(arrivals(latest, action)))
        return Seen(past, latest, newest), (pay(newest, action), seen.past, past, newest)

    unroll = 1 if numerics.on_cpu() else GPU_STEPS
    starts = jax.vmap(embedding.see)(windows)
    starts = starts._replace(past=units.of(starts.past))
    begin = Seen(*(jnp.broadcast_to(leaf, (*layout, *leaf.shape[1:])) for leaf in starts))
    _, (costs, past, reached, newest) = jax.lax.scan(step, begin, (*noise, offsets), unroll=unroll)
    before, after = (_features(task, scales, units, part) for part in (past, reached))
    return Trace(costs, before, after, newest)


def carried_units(task: Task, scales: Scales) -> Units:
    """Of all values of a column the mean and the scale of its newest."""
    return _feature_units(scales).at(task.embedding.layout.newest)


def for_carried(layer: Layer, places: np.ndarray, own: Units, carried: Units) -> Layer:
    """The layer whose inputs are the carried values at some places, for all that is carried; those
    that it does not see have no weight."""
    seen = carried.at(places)
    kernel = layer.kernel * (seen.scale / own.scale)
    bias = layer.bias + layer.kernel @ ((seen.mean - own.mean) / own.scale)
    inverse = np.full(carried.mean.shape[0], len(places))
    inverse[places] = np.arange(len(places))
    unseen = jnp.zeros((*kernel.shape[:-1], 1), kernel.dtype)
    return Layer(jnp.concatenate([kernel, unseen], axis=-1)[..., inverse], bias)


def _feature_units(scales: Scales) -> Units:
    return Units(scales.feature_mean, scales.feature_scale)


def _features(
    task: Task, scales: Scales, units: Units, past: Float[Array, "*batch F"]
) -> Float[Array, "*batch F"]:
    """What is carried as a policy's standardised features."""
    places = task.embedding.layout.features
    return _feature_units(scales).of(units.at(places).back(past[..., places]))


def _acting(
    task: Task, scales: Scales, units: Units, weights: Float[Array, "S P"], draws: int
) -> tuple[RowLayer, ...]:
    """The policies' layers for what is carried, copied for all weight draws, which costs less than
    turning the points around at every step."""
    first, *rest = network.unflatten(task.shape.sizes, weights)
    places = task.embedding.layout.features
    layers = for_carried(first, places, _feature_units(scales), units), *rest
    copied = jax.tree.map(lambda leaf: jnp.broadcast_to(leaf, (draws, *leaf.shape)), layers)
    return network.for_rows(copied)


def _responding(
    task: Task, scales: Scales, units: Units, draws: Draws, layout: tuple[int, int, int]
) -> Callable[..., Float[Array, "M S B O"]]:
    """The model's output in raw units, of what is carried, what is new, and noise that is the same
    for all policies."""
    first, *rest = network.unflatten(task.model.sizes, draws.weights)
    inputs, carried = task.embedding.layout.inputs, units.mean.shape[0]
    own = Units(scales.x_mean, scales.x_scale)
    of_past, of_new = np.flatnonzero(inputs < carried), np.flatnonzero(inputs >= carried)
    past = Layer(first.kernel[..., of_past], first.bias)
    carrying = for_carried(past, inputs[of_past], own.at(of_past), units)
    layers = network.for_rows((carrying, *rest))
    thin = first.kernel[..., np.append(of_new, np.arange(len(inputs), first.kernel.shape[-1]))]
    deviation = jnp.exp(0.5 * draws.log_noise)[:, None]
    latent_deviation = task.model.latent_variance**0.5

    def respond(past: Array, new: Array, latent: Array, additive: Array) -> Array:
        flat = layout[0], layout[1] * layout[2]
        beside = [own.at(of_new).of(new), _for_policies(latent_deviation * latent, layout)]
        rows = jnp.concatenate(beside, axis=-1).reshape(*flat, thin.shape[-1])
        more = network.rows_thin(thin, rows) if thin.shape[-1] else None
        y = network.apply_rows(layers, past.reshape(*flat, carried), more).reshape(*layout, -1)
        return (y + _for_policies(deviation * additive, layout)) * scales.y_scale + scales.y_mean

    return respond


def values_and_gradients(
    objective: Callable[[Trace], Float[Array, "S"]],
    task: Task,
    scales: Scales,
    weights: Float[Array, "S P"],
    draws: Draws,
    noise: Noise,
    windows: Window,
) -> tuple[Float[Array, "S"], Float[Array, "S P"]]:
    """An objective of each policy's roll-outs and its gradient in that policy's weights.

    By the chain rule the gradient is ``Σ_t (∂π(s_t)/∂weights)ᵀ ∂J/∂a_t``, where ``∂J/∂a_t``
    follows all that comes of an action, later actions included. Those sensitivities are the
    gradient in the offsets; with them the sum over all steps is one product after the roll-out,
    instead of one in each of its steps.
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
    """All that a policy saw, side by side."""
    return jnp.moveaxis(values, 2, 0).reshape(values.shape[2], -1, values.shape[-1])


def _each_particle(function: Callable) -> Callable:
    """A function of one particle for arrays ``[M, S, B, …]``."""
    return jax.vmap(jax.vmap(jax.vmap(function)))


def _for_policies(
    values: Float[Array, "M B Z"], layout: tuple[int, int, int]
) -> Float[Array, "M S B Z"]:
    return jnp.broadcast_to(values[:, None], (*layout, values.shape[-1]))
