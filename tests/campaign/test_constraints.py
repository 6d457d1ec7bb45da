"""Linear constraints between inputs: how they are read, and what they leave of a space."""

import json

import pytest

from twofold.campaign import Campaign, CampaignError, Categorical, Continuous, Integer
from twofold.campaign.constraints import parse_constraint
from twofold.campaign.space import Space

INPUTS = (
    Continuous("heat", 20.0, 80.0),
    Continuous("heat-2", 0.0, 1.0),
    Integer("stirs", 1, 4),
    Categorical("acid", ("a", "b")),
)
TEXT = "heat + 10*stirs <= 60"


@pytest.mark.parametrize(
    ("text", "weights", "limit"),
    [
        ("heat + 2*stirs <= 90", {"heat": 1.0, "stirs": 2.0}, 90.0),
        ("90>=heat+stirs*2", {"heat": 1.0, "stirs": 2.0}, 90.0),
        ("-0.5*heat + 1.5e1 >= 3 - stirs", {"heat": 0.5, "stirs": -1.0}, 12.0),
        ("heat-2 <= .5", {"heat-2": 1.0}, 0.5),
        ("heat - 2 <= stirs", {"heat": 1.0, "stirs": -1.0}, 2.0),
        ("heat + heat <= 90", {"heat": 2.0}, 90.0),
    ],
)
def test_constraints_are_read_as_weights_and_a_limit(text, weights, limit):
    found = parse_constraint(text, INPUTS)
    assert dict(found.weights) == pytest.approx(weights) and found.limit == pytest.approx(limit)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("20 <= heat <= 80", "got '20 <= heat <= 80'; write a double inequality as two"),
        ("heat = 90", "got 'heat = 90'"),
        ("heat <=", "cannot read ''"),
        ("heet <= 90", "cannot read 'heet'.*numeric inputs are heat, heat-2, stirs"),
        ("acid <= 1", "cannot read 'acid'"),
        ("heat * stirs <= 90", r"cannot read '\* stirs'"),
        ("heat stirs <= 90", "cannot read 'stirs'"),
        ("__import__('os') <= 1", "cannot read .__import__"),
        ("heat - heat <= 1", "restricts no input"),
        ("heat <= 1e999", "restricts no input"),
        ("heat / 2 <= 1", "cannot read '/ 2'"),
    ],
)
def test_what_is_no_linear_inequality_is_refused(text, message):
    with pytest.raises(CampaignError, match=message):
        parse_constraint(text, INPUTS)


@pytest.fixture
def campaign(tmp_path):
    return Campaign.create(tmp_path / "c.db", INPUTS, ["y"], constraints=[TEXT, "heat >= 25"])


def test_proposals_meet_the_constraints(campaign, tmp_path):
    campaign.ask(20)
    for proposal in [*campaign.pending(), *Campaign.open(tmp_path / "c.db").ask(20)]:
        assert 25.0 <= proposal.point["heat"] <= 60.0 - 10.0 * proposal.point["stirs"]
    points = campaign.space.spread(50, seed=3)
    assert points[:10] == campaign.space.spread(10, seed=3)
    assert {point["stirs"] for point in points} == {1, 2, 3}


def test_candidates_are_checked_but_for_rounding_and_what_was_measured_is_not(campaign, tmp_path):
    point = {"heat": 40.1, "heat-2": 0.5, "stirs": 2, "acid": "a"}
    near, options = point | {"heat": 40.05}, {"constraints": [TEXT]}
    campaign.tell({"y": 1.0}, point=point)
    Campaign.create(tmp_path / "n.db", INPUTS, ["y"], candidates=[near], **options)
    with pytest.raises(CampaignError, match=r"heat = 40\.1.* violates the constraint heat \+"):
        Campaign.create(tmp_path / "d.db", INPUTS, ["y"], candidates=[point], **options)


@pytest.mark.parametrize("text", ["heat + 2*stirs < 90", "90 ≥ heat + 2stirs", "2 stirs+heat ≤ 90"])
def test_constraints_are_read_as_people_write_them(text):
    found = parse_constraint(text, INPUTS)
    assert dict(found.weights) == {"heat": 1.0, "stirs": 2.0} and found.limit == 90.0


def test_constraints_that_leave_nothing_are_refused(tmp_path):
    for texts in (["heat <= 10"], ["heat <= 30", "heat >= 31"]):
        with pytest.raises(CampaignError, match=r"leave less than 1/1024 of the space; relax"):
            Campaign.create(tmp_path / "c.db", INPUTS, ["y"], constraints=texts)
    assert not (tmp_path / "c.db").exists()


def test_a_small_part_of_the_space_is_found():
    inputs = tuple(Continuous(name, 0.0, 1.0) for name in "abcde")
    space = Space(inputs, (parse_constraint("a + b + c + d + e <= 1", inputs),))
    points = space.encode(space.spread(300, seed=0))
    assert len(points) == 300 and points.sum(axis=1).max() <= 1.0


def test_constraints_survive_json(campaign):
    plain = json.loads(json.dumps(campaign.space.to_plain()))
    assert Space.from_plain(plain, [one.text for one in campaign.space.constraints]) == (
        campaign.space
    )
