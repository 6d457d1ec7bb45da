"""The model beside a campaign: fitted once, and never trusted more than it deserves."""

import numpy as np
import pytest

import twofold
from tests.campaign.conftest import FEWEST, SETTINGS
from twofold.campaign import Campaign, CampaignError, Continuous
from twofold.campaign.models import ModelFile
from twofold.campaign.storage import Storage

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

POINT = {"x": 0.0, "side": "left"}


def test_a_model_is_fitted_once_for_the_same_data(filled, fits, tmp_path):
    for _ in range(2):
        filled.ask(2)
    Campaign.open(tmp_path / "c.db").ask()
    assert fits == []
    filled.tell({"y": 0.0, "w": 0.0}, point=POINT)
    filled.ask()
    filled.ask()
    assert fits == [FEWEST + 1]


def test_other_settings_are_another_model(filled, fits, tmp_path):
    filled.ask()
    filled.configure(SETTINGS | {"inference": twofold.Ensemble(members=2, updates=30)})
    filled.ask()
    again = Campaign.open(tmp_path / "c.db")
    assert again.settings["inference"]["updates"] == 30
    again.ask()
    assert fits == [FEWEST] and len(again.status().curve) == 2
    with pytest.raises(CampaignError, match="updates must be"):
        again.configure({"updates": 0})
    assert Campaign.open(tmp_path / "c.db").settings["inference"]["updates"] == 30


def test_the_model_can_be_had_and_loaded(filled, fits):
    model = filled.model()
    x = filled.space.encode([POINT, POINT | {"side": "right"}])
    for other in (twofold.load(filled.model_file), filled.load_model()):
        np.testing.assert_array_equal(other.decompose(x).epistemic, model.decompose(x).epistemic)
    assert fits == []


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


def stale(file):
    """The model of other data."""
    model = twofold.load(file)
    model.fit(np.zeros((6, 3)), np.arange(12.0).reshape(6, 2)).save(file)


def without_identity(file):
    """As twofold wrote it before models had an identity."""
    twofold.load(file).save(file)


def missing(file):
    file.unlink()


@pytest.mark.parametrize("damage", [empty, cut, foreign, stale, without_identity, missing])
def test_a_bad_file_is_fitted_again(filled, fits, damage):
    before = filled.model()
    damage(filled.model_file)
    fits.clear()
    again = filled.model()
    assert fits == [FEWEST]
    x = filled.space.encode([POINT])
    np.testing.assert_array_equal(again.predict(x), before.predict(x))
    filled.model()
    assert fits == [FEWEST]


def test_a_file_that_cannot_be_written_is_done_without(filled, fits):
    filled.model_file.unlink()
    filled.model_file.mkdir()
    assert len(filled.ask(2)) == 2
    filled.ask()
    assert fits == [FEWEST, FEWEST]


def test_without_a_file_of_its_own_a_campaign_stores_no_model(fits):
    x, y = np.linspace(-1, 1, 30).reshape(10, 3), np.arange(20.0).reshape(10, 2)
    models = ModelFile(Storage.create("sqlite://", {}).model_file)
    found = [models.load_or_fit(SETTINGS, x, y) for _ in range(2)]
    assert fits == [10, 10] and not any(one.stored for one in found)
    assert found[0].name == found[1].name != models.load_or_fit(SETTINGS, x, -y).name


def test_data_that_no_model_can_take_are_said(filled):
    for sign in (-1.0, 1.0):
        filled.tell({"y": sign * 1e308, "w": 0.0}, point=POINT)
    with pytest.raises(CampaignError, match=r"no model can be fitted: .*too large"):
        filled.ask()
