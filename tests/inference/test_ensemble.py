"""Anchored ensembles against the formula written out and against the exact minimiser."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from twofold.core.numerics import Place, pad
from twofold.inference import ensemble, loop
from twofold.inference.loop import Batch, Schedule, deal
from twofold.model import density
from twofold.model.density import latent_nodes
from twofold.model.spec import BNNLV, prior_deviation


def run(config, x, y, members, epochs, rate, dtype="float32", length=64):
    data = jax.device_put(pad(x, y, length, dtype))
    algorithm = ensemble.build(config)
    keys = jax.random.split(jax.random.key(0), members)
    problems = jax.tree.map(lambda leaf: jnp.stack([leaf] * members), data)
    batches = -(-len(x) // config.batch_size)
    schedule = Schedule(
        jnp.int32(epochs), jnp.int32(batches), jnp.asarray(rate, dtype), jnp.asarray(1.0, dtype)
    )
    states = loop.init(algorithm, keys, problems)
    *_, last = loop.run(algorithm, keys, states, problems, schedule, 0, epochs)
    return last


@pytest.mark.parametrize("latents", [0, 1])
def test_anchored_energy_equals_the_formula_written_out(x64, rng, latents):
    model = BNNLV(1, 2, (3,), latents, 0.5, 2.0)
    config = ensemble.Ensemble(nodes=6, log_noise_prior=(-1.0, 1.5)).config(model, 4)
    x, y = rng.normal(size=(4, 1)), rng.normal(size=(4, 2))
    weights, anchor = rng.normal(size=(2, model.num_weights))
    log_noise, importance = rng.normal(size=2), np.array([0.5, 1.7, 1.2, 0.0])
    network = ensemble.Network(jnp.asarray(weights), jnp.asarray(log_noise))
    batch = Batch(*map(jnp.asarray, (x, y, importance)), jnp.int32(3), jnp.asarray(30.0))
    found = ensemble.anchored_energy(config, network, jnp.asarray(anchor), batch)

    likelihoods = []
    for n in range(3):
        terms = []
        for z, log_weight in zip(*latent_nodes(model, 6), strict=True):
            mean = density.mean(model, network.weights[None], batch.x[n : n + 1], z[None, :, None])
            value = norm.logpdf(y[n], mean[0, :, 0], np.exp(0.5 * log_noise)).sum()
            terms.append(value + log_weight)
        likelihoods.append(logsumexp(terms))
    prior = 0.5 * np.sum((weights - anchor) ** 2) / 0.5 - norm.logpdf(log_noise, -1.0, 1.5).sum()
    np.testing.assert_allclose(found, -(importance[:3] @ likelihoods) / 3 + prior / 30.0)


def test_members_of_a_linear_model_are_the_exact_minimisers(x64, rng):
    x = rng.normal(size=(40, 1))
    y = 1.2 * x - 0.3 + 0.5 * rng.normal(size=(40, 1))
    # A prior this narrow holds the noise at its mean.
    config = ensemble.Ensemble(log_noise_prior=(float(np.log(0.25)), 1e-6), bootstrap=1.0).config(
        BNNLV(1, 1, (), 0, 0.7, 1.0), 40
    )
    last = run(config, x, y, members=5, epochs=4000, rate=0.02, dtype="float64")
    design = np.hstack([x, np.ones_like(x)])
    data = jax.device_put(pad(x, y, 64, "float64"))
    for weights, anchor, view in zip(
        last.states.network.weights, last.states.anchor, last.states.view, strict=True
    ):
        importance = np.asarray(ensemble.importance(config, view, data))
        weighted = design.T * importance[:40] / 0.25
        exact = np.linalg.solve(
            weighted @ design + np.eye(2) / 0.7, weighted @ y[:, 0] + anchor / 0.7
        )
        np.testing.assert_allclose(weights, exact, atol=2e-3)


def test_a_linear_ensemble_has_the_spread_of_the_posterior(x64):
    rng = np.random.default_rng(1)
    x = rng.normal(size=(60, 1))
    y = 1.2 * x - 0.3 + 0.5 * rng.normal(size=(60, 1))
    spreads = {}
    for bootstrap in (0.0, 1.0):
        config = ensemble.Ensemble(
            log_noise_prior=(float(np.log(0.25)), 1e-6), bootstrap=bootstrap
        ).config(BNNLV(1, 1, (), 0, 1.0, 1.0), 60)
        last = run(config, x, y, members=200, epochs=2000, rate=0.02, dtype="float64")
        spreads[bootstrap] = np.cov(last.states.network.weights.T)
    design = np.hstack([x, np.ones_like(x)])
    posterior = np.linalg.inv(design.T @ design / 0.25 + np.eye(2))
    # A variance from 200 members errs by 10 %; that of the bootstrap follows the residuals of these
    # 60 data, whose mean square errs by 18 %.
    np.testing.assert_allclose(np.diag(spreads[1.0]), np.diag(posterior), rtol=0.6)
    np.testing.assert_allclose(np.diag(spreads[0.0]), np.diag(posterior @ posterior), rtol=0.45)


def test_padding_and_batches_that_do_not_divide_change_nothing(x64, rng):
    x, y = rng.normal(size=(23, 1)), rng.normal(size=(23, 1))
    config = ensemble.Ensemble(nodes=4).config(BNNLV(1, 1, (3,), 1, 1.0, 1.0), 10)
    short, long = (
        run(config, x, y, 2, 5, 0.01, dtype="float64", length=length) for length in (32, 64)
    )
    np.testing.assert_allclose(
        short.states.network.weights, long.states.network.weights, rtol=1e-10
    )


def test_an_update_that_is_not_finite_changes_nothing(rng):
    config = ensemble.Ensemble(nodes=4).config(BNNLV(1, 1, (3,), 1, 1.0, 1.0), 4)
    data = jax.device_put(pad(rng.normal(size=(4, 1)), rng.normal(size=(4, 1)), 4, "float32"))
    state = ensemble.init(config, jax.random.key(0), data)
    bad = data.y.at[1].set(jnp.nan)
    batch = Batch(data.x, bad, jnp.ones(4), jnp.int32(4), jnp.asarray(4.0))
    new, _, finite = ensemble.update(config, state, batch, jnp.asarray(0.1), jnp.asarray(True))
    assert not finite
    jax.tree.map(np.testing.assert_array_equal, new, state)


def test_members_start_on_the_way_to_their_anchors_unless_that_is_too_rough():
    small, large = BNNLV(1, 1, (20, 20), 1, 1.0, 1.0), BNNLV(60, 1, (400, 400), 1, 1.0, 60.0)
    assert ensemble.start_fraction(ensemble.Ensemble(start=0.4).config(small, 10)) == 0.4
    config = ensemble.Ensemble(start=0.4).config(large, 10)
    fraction = ensemble.start_fraction(config)
    assert fraction < 0.4
    # All weights times a fraction are nearly the prior of that much smaller weights.
    shrunk = BNNLV(60, 1, (400, 400), 1, fraction**2, 60.0)
    np.testing.assert_allclose(prior_deviation(shrunk), ensemble.ROUGHEST_START, rtol=0.05)
    data = jax.device_put(pad(np.zeros((4, 60)), np.zeros((4, 1)), 4, "float32"))
    state = ensemble.init(config, jax.random.key(0), data)
    np.testing.assert_allclose(state.network.weights, fraction * state.anchor, rtol=1e-6)


def test_members_keep_to_their_anchors_where_there_are_no_data(rng):
    x = 0.1 * rng.normal(size=(30, 1))
    y = rng.normal(size=(30, 1))
    config = ensemble.Ensemble().config(BNNLV(1, 1, (8,), 0, 1.0, 1.0), 30)
    last = run(config, x, y, members=16, epochs=800, rate=0.02)
    posterior = ensemble.posterior(last.states)
    points = jnp.asarray([[0.0], [5.0]])
    values = density.mean(config.model, posterior.weights, points, jnp.zeros((16, 0, 2)))[:, 0]
    near, far = np.std(values, axis=0)
    assert far > 5 * near


@pytest.mark.parametrize(
    ("setting", "message"),
    [
        ({"batch_size": 0}, "batch_size must be an integer of at least 1"),
        ({"nodes": 0}, "nodes must be an integer of at least 1"),
        ({"bootstrap": 1.5}, "bootstrap must lie in"),
        ({"log_noise_prior": (0.0, 0.0)}, "log_noise_prior must be positive"),
        ({"start": 1.5}, "start must lie in"),
    ],
)
def test_impossible_settings_are_refused(setting, message):
    with pytest.raises(ValueError, match=message):
        ensemble.Ensemble(**setting)
    with pytest.raises(ValueError, match="at most 2 latent inputs"):
        ensemble.Ensemble().config(BNNLV(1, 1, (), 3, 1.0, 1.0), 5)


def test_a_row_has_one_weight_in_every_block_and_rows_differ(rng):
    config = ensemble.Ensemble(bootstrap=1.0).config(BNNLV(1, 1, (), 0, 1.0, 1.0), 8)
    view = jax.random.key_data(jax.random.key(3))

    def weights_of(rows):
        zeros = np.zeros((len(rows), 1))
        place = Place(jnp.asarray(rows, jnp.int32), jnp.int32(5000))
        return ensemble.importance(
            config,
            view,
            jax.device_put(pad(zeros, zeros, len(rows), "float32"))._replace(place=place),
        )

    whole = np.asarray(weights_of(np.arange(5000)))
    some = rng.permutation(5000)[:64]
    np.testing.assert_array_equal(weights_of(some), whole[some])
    assert len(np.unique(whole)) > 4990  # single precision has a few ties
    # Four standard errors of the mean and of the mean square of exponential numbers (1 and 20).
    assert abs(whole.mean() - 1) < 4 / np.sqrt(5000)
    assert abs((whole**2).mean() - 2) < 4 * np.sqrt(20 / 5000)


def test_a_block_of_a_larger_table_weighs_its_prior_by_all_rows(rng):
    x, y = rng.normal(size=(16, 1)), rng.normal(size=(16, 1))
    data = jax.device_put(pad(x, y, 16, "float32"))
    place = Place(jnp.arange(16, dtype=jnp.int32), jnp.int32(1000))
    for one, rows in ((data, 16), (data._replace(place=place), 1000)):
        _, batch = deal(jax.random.key(0), one, jnp.ones(16), 8)
        assert batch(jnp.int32(0)).num_data == rows
