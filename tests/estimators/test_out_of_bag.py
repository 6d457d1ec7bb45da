"""Rows that were kept out of training say whether a model is better than a linear one."""

import jax
import numpy as np
import pytest
from scipy.stats import norm

from twofold import BNNLVRegressor, Ensemble, Langevin, load
from twofold.core.numerics import Padded
from twofold.estimators.linear import cross_validate_linear
from twofold.estimators.out_of_bag import HeldOut, compare_out_of_bag, sample_held_out
from twofold.inference.ensemble import Network
from twofold.model.spec import BNNLV

LINE = BNNLV(1, 1, (), 0, weight_variance=1.0, latent_variance=1.0)


def slopes(*values):
    """Members y = slope · x, with noise of deviation ½, one draw each."""
    weights = np.array([[[slope, 0.0]] for slope in values], np.float32)
    return Network(weights, np.full((len(values), 1, 1), 2.0 * np.log(0.5), np.float32))


def test_a_row_is_drawn_by_the_members_that_held_it_out():
    x = np.ones((3, 1), np.float32)
    mask = np.array([[True, False, True], [False, True, True]])
    found = sample_held_out(
        jax.random.key(0), LINE, slopes(0.0, 10.0), mask, x, np.arange(3, dtype=np.int32)
    )
    first, second, both = np.asarray(found)[:, :, 0]
    for draws, mean in ((first, 0.0), (second, 10.0)):
        assert abs(draws.mean() - mean) < 5 * 0.5 / 200**0.5
        assert draws.std() == pytest.approx(0.5, rel=0.3)
    assert 0.3 < np.mean(both > 5.0) < 0.7


def test_gains_are_those_of_the_rows_that_were_held_out(rng):
    count, room = 60, 64
    x = rng.normal(size=(room, 1)).astype(np.float32)
    y = (x**2 + 0.5 * rng.normal(size=(room, 1))).astype(np.float32)
    x[count:] = y[count:] = 0.0
    data = Padded(x, y, np.int32(count), None, None)
    mask = np.zeros((1, room), bool)
    mask[0, :40] = True
    scores = np.full(count, np.nan)
    scores[:40] = norm.logpdf(y[:40, 0], 0.0, 0.5)
    found = compare_out_of_bag(LINE, HeldOut(slopes(0.0), mask, scores), data, None)
    linear_scores, linear_crps = cross_validate_linear(
        x[:count].astype(float), y[:count].astype(float)
    )
    gains = scores[:40] - linear_scores[:40]
    assert found.gain == pytest.approx(gains.mean())
    assert found.gain_error == pytest.approx(gains.std(ddof=1) / 40**0.5)
    z = y[:40] / 0.5
    crps = 0.5 * (z * (2 * norm.cdf(z) - 1) + 2 * norm.pdf(z) - np.pi**-0.5)
    share = np.mean((linear_crps[:40] - crps) / linear_crps[:40].mean())
    assert found.crps_gain == pytest.approx(share, abs=0.05)


@pytest.mark.parametrize(
    "method",
    [
        Ensemble(members=5, updates=300),
        Langevin(chains=3, steps=200),
    ],
)
def test_a_fit_says_whether_it_beats_a_line(method, rng, tmp_path):
    x = rng.uniform(-2.0, 2.0, (100, 1))
    y = np.abs(x[:, 0]) + 0.1 * rng.normal(size=100)
    model = BNNLVRegressor((10,), inference=method, latent_dim=0, random_state=0, verbose=False)
    model.fit(x, y)
    found = model.comparison_
    assert found.verdict == "better" and found.crps_gain > 0.3 and "CRPS −" not in found.sentence
    assert found.gain_error > 0 and found.crps_gain_error > 0
    model.save(tmp_path / "model")
    assert load(tmp_path / "model").comparison_ == found


def test_there_is_no_verdict_without_rows_kept_out(rng):
    x = rng.normal(size=(20, 1))
    model = BNNLVRegressor(inference="alpha", random_state=0, verbose=False)
    model.set_params(inference__epochs=2).fit(x, x[:, 0])
    assert model.comparison_ is None
