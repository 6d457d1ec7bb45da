"""Annealed populations: on targets whose answer is known, and what the forces are made of."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import logsumexp
from scipy.stats import norm

from paper.posteriors import hold_against
from paper.reference import annealing
from paper.reference.annealing import Density, State
from paper.reference.answers import Answers, read_references, store_answers
from paper.reference.forces import (
    Tables,
    Target,
    flat_network,
    forces,
    has_kernel,
    log_likelihood,
    log_likelihoods,
)
from paper.reference.models import draws_of_cases
from paper.reference.populations import FORMS, Case, Run, Size, density_of, tabulate

HEIGHTS, CENTRES, WIDTH = (0.7, 0.3), (1.5, -1.0), 0.2
DIMENSION, GROUPS, PARTICLES = 3, 8, 128


def two_modes(positions):
    """A likelihood of the first coordinate alone."""
    first = positions[:, :1]
    terms = norm_log(first, jnp.array(CENTRES)) + jnp.log(jnp.array(HEIGHTS))
    return jax.nn.logsumexp(terms, axis=1)


def norm_log(x, centre):
    return -0.5 * jnp.square((x - centre) / WIDTH) - jnp.log(WIDTH * jnp.sqrt(2.0 * jnp.pi))


def coarse_force(positions):
    """The gradient, rounded: a path need not follow the gradient exactly to be reversible."""
    exact = jax.grad(lambda x: jnp.sum(two_modes(x)))(positions)
    return jnp.round(20.0 * exact) / 20.0


@pytest.fixture(scope="module")
def annealed():
    """Populations that have come to the end, and some stages further."""
    density = Density(two_modes, coarse_force)
    state = annealing.init(density, jax.random.key(0), GROUPS, PARTICLES, DIMENSION)
    rng, stages = np.random.default_rng(0), 0
    while float(state.power.min()) < 1.0 or stages < 12:
        steps = annealing.path_steps(rng, state, 60, 40)
        state = annealing.advance(density, jax.random.key(stages), state, jnp.asarray(steps))
        stages += 1
    return state


def test_modes_get_their_shares_and_the_evidence_is_found(annealed):
    wide = np.hypot(1.0, WIDTH)
    masses = np.array(HEIGHTS) * norm.pdf(CENTRES, 0.0, wide)
    right = np.asarray(annealed.positions[..., 0] > 0.25).mean(axis=1)
    error = right.std(ddof=1) / np.sqrt(GROUPS)
    assert abs(right.mean() - masses[0] / masses.sum()) < 4 * error
    evidence = np.asarray(annealed.evidence)
    error = evidence.std(ddof=1) / np.sqrt(GROUPS)
    assert abs(evidence.mean() - np.log(masses.sum())) < 4 * error
    assert error < 0.1 and np.all(np.asarray(annealed.power) == 1.0)


def test_each_mode_has_the_moments_of_the_posterior(annealed):
    first = np.asarray(annealed.positions[..., 0]).ravel()
    precision = 1.0 + WIDTH**-2
    own = first[first > 0.25]
    mean, deviation = CENTRES[0] * WIDTH**-2 / precision, precision**-0.5
    assert abs(own.mean() - mean) < 4 * deviation / np.sqrt(len(own) / 4)
    assert own.std() == pytest.approx(deviation, rel=0.15)
    others = np.asarray(annealed.positions[..., 1:]).ravel()
    assert abs(others.mean()) < 0.15 and others.std() == pytest.approx(1.0, abs=0.1)


def test_powers_rise_as_far_as_the_population_allows(rng):
    values = jnp.asarray(rng.normal(0.0, 30.0, 500), jnp.float32)
    power = annealing.next_power(values, jnp.float32(0.1))
    weights = np.exp(np.asarray(values - values.max(), float) * float(power - 0.1))
    assert weights.sum() ** 2 / np.square(weights).sum() / 500 == pytest.approx(
        annealing.SPREAD, abs=0.01
    )
    assert float(annealing.next_power(1e-4 * values, jnp.float32(0.1))) == 1.0


def test_particles_are_chosen_by_their_weights():
    counts = np.array([4, 0, 1, 3, 0, 0, 0, 0])
    log_weights = jnp.log(jnp.asarray(counts, jnp.float32))
    chosen = np.asarray(annealing.choose(jax.random.key(1), log_weights))
    np.testing.assert_array_equal(np.bincount(chosen, minlength=8), counts)


def test_paths_are_long_or_many():
    state = State(*(jnp.zeros((2, 1)) for _ in State._fields))
    many = annealing.path_steps(
        np.random.default_rng(0), state._replace(log_step=jnp.log(jnp.full(2, 0.2))), 1_000, 500
    )
    few = annealing.path_steps(
        np.random.default_rng(0), state._replace(log_step=jnp.log(jnp.full(2, 1e-4))), 300, 500
    )
    assert np.all((many >= 5) & (many <= 8)) and len(many) == annealing.MOST_PATHS
    assert np.all((few[:2] >= 250) & (few[:2] <= 500)) and not few[2:].any()


def plain_log_density(flat, x, y, z, log_weights, activate):
    """From the numbers of ``flat_network``, in NumPy."""
    sizes = [20, 20, 20, 400, 20, 20, 20, 1, 1, 1, 1, 1]
    w1x, w1z, b1, w2, b2, w3m, w3g, b3m, b3g, skip, base, odds = np.split(
        flat, np.cumsum(sizes[:-1])
    )
    first = activate(w1x * x[:, None, None] + w1z * z[None, :, None] + b1)
    second = activate(first @ w2.reshape(20, 20).T + b2)
    mean = second @ w3m + b3m + skip * x[:, None]
    deviation = np.exp(0.5 * base + second @ w3g + b3g)
    wide = 1.0 / (1.0 + np.exp(-odds)) if odds else 0.0
    density = (1.0 - wide) * norm.pdf(y[:, None], mean, deviation)
    density = density + wide * norm.pdf(y[:, None], mean, 10.0 * deviation)
    return logsumexp(log_weights, axis=1, b=density).sum()


@pytest.mark.parametrize("form", FORMS)
def test_what_the_kernel_is_given_is_all_that_the_likelihood_depends_on(form, rng):
    model = FORMS[form]
    tables = Tables(*(jnp.asarray(rng.normal(size=(1, 7)), jnp.float32) for _ in range(2)))
    target = Target.of(model, 5, tables)
    position = jnp.asarray(0.5 * rng.normal(size=model.num_weights + model.num_noise), jnp.float32)
    flat = np.asarray(flat_network(model, position), float)
    x, y = (np.asarray(part[0], float) for part in tables)
    z = np.asarray(target.nodes.points)[:, 0] if model.latents else np.zeros(1)
    weights = np.asarray(target.nodes.log_weights, float)[None]
    activate = np.tanh if model.activation == "tanh" else lambda v: np.maximum(v, 0.0)
    expected = plain_log_density(flat, x, y, z, weights, activate)
    found = log_likelihood(target, position, jnp.int32(0))
    assert float(found) == pytest.approx(expected, rel=1e-4)


@pytest.mark.parametrize("form", FORMS)
def test_forces_are_gradients(form, rng):
    model = FORMS[form]
    if not has_kernel(model) and jax.default_backend() == "gpu":
        pytest.skip("no compiler for forces.cu")
    tables = Tables(*(jnp.asarray(rng.normal(size=(2, 37)), jnp.float32) for _ in range(2)))
    target, numbers = Target.of(model, 3, tables), jnp.array([1, 0, 1])
    shape = (3, model.num_weights + model.num_noise)
    positions = jnp.asarray(0.5 * rng.normal(size=shape), jnp.float32)
    found = forces(target, positions, numbers)
    slopes = jax.grad(lambda p: jnp.sum(log_likelihoods(target, p, numbers)))(positions)
    error = np.linalg.norm(found - slopes, axis=1) / np.linalg.norm(slopes, axis=1)
    assert np.all(error < (1e-2 if has_kernel(model) else 1e-5))


def test_a_stored_run_goes_on_from_its_positions(tmp_path):
    cases, size = [Case("bimodal", 0), Case("skewed", 0)], Size(populations=1, particles=2)
    density = density_of("reference_plain", cases, size)
    dimension = FORMS["reference_plain"].num_weights + FORMS["reference_plain"].num_noise
    state = annealing.init(density, jax.random.key(0), 2, 2, dimension)
    kept = [np.asarray(state.positions, np.float16)]
    Run(state, 7, 1, kept).save(tmp_path / "run.npz")
    found = Run.load(tmp_path / "run.npz").look_again(density)
    assert (found.stage, found.whole, len(found.kept)) == (7, 1, 1)
    np.testing.assert_allclose(found.state.positions, state.positions, atol=3e-3)
    expected = density.log_likelihood(found.state.positions.reshape(4, -1)).reshape(2, 2)
    np.testing.assert_allclose(found.state.log_likelihood, expected, rtol=1e-5)


def test_data_are_standardised_and_draws_ordered_by_case_population_and_particle():
    tables = tabulate([Case("merging", 0), Case("merging", 1)])
    np.testing.assert_allclose(np.mean(tables.y, axis=1), 0.0, atol=1e-5)
    np.testing.assert_allclose(np.std(tables.x, axis=1), 1.0, atol=1e-5)
    # Two cases of two populations of three particles, two stages: numbers 100 c + 10 p + i + s/2.
    group = 100.0 * np.array([0, 0, 1, 1]) + 10.0 * np.array([0, 1, 0, 1])
    stages = [(group[:, None] + np.arange(3.0) + stage / 2)[..., None] for stage in (0, 1)]
    first, second = draws_of_cases(Run(None, 2, 2, stages), 2)
    assert first.shape == (2, 6, 1)
    np.testing.assert_array_equal(first[1, :, 0], [10, 10.5, 11, 11.5, 12, 12.5])
    np.testing.assert_array_equal(second[0, :, 0], [100, 100.5, 101, 101.5, 102, 102.5])


def test_gaps_to_the_reference_are_paired():
    one = Answers(np.zeros(3), np.array([1.0, 2.0, 3.0]), np.zeros(3), np.array([-1.0, -2.0]))
    other = one._replace(epistemic=one.epistemic + 0.5, log_density=np.array([-0.5, -1.7]))
    found = hold_against(one, other)
    assert found["reference_gap"] == pytest.approx(0.4)
    assert found["log_density_abs_difference"] == pytest.approx(0.4)
    assert found["epistemic_abs_error"] == pytest.approx(0.5)
    assert found["epistemic_rank_correlation"] == pytest.approx(1.0)


def test_stored_references_are_read_as_they_were_written(tmp_path, rng):
    own, case = Answers(*rng.normal(size=(4, 5))), Case("skewed", 2)
    for form in ("hmc", "reference"):
        store_answers(form, {case: own}, tmp_path)
    references = read_references(lambda file: tmp_path)
    assert set(references) == {("hmc", case), ("reference", case)}
    for found, stored in zip(references["reference", case], own, strict=True):
        np.testing.assert_allclose(found, stored, rtol=1e-6)
