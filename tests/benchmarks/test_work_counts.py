"""The counts of work agree with the programs' own equations and with XLA's."""

import math
from functools import partial

import jax
import jax.numpy as jnp
import pytest

from benchmarks import work_counts
from benchmarks.work_counts import Rates, Rollouts, Work, floor_seconds, traced
from twofold.model import density, network
from twofold.model.spec import BNNLV

MODEL = BNNLV(2, 1, (16, 16), 1, 1.0, 1.0)


def xla_operations(function, *arguments):
    """What XLA counts in the program that it made."""
    analysis = jax.jit(function).lower(*arguments).compile().cost_analysis()
    return analysis["flops"]


def test_traced_counts_products_sums_and_special_functions():
    work = traced(lambda a, b: jnp.exp(a @ b) + 1.0, jnp.ones((3, 4)), jnp.ones((4, 5)))
    assert work == Work(2 * 3 * 4 * 5 + 15, 15, 4 * (12 + 20 + 15))


def test_traced_counts_every_turn_of_a_loop():
    def function(x):
        return jax.lax.scan(lambda carry, _: (jnp.sin(carry) * 2.0, None), x, None, length=7)[0]

    work = traced(function, jnp.ones(3))
    assert (work.operations, work.special) == (21, 21)


def test_traced_counts_random_words():
    work = traced(lambda key: jax.random.bits(key, (100,)), jax.random.key(0))
    assert work.operations == pytest.approx(100 * work_counts.THREEFRY, rel=0.05)


def test_the_floor_is_the_slowest_part():
    rates = Rates(10.0, 2.0, 5.0)
    assert floor_seconds(Work(10.0, 1.0, 1.0), rates) == 1.0
    assert floor_seconds(Work(10.0, 4.0, 1.0), rates) == 2.0
    assert floor_seconds(Work(10.0, 4.0, 50.0), rates) == 10.0


def test_a_training_update_counts_six_operations_for_each_weight():
    """Forth and back of the likelihood, by its own equations: beside the products only sums over
    hidden units, a tenth of them, and less the gradient in x, which nobody asks for."""
    batch, draws = 40, 6
    x, y = jnp.ones((batch, 2)), jnp.ones((batch, 1))

    def energy(weights, z):
        noise = jnp.zeros((draws, 1))
        return jnp.sum(density.log_likelihood(MODEL, weights, noise, x, y, z))

    arguments = jnp.ones((draws, MODEL.num_weights)), jnp.ones((draws, 1, batch))
    own = traced(jax.value_and_grad(energy, argnums=(0, 1)), *arguments).operations
    counted = work_counts.training_update(MODEL.sizes, 1, batch, draws).operations
    assert 0.9 < own / counted < 1.35


@pytest.mark.parametrize("latents", [1, 8])
def test_predictive_draws_count_what_the_program_does(latents):
    points, draws = 30, 5
    x, z = jnp.ones((points, 2)), jnp.ones((latents, draws, 1))
    weights = jnp.ones((draws, MODEL.num_weights))
    counted = work_counts.predictive_draws(MODEL.sizes, 1, points, draws, latents).operations

    def apply(weights, x, z):
        return network.apply_nested(network.unflatten(MODEL.sizes, weights), x, z)

    own = traced(apply, weights, x, z)
    # ReLUs and biases, an operation each for a unit, are all that is not counted.
    assert 1.0 < own.operations / counted < 1.2


def test_xla_counts_the_products_alike():
    """XLA's own analysis of one layer, to a tenth: it has the ReLU's comparison too."""
    kernel, values = jnp.ones((20, 20)), jnp.ones((20, 500))
    found = xla_operations(lambda k, v: k @ jax.nn.relu(v), kernel, values)
    assert found == pytest.approx(2 * 20 * 20 * 500, rel=0.1)


def test_neighbours_sort_the_pool_and_every_draw():
    work = work_counts.neighbours(1, weights=4, draws=8, k=3)
    sorting = 32 * math.log2(32) + 4 * 8 * math.log2(8)
    assert work.operations == sorting + 2 * 4 * 4 * 32


def test_counts_grow_as_their_sizes():
    model, policy = (10, 8, 1), (6, 4, 2)
    one, many = (
        work_counts.rollout_gradient(model, policy, Rollouts(5, 3, 2, policies))
        for policies in (1, 30)
    )
    assert many.operations == 30 * one.operations
    assert many.special < 30 * one.special  # the noise is shared
    update = partial(work_counts.training_update, (2, 20, 20, 1), 1)
    assert update(250, 50).operations == 5 * update(50, 50).operations
    ensemble = work_counts.ensemble_update((2, 20, 20, 1), 250, 24, 32)
    assert (
        ensemble.operations
        == 32 * work_counts.ensemble_update((2, 20, 20, 1), 250, 24, 1).operations
    )
    fine, coarse = (work_counts.quadrature(3, 2, 10, grid) for grid in (512, 256))
    assert fine.special == 2 * coarse.special
    assert fine.operations > coarse.operations
