"""The α-energy against its published form, its limit, and exact integrals of a linear model."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.flatten_util import ravel_pytree
from scipy.optimize import minimize
from scipy.special import expit
from scipy.stats import norm

from twofold.core.numerics import pad
from twofold.inference import alpha, loop
from twofold.inference.meanfield import Gaussian
from twofold.model.density import latent_nodes, log_marginal
from twofold.model.spec import BNNLV

PRIOR, LATENT_PRIOR = 0.7, 2.0
MODEL = BNNLV(2, 2, (3,), 1, PRIOR, LATENT_PRIOR)
ROWS, DRAWS, WEIGHTS = 6, 5, 20
CONFIG = alpha.Alpha(draws=DRAWS).config(MODEL, ROWS)
POWERS = pytest.mark.parametrize("power", [1.0, 0.5, 0.1, 1e-3])


class Case(NamedTuple):
    """Everything an energy depends on but α."""

    shared: alpha.Shared
    latents: Gaussian
    batch: alpha.Batch
    noise: jax.Array


@pytest.fixture
def case(normal):
    """Parameters far from their start, a full batch of six data, and the noise of five draws."""
    assert MODEL.num_weights == WEIGHTS
    return Case(
        alpha.Shared(Gaussian(normal(WEIGHTS), normal(WEIGHTS)), normal(2)),
        Gaussian(normal(ROWS, 1), normal(ROWS, 1)),
        alpha.Batch(
            normal(ROWS, 2),
            normal(ROWS, 2),
            jnp.ones(ROWS),
            jnp.asarray(float(ROWS)),
        ),
        normal(DRAWS, WEIGHTS + ROWS),
    )


@jax.jit
def energy_of(case, power):
    """``batch_energy``, and so ``alpha_energy``, of a case of any batch size."""
    config = alpha.Alpha(draws=DRAWS).config(MODEL, len(case.batch.importance))
    return alpha.batch_energy(config, case.shared, case.latents, case.batch, power, case.noise)


def slots_of(case, slots):
    """The case cut down, or blown up, to these slots of its batch."""
    batch, columns = case.batch, WEIGHTS + np.asarray(slots)
    return Case(
        case.shared,
        jax.tree.map(lambda leaf: leaf[slots], case.latents),
        batch._replace(x=batch.x[slots], y=batch.y[slots], importance=batch.importance[slots]),
        jnp.concatenate([case.noise[:, :WEIGHTS], case.noise[:, columns]], axis=1),
    )


def moments(case):
    """Means and variances of q(W) and of every q(z_n)."""
    shared, latents = jax.tree.map(np.asarray, (case.shared, case.latents))
    variance_z = 1e-6 + (LATENT_PRIOR - 2e-6) * expit(latents.rho[:, 0])
    return shared.weights.mean, PRIOR * expit(shared.weights.rho), latents.mean[:, 0], variance_z


def draw(case, k):
    """The k-th W and z of all data."""
    mean, variance, mean_z, variance_z = moments(case)
    noise = np.asarray(case.noise[k])
    w = mean + np.sqrt(variance) * noise[:WEIGHTS]
    return w, mean_z + np.sqrt(variance_z) * noise[WEIGHTS:]


def log_likelihood(case, w, z, n):
    """``log p(y_n | x_n, z, W)`` of the network with three hidden units, written out."""
    x, y = np.asarray(case.batch.x[n]), np.asarray(case.batch.y[n])
    hidden = np.maximum(w[:9].reshape(3, 3) @ np.append(x, z) + w[9:12], 0.0)
    mean = w[12:18].reshape(2, 3) @ hidden + w[18:]
    return norm.logpdf(y, mean, np.exp(0.5 * np.asarray(case.shared.log_noise))).sum()


def log_site(w, mean, variance, prior, num):
    """``log f(w)`` of the factor that satisfies ``q(w) ∝ f(w)^num p(w)``."""
    square = (variance - prior) / (2 * num * prior * variance)
    return np.sum(square * w**2 + mean / (num * variance) * w)


def published_energy(case, power):
    """``−log Z_q + log Z_p − (1/α) Σ_n log E[(p(y_n|·) / (f(W) f_n(z_n)))^α]``."""
    mean, variance, mean_z, variance_z = moments(case)
    log_z_q = sum(
        np.sum(0.5 * np.log(2 * np.pi * v) + m**2 / (2 * v))
        for m, v in ((mean, variance), (mean_z, variance_z))
    )
    log_z_p = 0.5 * WEIGHTS * np.log(2 * np.pi * PRIOR)
    log_z_p += 0.5 * ROWS * np.log(2 * np.pi * LATENT_PRIOR)
    total = 0.0
    for n in range(ROWS):
        powers = []
        for k in range(DRAWS):
            w, z = draw(case, k)
            log_factor = log_likelihood(case, w, z[n], n)
            log_factor -= log_site(w, mean, variance, PRIOR, ROWS)
            log_factor -= log_site(z[n], mean_z[n], variance_z[n], LATENT_PRIOR, 1)
            powers.append(np.exp(power * log_factor))
        total += np.log(np.mean(powers)) / power
    return -log_z_q + log_z_p - total


def log_sites(case):
    """``log p(y_n|·) + (1/N) log p(W)/q(W) + log p(z_n)/q(z_n)`` for each draw and datum."""
    mean, variance, mean_z, variance_z = moments(case)
    sites = np.zeros((DRAWS, ROWS))
    for k in range(DRAWS):
        w, z = draw(case, k)
        ratio = norm.logpdf(w, 0, np.sqrt(PRIOR)) - norm.logpdf(w, mean, np.sqrt(variance))
        ratio_z = norm.logpdf(z, 0, np.sqrt(LATENT_PRIOR))
        ratio_z -= norm.logpdf(z, mean_z, np.sqrt(variance_z))
        fits = np.array([log_likelihood(case, w, z[n], n) for n in range(ROWS)])
        sites[k] = fits + ratio.sum() / ROWS + ratio_z
    return sites


@POWERS
def test_the_energy_equals_the_published_form_with_site_factors(x64, case, power):
    expected = published_energy(case, power)
    np.testing.assert_allclose(energy_of(case, power), expected, rtol=1e-11)


@POWERS
@pytest.mark.parametrize("size", [1, 2, 3])
def test_the_mean_over_a_partition_into_minibatches_is_the_full_energy(x64, case, size, power):
    parts = np.arange(ROWS).reshape(-1, size)
    energies = [energy_of(slots_of(case, part), power) for part in parts]
    np.testing.assert_allclose(np.mean(energies), energy_of(case, power), rtol=1e-12)


def test_towards_alpha_zero_the_energy_is_the_negative_evidence_bound(x64, case):
    sites = log_sites(case)
    # A power mean lies above the mean by half of α times the variance, to first order in α.
    allowed = 1e-6 * sites.var(axis=0).sum()
    assert abs(energy_of(case, 1e-6) + sites.mean(axis=0).sum()) < allowed


def test_the_limit_holds_in_float32_within_its_rounding(case):
    sites = log_sites(case)
    # A site sums fewer than 64 rounded terms, which are of its own size or below.
    rounding = 64 * np.finfo(np.float32).eps * np.abs(sites).mean(axis=0).sum()
    energy = energy_of(case, 1e-6)
    assert energy.dtype == jnp.float32
    assert abs(energy + sites.mean(axis=0).sum()) < 1e-6 * sites.var(axis=0).sum() + rounding


@pytest.mark.parametrize("power", [1.0, 0.5, 1e-6])
def test_gradients_are_the_finite_differences_of_every_parameter(x64, case, power):
    flat, unravel = ravel_pytree((case.shared, case.latents))

    def energy(flat):
        shared, latents = unravel(flat)
        return energy_of(case._replace(shared=shared, latents=latents), power)

    step = 1e-5
    shifts = step * jnp.eye(flat.size)
    differences = jax.lax.map(lambda s: (energy(flat + s) - energy(flat - s)) / (2 * step), shifts)
    # Central differences err by step^2 times the third derivative and by 1e-16 |E| / step.
    np.testing.assert_allclose(jax.grad(energy)(flat), differences, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("power", [1.0, 1e-6])
def test_empty_slots_change_neither_energy_nor_gradients(x64, case, power):
    real, empty = np.array([0, 2, 3, 5]), np.array([1, 4])
    full = case._replace(
        batch=case.batch._replace(importance=case.batch.importance.at[empty].set(0.0))
    )

    def energy_and_gradients(case):
        def energy(shared, latents):
            return energy_of(case._replace(shared=shared, latents=latents), power)

        return jax.jit(jax.value_and_grad(energy, argnums=(0, 1)))(case.shared, case.latents)

    energy, (shared, latents) = energy_and_gradients(full)
    expected, (shared_alone, latents_alone) = energy_and_gradients(slots_of(case, real))
    np.testing.assert_allclose(energy, expected, rtol=1e-13)
    close = lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-12)  # noqa: E731
    jax.tree.map(close, shared, shared_alone)
    jax.tree.map(lambda a, b: close(a[real], b), latents, latents_alone)
    jax.tree.map(lambda leaf: np.testing.assert_array_equal(leaf[empty], 0.0), latents)


def adam_start(case):
    latents = case.latents
    moments = alpha.ADAM.init(case.shared), jax.vmap(alpha.ADAM.init)(latents)
    return alpha.State(case.shared, moments[0], latents, moments[1])


update = jax.jit(alpha.update, static_argnums=0)


@pytest.mark.parametrize(("rate", "latent_rate"), [(0.01, 0.05), (0.2, alpha.MAX_LATENT_RATE)])
def test_latents_move_at_n_over_b_times_the_rate_up_to_a_limit(x64, case, rate, latent_rate):
    batch = case.batch._replace(
        num_data=jnp.asarray(25.0), importance=case.batch.importance.at[5].set(0.0)
    )
    case = case._replace(batch=batch)
    parameters = case.shared, case.latents
    energy = lambda p: energy_of(case._replace(shared=p[0], latents=p[1]), 1.0)  # noqa: E731
    gradients = jax.grad(energy)(parameters)
    new, _, finite = update(
        CONFIG, adam_start(case), batch, 1.0, case.noise, jnp.asarray(rate), jnp.asarray(True)
    )
    assert finite
    # Adam's first step is the sign of the gradient times the rate, but for 1e-8 in a division.
    for new_part, old, gradient, part_rate in zip(
        (new.shared, new.latents), parameters, gradients, (rate, latent_rate), strict=True
    ):
        moved = jax.tree.map(lambda a, b: a - b, new_part, old)
        expected = jax.tree.map(lambda g, r=part_rate: -r * jnp.sign(g), gradient)
        np.testing.assert_allclose(ravel_pytree(moved)[0], ravel_pytree(expected)[0], rtol=1e-4)
    np.testing.assert_array_equal(new.latent_moments.count, [1, 1, 1, 1, 1, 0])


@pytest.mark.parametrize("problem", ["empty batch", "overflow"])
def test_an_update_that_must_not_count_changes_nothing(case, problem):
    nonempty = jnp.asarray(problem != "empty batch")
    batch = case.batch
    if problem == "overflow":
        batch = batch._replace(y=batch.y.at[3, 1].set(1e30))
    old = adam_start(case)
    new, _, finite = update(CONFIG, old, batch, 1.0, case.noise, jnp.asarray(0.1), nonempty)
    assert finite == (problem != "overflow")
    jax.tree.map(np.testing.assert_array_equal, new, old)


def test_every_datum_is_in_exactly_one_batch_of_nearly_equal_size():
    pairs = [(size, batches) for size in range(1, 131) for batches in range(1, min(size, 40) + 1)]
    sizes, counts = np.array(pairs).T
    bounds = jax.jit(jax.vmap(jax.vmap(loop.batch_bounds, (None, None, 0)), (0, 0, None)))
    starts, lengths = map(np.asarray, bounds(jnp.array(sizes), jnp.array(counts), jnp.arange(40)))
    for size, batches, start, length in zip(sizes, counts, starts, lengths, strict=True):
        start, length = start[:batches], length[:batches]
        assert start[0] == 0 and start[-1] + length[-1] == size
        np.testing.assert_array_equal(start[1:], (start + length)[:-1])
        assert length.max() - length.min() <= 1 and length.max() == -(-size // batches)


def test_shuffle_permutes_the_data_keeps_padding_last_and_ignores_its_amount(rng):
    x, y = rng.normal(size=(50, 2)), rng.normal(size=(50, 1))
    order, longer, other = (
        np.asarray(loop.shuffle(jax.random.key(seed), jax.device_put(pad(x, y, length, "float32"))))
        for seed, length in ((0, 64), (0, 128), (1, 64))
    )
    np.testing.assert_array_equal(np.sort(order[:50]), np.arange(50))
    np.testing.assert_array_equal(order[50:], np.arange(50, 64))
    np.testing.assert_array_equal(order[:50], longer[:50])
    assert not np.array_equal(order, other) and not np.array_equal(order, np.arange(64))


@pytest.mark.parametrize(
    ("decay", "expected"),
    [(0.0, [0.3, 0.3, 0.3]), (1.0, [0.3, 0.15, 0.0]), (0.5, [0.3, 0.225, 0.15])],
)
def test_the_learning_rate_stays_or_falls_as_a_cosine(decay, expected):
    schedule = alpha.Schedule(jnp.int32(9), jnp.int32(1), jnp.float32(0.3), jnp.float32(decay))
    rates = [loop.learning_rate(schedule, jnp.float32(progress)) for progress in (0.0, 0.5, 1.0)]
    np.testing.assert_allclose(rates, expected, atol=1e-7)


def test_init_is_the_authors_starting_point(rng):
    config = alpha.Alpha(draws=8).config(BNNLV(2, 3, (50, 50), 1, 1.0, 2.0), 16)
    data = jax.device_put(pad(rng.normal(size=(50, 2)), rng.normal(size=(50, 3)), 64, "float32"))
    state = alpha.init(config, jax.random.key(0), alpha.Problem(data, jnp.float32(1.0)))
    np.testing.assert_array_equal(state.shared.weights.rho, -10.0)
    np.testing.assert_array_equal(state.shared.log_noise, [-5.0] * 3)
    np.testing.assert_array_equal(state.latents.mean, np.zeros((64, 1)))
    np.testing.assert_array_equal(state.latents.rho, np.full((64, 1), 5.0))
    means = np.asarray(state.shared.weights.mean)
    # Four standard errors of the mean and of the deviation of n normal numbers.
    assert abs(means.mean()) < 4 * 0.1 / np.sqrt(means.size)
    assert abs(means.std() - 0.1) < 4 * 0.1 / np.sqrt(2 * means.size)


@pytest.mark.parametrize("name", ["batch_size", "draws"])
def test_a_config_without_data_or_draws_is_refused(name):
    with pytest.raises(ValueError, match=f"{name} must be an integer of at least 1, got 0"):
        alpha.Alpha(**{name: 0})


LINEAR_PRIOR, LINEAR_ROWS, LINEAR_DRAWS = 0.1, 50, 200
LINEAR = alpha.Alpha(draws=LINEAR_DRAWS).config(BNNLV(2, 1, (), 0, LINEAR_PRIOR, 1.0), LINEAR_ROWS)
RATE, EPOCHS = 0.05, 4000


class Linear(NamedTuple):
    """A linear model without latent inputs, fitted with one α."""

    features: np.ndarray
    y: np.ndarray
    power: float
    mean: np.ndarray
    variance: np.ndarray
    noise: float

    @property
    def precision(self):
        """Precision of the exact posterior at the fitted noise."""
        return np.eye(3) / LINEAR_PRIOR + self.features.T @ self.features / self.noise

    @property
    def exact_mean(self):
        return np.linalg.solve(self.precision, self.features.T @ self.y / self.noise)

    @property
    def theta(self):
        logits = np.log(self.variance / (LINEAR_PRIOR - self.variance))
        return np.concatenate([self.mean, logits, [np.log(self.noise)]])


@pytest.fixture(scope="module")
def linear_fits(members):
    """Variational Bayes on correlated columns; α = ½ and 1 on orthogonal ones; one program."""
    rng = np.random.default_rng(0)
    correlated = rng.normal(size=(LINEAR_ROWS, 2)) @ [[1.0, 0.8], [0.0, 0.6]]
    columns = np.concatenate([np.ones((LINEAR_ROWS, 1)), rng.normal(size=(LINEAR_ROWS, 2))], axis=1)
    orthogonal = np.sqrt(LINEAR_ROWS) * np.linalg.qr(columns)[0][:, 1:]
    cases = [(correlated, 1e-6), (orthogonal, 0.5), (orthogonal, 1.0)]
    outputs = [x @ [1.0, -0.5] + 0.3 + 0.6 * rng.normal(size=LINEAR_ROWS) for x, _ in cases]
    problems = [
        alpha.Problem(jax.device_put(pad(x, y[:, None], 64, "float32")), jnp.float32(power))
        for (x, power), y in zip(cases, outputs, strict=True)
    ]
    keys = jax.random.split(jax.random.key(0), len(cases))
    states, _, skipped = members(LINEAR, problems, keys, EPOCHS, RATE, decay=1.0).fit()
    assert skipped.sum() == 0
    posterior = jax.vmap(lambda state: alpha.posterior(LINEAR, state))(states)
    fields = (np.asarray(field, float) for field in posterior)
    return [
        Linear(np.append(x, np.ones((LINEAR_ROWS, 1)), axis=1), y, power, m, v, np.exp(noise[0]))
        for (x, power), y, m, v, noise in zip(cases, outputs, *fields, strict=True)
    ]


def log_site_moments(fit, theta, power):
    """``log E_q[(p(y_n|W) (p(W)/q(W))^{1/N})^α]`` for every n: Gaussian integrals, done exactly."""
    features, y, share = fit.features, fit.y, power / LINEAR_ROWS
    mean, variance, noise = theta[:3], LINEAR_PRIOR * expit(theta[3:6]), np.exp(theta[6])
    outer = features[:, :, None] * features[:, None, :]
    precision = np.diag((1 - share) / variance + share / LINEAR_PRIOR) + power * outer / noise
    linear = (1 - share) * mean / variance + power * features * y[:, None] / noise
    solved = np.linalg.solve(precision, linear[:, :, None])[:, :, 0]
    constant = power * norm.logpdf(y, 0.0, np.sqrt(noise))
    constant += 0.5 * np.sum(
        share * np.log(variance / LINEAR_PRIOR)
        - np.log(variance)
        - (1 - share) * mean**2 / variance
    )
    return constant + 0.5 * np.sum(linear * solved, axis=1) - 0.5 * np.linalg.slogdet(precision)[1]


def exact_energy(theta, fit):
    return -log_site_moments(fit, theta, fit.power).sum() / fit.power


def expected_excess(theta, fit):
    """By how much K draws raise the energy on average: ``log`` is concave; to first order in 1/K.

    The mean of K draws of s has relative variance ``(E[s^2]/E[s]^2 - 1)/K``, its log half as much.
    """
    log_squares = log_site_moments(fit, theta, 2 * fit.power)
    ratios = np.exp(log_squares - 2 * log_site_moments(fit, theta, fit.power))
    return np.sum(ratios - 1) / (2 * LINEAR_DRAWS * fit.power)


def minimiser(energy, fit):
    return minimize(energy, fit.theta, args=(fit,), options={"gtol": 1e-6}).x


def wandering(deviation):
    """Four deviations of where Adam ends: of means, of log-variances, of the log-noise.

    With K draws, gradient noise g and curvature c, Adam's steps ``rate g / rms(g)`` wander around
    the minimum with variance ``rate rms(g) / (2 c)``. For a mean of posterior deviation s,
    ``rms(g) = 1/(s √K)`` and ``c = 1/s²``; for a log-variance ``1/√(2K)`` and ½; for the log-noise
    ``√(P/(2K))`` and N/2. The rate is the one at nine tenths of the cosine decay.
    """
    rate = RATE * np.sin(np.pi / 20) ** 2
    means = np.sqrt(rate * deviation / (2 * np.sqrt(LINEAR_DRAWS)))
    log_variances = np.sqrt(rate / np.sqrt(2 * LINEAR_DRAWS))
    log_noise = np.sqrt(rate * np.sqrt(3 / (2 * LINEAR_DRAWS)) / LINEAR_ROWS)
    return 4 * means, 4 * log_variances, 4 * log_noise


def test_variational_bayes_finds_the_closed_form_of_a_linear_model(linear_fits):
    fit = linear_fits[0]
    variance = 1 / np.diag(fit.precision)
    means, log_variances, log_noise = wandering(np.sqrt(variance))
    np.testing.assert_array_less(np.abs(fit.mean - fit.exact_mean), means)
    np.testing.assert_array_less(np.abs(np.log(fit.variance / variance)), log_variances)
    squares = (fit.y - fit.features @ fit.mean) ** 2 + fit.features**2 @ fit.variance
    assert abs(np.log(fit.noise / squares.mean())) < log_noise


def test_alpha_one_half_finds_the_minimum_of_the_exact_energy(linear_fits):
    fit = linear_fits[1]
    best = minimiser(lambda theta, fit: exact_energy(theta, fit) + expected_excess(theta, fit), fit)
    variance = LINEAR_PRIOR * expit(best[3:6])
    means, log_variances, log_noise = wandering(np.sqrt(variance))
    np.testing.assert_array_less(np.abs(fit.mean - best[:3]), means)
    np.testing.assert_array_less(np.abs(np.log(fit.variance / variance)), log_variances)
    assert abs(np.log(fit.noise) - best[6]) < log_noise


def test_alpha_one_comes_as_close_to_the_exact_minimum_as_its_draws_allow(linear_fits):
    # What is minimised is the exact energy plus a positive excess, so at its minimum the exact
    # energy is above its own minimum by at most the excess there. Wandering adds, in each of the
    # seven directions, rate rms(g) / 4, below 1e-3 here.
    fit = linear_fits[2]
    best = minimiser(exact_energy, fit)
    above = exact_energy(fit.theta, fit) - exact_energy(best, fit)
    assert 0 <= above < expected_excess(best, fit) + 7e-3


def test_alpha_one_overstates_the_variance_even_where_the_posterior_factorises(linear_fits):
    # Not a defect of the code: the exact energy has its minimum there. One factor f stands for all
    # data, so each datum's deviation from the mean datum is booked as uncertainty of the weights.
    fit = linear_fits[2]
    precision = np.diag(fit.precision)
    np.testing.assert_allclose(fit.precision, np.diag(precision), atol=1e-8 * precision.max())
    assert np.all(LINEAR_PRIOR * expit(minimiser(exact_energy, fit)[3:6]) > 2 / precision)
    assert np.all(fit.variance > 2 / precision)


def test_integrated_energy_is_that_of_the_marginal_likelihood(x64, rng):
    model = BNNLV(2, 1, (3,), 1, 0.5, 2.0)
    config = alpha.Alpha(draws=6, nodes=5).config(model, 4)
    data = jax.device_put(pad(rng.normal(size=(4, 2)), rng.normal(size=(4, 1)), 4, "float64"))
    x, y = data.x, data.y
    state = alpha.init(config, jax.random.key(0), alpha.Problem(data, jnp.asarray(0.7)))
    assert state.latents.mean.shape == (4, 0)
    batch = alpha.Batch(x, y, jnp.ones(4), jnp.asarray(20.0))
    noise = jnp.asarray(rng.normal(size=(6, model.num_weights)))
    found = alpha.batch_energy(config, state.shared, state.latents, batch, 0.7, noise)

    means, rho = state.shared.weights
    variance = 0.5 / (1 + np.exp(-np.asarray(rho)))
    weights = means + np.sqrt(variance) * noise
    ratio = norm.logpdf(weights, scale=np.sqrt(0.5)) - norm.logpdf(
        weights, means, np.sqrt(variance)
    )
    log_noise = jnp.broadcast_to(state.shared.log_noise, (6, 1))
    sites = log_marginal(model, weights, log_noise, x, y, latent_nodes(model, 5))
    terms = np.exp(0.7 * (np.asarray(sites) + ratio.sum(axis=1)[:, None] / 20.0))
    np.testing.assert_allclose(found, -(20.0 / 4.0) * np.log(terms.mean(axis=0)).sum() / 0.7)


@POWERS
def test_a_row_of_weight_two_is_the_row_twice(x64, case, power):
    times = np.array([1, 2, 1, 3, 1, 1])
    weights = loop.Weights(jnp.asarray(times, float), jnp.asarray(float(times.sum())))
    found = energy_of(case._replace(batch=case.batch._replace(weights=weights)), power)
    repeated = slots_of(case, np.repeat(np.arange(ROWS), times))
    batch = repeated.batch._replace(num_data=weights.total)
    np.testing.assert_allclose(found, energy_of(repeated._replace(batch=batch), power))


def test_minibatches_of_weighted_rows_estimate_the_energy_of_all(x64, rng):
    times = rng.uniform(0.1, 3.0, 12)
    data = jax.device_put(
        pad(rng.normal(size=(12, 2)), rng.normal(size=(12, 2)), 16, "float64", times)
    )
    batches, batch_at = loop.make_batches(jax.random.key(0), data, 4)
    values = rng.normal(size=12)
    found = []
    for index in range(int(batches)):
        batch = batch_at(jnp.int32(index))
        rows = np.argmin(np.abs(np.asarray(batch.x[:, :1]) - np.asarray(data.x[:12, 0])), axis=1)
        np.testing.assert_allclose(batch.weights.own, times[rows])
        terms = jnp.asarray(values[rows])[None], jnp.full(1, 0.6), jnp.zeros((1, 4))
        found.append(
            alpha.alpha_energy(*terms, 1.0, batch.num_data, batch.importance, batch.weights)
        )
    np.testing.assert_allclose(np.mean(found), -(times @ values + 0.6))


def test_at_most_two_latent_inputs_can_be_integrated_out():
    with pytest.raises(ValueError, match="at most 2 latent inputs, got 3"):
        alpha.Alpha(draws=5, nodes=3).config(BNNLV(1, 1, (), 3, 1.0, 1.0), 4)
