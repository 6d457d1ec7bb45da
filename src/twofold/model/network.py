"""A ReLU network ``f(x, z; W)`` with linear output, its weights one flat vector.

A flat vector makes sampling, priors and the optimiser one operation each instead of one per layer;
``unflatten`` gives the layers back. Inside the network features come before points
(``[K, features, B]``), the layout in which small batched products are fastest on a CPU.
"""

from typing import NamedTuple

import jax
import jax.numpy as jnp

from twofold.typing import Array, Float


class Layer(NamedTuple):
    """One affine map for each of K weight draws."""

    kernel: Float[Array, "K out in"]
    bias: Float[Array, "K out"]


def num_weights(sizes: tuple[int, ...]) -> int:
    """Number of weights and biases of a network with these layer sizes, inputs first."""
    return sum((fan_in + 1) * fan_out for fan_in, fan_out in zip(sizes, sizes[1:], strict=False))


def unflatten(sizes: tuple[int, ...], weights: Float[Array, "K P"]) -> tuple[Layer, ...]:
    """The layers held in a flat weight vector: each layer's kernel, row by row, then its bias."""
    draws = weights.shape[0]
    layers, start = [], 0
    for fan_in, fan_out in zip(sizes, sizes[1:], strict=False):
        middle, stop = start + fan_out * fan_in, start + fan_out * (fan_in + 1)
        kernel = weights[:, start:middle].reshape(draws, fan_out, fan_in)
        layers.append(Layer(kernel, weights[:, middle:stop]))
        start = stop
    return tuple(layers)


@jax.custom_vjp
def affine(
    kernel: Float[Array, "K out in"], bias: Float[Array, "K out"], inputs: Float[Array, "K in B"]
) -> Float[Array, "K out B"]:
    """``kernel @ inputs + bias`` for each draw; its gradient is three matrix products.

    The hand-written gradient sums over points with a product (XLA's plain reductions are scalar
    loops on a CPU) and transposes the small kernel once instead of reading it across.
    """
    return jnp.einsum("koi,kib->kob", kernel, inputs) + bias[..., None]


def _affine_forward(kernel, bias, inputs):
    return affine(kernel, bias, inputs), (kernel, inputs)


def _affine_backward(residuals, gradient):
    kernel, inputs = residuals
    transposed = jax.lax.optimization_barrier(jnp.swapaxes(kernel, 1, 2))
    ones = jnp.ones(gradient.shape[-1], gradient.dtype)
    return (
        jnp.einsum("kob,kib->koi", gradient, inputs),
        jnp.einsum("kob,b->ko", gradient, ones),
        jnp.einsum("kio,kob->kib", transposed, gradient),
    )


affine.defvjp(_affine_forward, _affine_backward)


def first_affine(
    layer: Layer, x: Float[Array, "B D"], z: Float[Array, "K Z B"]
) -> Float[Array, "K out B"]:
    """The first affine map, where ``x`` is shared by all draws and ``z`` is each draw's own."""
    inputs = x.shape[1]
    shared = jnp.concatenate([layer.kernel[:, :, :inputs], layer.bias[..., None]], axis=2)
    x_and_one = jnp.concatenate([x.T, jnp.ones((1, x.shape[0]), x.dtype)])
    preactivation = jnp.einsum("koi,ib->kob", shared, x_and_one)
    if z.shape[1]:
        preactivation += jnp.einsum("koz,kzb->kob", layer.kernel[:, :, inputs:], z)
    return preactivation


def apply(
    sizes: tuple[int, ...],
    weights: Float[Array, "K P"],
    x: Float[Array, "B D"],
    z: Float[Array, "K Z B"],
) -> Float[Array, "K O B"]:
    """``f(x, z; W)`` for K weight draws, each with its own latent inputs at the B points."""
    first, *rest = unflatten(sizes, weights)
    outputs = first_affine(first, x, z)
    for layer in rest:
        outputs = affine(layer.kernel, layer.bias, jax.nn.relu(outputs))
    return outputs
