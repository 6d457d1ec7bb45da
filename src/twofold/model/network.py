"""A network ``f(x, z; W)`` with linear output, whose weights are one flat vector.

With a flat vector, sampling, priors and the optimiser are one operation each instead of one per
layer; ``unflatten`` restores the layers. Inside the network, features come before points (``[K,
features, B]``), the layout in which small batched products are fastest on a CPU.
"""

from collections.abc import Callable
from itertools import pairwise
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp

from twofold.core import numerics
from twofold.core.arrays import Array, Float

Activation = Callable[[Array], Array]
ACTIVATIONS: dict[str, Activation] = {"relu": jax.nn.relu, "tanh": jnp.tanh}
MOST_THIN_INPUTS = 4
MOST_SUMMED_INPUTS = 20


class Layer(NamedTuple):
    """One affine map for each of K weight draws."""

    kernel: Float[Array, "*K out in"]
    bias: Float[Array, "*K out"]


class Skip(NamedTuple):
    """Linear map from x to the outputs for each of K weight draws; stored after the layers."""

    kernel: Float[Array, "*K out D"]


Layers = tuple[Layer | Skip, ...]


def split_skip(layers: Layers) -> tuple[tuple[Layer, ...], Skip | None]:
    """The layers, and the skip connection if there is one."""
    plain = tuple(layer for layer in layers if isinstance(layer, Layer))
    skips = [layer for layer in layers if isinstance(layer, Skip)]
    return plain, skips[0] if skips else None


def num_weights(sizes: tuple[int, ...]) -> int:
    """Number of weights and biases of a network with these layer sizes, inputs first."""
    return sum((fan_in + 1) * fan_out for fan_in, fan_out in pairwise(sizes))


def unflatten(sizes: tuple[int, ...], weights: Float[Array, "K P"]) -> tuple[Layer, ...]:
    """The layers held in a flat weight vector: each layer's kernel, row by row, then its bias."""
    draws = weights.shape[0]
    layers, start = [], 0
    for fan_in, fan_out in pairwise(sizes):
        middle, stop = start + fan_out * fan_in, start + fan_out * (fan_in + 1)
        kernel = weights[:, start:middle].reshape(draws, fan_out, fan_in)
        layers.append(Layer(kernel, weights[:, middle:stop]))
        start = stop
    return tuple(layers)


def sum_axis(values: Float[Array, "..."], axis: int) -> Float[Array, "..."]:
    """A sum, on a CPU as a matrix product: XLA's reductions are scalar loops there."""
    if not numerics.on_cpu():
        return jnp.sum(values, axis=axis)
    return jnp.tensordot(values, jnp.ones(values.shape[axis], values.dtype), (axis, 0))


def _transposed(kernel: Float[Array, "*K out in"]) -> Float[Array, "*K in out"]:
    """Transposed in memory once, instead of being read with strides by every product."""
    return jax.lax.optimization_barrier(jnp.swapaxes(kernel, -1, -2))


@jax.custom_vjp
def affine(
    kernel: Float[Array, "K out in"], bias: Float[Array, "K out"], inputs: Float[Array, "K in B"]
) -> Float[Array, "K out B"]:
    """``kernel @ inputs + bias`` for each draw; its gradient is three matrix products."""
    return jnp.einsum("koi,kib->kob", kernel, inputs) + bias[..., None]


def _affine_backward(residuals: Any, gradient: Array) -> tuple[Array, ...]:
    kernel, inputs = residuals
    return (
        jnp.einsum("kob,kib->koi", gradient, inputs),
        sum_axis(gradient, -1),
        jnp.einsum("kio,kob->kib", _transposed(kernel), gradient),
    )


affine.defvjp(lambda k, b, inputs: (affine(k, b, inputs), (k, inputs)), _affine_backward)


@jax.custom_vjp
def first_affine(
    kernel: Float[Array, "K out in"],
    bias: Float[Array, "K out"],
    x: Float[Array, "B D"],
    z: Float[Array, "K Z B"],
) -> Float[Array, "K out B"]:
    """``affine`` of ``x``, shared by all draws, and ``z``, which differs between draws.

    The gradients of x and z are separate, so that an unused one costs nothing.
    """
    return affine(kernel, bias, _join(x, z))


def _join(x: Float[Array, "B D"], z: Float[Array, "K Z B"]) -> Float[Array, "K in B"]:
    shared = jnp.broadcast_to(x.T, (z.shape[0], x.shape[1], x.shape[0]))
    return jnp.concatenate([shared, z], axis=1)


def _first_affine_backward(residuals: Any, gradient: Array) -> tuple[Array, ...]:
    kernel, x, z = residuals
    inputs = x.shape[1]
    return (
        jnp.einsum("kob,kib->koi", gradient, _join(x, z)),
        sum_axis(gradient, -1),
        jnp.einsum("koi,kob->bi", kernel[:, :, :inputs], gradient),
        jnp.einsum("koz,kob->kzb", kernel[:, :, inputs:], gradient),
    )


first_affine.defvjp(
    lambda k, b, x, z: (first_affine(k, b, x, z), (k, x, z)), _first_affine_backward
)


def thin_affine(
    kernel: Float[Array, "K out in"], bias: Float[Array, "K out"], inputs: Float[Array, "K in B"]
) -> Float[Array, "K out B"]:
    """``affine`` for very few inputs as sums of scaled rows, which a GPU fuses with what follows
    instead of padding a product to its tile size."""
    rows = [kernel[:, :, i, None] * inputs[:, None, i] for i in range(kernel.shape[2])]
    return sum(rows, start=bias[..., None])


def apply(
    layers: Layers,
    x: Float[Array, "B D"],
    z: Float[Array, "K Z B"],
    activation: Activation = jax.nn.relu,
) -> Float[Array, "K O B"]:
    """``f(x, z; W)`` for K weight draws, each with its own latent inputs at the B points."""
    (first, *rest), skip = split_skip(layers)
    if first.kernel.shape[-1] <= MOST_THIN_INPUTS and not numerics.on_cpu():
        outputs = thin_affine(first.kernel, first.bias, _join(x, z))
    else:
        outputs = first_affine(first.kernel, first.bias, x, z)
    for layer in rest:
        outputs = affine(layer.kernel, layer.bias, activation(outputs))
    return outputs if skip is None else outputs + jnp.einsum("koi,bi->kob", skip.kernel, x)


def apply_nested(
    layers: Layers,
    x: Float[Array, "B D"],
    z: Float[Array, "L K Z"],
    activation: Activation = jax.nn.relu,
) -> Float[Array, "K O L B"]:
    """``f(x, z; W)`` at every pair of a point and a latent draw, for K weight draws.

    The contribution of x to the first layer is computed once for all latent draws, that of z once
    for all points. On a CPU the weight draws are processed one after another: a few large products
    run several times as fast as many small ones.
    """
    inputs = x.shape[1]

    def one_draw(draw: tuple[Layers, Array]) -> Float[Array, "O L B"]:
        layers, z = draw
        (first, *rest), skip = split_skip(layers)
        of_x = first.kernel[:, :inputs] @ x.T + first.bias[:, None]
        of_z = first.kernel[:, inputs:] @ z.T
        values = of_z[:, :, None] + of_x[:, None, :]
        for layer in rest:
            values = jnp.tensordot(layer.kernel, activation(values), 1)
            values = values + layer.bias[:, None, None]
        return values if skip is None else values + (skip.kernel @ x.T)[:, None]

    draws = layers, jnp.swapaxes(z, 0, 1)
    return jax.lax.map(one_draw, draws) if numerics.on_cpu() else jax.vmap(one_draw)(draws)


class RowLayer(NamedTuple):
    """An affine map for arrays with points before features, as in roll-outs.

    The kernel is stored with its transpose, for the forward and the backward pass: products on a
    CPU are a third faster if they need not read a matrix with strides.
    """

    kernel: Float[Array, "*K out in"]
    turned: Float[Array, "*K in out"]
    bias: Float[Array, "*K out"]


def for_rows(layers: tuple[Layer, ...]) -> tuple[RowLayer, ...]:
    """Layers with kernels and their transposes."""
    return tuple(RowLayer(layer.kernel, _transposed(layer.kernel), layer.bias) for layer in layers)


@jax.custom_vjp
def rows_affine(layer: RowLayer, inputs: Float[Array, "*K B in"]) -> Float[Array, "*K B out"]:
    """``kernel @ input + bias`` for each point."""
    outputs = jnp.einsum("...io,...bi->...bo", layer.turned, inputs)
    return outputs + layer.bias[..., None, :]


def _rows_backward(residuals: Any, gradient: Array) -> tuple[RowLayer, Array]:
    layer, inputs = residuals
    slopes = RowLayer(
        jnp.einsum("...bo,...bi->...oi", gradient, inputs),
        jnp.zeros_like(layer.turned),  # the same matrix: its gradient belongs to the kernel
        jnp.sum(gradient, axis=-2),
    )
    return slopes, jnp.einsum("...oi,...bo->...bi", layer.kernel, gradient)


rows_affine.defvjp(lambda *given: (rows_affine(*given), given), _rows_backward)


def rows_sum(layer: RowLayer, inputs: Float[Array, "*K B in"]) -> Float[Array, "*K B out"]:
    """``rows_affine`` of a small layer as a plain sum, which a GPU fuses with its neighbours."""
    terms = inputs[..., None, :] * layer.kernel[..., None, :, :]
    return jnp.sum(terms, axis=-1) + layer.bias[..., None, :]


def rows_thin(
    kernel: Float[Array, "*K out in"], inputs: Float[Array, "*K B in"]
) -> Float[Array, "*K B out"]:
    """``kernel @ input`` for very few inputs, as sums of scaled rows, which fuse with additions."""
    rows = [inputs[..., :, i, None] * kernel[..., None, :, i] for i in range(kernel.shape[-1])]
    return sum(rows[1:], start=rows[0])


def apply_rows(
    layers: tuple[RowLayer, ...],
    inputs: Float[Array, "*K B in"],
    more: Float[Array, "*K B hidden"] | None = None,
    activation: Activation = jax.nn.relu,
) -> Float[Array, "*K B out"]:
    """The network for points before features; ``more`` is what other inputs add to layer one."""
    values = rows_affine(layers[0], inputs)
    values = values if more is None else values + more
    for layer in layers[1:]:
        small = layer.kernel.shape[-1] <= MOST_SUMMED_INPUTS and not numerics.on_cpu()
        values = (rows_sum if small else rows_affine)(layer, activation(values))
    return values
