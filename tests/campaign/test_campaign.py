"""What a campaign proposes, what it says of itself, and what it cannot be made of."""

import numpy as np
import pytest

from twofold.campaign import Campaign, CampaignError, Categorical, Continuous, choice
from twofold.uncertainty.decomposition import Decomposition, Parts

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

INPUTS = (Continuous("x", -5.0, 5.0), Categorical("side", ("left", "right")))
SETTINGS = {"epochs": 30, "latent_dim": 0, "inference_options": {"members": 4}}
FEWEST = 10


@pytest.fixture
def campaign(tmp_path):
    return Campaign.create(tmp_path / "c.db", INPUTS, ["y", "w"], settings=SETTINGS)


def fill(campaign, num=FEWEST, seed=0):
    rng = np.random.default_rng(seed)
    for proposal in campaign.ask(num):
        campaign.tell({"y": rng.normal(), "w": rng.normal()}, proposal=proposal.number)


def test_first_points_are_spread_and_then_the_model_chooses(campaign):
    first = campaign.ask(4)
    assert [proposal.number for proposal in first] == [1, 2, 3, 4]
    assert all("too few measurements" in proposal.reason for proposal in first)
    assert len({str(proposal.point) for proposal in [*first, *campaign.ask(4)]}) == 8
    fill(campaign)
    (chosen,) = campaign.ask()
    assert "expected to teach" in chosen.reason
    parts = chosen.split["standard_deviation"]
    for name in ("y", "w"):
        squares = [parts[part][name] ** 2 for part in ("epistemic", "aleatoric", "total")]
        assert squares[0] + squares[1] == pytest.approx(squares[2], rel=1e-3)


def test_another_opening_sees_everything(campaign, tmp_path):
    fill(campaign)
    again = Campaign.open(tmp_path / "c.db")
    assert again.export() == campaign.export()
    assert again.space == campaign.space and again.outputs == ["y", "w"]
    assert again.settings == SETTINGS


@pytest.mark.parametrize("num", [0, -1, 1.5, True])
def test_impossible_numbers_of_points_are_refused(campaign, num):
    with pytest.raises(CampaignError, match="ask for at least 1 point"):
        campaign.ask(num)


def test_only_candidates_are_proposed(tmp_path):
    allowed = [{"x": float(x), "side": "left"} for x in range(-4, 5)]
    campaign = Campaign.create(
        tmp_path / "c.db", INPUTS, ["y", "w"], candidates=allowed, settings=SETTINGS
    )
    for _ in range(2):
        for proposal in campaign.ask(6):
            assert proposal.point in allowed
            campaign.tell({"y": proposal.point["x"], "w": 0.1}, proposal=proposal.number)
    assert all(proposal.point in allowed for proposal in campaign.ask(3))
    assert len(campaign.ask(9)) == 9  # Those underway again, for there are no others.
    with pytest.raises(CampaignError, match="there are 9 candidates, got num=10"):
        campaign.ask(10)


def test_a_point_proposed_twice_answers_the_open_proposal_first(tmp_path):
    point = {"x": 1.0, "side": "left"}
    campaign = Campaign.create(tmp_path / "c.db", INPUTS, ["y"], candidates=[point])
    for _ in range(2):
        campaign.ask()
    for value in (1.0, 2.0):
        campaign.tell({"y": value}, point=point)
    assert [row["proposal"] for row in campaign.export()] == [1, 2]
    assert campaign.pending() == []


@pytest.mark.parametrize(
    ("share", "verdict"), [(0.02, "consider stopping"), (0.3, "going on pays")]
)
def test_it_is_time_to_stop_when_noise_is_all_that_is_left(share, verdict):
    curve = [{"measurements": 30, "epistemic_nats": 0.1, "epistemic_share": share}]
    assert choice.advice(curve, missing=0, complete=30).startswith(verdict)
    assert choice.is_enough(curve) == (share < 0.05) and not choice.is_enough([])


def test_open_proposals_are_counted_as_underway(campaign):
    fill(campaign, 12)
    pending = campaign.ask(3)
    later = campaign.ask(3)
    assert campaign.pending() == [*pending, *later]
    assert len({str(proposal.point) for proposal in [*pending, *later]}) == 6


def test_status_says_what_is_left_to_learn(campaign):
    assert "10 more complete measurements are needed" in campaign.status().advice
    fill(campaign)
    assert "ask once" in campaign.status().advice
    campaign.ask()
    status = campaign.status()
    (point,) = status.curve
    assert point["measurements"] == 10 and 0 < point["epistemic_share"] < 1
    assert f"about {point['epistemic_share']:.0%} of the predictive variance" in status.advice
    campaign.tell({"y": 0.0, "w": 0.0}, point={"x": 0.0, "side": "left"})
    assert "1 have come since: ask to count them in" in campaign.status().advice


def test_the_curve_has_one_point_for_each_model(campaign):
    fill(campaign)
    for _ in range(3):
        campaign.ask()
    assert len(campaign.status().curve) == 1
    campaign.tell({"y": 0.0, "w": 0.0}, point={"x": 0.0, "side": "left"})
    campaign.ask()
    assert [row["measurements"] for row in campaign.status().curve] == [10, 11]


def test_a_partial_result_leaves_the_model_as_it_is(campaign):
    fill(campaign)
    campaign.ask()
    campaign.tell({"y": 1.0}, point={"x": 4.5, "side": "left"})
    campaign.ask()
    assert len(campaign.status().curve) == 1


def test_noise_too_narrow_for_entropies_still_gives_finite_numbers():
    class Narrow:
        """A model whose entropies are not known at the first of two points."""

        def decompose(self, x, by="entropy"):
            known = np.array([[np.nan, 0.1], [0.3, 0.2]])
            variances = np.array([[3.0, 1.0], [1.0, 1.0]])
            parts = (known + 1, known, np.ones((2, 2)))
            if by == "variance":
                parts = (variances + 1, variances, np.ones((2, 2)))
            return Decomposition(by, *parts, Parts(*np.zeros((3, 2, 2))))

    found = choice.information(Narrow(), np.zeros((2, 1)))
    np.testing.assert_allclose(found, [0.5 * np.log(4.0) + 0.1, 0.5])


def test_two_that_ask_at_once_get_different_points(campaign, tmp_path, monkeypatch):
    other, choose, turns = Campaign.open(tmp_path / "c.db"), choice.choose, []

    def slowly(*arguments):
        chosen = choose(*arguments)
        if not turns:
            turns.append(1)
            turns.extend(other.ask(3))
        return chosen

    monkeypatch.setattr(choice, "choose", slowly)
    own = campaign.ask(3)
    assert [proposal.number for proposal in own] == [4, 5, 6]
    assert len({str(proposal.point) for proposal in [*own, *turns[1:]]}) == 6


@pytest.mark.parametrize(
    ("outputs", "changes", "message"),
    [
        ([], {}, "needs a list of outputs"),
        ("yield", {}, "needs a list of outputs, such as .* got 'yield'"),
        (["x"], {}, "names of their own"),
        ([" y"], {}, "without spaces around it, got ' y'"),
        (["proposal"], {}, "proposal is what a column of the campaign's own tables is called"),
        (["y", "y_total_sd"], {}, "y_total_sd is what a column"),
        (["y"], {"settings": {"alfa": 1.0}}, "no setting alfa"),
        (["y"], {"settings": {"checkpoint": "run"}}, "no setting checkpoint"),
        (["y"], {"settings": {"epochs": -1}}, "epochs"),
        (["y"], {"settings": {"inference_options": {"membres": 3}}}, "got membres"),
        (["y"], {"settings": {"random_state": np.random.RandomState(0)}}, "settings: .*JSON"),
        (["y"], {"candidates": []}, "at least one point"),
        (["y"], {"candidates": [{"x": 50.0, "side": "left"}]}, "x must lie between"),
        (["y"], {"candidates": [{"x": 1.0, "side": "left"}] * 2}, "candidates 1 and 2 are both at"),
    ],
)
def test_impossible_campaigns_are_refused(tmp_path, outputs, changes, message):
    with pytest.raises(CampaignError, match=message):
        Campaign.create(tmp_path / "c.db", INPUTS, outputs, **changes)
    assert not (tmp_path / "c.db").exists()
