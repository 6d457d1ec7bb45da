"""Near-exact entropies of mixtures with many widths, against integration in double precision."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm

from twofold.model.spec import WIDE
from twofold.uncertainty import varying_entropy
from twofold.uncertainty.varying_entropy import (
    LEVELS,
    MARGIN,
    MOST_ADDED,
    MOST_VALUES,
    SIZES,
    level_points,
    refine,
    rule_weights,
    sizes_for,
    two_widths,
    widen,
)

integrate_varying = jax.jit(varying_entropy.integrate_varying)
LATENTS, DRAWS = 8, 5
# Measured on 150 mixtures like these: 1.5e-4 of one draw, 5e-5 of the mean over draws, most of it
# the interpolation between levels.
TOLERANCE, OF_PARTS = 5e-4, 1e-4


def in_single(centres, log_deviation, log_odds):
    """The estimator's cross and conditional entropies, in single precision."""
    arguments = centres, 2.0 * log_deviation, log_odds
    found = integrate_varying(*(jnp.asarray(part, jnp.float32) for part in arguments))
    return [np.asarray(part, np.float64) for part in found]


def exact(centres, log_deviation, log_odds):
    """By Gauss's rule between all points that are whole deviations from any of the centres."""
    deviation, share = np.exp(log_deviation), expit(log_odds)
    places = [
        centres[..., None] + width * deviation[..., None] * np.arange(-9.0, 10.0)
        for width in (1.0, WIDE)
    ]
    edges = np.unique(places)
    nodes, weights = np.polynomial.legendre.leggauss(3)
    half = 0.5 * np.diff(edges)[:, None]
    y = (edges[:-1, None] + half * (1.0 + nodes)).ravel()
    weights = (half * weights).ravel()
    density = np.zeros((centres.shape[1], len(y)))
    for latent, scale in zip(centres, deviation, strict=True):
        for part, width in ((1.0 - share, 1.0), (share, WIDE)):
            terms = norm.pdf(y, latent[:, None], width * scale[:, None])
            density += part[:, None] * terms / len(centres)
    mean = density.mean(axis=0)
    cross = -(density * np.log(np.maximum(mean, 1e-300))) @ weights
    return cross, -(density * np.log(np.maximum(density, 1e-300))) @ weights


def draw_mixture(kind, seed, latents):
    """Centres, log-deviations and log-odds of one kind."""
    rng = np.random.default_rng(seed)
    shape = latents, DRAWS
    centres = rng.normal(size=shape) + rng.normal(size=DRAWS)
    log_deviation = rng.uniform(-2.0, 0.0, shape)
    if kind == "many widths":
        log_deviation = rng.uniform(-np.log(1000.0), 0.0, shape)
    if kind == "outlying":
        centres[0, :2] += [40.0, -70.0]
        log_deviation[0, :2] += [2.0, -1.0]
    if kind == "two humps":
        centres += rng.choice([-8.0, 8.0], shape)
        log_deviation -= 2.0
    return centres, log_deviation, rng.uniform(-8.0, 0.0, DRAWS)


@pytest.mark.parametrize("latents", [1, LATENTS])
@pytest.mark.parametrize("kind", ["alike", "many widths", "outlying", "two humps"])
def test_entropies_equal_those_of_a_fine_integration(kind, latents):
    for seed in range(3):
        mixture = draw_mixture(kind, seed, latents)
        (cross, conditional), known = in_single(*mixture), exact(*mixture)
        np.testing.assert_allclose(cross, known[0], atol=TOLERANCE)
        np.testing.assert_allclose(conditional, known[1], atol=TOLERANCE)
        parts, expected = (
            [np.mean(c), np.mean(c - h), np.mean(h)] for c, h in ((cross, conditional), known)
        )
        np.testing.assert_allclose(parts, expected, atol=OF_PARTS)


def test_without_latent_input_the_conditional_entropy_is_that_of_two_widths():
    """``log σ`` and a function of the log-odds alone."""

    def surprisal(y, share):
        density = (1.0 - share) * norm.pdf(y) + share * norm.pdf(y, scale=WIDE)
        return -density * np.log(density)

    centres, log_deviation, log_odds = draw_mixture("many widths", 0, 1)
    _, conditional = in_single(centres, log_deviation, log_odds)
    for m, share in enumerate(expit(log_odds)):
        expected = 2.0 * quad(surprisal, 0.0, 80.0, (share,), points=[4.0, 40.0])[0]
        np.testing.assert_allclose(conditional[m], log_deviation[0, m] + expected, atol=TOLERANCE)


@pytest.mark.parametrize("kind", ["many widths", "outlying"])
def test_draws_that_are_alike_have_no_epistemic_part(kind):
    one = (part[..., :1] for part in draw_mixture(kind, 1, LATENTS))
    cross, conditional = in_single(*(np.repeat(part, DRAWS, axis=-1) for part in one))
    np.testing.assert_allclose(cross, conditional, atol=5e-6)


def test_units_and_origin_of_y_do_not_matter():
    centres, log_deviation, log_odds = draw_mixture("alike", 2, LATENTS)
    found = in_single(centres, log_deviation, log_odds)
    for scale, shift in ((1e-3, 0.0), (300.0, -1e4)):
        moved = in_single(scale * centres + shift, log_deviation + np.log(scale), log_odds)
        for entropy, before in zip(moved, found, strict=True):
            np.testing.assert_allclose(entropy - np.log(scale), before, atol=TOLERANCE)


def test_many_points_at_once_are_as_each_alone():
    mixtures = [draw_mixture(kind, 3, LATENTS) for kind in ("alike", "two humps")]
    stacked = [jnp.asarray(np.stack(parts), jnp.float32) for parts in zip(*mixtures, strict=True)]
    together = jax.vmap(integrate_varying)(stacked[0], 2.0 * stacked[1], stacked[2])
    for place, mixture in enumerate(mixtures):
        for found, alone in zip(together, in_single(*mixture), strict=True):
            np.testing.assert_allclose(found[place], alone, atol=1e-5)


@pytest.mark.parametrize("change", ["far", "narrow", "not a number"])
def test_what_no_grid_can_hold_is_not_known(change):
    centres, log_deviation, log_odds = draw_mixture("alike", 4, LATENTS)
    if change == "far":
        centres[0, 0] = 2.0 * SIZES[-1]
    if change == "narrow":
        centres[:] = 0.0
        log_deviation[0] -= LEVELS * np.log(2.0)
    if change == "not a number":
        centres[0, 0] = np.nan
    for entropy in in_single(centres, log_deviation, log_odds):
        assert np.isnan(entropy).all()


def test_a_finer_level_continues_a_polynomial(x64):
    """Six points know a polynomial of degree five."""
    fine, coarse = level_points(SIZES[0])[:2]
    y = (np.arange(coarse) - MARGIN) / 100.0
    at = (np.arange(fine) - MARGIN) / 200.0
    values = np.polynomial.Polynomial([9.0, 1.0, -0.5, 0.3, 0.2, 0.1])
    found = refine(jnp.asarray(values(y))[None], fine)[0]
    np.testing.assert_allclose(found, values(at), rtol=1e-12)


def test_the_rule_integrates_a_parabola_over_all_levels():
    points = level_points(SIZES[0])
    places = [2.0**j * (np.arange(count) - MARGIN) for j, count in enumerate(points)]
    y, low, high = np.concatenate(places), places[-1][0], places[-1][-1]
    weights = rule_weights(points)
    for power in range(3):
        exactly = (high ** (power + 1) - low ** (power + 1)) / (power + 1)
        np.testing.assert_allclose(weights @ y**power, exactly, rtol=1e-12)


def test_many_weight_draws_have_smaller_grids():
    assert sizes_for(100) == list(SIZES)
    assert sizes_for(2 * MOST_VALUES // SIZES[-1]) == [*SIZES[:-1], SIZES[-1] // 2]
    assert sizes_for(MOST_VALUES // SIZES[0]) == [SIZES[0]]


def test_a_few_gaussians_too_narrow_for_any_grid_hardly_matter():
    centres, log_deviation, log_odds = draw_mixture("alike", 5, 100)
    log_deviation[0, 0] = -10.0
    components = two_widths(*map(jnp.asarray, (centres, 2.0 * log_deviation, log_odds)))
    added = float(jnp.mean(widen(components, SIZES[-1])[1]))
    assert 1e-4 < added < MOST_ADDED
    for found, known in zip(
        in_single(centres, log_deviation, log_odds),
        exact(centres, log_deviation, log_odds),
        strict=True,
    ):
        np.testing.assert_allclose(found.mean(), known.mean(), atol=0.5 * added + TOLERANCE)
