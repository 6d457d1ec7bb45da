"""Microcanonical Langevin chains, against a posterior that is known."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from twofold.core.numerics import pad
from twofold.inference import langevin, loop
from twofold.inference.ensemble import Network
from twofold.inference.langevin import Langevin, Problem
from twofold.model.density import log_joint
from twofold.model.spec import BNNLV

VARYING = BNNLV(2, 1, (3,), 0, 1.0, 1.0, varying_noise=True, scaled_prior=True)
LINEAR = BNNLV(3, 1, (), 0, 0.5, 1.0)
ROWS, CHAINS, EPOCHS = 64, 8, 120
ERROR = 0.005


def test_a_position_and_its_network_are_the_same_point(x64):
    rng = np.random.default_rng(0)
    network = Network(jnp.asarray(rng.normal(size=VARYING.num_weights)), jnp.asarray([-1.0, -3.0]))
    position = langevin.to_position(VARYING, network)
    back = langevin.from_position(VARYING, position)
    np.testing.assert_allclose(back.weights, network.weights, rtol=1e-12)
    np.testing.assert_allclose(back.log_noise, network.log_noise, rtol=1e-12)
    # In these coordinates the prior is standard normal, up to a constant.
    data = jax.tree.map(jnp.asarray, pad(np.zeros((2, 2)), np.zeros((2, 1)), 64, "float64"))
    walk = Problem(data, jnp.zeros(64, bool), network, jnp.asarray(0.1), jnp.asarray(1.0))
    config = langevin.Config(VARYING, 1, 1, 0.02)
    at, zero = (langevin.log_posterior(config, walk, p) for p in (position, 0.0 * position))
    assert at - zero == pytest.approx(-0.5 * float(position @ position), rel=1e-9)


def test_only_counted_rows_count(x64):
    rng = np.random.default_rng(0)
    network = Network(jnp.asarray(rng.normal(size=VARYING.num_weights)), jnp.asarray([0.0, -3.0]))
    x, y = rng.normal(size=(5, 2)), rng.normal(size=(5, 1))
    counted = jnp.arange(64) < 3
    data = jax.tree.map(jnp.asarray, pad(x, y, 64, "float64"))
    walk = Problem(data, counted, network, jnp.asarray(0.1), jnp.asarray(1.0))
    config = langevin.Config(VARYING, 1, 1, 0.02)
    found = langevin.log_posterior(config, walk, langevin.to_position(VARYING, network))
    assert found == pytest.approx(
        float(log_joint(VARYING, *network, data.x[:3], data.y[:3])), rel=1e-9
    )


def test_rows_count_as_their_weights_say(x64):
    rng = np.random.default_rng(0)
    network = Network(jnp.asarray(rng.normal(size=VARYING.num_weights)), jnp.asarray([0.0, -3.0]))
    x, y, times = rng.normal(size=(5, 2)), rng.normal(size=(5, 1)), np.array([1, 2, 3, 1, 1])
    data = jax.tree.map(jnp.asarray, pad(x, y, 64, "float64", times))
    walk = Problem(data, jnp.arange(64) < 3, network, jnp.asarray(0.1), jnp.asarray(1.0))
    config = langevin.Config(VARYING, 1, 1, 0.02)
    found = langevin.log_posterior(config, walk, langevin.to_position(VARYING, network))
    rows = np.repeat(np.arange(3), times[:3])
    expected = log_joint(VARYING, *network, data.x[rows], data.y[rows])
    assert found == pytest.approx(float(expected), rel=1e-9)


@pytest.fixture(scope="module", params=[False, True], ids=["unadjusted", "adjusted"])
def chains(request):
    """Draws from the posterior of a linear model."""
    rng = np.random.default_rng(2)
    x = rng.normal(size=(ROWS, 3))
    y = x @ np.array([[1.0], [-0.5], [0.0]]) + 0.2 + 0.5 * rng.normal(size=(ROWS, 1))
    data = pad(x, y, ROWS, "float32")
    config = langevin.Config(LINEAR, 1, 50, ERROR, request.param)
    setup = langevin.set_up(config, EPOCHS, 1)
    keys = jax.random.split(jax.random.key(0), CHAINS)
    start = Network(jnp.zeros((CHAINS, 4)), jnp.full((CHAINS, 1), -1.0))
    problems = Problem(
        jax.tree.map(lambda leaf: jnp.stack([jnp.asarray(leaf)] * CHAINS), data),
        jnp.ones((CHAINS, ROWS), bool),
        start,
        jnp.full(CHAINS, 0.1),
        jnp.ones(CHAINS),
    )
    states = loop.init(setup.algorithm, keys, problems)
    for chunk in loop.run(setup.algorithm, keys, states, problems, setup.schedule, 0, EPOCHS, None):
        states = chunk.states
    return x, y, jax.device_get(states), request.param


def test_chains_find_the_posterior_of_a_linear_model(chains):
    x, y, states, _ = chains
    noise = np.exp(states.log_noise).mean()
    design = np.concatenate([x, np.ones((ROWS, 1))], axis=1)
    covariance = np.linalg.inv(design.T @ design / noise + np.eye(4) / LINEAR.weight_variance)
    mean = covariance @ design.T @ y[:, 0] / noise
    draws = states.weights.reshape(-1, 4)
    deviations = np.sqrt(np.diag(covariance))
    assert np.abs((draws.mean(axis=0) - mean) / deviations).max() < 0.4
    ratio = draws.std(axis=0) / deviations
    assert (ratio > 0.75).all() and (ratio < 1.35).all()
    residuals = y[:, 0] - design @ mean
    assert noise == pytest.approx(residuals @ residuals / (ROWS - 4), rel=0.15)


def test_the_step_size_follows_the_error_of_the_energy(chains):
    states, adjusted = chains[2:]
    assert adjusted or 0.3 * ERROR < np.median(states.error) < 3.0 * ERROR
    assert np.ptp(states.log_step) < np.log(4.0)


def test_draws_are_of_the_second_half_and_differ(chains):
    weights = chains[2].weights
    assert len(np.unique(weights[0], axis=0)) > 40


def test_the_energy_error_follows_rows_that_are_fewer_than_the_weights():
    data = pad(np.zeros((ROWS, 3)), np.zeros((ROWS, 1)), ROWS, "float32")
    data = jax.tree.map(jnp.asarray, data)
    config = langevin.Config(LINEAR, 1, 2, ERROR)

    def tolerated(rows, dimension):
        start = Network(jnp.zeros(4), jnp.zeros(1))
        walk = Problem(data, jnp.arange(ROWS) < rows, start, jnp.asarray(0.1), jnp.asarray(1.0))
        return float(langevin.tolerated_error(config, walk, dimension))

    assert tolerated(ROWS, 5) == pytest.approx(ERROR)
    assert tolerated(10, 1_000) == pytest.approx(2 * tolerated(5, 1_000))
    assert tolerated(10, 1_000) == pytest.approx(2 * tolerated(10, 2_000))
    assert tolerated(10, 1_000) < 0.02 * ERROR


def test_chains_with_z_or_many_rows_are_shorter_unless_asked_for():
    default, own = Langevin(), Langevin(steps=320)
    latent = BNNLV(1, 1, (50, 50), 1, 1.0, 1.0, latent_levels=16)
    wide = BNNLV(1, 1, (50, 50), 0, 1.0, 1.0)
    assert default.stages(LINEAR, 100) == [500, 1_000, 2_000, 4_000, 8_000]
    assert max(default.stages(latent, 700)) < max(default.stages(wide, 700))
    assert max(default.stages(wide, 10**6)) < max(default.stages(wide, 700))
    assert own.stages(latent, 10**6) == [10, 20, 40, 80, 160]
    integrated = BNNLV(1, 1, (50, 50), 2, 1.0, 1.0)
    assert max(default.stages(integrated, 700)) < max(default.stages(wide, 700))


def test_the_members_have_the_options_of_the_chains():
    method = Langevin(chains=5, folds=3, nodes=7, updates=9, batch_size=11, learning_rate=0.1)
    members = method.members
    assert (members.members, members.folds) == (5, 3)
    assert (members.nodes, members.updates) == (7, 9)
    assert (members.batch_size, members.learning_rate) == (11, 0.1)


def test_a_step_far_too_long_is_refused_and_the_next_is_shorter():
    rng = np.random.default_rng(2)
    data = pad(rng.normal(size=(ROWS, 3)), rng.normal(size=(ROWS, 1)), ROWS, "float32")
    start = Network(jnp.zeros(4), jnp.full(1, -8.0))
    data = jax.tree.map(jnp.asarray, data)
    walk = Problem(data, jnp.ones(ROWS, bool), start, jnp.asarray(50.0), jnp.asarray(1.0))
    config = langevin.Config(LINEAR, 1, 2, 0.02)
    state = langevin.init(config, jax.random.key(0), walk)
    moved = langevin.move(config, jax.random.key(1), state, walk, jnp.int32(0), jnp.asarray(False))
    np.testing.assert_array_equal(moved.chain.position, state.chain.position)
    assert moved.log_step < state.log_step


def test_halves_of_a_stage_tolerate_different_energy_errors():
    rng = np.random.default_rng(3)
    data = pad(rng.normal(size=(ROWS, 3)), rng.normal(size=(ROWS, 1)), ROWS, "float32")
    data = jax.tree.map(jnp.asarray, data)
    start = Network(jnp.zeros(4), jnp.zeros(1))
    walk = Problem(data, jnp.ones(ROWS, bool), start, jnp.asarray(0.5), jnp.asarray(1.0))
    config = langevin.Config(LINEAR, 1, 2, 1.0)
    state = langevin.init(config, jax.random.key(0), walk)
    arguments = jax.random.key(1), state, walk, jnp.int32(0)
    error = 100.0 * langevin.move(config, *arguments, jnp.asarray(False)).error
    scale = langevin.tolerated_error(config, walk, len(state.mean))
    half = dataclasses.replace(config, energy_error=float(0.5 * error / scale))
    careful, hasty = (langevin.move(half, *arguments, jnp.asarray(f)) for f in (False, True))
    np.testing.assert_array_equal(careful.chain.position, hasty.chain.position)
    assert careful.log_step < state.log_step < hasty.log_step
    # On all rows the second half tolerates less: an error of half as much as in other stages is
    # too large, and one of an eighth is not.
    for share, last_is_longer in ((0.5, False), (0.125, True)):
        own = dataclasses.replace(config, energy_error=float(error / scale / share))
        late = walk._replace(late_factor=jnp.asarray(langevin.LATE_FACTOR))
        before, last = (
            langevin.move(own, *arguments[:2], one, arguments[3], jnp.asarray(False))
            for one in (walk, late)
        )
        assert before.log_step > state.log_step
        assert (last.log_step > state.log_step) == last_is_longer
