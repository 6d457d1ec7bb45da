"""The network against a plain loop over draws, points and layers."""

from functools import partial
from itertools import pairwise

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from twofold.core import numerics
from twofold.model import network

SIZES = [
    # inputs, latent inputs, hidden layers, outputs
    (1, 0, (), 1),
    (3, 1, (), 2),
    (1, 1, (4,), 1),
    (2, 0, (3,), 2),
    (2, 2, (4, 3), 2),
    (3, 1, (2, 5, 3), 1),
    (5, 2, (3,), 2),
    (6, 0, (), 1),
]


@pytest.fixture(params=["cpu", "gpu"], autouse=True)
def path(request, monkeypatch):
    """Both ways through the network, whatever the device of the test."""
    monkeypatch.setattr(numerics, "on_cpu", lambda: request.param == "cpu")


def own_apply(sizes, weights, x, z):
    return network.apply(network.unflatten(sizes, weights), x, z)


def loop_apply(sizes, weights, x, z):
    """``f(x, z; W)`` one draw, point, layer and unit at a time."""
    weights, x, z = np.asarray(weights), np.asarray(x), np.asarray(z)
    outputs = np.zeros((len(weights), sizes[-1], len(x)))
    for k, flat in enumerate(weights):
        for b in range(len(x)):
            values, start = [*x[b], *z[k, :, b]], 0
            for depth, (fan_in, fan_out) in enumerate(pairwise(sizes)):
                biases = flat[start + fan_in * fan_out :]
                values = [
                    biases[unit]
                    + sum(flat[start + unit * fan_in + i] * values[i] for i in range(fan_in))
                    for unit in range(fan_out)
                ]
                if depth < len(sizes) - 2:
                    values = [max(value, 0.0) for value in values]
                start += fan_out * (fan_in + 1)
            outputs[k, :, b] = values
    return outputs


@pytest.mark.parametrize(("inputs", "latents", "hidden", "outputs"), SIZES)
def test_apply_equals_a_loop_over_draws_points_and_layers(
    x64, normal, inputs, latents, hidden, outputs
):
    sizes, draws, points = (inputs + latents, *hidden, outputs), 3, 5
    weights = normal(draws, network.num_weights(sizes))
    x, z = normal(points, inputs), normal(draws, latents, points)
    result = jax.jit(partial(own_apply, sizes))(weights, x, z)
    np.testing.assert_allclose(result, loop_apply(sizes, weights, x, z), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("inputs", "latents", "hidden", "outputs"), SIZES)
def test_num_weights_counts_what_unflatten_hands_out_in_order(inputs, latents, hidden, outputs):
    sizes = (inputs + latents, *hidden, outputs)
    weights = np.arange(2.0 * network.num_weights(sizes), dtype=np.float32).reshape(2, -1)
    weights = jnp.asarray(weights)
    layers = network.unflatten(sizes, weights)
    assert [layer.kernel.shape[1:] for layer in layers] == list(
        zip(sizes[1:], sizes[:-1], strict=True)
    )
    parts = [np.reshape(leaf, (2, -1)) for layer in layers for leaf in layer]
    np.testing.assert_array_equal(np.concatenate(parts, axis=1), weights)


def plain_affine(kernel, bias, inputs):
    return jnp.einsum("koi,kib->kob", kernel, inputs) + bias[..., None]


def test_the_hand_written_gradient_of_affine_is_that_of_the_formula(x64, normal):
    arguments = normal(2, 3, 4), normal(2, 3), normal(2, 4, 5)
    cotangent = normal(2, 3, 5)

    @partial(jax.jit, static_argnums=0)
    def with_slopes(affine):
        result, pull = jax.vjp(affine, *arguments)
        return result, pull(cotangent)

    (result, slopes), (expected, plain_slopes) = map(with_slopes, (network.affine, plain_affine))
    np.testing.assert_allclose(result, expected, rtol=1e-13)
    for ours, plain in zip(slopes, plain_slopes, strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-12, atol=1e-13)


def plain_apply(sizes, weights, x, z):
    """``f(x, z; W)`` a layer at a time, for automatic differentiation."""
    shared = jnp.broadcast_to(x.T, (len(weights), *x.T.shape))
    values, start = jnp.concatenate([shared, z], axis=1), 0
    for depth, (fan_in, fan_out) in enumerate(pairwise(sizes)):
        middle, stop = start + fan_in * fan_out, start + fan_out * (fan_in + 1)
        kernel = weights[:, start:middle].reshape(len(weights), fan_out, fan_in)
        values = plain_affine(
            kernel, weights[:, middle:stop], jnp.maximum(values, 0.0) if depth else values
        )
        start = stop
    return values


@pytest.mark.parametrize(("inputs", "latents", "hidden", "outputs"), SIZES)
def test_the_gradient_of_the_network_is_that_of_the_formula(
    x64, normal, inputs, latents, hidden, outputs
):
    sizes, draws, points = (inputs + latents, *hidden, outputs), 3, 5
    weights = normal(draws, network.num_weights(sizes))
    x, z = normal(points, inputs), normal(draws, latents, points)
    cotangent = normal(draws, outputs, points)

    @partial(jax.jit, static_argnums=0)
    def gradients(apply):
        return jax.vjp(partial(apply, sizes), weights, x, z)[1](cotangent)

    for ours, plain in zip(gradients(own_apply), gradients(plain_apply), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-11, atol=1e-12)


def test_points_before_features_give_the_same_network_and_slopes(rng):
    """Also with some of the inputs apart from the others."""
    sizes = (3, 5, 2)
    weights = jnp.asarray(rng.normal(size=(4, network.num_weights(sizes))), jnp.float32)
    inputs = jnp.asarray(rng.normal(size=(4, 6, 3)), jnp.float32)

    def by_rows(weights, inputs):
        first, second = network.unflatten(sizes, weights)
        layers = network.for_rows((network.Layer(first.kernel[..., :1], first.bias), second))
        more = network.rows_thin(first.kernel[..., 1:], inputs[..., 1:])
        return jnp.sum(jnp.sin(network.apply_rows(layers, inputs[..., :1], more)))

    def plainly(weights, inputs):
        first, second = network.unflatten(sizes, weights)
        hidden = jax.nn.relu(jnp.einsum("koi,kbi->kbo", first.kernel, inputs) + first.bias[:, None])
        outputs = jnp.einsum("koi,kbi->kbo", second.kernel, hidden) + second.bias[:, None]
        return jnp.sum(jnp.sin(outputs))

    found, expected = (
        jax.jit(jax.value_and_grad(function, argnums=(0, 1)))(weights, inputs)
        for function in (by_rows, plainly)
    )
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(("inputs", "latents"), [(1, 1), (3, 2), (2, 0)])
@pytest.mark.parametrize("hidden", [(7, 5), (4,), ()])
def test_nested_equals_one_latent_draw_after_another(inputs, latents, hidden):
    sizes = (inputs + latents, *hidden, 2)
    keys = jax.random.split(jax.random.key(0), 3)
    weights = jax.random.normal(keys[0], (4, network.num_weights(sizes)))
    x = jax.random.normal(keys[1], (6, inputs))
    z = jax.random.normal(keys[2], (3, 4, latents))
    found = network.apply_nested(network.unflatten(sizes, weights), x, z)
    assert found.shape == (4, 2, 3, 6)
    for place in range(3):
        every = jnp.broadcast_to(z[place][..., None], (4, latents, 6))
        expected = own_apply(sizes, weights, x, every)
        np.testing.assert_allclose(found[:, :, place], expected, rtol=1e-4, atol=1e-5)
