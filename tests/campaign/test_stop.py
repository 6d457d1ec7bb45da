"""The signal to stop, against a truth that is known."""

import numpy as np

from twofold.campaign import Campaign, Continuous
from twofold.campaign.recording import Result

NOISE = 0.3


def measure(campaign, num, rng):
    x = rng.uniform(-2.0, 2.0, num)
    y = np.sin(2.0 * x) + NOISE * rng.normal(size=num)
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    campaign.tell_all([Result({"y": value}, {"x": place}, None) for place, value in pairs])


def test_the_share_follows_the_error_of_the_mean_and_stops_the_campaign(tmp_path):
    """Sine with the same noise everywhere: what more data could remove is the squared error of the
    predictive mean."""
    settings = {"inference": "ensemble", "latent_dim": 0, "hidden_layer_sizes": [20]}
    inputs = [Continuous("x", -2.0, 2.0)]
    campaign = Campaign.create(tmp_path / "c.db", inputs, ["y"], settings=settings)
    rng = np.random.default_rng(0)
    grid = np.linspace(-2.0, 2.0, 64).tolist()
    truth = []
    for rows in (15, 785):
        measure(campaign, rows, rng)
        campaign.ask()
        mean = campaign.model().predict(campaign.space.encode([{"x": x} for x in grid]))
        error = np.mean(np.square(mean - np.sin(2.0 * np.array(grid))))
        truth.append(error / (error + NOISE**2))
        assert campaign.status().consider_stopping == (truth[-1] < 0.05)
    few, many = (row["epistemic_share"] for row in campaign.status().curve)
    assert truth[0] > 0.05 > truth[1] and many < 0.5 * few
    # The error of one data set is one draw of what the share expects.
    assert 0.4 < few / truth[0] < 2.5 and abs(many - truth[1]) < 0.03
