"""The model beside a campaign: fitted once, and never trusted more than it deserves."""

import numpy as np
import pytest

import twofold
from twofold.campaign import Campaign, CampaignError, Continuous, models
from twofold.estimators.regressor import BNNLVRegressor

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

SETTINGS = {"epochs": 2, "latent_dim": 0, "inference_options": {"members": 2}}
POINTS = [{"x": float(x)} for x in np.linspace(-4, 4, 6)]


@pytest.fixture
def fits(monkeypatch):
    """Counts the fits."""
    count, fit = [], BNNLVRegressor.fit
    monkeypatch.setattr(
        BNNLVRegressor, "fit", lambda self, X, y: count.append(len(X)) or fit(self, X, y)
    )
    return count


@pytest.fixture
def campaign(tmp_path):
    campaign = Campaign.create(
        tmp_path / "c.db", [Continuous("x", -5.0, 5.0)], ["y"], settings=SETTINGS
    )
    for i, point in enumerate(POINTS):
        campaign.tell({"y": float(np.sin(i))}, point=point)
    return campaign


def test_a_model_is_fitted_once_for_the_same_data(campaign, fits, tmp_path):
    for _ in range(3):
        campaign.ask(2)
    Campaign.open(tmp_path / "c.db").ask()
    assert fits == [6]
    campaign.tell({"y": 0.0}, point={"x": 0.0})
    campaign.ask()
    assert fits == [6, 7]


def test_other_settings_are_another_model(campaign, fits, tmp_path):
    campaign.ask()
    campaign.configure(SETTINGS | {"epochs": 3})
    campaign.ask()
    again = Campaign.open(tmp_path / "c.db")
    assert again.settings["epochs"] == 3
    again.ask()
    assert fits == [6, 6] and len(again.status().curve) == 2
    with pytest.raises(CampaignError, match="epochs must be"):
        again.configure({"epochs": 0})
    assert Campaign.open(tmp_path / "c.db").settings["epochs"] == 3


def test_the_model_can_be_had(campaign, fits, tmp_path):
    model = campaign.model()
    x = campaign.space.encode(POINTS)
    kept = twofold.load(tmp_path / "c.db.model")
    np.testing.assert_array_equal(kept.decompose(x).epistemic, model.decompose(x).epistemic)
    np.testing.assert_array_equal(campaign.model().predict(x), model.predict(x))
    assert fits == [6]


def test_there_is_no_model_of_too_few_measurements(tmp_path):
    campaign = Campaign.create(tmp_path / "d.db", [Continuous("x", 0.0, 1.0)], ["y"])
    with pytest.raises(CampaignError, match="6 more complete measurements are needed"):
        campaign.model()


def empty(file):
    file.write_bytes(b"")


def cut(file):
    file.write_bytes(file.read_bytes()[:-7])


def foreign(file):
    file.write_bytes(b"not a model at all" * 50)


def other(file):
    BNNLVRegressor(**SETTINGS, random_state=0).fit(np.zeros((6, 1)), np.arange(6.0)).save(file)


def missing(file):
    file.unlink()


@pytest.mark.parametrize("damage", [empty, cut, foreign, other, missing])
def test_a_bad_file_is_fitted_anew(campaign, fits, tmp_path, damage):
    file = tmp_path / "c.db.model"
    before = campaign.model()
    damage(file)
    fits.clear()
    again = campaign.model()
    assert fits == [6]
    x = campaign.space.encode(POINTS)
    np.testing.assert_array_equal(again.predict(x), before.predict(x))
    campaign.model()
    assert fits == [6]


def test_a_file_that_cannot_be_written_is_done_without(campaign, fits, tmp_path):
    (tmp_path / "c.db.model").mkdir()
    assert len(campaign.ask(2)) == 2
    campaign.ask()
    assert fits == [6, 6]


def test_without_a_file_of_its_own_a_campaign_keeps_no_model(fits):
    x, y = np.linspace(-1, 1, 6)[:, None], np.arange(6.0)[:, None]
    for _ in range(2):
        models.fitted(None, SETTINGS, x, y)
    assert fits == [6, 6]


def test_data_that_no_model_can_take_are_said(campaign):
    for sign in (-1.0, 1.0):
        campaign.tell({"y": sign * 1e308}, point={"x": 3.0})
    with pytest.raises(CampaignError, match=r"no model can be fitted: .*too large"):
        campaign.ask()
