"""What the page of a model says of its out-of-bag score, and of its noise."""

from copy import copy
from dataclasses import replace
from html import unescape

import numpy as np
import pytest

from twofold import Alpha, BNNLVRegressor, Ensemble
from twofold.report import write_model_page
from twofold.report.model_data import (
    Moments,
    compute_entropies,
    compute_moments,
    make_subject,
    match_gaussians,
)
from twofold.report.model_page import GAUSSIAN, NOT_GAUSSIAN, compare_with_linear, describe_noise
from twofold.report.page import format_change
from twofold.tables.coding import rounding_steps
from twofold.uncertainty.decomposition import Parts

SMALL = {"hidden_layer_sizes": (5,), "n_latent_draws": 8, "random_state": 0, "verbose": False}


@pytest.fixture(scope="module")
def fitted():
    """A quick fit to yields that were written down in steps of a half."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 2))
    y = np.round(2.0 * (3.0 * x[:, 0] + rng.normal(size=60))) / 2.0
    return BNNLVRegressor(inference=Ensemble(members=5, updates=20), **SMALL).fit(x, y), x, y


@pytest.fixture
def subject(fitted):
    """``subject(model)``: a model with the rows of ``fitted``."""
    return lambda model: make_subject(model, fitted[1], fitted[2], ["a", "b"], ["yield"], None)


def test_the_page_has_the_out_of_bag_score_and_the_noise(fitted, tmp_path):
    model, x, y = fitted
    path = tmp_path / "page.html"
    names = {"inputs": ["a", "b"], "outputs": ["yield"]}
    page = unescape(write_model_page(path, model, x, y, **names).read_text())
    found = model.out_of_bag_
    score = f"{found.score:.3f} ± {found.standard_error:.3f} nats"
    assert page.count(score) == 1 and "log-likelihood, training rows" not in page
    verdict = model.comparison_.sentence
    said, _, scores = verdict.partition(" (")
    assert f"{said}." in page and "than a linear one" in said
    assert f"<p>L{scores[1:-2]}.</p>".replace(" -", " −") in page
    assert format_change(-model.comparison_.crps_gain) in page
    assert "all other numbers are of training rows" in page
    moments = compute_moments(model, x)
    variances = match_gaussians(moments.mean, compute_entropies(model, x, moments)).variances
    assert f"{(variances.epistemic / variances.total).mean():.0%}" in page
    assert "yield is rounded to steps of 0.5; its noise is at least" in page
    page = write_model_page(path, model, x, y, **names, held_out=(x, y)).read_text()
    assert page.count(score) == 1 and "log-likelihood, held-out rows" in page


def test_the_noise_floor_is_in_units_of_the_output(fitted, subject):
    *_, said = describe_noise(subject(fitted[0]))
    floor = float(said.split()[-1].rstrip("."))
    # A power of two in standardised units lies within a factor of √2.
    assert 2**-0.5 <= floor / (0.5 / 12**0.5) <= 2**0.5


def test_the_noise_is_called_gaussian_where_the_fit_has_chosen_so(fitted, subject):
    model = copy(fitted[0])
    for latents, sentence in ((0, GAUSSIAN), (1, NOT_GAUSSIAN)):
        model.model_ = replace(model.model_, latents=latents, noise_floor=())
        assert describe_noise(subject(model)) == [sentence]
    model.latent_dim = 0
    assert describe_noise(subject(model)) == []


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_a_method_that_chooses_nothing_says_nothing(fitted, subject):
    _, x, y = fitted
    model = BNNLVRegressor(inference=Alpha(epochs=1, draws=2), **SMALL).fit(x, y)
    assert describe_noise(subject(model)) == []
    assert compare_with_linear(subject(model), np.empty(0), {}) is None


def test_steps_are_found_where_values_repeat_on_a_grid(rng):
    exact = rng.normal(size=(40, 1))
    y = np.hstack([exact, np.round(exact, 0), np.repeat(exact[:20], 2, axis=0), np.ones((40, 1))])
    np.testing.assert_allclose(rounding_steps(y), [np.nan, 1.0, np.nan, np.nan])


def test_widths_of_gaussians_are_their_variances():
    variances = np.array([[2.0]]), np.array([[1.5]]), np.array([[0.5]])
    total, _, aleatoric = (0.5 * np.log(2 * np.pi * np.e * part) for part in variances)
    found = match_gaussians(np.zeros((1, 1)), Parts(total, total - aleatoric, aleatoric))
    assert isinstance(found, Moments)
    for part, variance in zip(found.variances, variances, strict=True):
        np.testing.assert_allclose(part, variance)
