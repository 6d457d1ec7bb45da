"""The mean field: its variances, draws, noise, log-ratio to the prior, and encoder."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy import stats
from scipy.special import expit
from scipy.stats import norm

from twofold import Alpha, BNNLVRegressor, load
from twofold.core.numerics import pad
from twofold.envs.toy import BIMODAL
from twofold.inference import alpha, meanfield
from twofold.inference.meanfield import (
    Gaussian,
    MeanFieldPosterior,
    fast_normal,
    latent_variance,
    log_prior_ratio,
    mix,
    reparametrise,
    weight_variance,
)
from twofold.model import network
from twofold.model.spec import BNNLV

ROWS, DRAWS, HIDDEN = 6, 5, (4,)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.mark.parametrize("prior", [0.1, 1.0, 61.0])
def test_log_prior_ratio_is_the_difference_of_normal_log_densities(x64, normal, prior):
    mean, noise = normal(4), normal(3, 4)
    variance = prior * jax.nn.sigmoid(normal(4))
    value = mean + jnp.sqrt(variance) * noise
    log_p = norm.logpdf(value, 0.0, np.sqrt(prior))
    log_q = norm.logpdf(value, mean, np.sqrt(variance))
    result = log_prior_ratio(value, noise, variance, prior)
    np.testing.assert_allclose(result, log_p - log_q, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("prior", [0.1, 1.0, 61.0])
@pytest.mark.parametrize("variance", [weight_variance, latent_variance])
def test_variances_never_exceed_the_prior(variance, prior):
    rho = jnp.concatenate([jnp.linspace(-100.0, 100.0, 2001), jnp.array([-1e30, 1e30])])
    values = np.asarray(variance(rho, prior))
    assert np.all(values <= np.float32(prior)) and np.all(values >= 0.0)


def test_variances_are_the_stated_functions_of_rho(x64):
    rho = jnp.linspace(-20.0, 20.0, 41)
    np.testing.assert_allclose(weight_variance(rho, 0.7), 0.7 * expit(rho), rtol=1e-12)
    expected = 1e-6 + (3.0 - 2e-6) * expit(rho)
    np.testing.assert_allclose(latent_variance(rho, 3.0), expected, rtol=1e-12)


@pytest.mark.parametrize("shape", [(5,), (2, 6)])
def test_the_hand_written_gradient_of_reparametrise_is_that_of_the_formula(x64, normal, shape):
    mean, deviation, noise = normal(*shape), normal(*shape), normal(4, *shape)
    cotangent = normal(4, *shape)
    result, pull = jax.vjp(lambda m, d: reparametrise(m, d, noise), mean, deviation)
    expected, plain_pull = jax.vjp(lambda m, d: m + d * noise, mean, deviation)
    np.testing.assert_array_equal(result, expected)
    for ours, plain in zip(pull(cotangent), plain_pull(cotangent), strict=True):
        np.testing.assert_allclose(ours, plain, rtol=1e-12, atol=1e-14)


def test_posterior_draws_have_its_mean_and_variance(x64, normal):
    posterior = MeanFieldPosterior(normal(5), jnp.exp(normal(5)), normal(2))
    num = 100_000
    draws = posterior.sample(jax.random.key(0), num)
    # Four standard errors: sqrt(v/n) of a Gaussian's mean, v sqrt(2/n) of its variance, and
    # sqrt(v_i v_j / n) of a covariance that is zero.
    deviation = np.sqrt(posterior.variance)
    error = 4 * deviation / np.sqrt(num)
    np.testing.assert_array_less(np.abs(draws.weights.mean(axis=0) - posterior.mean), error)
    allowed = 4 * np.outer(deviation, deviation) * np.sqrt((1 + np.eye(5)) / num)
    covariance = np.cov(draws.weights.T)
    np.testing.assert_array_less(np.abs(covariance - np.diag(posterior.variance)), allowed)


def test_posterior_draws_carry_the_noise_and_depend_on_the_key_alone(normal):
    posterior = MeanFieldPosterior(normal(5), jnp.exp(normal(5)), normal(2))
    first, second, again = (posterior.sample(jax.random.key(seed), 3) for seed in (0, 1, 0))
    np.testing.assert_array_equal(first.log_noise, np.tile(posterior.log_noise, (3, 1)))
    np.testing.assert_array_equal(first.weights, again.weights)
    assert not np.any(first.weights == second.weights)


def many_normals(updates=60, shape=(50, 751)):
    """Noise as training draws it: one key for each update, folded from one key."""
    keys = [jax.random.fold_in(jax.random.key(0), i) for i in range(updates)]
    return np.stack([np.asarray(fast_normal(key, shape), np.float64) for key in keys])


def test_fast_normal_follows_the_normal_distribution():
    values = many_normals().ravel()
    count = len(values)
    # Standard errors of the first four moments of a standard normal are sqrt(1, 2, 15, 96)/sqrt(n).
    for power, expected, variance in ((1, 0, 1), (2, 1, 2), (3, 0, 15), (4, 3, 96)):
        assert abs(np.mean(values**power) - expected) < 4.5 * np.sqrt(variance / count)
    assert stats.kstest(values, "norm").pvalue > 1e-4
    assert 4.5 < np.abs(values).max() < 5.5


def test_fast_normal_is_uncorrelated_along_rows_draws_and_updates():
    values = many_normals()
    count = values.size
    for axis in range(3):
        for lag in (1, 2, 7):
            ahead, behind = np.roll(values, lag, axis=axis), values
            assert abs(np.mean(ahead * behind)) < 4.5 / np.sqrt(count)
            assert abs(np.mean((ahead**2 - 1) * (behind**2 - 1))) < 4.5 * 2 / np.sqrt(count)


def test_every_bit_of_counter_and_key_moves_every_bit_of_a_word():
    rng = np.random.default_rng(0)
    words = jnp.asarray(rng.integers(0, 2**32, 20_000), jnp.uint32)
    first, second = jnp.uint32(0x12345678), jnp.uint32(0x9ABCDEF0)

    def output(words, first, second):
        return np.asarray(mix(mix(words ^ first) + second))

    base = output(words, first, second)
    for bit in range(32):
        flip = jnp.uint32(1 << bit)
        for changed in (
            output(words ^ flip, first, second),
            output(words, first ^ flip, second),
            output(words, first, second ^ flip),
        ):
            moved = (base ^ changed)[:, None] >> np.arange(32, dtype=np.uint32) & 1
            # A fair coin's mean over 20,000 throws, 3,072 of them compared; and lowbias32's known
            # bias for the one key half that is mixed only once stays below 0.01.
            assert np.abs(moved.mean(axis=0) - 0.5).max() < 5 * 0.5 / np.sqrt(20_000) + 0.01


def test_fast_normal_depends_on_the_key():
    one, two = (fast_normal(jax.random.key(seed), (1000,)) for seed in (0, 1))
    assert not np.any(np.asarray(one) == np.asarray(two))


def model_of(latents):
    return BNNLV(2, 2, (3,), latents, 0.7, 2.0)


def case(normal, latents):
    """A model, parameters far from their start, a batch and its noise."""
    model = model_of(latents)
    count = model.num_weights
    encoder = normal(network.num_weights(meanfield.encoder_sizes(model, HIDDEN)))
    shared = alpha.Shared(Gaussian(normal(count), normal(count)), normal(2), encoder)
    batch = alpha.Batch(normal(ROWS, 2), normal(ROWS, 2), jnp.ones(ROWS), jnp.asarray(20.0))
    return model, shared, batch, normal(DRAWS, count + latents * ROWS)


def none_of(rows):
    return Gaussian(jnp.zeros((rows, 0)), jnp.zeros((rows, 0)))


def test_the_encoder_is_a_small_network_written_out(x64, normal):
    model, shared, batch, _ = case(normal, 2)
    found = meanfield.encode(model, HIDDEN, shared.encoder, batch.x, batch.y)
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
    own = meanfield.encode(model, HIDDEN, shared.encoder, batch.x, batch.y)
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
    found = meanfield.encode(model_of(1), (7, 5), state.shared.encoder, x, y)
    np.testing.assert_array_equal(found.mean, 0.0)
    np.testing.assert_array_equal(found.rho, meanfield.START_RHO)


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
        ({"encoder": [5], "nodes": 3}, r"got nodes=3 and encoder=\[5\]"),
    ],
)
def test_an_impossible_encoder_is_refused(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        Alpha(**settings)
    with pytest.raises(ValueError, match="needs a latent input"):
        Alpha(encoder=[5]).config(model_of(0), 4)
