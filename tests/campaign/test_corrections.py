"""Proposals that are cancelled, measurements that are corrected or removed, and notes."""

import pytest

from tests.campaign.conftest import FEWEST, INPUTS, SETTINGS
from twofold.campaign import Campaign, CampaignError, Result

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

POINT = {"x": 0.5, "side": "left"}


def numbers(proposals):
    return [proposal.number for proposal in proposals]


def test_a_cancelled_proposal_is_not_pending_and_keeps_its_number(campaign, tmp_path):
    campaign.ask(3)
    campaign.cancel(1, 3)
    assert numbers(Campaign.open(tmp_path / "c.db").pending()) == [2]
    assert numbers(campaign.ask()) == [4]
    with pytest.raises(CampaignError, match="proposal 3 was cancelled before"):
        campaign.cancel(2, 3)
    assert numbers(campaign.pending()) == [2, 4], "all of them, or none"
    with pytest.raises(CampaignError, match="there is no proposal 9"):
        campaign.cancel(9)


def test_a_cancelled_proposal_that_was_measured_all_the_same_is_recorded(campaign):
    (first,) = campaign.ask()
    campaign.cancel(1)
    campaign.tell({"y": 1.0}, proposal=1)
    campaign.tell({"y": 2.0}, point=first.point)
    assert [row["proposal"] for row in campaign.export()] == [1, None]
    with pytest.raises(CampaignError, match="proposal 1 has a result, measurement 1"):
        campaign.cancel(1)


def test_a_cancelled_candidate_is_not_proposed_again(tmp_path):
    allowed = [{"x": float(x), "side": side} for x in range(-4, 3) for side in ("left", "right")]
    campaign = Campaign.create(
        tmp_path / "c.db", INPUTS, ["y"], candidates=allowed, settings=SETTINGS
    )
    for point in allowed[:FEWEST]:
        campaign.tell({"y": point["x"]}, point=point)
    (first,) = campaign.ask()
    campaign.cancel(first.number)
    assert first.point not in [one.point for one in campaign.ask(len(allowed) - 1)]


def test_a_correction_replaces_a_value_and_keeps_the_earlier_one(campaign, tmp_path):
    campaign.tell({"y": 7.0, "w": 1.0}, point=POINT, note="warm day")
    campaign.correct(1, {"y": 0.7}, note="misread")
    campaign.correct(1, note="checked")
    again = Campaign.open(tmp_path / "c.db")
    (row,) = again.export()
    assert (row["y"], row["w"], row["note"]) == (0.7, 1.0, "warm day; misread; checked")
    (before,) = again.history()
    assert (before["measurement"], before["outputs"]) == (1, {"y": 7.0, "w": 1.0})
    again.correct(1, {"y": 0.8})
    assert [one["outputs"]["y"] for one in again.history()] == [7.0, 0.7]


def test_a_removed_measurement_leaves_the_data_and_nobody_gets_its_number(campaign):
    campaign.ask()
    campaign.tell({"y": 1.0, "w": 1.0}, proposal=1)
    campaign.remove(1)
    assert campaign.export() == [] and campaign.status().measurements == 0
    assert numbers(campaign.pending()) == [1], "its proposal waits for a result again"
    assert campaign.history()[0]["outputs"] == {"y": 1.0, "w": 1.0}
    assert campaign.tell({"y": 1.0, "w": 1.0}, proposal=1) == 2
    with pytest.raises(CampaignError, match="there is no measurement 1"):
        campaign.tell_all([Result({"y": 2.0}, measurement=1)])


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda c: c.correct(1), "give a new value of y, w, or a note"),
        (lambda c: c.correct(1, {"y": 1.0}), "measurement 1 already has these values"),
        (lambda c: c.correct(1, {"z": 1.0}), "there is no output 'z', only y, w"),
        (lambda c: c.correct(1, {"y": float("nan")}), "y must be a finite number, got nan"),
        (lambda c: c.correct(5, {"y": 2.0}), "there is no measurement 5"),
        (lambda c: c.correct(1, note=3), "a note must be text, got 3"),
        (lambda c: c.remove(1, 5), "there is no measurement 5"),
        (lambda c: c.remove(1, 1), "there is no measurement 1"),
    ],
)
def test_wrong_changes_are_refused_and_change_nothing(campaign, change, message):
    campaign.tell({"y": 1.0}, point=POINT)
    before = campaign.export()
    with pytest.raises(CampaignError, match=message):
        change(campaign)
    assert campaign.export() == before and campaign.history() == []


def test_a_contradicting_result_says_how_to_correct(campaign):
    campaign.ask()
    campaign.tell({"y": 1.0}, proposal=1)
    with pytest.raises(CampaignError, match="campaign correct to change measurement 1"):
        campaign.tell({"y": 2.0}, proposal=1)


def test_notes_come_with_results_and_their_parts(campaign):
    campaign.ask()
    campaign.tell({"y": 1.0}, proposal=1, note=" first ")
    campaign.tell({"w": 1.0}, proposal=1, note="second")
    campaign.tell({"y": 1.0}, point=POINT)
    assert [row["note"] for row in campaign.export()] == ["first; second", None]


def test_the_model_is_fitted_again_after_a_correction_and_not_after_a_note(filled, fits):
    filled.ask()
    filled.correct(2, note="checked")
    filled.cancel(filled.ask()[0].number)
    filled.ask()
    assert fits == [] and "removed since: ask" not in filled.status().advice
    filled.correct(2, {"y": 3.0})
    assert "removed since: ask" in filled.status().advice
    filled.ask()
    assert "removed since: ask" not in filled.status().advice
    filled.tell({"y": 0.0, "w": 0.0}, point=POINT)
    filled.remove(1)
    filled.ask()
    assert fits == [FEWEST, FEWEST] and len(filled.status().curve) == 3
