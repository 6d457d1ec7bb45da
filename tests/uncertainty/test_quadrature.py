"""Near-exact entropies against closed forms and adaptive integration."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.stats import norm

from twofold.uncertainty import entropies
from twofold.uncertainty.entropies import SIZES, size_needed, spline_weights

# Each in one program; otherwise every operation would be compiled for every shape.
spread_mass = jax.jit(entropies.spread_mass, static_argnums=1)
densities = jax.jit(entropies.densities, static_argnums=4)
entropies_on = jax.jit(entropies.entropies_on, static_argnums=0)
integrate = jax.jit(entropies.integrate)
GAUSSIAN = 0.5 * np.log(2 * np.pi * np.e)


def at_point(centres, log_noise):
    """``integrate`` for one output."""
    log_noise = np.broadcast_to(log_noise, (centres.shape[1],))
    found = integrate(jax.random.key(0), centres[..., None], log_noise[:, None])
    return jax.tree.map(np.asarray, found)


def exact_entropies(centres, sigma):
    """By scipy's adaptive integration of the densities written out."""
    points = np.sort(centres.ravel())
    low, high = points[0] - 8 * sigma.max(), points[-1] + 8 * sigma.max()

    def density(y, m):
        return norm.pdf(y, centres[:, m], sigma[m]).mean()

    def integral(function):
        return quad(function, low, high, limit=400, points=points[:: max(1, len(points) // 40)])[0]

    everyone = range(centres.shape[1])

    def mean(y):
        return np.mean([density(y, m) for m in everyone])

    cross = [integral(lambda y, m=m: -density(y, m) * np.log(mean(y))) for m in everyone]
    conditional = [
        integral(lambda y, m=m: -density(y, m) * np.log(density(y, m) + 1e-300)) for m in everyone
    ]
    return np.array(cross), np.array(conditional)


def test_spline_weights_keep_mass_and_mean():
    offset = jnp.linspace(0.0, 1.0, 11)
    weights = spline_weights(offset)
    np.testing.assert_allclose(weights.sum(axis=-1), 1.0, rtol=1e-6)
    np.testing.assert_allclose(weights @ jnp.arange(-1.0, 3.0), offset, atol=1e-6)
    assert np.all(weights >= 0)


def test_spread_mass_keeps_mass_and_mean(rng):
    positions = rng.uniform(5.0, 50.0, 200)
    mass = np.asarray(spread_mass(jnp.asarray(positions, jnp.float32), 64))
    np.testing.assert_allclose(mass.sum(), 200.0, rtol=1e-5)
    np.testing.assert_allclose(mass @ np.arange(64), positions.sum(), rtol=1e-5)


@pytest.mark.parametrize("per_deviation", [2.0, 3.3])
def test_densities_equal_the_sum_of_gaussians(x64, rng, per_deviation):
    centres, sigma = rng.normal(size=(7, 3)), np.array([0.3, 0.4, 0.55])
    spacing = 0.3 / per_deviation
    low = centres.min() - 6 * 0.55
    points = 128
    found = densities(
        jnp.asarray(centres), jnp.asarray(2 * np.log(sigma)), jnp.asarray(low),
        jnp.asarray(spacing), points,
    )  # fmt: skip
    grid = low + spacing * np.arange(points)
    expected = norm.pdf(grid, centres[..., None], sigma[:, None]).mean(axis=0)
    # Gridding errs by about (1 / (2π · points per deviation))^4 of a peak, 3e-4 at the coarsest.
    np.testing.assert_allclose(found, expected, atol=1e-3 * expected.max())


@pytest.mark.parametrize("seed", range(3))
def test_integrate_equals_adaptive_integration(seed):
    rng = np.random.default_rng(seed)
    centres, sigma = rng.normal(size=(4, 3)) * 2, rng.uniform(0.1, 0.5, 3)
    cross, conditional = exact_entropies(centres, sigma)
    found = at_point(np.asarray(centres, np.float32), np.float32(2 * np.log(sigma)))
    np.testing.assert_allclose(found.cross, cross, atol=1e-3)
    np.testing.assert_allclose(found.conditional, conditional, atol=1e-3)


@pytest.mark.parametrize("offset", [0.0, 0.13, 0.5, 0.77])
def test_a_lone_gaussian_anywhere_between_grid_points(offset):
    spread = jnp.asarray([[0.0, offset]], jnp.float32)
    found = entropies_on(32, spread, jnp.zeros(2, jnp.float32))
    np.testing.assert_allclose(found.conditional, GAUSSIAN, atol=2e-4)


@pytest.mark.parametrize("ratio", [0.0, 0.01, 0.1, 1.0, 10.0])
def test_entropies_of_a_linear_gaussian_model(ratio):
    """``y = w + noise``: total ½ log 2πe(s²+σ²), conditional ½ log 2πeσ²."""
    sigma, draws = 0.3, 2000
    spread = sigma * np.sqrt(ratio)
    centres = spread * norm.ppf((np.arange(draws) + 0.5) / draws)
    found = at_point(np.asarray(centres, np.float32)[None], np.float32(2 * np.log(sigma)))
    np.testing.assert_allclose(found.conditional, GAUSSIAN + np.log(sigma), atol=5e-4)
    expected = GAUSSIAN + 0.5 * np.log(sigma**2 + spread**2)
    # The even grid of quantiles stands for the normal distribution up to its far tails.
    np.testing.assert_allclose(found.cross.mean(), expected, atol=2e-3)


@pytest.mark.parametrize(("reach", "sigma"), [(100.0, 0.1), (10.0, 1e-2), (10.0, 3e-3)])
def test_narrow_noise_gets_a_finer_grid(reach, sigma):
    # Ten far and narrow modes: entropy of one mode plus log 10.
    centres = np.linspace(0.0, reach, 10, dtype=np.float32)[:, None]
    found = at_point(centres, np.float32(2 * np.log(sigma)))
    np.testing.assert_allclose(found.conditional[0], GAUSSIAN + np.log(sigma * 10), atol=2e-3)


def test_size_needed_is_two_points_a_deviation(x64):
    centres = jnp.asarray([[0.0, 3.0], [1.0, 9.0]])
    needed = size_needed(centres, jnp.log(jnp.asarray([0.25, 1.0])))
    np.testing.assert_allclose(needed, 2 * (9.0 + 12.0) / 0.5)


def test_noise_too_narrow_for_any_grid_gives_nan():
    centres = np.linspace(0.0, 1.0, 10, dtype=np.float32)[:, None]
    found = at_point(centres, np.float32(2 * np.log(1.0 / SIZES[-1])))
    assert np.isnan(found.cross).all()
    assert np.isnan(found.conditional).all()
