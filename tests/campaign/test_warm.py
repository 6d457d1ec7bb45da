"""Chains of a campaign's model go on from those of the model before it."""

import shutil

import numpy as np
import pytest

import twofold
from twofold import Ensemble, Langevin
from twofold.campaign import Campaign, Continuous
from twofold.estimators import stages

CHAINS = {
    "inference": Langevin(chains=2, folds=2, samples=3, steps=4, updates=20),
    "hidden_layer_sizes": (5,),
    "latent_dim": 0,
}
ROWS = 20


def tell(campaign, num, seed=0):
    rng = np.random.default_rng(seed)
    for x in rng.uniform(-1.0, 1.0, num).tolist():
        campaign.tell({"y": x + 0.1 * rng.normal()}, point={"x": x})


@pytest.fixture(autouse=True)
def kept(monkeypatch):
    """Such short chains are kept, as a rule."""
    monkeypatch.setattr(stages, "is_kept", lambda *_: True)


@pytest.fixture
def campaign(tmp_path):
    """A campaign with a model of its first rows."""
    place = tmp_path / "c.db"
    campaign = Campaign.create(place, [Continuous("x", -1.0, 1.0)], ["y"], settings=CHAINS)
    tell(campaign, ROWS)
    assert not campaign.fit_model().warm
    return campaign


def from_scratch(campaign):
    """The model of the same rows that knows of no other."""
    x = campaign.space.encode([{"x": row["x"]} for row in campaign.export()])
    y = np.array([row["y"] for row in campaign.export()])
    return twofold.BNNLVRegressor(**CHAINS, random_state=0).fit(x, y)


def weights(model):
    return model.posterior_.weights


def test_chains_go_on_when_measurements_have_come(campaign, tmp_path):
    before = campaign.model()
    tell(campaign, 1, seed=1)
    fit = campaign.fit_model()
    assert fit.warm and fit.stored and not fit.model.warm_start
    assert not np.array_equal(weights(fit.model), weights(before))
    assert not np.array_equal(weights(fit.model), weights(from_scratch(campaign)))
    again = Campaign.open(tmp_path / "c.db").fit_model()
    assert again.warm and again.name == fit.name
    np.testing.assert_array_equal(weights(again.model), weights(fit.model))
    campaign.ask()
    assert [row["warm"] for row in campaign.status().curve] == [1.0]


def test_the_same_rows_and_stored_model_give_the_same_model(campaign, tmp_path):
    copy = tmp_path / "copy.db"
    for ending in ("", ".model"):
        shutil.copy(tmp_path / f"c.db{ending}", f"{copy}{ending}")
    found = []
    for one in (campaign, Campaign.open(copy)):
        tell(one, 2, seed=1)
        found.append(weights(one.model()))
    np.testing.assert_array_equal(*found)


def test_a_model_is_fitted_from_scratch_when_rows_have_grown_by_half(campaign):
    for seed, more in enumerate((5, 5, 1), start=1):
        tell(campaign, more, seed)
        fit = campaign.fit_model()
    assert not fit.warm
    np.testing.assert_array_equal(weights(fit.model), weights(from_scratch(campaign)))


def correct(campaign):
    campaign.correct(1, {"y": 5.0})


def remove(campaign):
    campaign.remove(1)


@pytest.mark.parametrize("change", [correct, remove])
def test_chains_do_not_go_on_from_a_model_of_wrong_rows(campaign, change):
    """A wrong value also decided the scale of the weights."""
    change(campaign)
    tell(campaign, 3, seed=1)
    fit = campaign.fit_model()
    assert not fit.warm
    np.testing.assert_array_equal(weights(fit.model), weights(from_scratch(campaign)))
    tell(campaign, 1, seed=2)
    assert campaign.fit_model().warm


def test_chains_go_on_after_a_cancelled_proposal_and_a_note(campaign):
    campaign.cancel(campaign.ask()[0].number)
    campaign.correct(1, note="checked")
    tell(campaign, 1, seed=1)
    assert campaign.fit_model().warm


def test_a_model_without_chains_is_not_continued(campaign, monkeypatch):
    monkeypatch.setattr(stages, "is_kept", lambda *_: False)
    campaign.model_file.unlink()
    assert campaign.fit_model().model.diagnostics_ is None
    tell(campaign, 1, seed=1)
    assert not campaign.fit_model().warm


def change_settings(campaign):
    campaign.configure(CHAINS | {"weight_variance": 2.0})


def change_method(campaign):
    campaign.configure(CHAINS | {"inference": Ensemble(members=2, folds=2, updates=20)})


def lose_file(campaign):
    campaign.model_file.unlink()


def damage_file(campaign):
    campaign.model_file.write_bytes(campaign.model_file.read_bytes()[:-7])


def forget_identity(campaign):
    twofold.load(campaign.model_file).save(campaign.model_file)


@pytest.mark.parametrize(
    "change", [change_settings, change_method, lose_file, damage_file, forget_identity]
)
def test_without_an_earlier_model_of_the_same_settings_it_is_fitted_from_scratch(campaign, change):
    change(campaign)
    tell(campaign, 1, seed=1)
    fit = campaign.fit_model()
    assert fit.stored and not fit.warm
