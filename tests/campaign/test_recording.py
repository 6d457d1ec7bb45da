"""Tell: what is recorded, in whatever order and parts, and what is refused."""

import time

import pytest

from twofold.campaign import Campaign, CampaignError, Continuous, Result


def test_results_come_in_any_order_in_parts_again_and_unasked(campaign):
    first, second = campaign.ask(2)
    campaign.tell({"y": 2.0, "w": 3.0}, proposal=second.number)
    number = campaign.tell({"y": 1.0}, proposal=first.number)
    assert campaign.status().complete == 1
    assert campaign.tell({"w": 4.0}, proposal=first.number) == number
    assert campaign.status().complete == 2
    campaign.tell({"y": 1.1, "w": 4.1}, proposal=first.number, repeat=True)
    point = {"x": 0.5, "side": "left"}
    for value in (5.0, 5.5):
        campaign.tell({"y": value, "w": 0.0}, point=point)
    rows = campaign.export()
    assert [row["y"] for row in rows] == [2.0, 1.0, 1.1, 5.0, 5.5]
    assert [row["w"] for row in rows] == [3.0, 4.0, 4.1, 0.0, 0.0]
    assert [row["proposal"] for row in rows] == [2, 1, 1, None, None]
    assert campaign.pending() == []


def test_a_point_that_was_asked_for_answers_its_proposal(campaign):
    first, _ = campaign.ask(2)
    campaign.tell({"y": 1.0}, point=first.point)
    assert campaign.export()[0]["proposal"] == first.number
    assert [proposal.number for proposal in campaign.pending()] == [2]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (({"z": 1.0},), "there is no output 'z', only y, w"),
        (({},), "give at least one of the outputs y, w"),
        (({"y": float("nan")},), "y must be a finite number, got nan"),
        (({"y": "high"},), "y must be a finite number, got 'high'"),
        (({"y": 1.0},), "give the proposal or the point"),
        (({"y": 1.0}, {"x": 9.0, "side": "left"}), "x must lie between"),
        (({"y": 1.0}, {"x": 0.0}), "the input side is missing"),
        (({"y": 1.0}, None, 99), "there is no proposal 99"),
        (({"y": 1.0}, {"x": 0.0, "side": "left"}, 1), "proposal 1 is at .*, not at x = 0, side"),
        (({"y": 0.5}, None, 2), "the same result is measurement 1 already"),
        (({"y": 1.0}, None, 2), "y = 0.5 of proposal 2 was recorded before, now 1"),
    ],
)
def test_bad_results_are_refused_and_change_nothing(campaign, arguments, message):
    campaign.ask(2)
    campaign.tell({"y": 0.5, "w": 0.5}, proposal=2)
    before = campaign.export(), campaign.pending()
    outputs, point, proposal = (*arguments, None, None)[:3]
    with pytest.raises(CampaignError, match=message):
        campaign.tell(outputs, point=point, proposal=proposal)
    assert (campaign.export(), campaign.pending()) == before


def test_several_results_are_recorded_together_or_not_at_all(campaign):
    campaign.ask(2)
    good = Result({"y": 1.0, "w": 1.0}, proposal=1)
    with pytest.raises(CampaignError, match="there is no proposal 99"):
        campaign.tell_all([good, Result({"y": 2.0}, proposal=99)])
    assert campaign.export() == [] and len(campaign.pending()) == 2
    assert campaign.tell_all([good, Result({"y": 2.0}, proposal=2)]) == [1, 2]


def test_outputs_that_come_again_with_new_ones_complete_the_measurement(campaign):
    (proposal,) = campaign.ask()
    number = campaign.tell({"y": 1.0}, proposal=proposal.number)
    assert campaign.tell({"y": 1.0, "w": 2.0}, proposal=proposal.number) == number
    (row,) = campaign.export()
    assert (row["y"], row["w"]) == (1.0, 2.0)


def test_the_same_result_is_recorded_twice_only_if_that_is_meant(campaign):
    result = Result({"y": 1.0, "w": 2.0}, point={"x": 0.5, "side": "left"})
    with pytest.raises(CampaignError, match="the same result is measurement 1 already"):
        campaign.tell_all([result, result], skip_known=True)
    assert campaign.export() == []
    assert campaign.tell_all([result]) == [1]
    with pytest.raises(CampaignError, match="the same result is measurement 1 already"):
        campaign.tell_all([result])
    assert campaign.tell_all([result], skip_known=True) == []
    assert campaign.tell_all([result], repeat=True) == [2]


def rounded(proposal, by):
    return {"x": proposal.point["x"] + by, "side": proposal.point["side"]}


def test_a_rounded_point_with_its_number_is_the_proposal(campaign):
    (proposal,) = campaign.ask()
    inwards = -1.0 if proposal.point["x"] > 0 else 1.0
    where = rounded(proposal, 0.9e-3 * 10.0 * inwards)  # the range is 10
    campaign.tell({"y": 1.0}, proposal=proposal.number, point=where)
    campaign.tell({"w": 2.0}, proposal=proposal.number, point=proposal.point)
    (row,) = campaign.export()
    assert (row["x"], row["y"], row["w"]) == (proposal.point["x"], 1.0, 2.0)


def test_a_point_further_off_is_not_the_proposal(campaign):
    (proposal,) = campaign.ask()
    inwards = -1.0 if proposal.point["x"] > 0 else 1.0
    with pytest.raises(CampaignError, match=r"proposal 1 is at x = .*, not at x = "):
        where = rounded(proposal, 1.1e-3 * 10.0 * inwards)
        campaign.tell({"y": 1.0}, proposal=proposal.number, point=where)
    other = "left" if proposal.point["side"] == "right" else "right"
    with pytest.raises(CampaignError, match=f"not at .* side = {other}"):
        where = proposal.point | {"side": other}
        campaign.tell({"y": 1.0}, proposal=proposal.number, point=where)
    assert campaign.export() == []


def test_missing_outputs_are_added_by_the_number_of_the_measurement(campaign):
    point = {"x": 0.5, "side": "left"}
    for value in (1.23456789, 2.0):
        campaign.tell({"y": value}, point=point)
    assert campaign.tell_all([Result({"y": 1.23457, "w": 5.0}, point, measurement=1)]) == [1]
    assert [(row["y"], row["w"]) for row in campaign.export()] == [(1.23456789, 5.0), (2.0, None)]
    for wrong, message in [
        (
            Result({"y": 3.0}, point, measurement=1),
            "y = 1.23457 of measurement 1 was recorded before",
        ),
        (Result({"w": 3.0}, point, measurement=9), "there is no measurement 9"),
        (Result({"w": 3.0}, point | {"x": 1.0}, measurement=2), "measurement 2 is at x = 0.5"),
    ]:
        with pytest.raises(CampaignError, match=message):
            campaign.tell_all([wrong])


def test_thousands_of_results_are_told_in_seconds(tmp_path):
    """One look at what there is serves all of them; one look for each took minutes."""
    campaign = Campaign.create(tmp_path / "a.db", [Continuous("x", 0, 1)], ["y"])
    results = [Result({"y": float(i)}, point={"x": i / 4000}) for i in range(4000)]
    started = time.perf_counter()
    assert len(campaign.tell_all(results)) == 4000
    assert time.perf_counter() - started < 20
    assert len(campaign.export()) == 4000


def test_a_measurement_and_another_proposal_contradict(tmp_path):
    campaign = Campaign.create(tmp_path / "a.db", [Continuous("x", 0, 1)], ["y", "w"])
    campaign.ask(2)
    number = campaign.tell({"y": 1.0}, proposal=1)
    with pytest.raises(CampaignError, match="answers proposal 1, not 2"):
        campaign.tell_all([Result({"w": 1.0}, proposal=2, measurement=number)])


def test_outputs_may_have_the_names_of_columns_in_the_database(tmp_path):
    names = ["created", "removed", "number"]
    campaign = Campaign.create(tmp_path / "a.db", [Continuous("point", 0, 1)], names)
    campaign.tell({"removed": 2.0}, point={"point": 0.5})
    (row,) = campaign.export()
    assert [row[name] for name in ("point", *names)] == [0.5, None, 2.0, None]
