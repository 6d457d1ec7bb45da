"""Models of several campaigns, brought up to date together."""

import shutil

import pytest

from tests.campaign.conftest import FEWEST, INPUTS, OUTPUTS
from twofold.campaign import Campaign, CampaignError, refit
from twofold.cli import app as cli
from twofold.core.jobs import JobError

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def places(tmp_path, template):
    """Two campaigns whose models are missing."""
    found = [tmp_path / "a.db", tmp_path / "b.db"]
    for place in found:
        shutil.copy(template, place)
    return found


def test_only_models_that_are_behind_are_fitted(places, fits):
    found = refit(places)
    assert [(one.place, one.measurements) for one in found] == [(str(p), FEWEST) for p in places]
    assert refit(places) == found and fits == [FEWEST, FEWEST]
    first = Campaign.open(places[0])
    first.tell({"y": 1.0, "w": 1.0}, point={"x": 0.0, "side": "left"})
    again = refit(places)
    assert fits == [FEWEST, FEWEST, FEWEST + 1]
    assert again[1] == found[1] and again[0].model != found[0].model
    first.ask()
    assert len(fits) == 3


def test_a_campaign_that_cannot_be_fitted_is_named_and_does_not_stop_the_others(tmp_path, places):
    Campaign.create(tmp_path / "short.db", INPUTS, OUTPUTS)
    with pytest.raises(JobError, match=r"1 of 2 jobs failed – .*short.db: CampaignError") as failed:
        refit([tmp_path / "short.db", places[0]])
    assert isinstance(failed.value.__cause__, CampaignError)
    assert Campaign.open(places[0]).load_model() is not None


def test_a_model_that_cannot_be_stored_is_no_success(places):
    (places[0].parent / "a.db.model").mkdir()
    with pytest.raises(JobError, match="could not be written beside it"):
        refit(places[:1])


def test_from_the_command_line(tmp_path, places, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["twofold", "campaign", "refit", "a.db", "--executor", "local"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    assert capsys.readouterr().out == "a.db: a model of 10 measurements\n"
    assert (tmp_path / "a.db.model").exists()
