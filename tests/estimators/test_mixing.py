"""Out-of-bag scores of the mixture of all members."""

import numpy as np
import pytest

from twofold import BNNLVRegressor, Ensemble
from twofold.estimators.mixing import gain_of_members, mix, score_mixture

MEMBERS, FOLDS = 15, 5


def deal(rng, rows):
    """Each row is held out by one member in FOLDS, and scored by about half of these."""
    folds = rng.integers(0, FOLDS, (MEMBERS // FOLDS, 1, rows))
    held_out = (folds == np.arange(FOLDS)[:, None]).reshape(MEMBERS, rows)
    return held_out, held_out & (rng.uniform(size=held_out.shape) < 0.5)


def test_equal_members_score_as_each_of_them(rng):
    held_out, scored = deal(rng, 50)
    log_density = rng.normal(size=50)
    found = score_mixture(np.tile(log_density, (MEMBERS, 1)), held_out, scored)
    known = scored.any(axis=0)
    np.testing.assert_allclose(found[known], log_density[known], atol=1e-12)
    assert np.isnan(found[~known]).all() and not known.all()


def test_the_score_is_that_of_a_mixture_of_all_members(rng):
    """Against the mixture of all members on rows that nobody trained on. On rows of role STOP,
    which selected a member, its log-density is too high by 0.3."""
    rows, width = 20_000, 0.5
    held_out, scored = deal(rng, rows)
    log_density = width * rng.standard_normal((MEMBERS, rows))
    truth = mix(log_density, np.ones_like(held_out))
    seen = log_density + 0.3 * (held_out & ~scored) + 5.0 * ~held_out
    found = score_mixture(seen, held_out, scored)
    few = mix(log_density, scored)
    known = np.isfinite(found)
    error = found[known].std() / known.sum() ** 0.5
    assert abs(found[known].mean() - truth.mean()) < 4.0 * error + 0.005
    assert few[known].mean() < truth.mean() - 0.05


@pytest.mark.filterwarnings("error")
def test_without_a_second_member_nothing_is_corrected(rng):
    held_out = np.zeros((3, 7), bool)
    held_out[0, :3] = held_out[1, 3:6] = True
    log_density = rng.normal(size=(3, 7))
    found = score_mixture(log_density, held_out, held_out)
    np.testing.assert_allclose(found[:3], log_density[0, :3])
    np.testing.assert_allclose(found[3:6], log_density[1, 3:6])
    assert np.isnan(found[6])


def test_a_row_of_weight_two_counts_twice(rng):
    held_out, scored = deal(rng, 40)
    log_density = rng.normal(size=(MEMBERS, 40))
    weight = rng.integers(1, 3, 40)
    twice = np.repeat(np.arange(40), weight)
    weighted = score_mixture(log_density, held_out, scored, weight.astype(float))
    repeated = score_mixture(log_density[:, twice], held_out[:, twice], scored[:, twice])
    np.testing.assert_allclose(weighted[twice], repeated)


def test_a_fit_reports_the_score_of_the_mixture(rng, monkeypatch):
    monkeypatch.setattr(
        "twofold.estimators.members.score_mixture", lambda scores, *_: np.full(scores.shape[1], 1.5)
    )
    x = rng.normal(size=(30, 1))
    quick = Ensemble(members=4, folds=2, updates=20)
    model = BNNLVRegressor((3,), inference=quick, latent_dim=0, random_state=0, verbose=False)
    model.fit(x, 4.0 * x[:, 0])
    assert model.out_of_bag_.score == pytest.approx(1.5 - np.log(4.0 * x.std()))
    assert model.out_of_bag_.rows == 30


def test_a_row_that_a_member_thinks_impossible_does_not_decide():
    rng = np.random.default_rng(0)
    scores, held_out = rng.normal(size=(4, 6)), np.ones((4, 6), bool)
    weight = np.ones(6)
    found = gain_of_members(scores[:, 1:], held_out[:, 1:], mix(scores, held_out)[1:], weight[1:])
    scores[2, 0] = -np.inf
    assert gain_of_members(scores, held_out, mix(scores, held_out), weight) == found
