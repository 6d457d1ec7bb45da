"""The amortised q(z | x, y) against the per-datum one with the same numbers, and by hand."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree

from twofold import Alpha, BNNLVRegressor, load
from twofold.core.data import pad
from twofold.envs.toy import BIMODAL
from twofold.inference import alpha, amortised
from twofold.inference.meanfield import Gaussian
from twofold.model import network
from twofold.model.spec import BNNLV

ROWS, DRAWS, HIDDEN = 6, 5, (4,)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def model_of(latents):
    return BNNLV(2, 2, (3,), latents, 0.7, 2.0)


def case(normal, latents):
    """A model, parameters far from their start, a batch and its noise."""
    model = model_of(latents)
    count = model.num_weights
    encoder = normal(network.num_weights(amortised.encoder_sizes(model, HIDDEN)))
    shared = alpha.Shared(Gaussian(normal(count), normal(count)), normal(2), encoder)
    batch = alpha.Batch(normal(ROWS, 2), normal(ROWS, 2), jnp.ones(ROWS), jnp.asarray(20.0))
    return model, shared, batch, normal(DRAWS, count + latents * ROWS)


def none_of(rows):
    return Gaussian(jnp.zeros((rows, 0)), jnp.zeros((rows, 0)))


def test_the_encoder_is_a_small_network_written_out(x64, normal):
    model, shared, batch, _ = case(normal, 2)
    found = amortised.encode(model, HIDDEN, shared.encoder, batch.x, batch.y)
    w = np.asarray(shared.encoder)
    rows = np.concatenate([batch.x, batch.y], axis=1)
    hidden = np.maximum(rows @ w[:16].reshape(4, 4).T + w[16:20], 0.0)
    outputs = hidden @ w[20:36].reshape(4, 4).T + w[36:]
    np.testing.assert_allclose(found.mean, np.sqrt(2.0) * outputs[:, :2], rtol=1e-12)
    np.testing.assert_allclose(found.rho, 5.0 + outputs[:, 2:], rtol=1e-12)


@pytest.mark.parametrize("latents", [1, 2])
@pytest.mark.parametrize("power", [1.0, 0.5, 1e-6])
def test_the_energy_is_that_of_data_which_keep_what_the_encoder_gives(x64, normal, latents, power):
    model, shared, batch, noise = case(normal, latents)
    config = alpha.Alpha(draws=DRAWS, encoder=HIDDEN).config(model, ROWS)
    found = alpha.batch_energy(config, shared, none_of(ROWS), batch, power, noise)
    own = amortised.encode(model, HIDDEN, shared.encoder, batch.x, batch.y)
    per_datum = alpha.Alpha(draws=DRAWS).config(model, ROWS)
    expected = alpha.batch_energy(per_datum, shared, own, batch, power, noise)
    np.testing.assert_allclose(found, expected, rtol=1e-13)


def test_gradients_are_the_finite_differences_of_every_parameter(x64, normal):
    model, shared, batch, noise = case(normal, 1)
    config = alpha.Alpha(draws=DRAWS, encoder=HIDDEN).config(model, ROWS)
    flat, unravel = ravel_pytree(shared)

    @jax.jit
    def energy(flat):
        return alpha.batch_energy(config, unravel(flat), none_of(ROWS), batch, 0.5, noise)

    step = 1e-5
    shifts = step * jnp.eye(flat.size)
    differences = jax.lax.map(lambda s: (energy(flat + s) - energy(flat - s)) / (2 * step), shifts)
    # Central differences err by step^2 times the third derivative and by 1e-16 |E| / step.
    np.testing.assert_allclose(jax.grad(energy)(flat), differences, rtol=1e-6, atol=1e-6)


def states(config, rows):
    data = jax.device_put(pad(np.zeros((rows, 2)), np.zeros((rows, 2)), rows, "float32"))
    return alpha.init(config, jax.random.key(0), alpha.Problem(data, jnp.float32(1.0)))


def size_of(tree):
    return sum(leaf.nbytes for leaf in jax.tree.leaves(tree))


@pytest.mark.parametrize("latents", [1, 2])
def test_what_a_fit_keeps_grows_by_the_stated_bytes_with_a_q_for_each_datum(latents):
    config = alpha.Alpha(draws=DRAWS).config(model_of(latents), 4)
    grown = size_of(states(config, 300)) - size_of(states(config, 100))
    assert grown == 200 * alpha.bytes_per_datum(latents, 4)


@pytest.mark.parametrize("options", [{"encoder": HIDDEN}, {"encoder": ()}, {"nodes": 5}])
def test_with_an_encoder_or_nodes_it_does_not_grow(options):
    config = alpha.Alpha(draws=DRAWS, **options).config(model_of(1), 4)
    assert size_of(states(config, 300)) == size_of(states(config, 100))


def test_every_q_begins_near_the_prior(normal):
    state = states(alpha.Alpha(draws=DRAWS, encoder=(7, 5)).config(model_of(1), 4), 10)
    x, y = normal(10, 2), normal(10, 2)
    found = amortised.encode(model_of(1), (7, 5), state.shared.encoder, x, y)
    np.testing.assert_array_equal(found.mean, 0.0)
    np.testing.assert_array_equal(found.rho, amortised.START_RHO)


def test_a_regressor_learns_two_branches_with_an_encoder(tmp_path):
    x, y = BIMODAL.training_data(0, 300)
    model = BNNLVRegressor(
        (10,),
        inference=Alpha(encoder=[10], epochs=800, draws=20, learning_rate=2e-2),
        random_state=0,
    ).fit(x, y)
    plain = BNNLVRegressor(
        (10,),
        inference=Alpha(epochs=800, draws=20, learning_rate=2e-2),
        latent_dim=0,
        random_state=0,
    ).fit(x, y)
    # Without z two branches are one wide bump: the latent input must be used to do better.
    test = BIMODAL.test_data(0)
    assert model.log_likelihood(*test).mean() > plain.log_likelihood(*test).mean() + 0.1
    model.save(tmp_path / "model")
    again = load(tmp_path / "model")
    np.testing.assert_array_equal(again.predict(x), model.predict(x))
    assert again.inference.encoder == (10,)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"encoder": 20}, "encoder must be a list"),
        ({"encoder": [0]}, "every entry of encoder"),
        ({"encoder": [5], "nodes": 3}, "give one of the two"),
    ],
)
def test_an_impossible_encoder_is_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        Alpha(**settings)
    with pytest.raises(ValueError, match="needs a latent input"):
        Alpha(encoder=[5]).config(model_of(0), 4)
