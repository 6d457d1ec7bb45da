"""One campaign with a model, made once, of which every test gets a copy."""

import shutil
import warnings

import numpy as np
import pytest

from twofold import Ensemble
from twofold.campaign import Campaign, Categorical, Continuous

INPUTS = (Continuous("x", -5.0, 5.0), Categorical("side", ("left", "right")))
OUTPUTS = ["y", "w"]
SETTINGS = {"inference": Ensemble(members=2, updates=20), "latent_dim": 0}
# Two for each of three columns, and four more.
FEWEST = 10


def fill(campaign, num=FEWEST, seed=0):
    rng = np.random.default_rng(seed)
    for proposal in campaign.ask(num):
        campaign.tell({"y": rng.normal(), "w": rng.normal()}, proposal=proposal.number)


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """A campaign with as many results as a model needs, its model beside it."""
    place = tmp_path_factory.mktemp("template") / "c.db"
    campaign = Campaign.create(place, INPUTS, OUTPUTS, settings=SETTINGS)
    fill(campaign)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        campaign.model()
    return place


@pytest.fixture
def filled(tmp_path, template):
    """A copy of the template; nothing has been asked of its model yet."""
    for ending in ("", ".model"):
        shutil.copy(f"{template}{ending}", tmp_path)
    return Campaign.open(tmp_path / "c.db")


@pytest.fixture
def campaign(tmp_path):
    """An empty campaign."""
    return Campaign.create(tmp_path / "c.db", INPUTS, OUTPUTS)


@pytest.fixture
def fits(monkeypatch):
    """The number of rows of every fit."""
    from twofold.estimators.regressor import BNNLVRegressor

    rows, fit = [], BNNLVRegressor.fit
    monkeypatch.setattr(
        BNNLVRegressor, "fit", lambda self, X, y: rows.append(len(X)) or fit(self, X, y)
    )
    return rows
