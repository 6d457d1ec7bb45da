"""Roll-outs of a model under a policy: one weight draw along each, noise anew at every step.

    a_t = π(s_t),   s_{t+1} = s_t advanced by f(s_t, a_t, z_t; W) + ε_t

Arrays are laid out by weight draw M, policy S and particle B (the noise draws of all starts), so
that the model's products run over the particles of all policies at once.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from twofold.control import policy
from twofold.control.policy import DTYPE, PolicyNetwork
from twofold.inference.base import Draws
from twofold.logs.cost import Cost
from twofold.logs.embedding import Embedding, Seen
from twofold.logs.windows import Window
from twofold.model import network
from twofold.model.bnn import BNNLV
from twofold.typing import Array, Float, Key

# Steps that a GPU gets at once, as it starts them faster than those of a loop.
GPU_STEPS = 4


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
    deviation = jnp.exp(0.5 * draws.log_noise)[:, None]
    latent_deviation = task.model.latent_variance**0.5
    layers = network.for_rows(network.unflatten(task.model.sizes, draws.weights))
    acting = policy.layers_of(task.shape, weights, layout[:1])
    embedding = task.embedding
    functions = embedding.features_of, embedding.input_of, embedding.advanced, task.cost
    features_of, input_of, advanced, paid = [_each_particle(one) for one in functions]

    def respond(x: Float[Array, "M S B D"], latent: Array, additive: Array) -> Array:
        """Outputs in raw units; latents and noise are the same for all policies."""
        joined = jnp.concatenate([x, _for_policies(latent_deviation * latent, layout)], axis=-1)
        flat = joined.reshape(layout[0], -1, joined.shape[-1])
        y = network.apply_rows(layers, flat).reshape(*layout, -1)
        return (y + _for_policies(deviation * additive, layout)) * scales.y_scale + scales.y_mean

    def standardised(seen: Seen) -> Array:
        return (features_of(seen) - scales.feature_mean) / scales.feature_scale

    def step(seen: Seen, inputs: Any) -> tuple[Seen, Trace]:
        latent, additive, offset = inputs
        features = standardised(seen)
        action = policy.act(task.shape, acting, features)
        action = action if offset is None else action + offset
        x = (input_of(seen, action) - scales.x_mean) / scales.x_scale
        seen = advanced(seen, action, respond(x, latent, additive))
        return seen, Trace(paid(seen.newest, action), features, standardised(seen), seen.newest)

    unroll = 1 if network.on_cpu() else GPU_STEPS
    starts = jax.vmap(embedding.see)(windows)
    begin = Seen(*(jnp.broadcast_to(leaf, (*layout, *leaf.shape[1:])) for leaf in starts))
    return jax.lax.scan(step, begin, (*noise, offsets), unroll=unroll)[1]


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
