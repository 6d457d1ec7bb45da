"""Models of several campaigns, brought up to date together."""

import numpy as np
import pytest

from twofold.campaign import Campaign, CampaignError, Continuous, refit
from twofold.cli import app as cli
from twofold.core.jobs import JobError
from twofold.estimators.regressor import BNNLVRegressor

pytestmark = pytest.mark.filterwarnings("ignore")

SETTINGS = {"epochs": 2, "latent_dim": 0, "inference_options": {"members": 2}}


@pytest.fixture
def fits(monkeypatch):
    """Counts the fits."""
    count, fit = [], BNNLVRegressor.fit
    monkeypatch.setattr(
        BNNLVRegressor, "fit", lambda self, X, y: count.append(len(X)) or fit(self, X, y)
    )
    return count


def campaign(place, measurements=6):
    made = Campaign.create(place, [Continuous("x", -5.0, 5.0)], ["y"], settings=SETTINGS)
    for x in np.linspace(-4, 4, measurements):
        made.tell({"y": float(np.sin(x))}, point={"x": float(x)})
    return made


def test_only_models_that_are_behind_are_fitted(tmp_path, fits):
    places = [tmp_path / "a.db", tmp_path / "b.db"]
    first, _ = map(campaign, places)
    found = refit(places)
    assert [(one.place, one.measurements) for one in found] == [(str(p), 6) for p in places]
    assert refit(places) == found and fits == [6, 6]
    first.tell({"y": 1.0}, point={"x": 0.0})
    again = refit(places)
    assert fits == [6, 6, 7]
    assert again[1] == found[1] and again[0].model != found[0].model
    first.ask()
    assert len(fits) == 3


def test_a_campaign_that_cannot_be_fitted_is_named_and_does_not_stop_the_others(tmp_path):
    campaign(tmp_path / "short.db", measurements=1)
    whole = campaign(tmp_path / "whole.db")
    with pytest.raises(JobError, match=r"1 of 2 jobs failed – .*short.db: CampaignError") as failed:
        refit([tmp_path / "short.db", tmp_path / "whole.db"])
    assert isinstance(failed.value.__cause__, CampaignError)
    assert whole.kept_model() is not None


def test_from_the_command_line(tmp_path, monkeypatch, capsys):
    campaign(tmp_path / "a.db")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.argv", ["twofold", "campaign", "refit", "a.db", "--executor", "local"])
    with pytest.raises(SystemExit) as ended:
        cli.main()
    assert not ended.value.code
    assert capsys.readouterr().out == "a.db: a model of 6 measurements\n"
    assert (tmp_path / "a.db.model").exists()
