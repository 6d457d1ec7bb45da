"""Roll-outs of a model under a policy: one weight draw along each, noise anew at every step.

    a_t = π(s_t),   s_{t+1} = s_t advanced by f(s_t, a_t, z_t; W) + ε_t

Particles, the noise draws of all starts, come last in every array, as in the network.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from twofold.control import policy
from twofold.control.policy import PolicyNetwork
from twofold.inference.base import Draws
from twofold.logs.cost import Cost
from twofold.logs.embedding import Embedding
from twofold.logs.windows import Window
from twofold.model import network
from twofold.model.bnn import BNNLV
from twofold.typing import Array, Float, Key


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
    """Standard normal numbers for z and ε at every step of every particle."""

    latent: Float[Array, "T M Z B"]
    additive: Float[Array, "T M O B"]


class Trace(NamedTuple):
    """What happened: costs, what the policy saw (standardised), and what it came to."""

    costs: Float[Array, "T M B"]
    features: Float[Array, "T M F B"]
    observations: Float[Array, "T M S B"]


def draw_noise(key: Key, model: BNNLV, horizon: int, draws: int, particles: int) -> Noise:
    """Noise for a whole roll-out."""
    size = model.latents + model.outputs
    drawn = jax.random.normal(key, (horizon, draws, size, particles))
    return Noise(drawn[:, :, : model.latents], drawn[:, :, model.latents :])


def particles(starts: Window, draws: int, num: int) -> Window:
    """Windows ``[B, …]`` to start from as particles ``[M, …, B · num]``, a start's side by side."""

    def spread(leaf: Array) -> Array:
        last = jnp.repeat(jnp.moveaxis(leaf, 0, -1), num, axis=-1)
        return jnp.broadcast_to(last, (draws, *last.shape))

    return Window(*map(spread, starts))


def rollout(
    task: Task,
    scales: Scales,
    weights: Float[Array, "P"],
    draws: Draws,
    noise: Noise,
    windows: Window,
    offsets: Float[Array, "T M A B"],
) -> Trace:
    """Follow a policy from the windows on; ``offsets`` are added to its actions.

    All offsets are 0 but to those who ask what an action is worth.
    """
    deviation = jnp.exp(0.5 * draws.log_noise)[..., None]
    latent_deviation = task.model.latent_variance**0.5
    seen, fed, advanced, paid = (
        _each_particle(function)
        for function in (
            task.embedding.features,
            task.embedding.input,
            task.embedding.advance,
            task.cost,
        )
    )

    def step(window: Window, inputs: Any) -> tuple[Window, Trace]:
        latent, additive, offset = inputs
        features = _scaled(seen(window), scales.feature_mean, scales.feature_scale)
        action = policy.act(task.shape, weights, features) + offset
        x = _scaled(fed(window, action), scales.x_mean, scales.x_scale)
        joined = jnp.concatenate([x, latent_deviation * latent], axis=1)
        y = network.apply_each(task.model.sizes, draws.weights, joined) + deviation * additive
        output = y * scales.y_scale[:, None] + scales.y_mean[:, None]
        window = advanced(window, action, output)
        newest = window.observations[:, -1]
        return window, Trace(paid(newest, action), features, newest)

    return jax.lax.scan(step, windows, (*noise, offsets))[1]


def value_and_gradient(
    objective: Callable[[Trace], Float[Array, ""]],
    task: Task,
    scales: Scales,
    weights: Float[Array, "P"],
    draws: Draws,
    noise: Noise,
    windows: Window,
) -> tuple[Float[Array, ""], Float[Array, "P"]]:
    """An objective of the roll-outs and its gradient in the policy's weights.

    By the chain rule the gradient is ``Σ_t (∂π(s_t)/∂weights)ᵀ ∂J/∂a_t``, where ``∂J/∂a_t``
    follows all that comes of an action, later actions included. Those sensitivities are the
    gradient in the offsets; with them the sum over all steps is one product after the roll-out,
    instead of one in each of its steps.
    """
    steps, draw_count, _, count = noise.additive.shape
    offsets = jnp.zeros((steps, draw_count, len(task.shape.low), count))

    def value(offsets: Array) -> tuple[Array, Array]:
        trace = rollout(task, scales, weights, draws, noise, windows, offsets)
        return objective(trace), trace.features

    (found, features), worth = jax.value_and_grad(value, has_aux=True)(offsets)
    _, pull = jax.vjp(lambda own: policy.act(task.shape, own, features), weights)
    return found, pull(worth)[0]


def _each_particle(function: Callable) -> Callable:
    """A function of one particle for arrays ``[M, …, B]``."""
    return jax.vmap(jax.vmap(function, in_axes=-1, out_axes=-1))


def _scaled(
    values: Float[Array, "M D B"], mean: Float[Array, "D"], scale: Float[Array, "D"]
) -> Float[Array, "M D B"]:
    return (values - mean[:, None]) / scale[:, None]
