"""Ask and tell: what is recorded, what is refused, and what a kill leaves."""

import multiprocessing
import os
import signal
import sqlite3
import time

import numpy as np
import pytest

from twofold.campaign import choice
from twofold.campaign.campaign import Campaign, Told
from twofold.campaign.errors import CampaignError
from twofold.campaign.space import Categorical, Continuous

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore:This process:DeprecationWarning"),
]

INPUTS = (Continuous("x", -5.0, 5.0), Categorical("side", ("left", "right")))
SETTINGS = {"epochs": 30, "inference_options": {"members": 4, "nodes": 4}}
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
        (({},), "tell at least one of the outputs y, w"),
        (({"y": float("nan")},), "y must be a finite number, got nan"),
        (({"y": "high"},), "y must be a finite number, got 'high'"),
        (({"y": 1.0},), "say where"),
        (({"y": 1.0}, {"x": 9.0, "side": "left"}), "x must lie between"),
        (({"y": 1.0}, {"x": 0.0}), "the input side is missing"),
        (({"y": 1.0}, None, 99), "there is no proposal 99"),
        (({"y": 1.0}, {"x": 0.0, "side": "left"}, 1), "proposal 1 is at"),
        (({"y": 1.0}, None, 2), "y of proposal 2 was told before"),
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
    good = Told({"y": 1.0, "w": 1.0}, proposal=1)
    with pytest.raises(CampaignError, match="there is no proposal 99"):
        campaign.tell_all([good, Told({"y": 2.0}, proposal=99)])
    assert campaign.export() == [] and len(campaign.pending()) == 2
    assert campaign.tell_all([good, Told({"y": 2.0}, proposal=2)]) == [1, 2]


@pytest.mark.parametrize("num", [0, -1, 1.5, True])
def test_impossible_numbers_of_points_are_refused(campaign, num):
    with pytest.raises(CampaignError, match="ask for at least 1 point"):
        campaign.ask(num)


def test_only_candidates_are_proposed(tmp_path):
    allowed = [{"x": float(x), "side": "left"} for x in range(-4, 5)]
    campaign = Campaign.create(
        tmp_path / "c.db", INPUTS, ["y"], candidates=allowed, settings=SETTINGS
    )
    for _ in range(2):
        for proposal in campaign.ask(6):
            assert proposal.point in allowed
            campaign.tell({"y": proposal.point["x"]}, proposal=proposal.number)
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
    assert choice.advice(curve, missing=0).startswith(verdict)


def test_open_proposals_are_counted_as_underway(tmp_path):
    campaign = Campaign.create(tmp_path / "c.db", INPUTS, ["y"], settings=SETTINGS)
    rng = np.random.default_rng(0)
    for proposal in campaign.ask(12):
        campaign.tell({"y": rng.normal()}, proposal=proposal.number)
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


@pytest.mark.parametrize("content", [b"", b"not a database at all" * 100])
def test_files_that_are_no_campaign_are_refused_and_left_alone(tmp_path, content):
    path = tmp_path / "c.db"
    path.write_bytes(content)
    with pytest.raises(CampaignError, match=r"c\.db"):
        Campaign.open(path)
    assert path.read_bytes() == content


def test_foreign_databases_newer_versions_and_missing_files_are_refused(tmp_path):
    with pytest.raises(CampaignError, match="there is no campaign at"):
        Campaign.open(tmp_path / "missing.db")
    assert not (tmp_path / "missing.db").exists()
    with sqlite3.connect(tmp_path / "foreign.db") as connection:
        connection.execute("CREATE TABLE birds (name TEXT)")
    with pytest.raises(CampaignError, match="holds no campaign"):
        Campaign.open(tmp_path / "foreign.db")
    with pytest.raises(CampaignError, match="already holds birds"):
        Campaign.create(tmp_path / "foreign.db", INPUTS, ["y"])
    Campaign.create(tmp_path / "new.db", INPUTS, ["y"])
    with sqlite3.connect(tmp_path / "new.db") as connection:
        connection.execute("UPDATE twofold_campaign SET value = '2' WHERE name = 'version'")
    with pytest.raises(CampaignError, match="schema version 2, this twofold knows 1"):
        Campaign.open(tmp_path / "new.db")


@pytest.mark.parametrize(
    ("outputs", "changes", "message"),
    [
        ([], {}, "needs outputs"),
        (["x"], {}, "names of their own"),
        (["y"], {"settings": {"alfa": 1.0}}, "no setting alfa"),
        (["y"], {"settings": {"epochs": -1}}, "epochs"),
        (["y"], {"candidates": []}, "at least one point"),
        (["y"], {"candidates": [{"x": 50.0, "side": "left"}]}, "x must lie between"),
    ],
)
def test_impossible_campaigns_are_refused(tmp_path, outputs, changes, message):
    with pytest.raises(CampaignError, match=message):
        Campaign.create(tmp_path / "c.db", INPUTS, outputs, **changes)
    assert not (tmp_path / "c.db").exists()


def tell_many(path, start, count):
    campaign = Campaign.open(path)
    for i in range(start, start + count):
        campaign.tell({"y": float(i)}, point={"x": 0.0, "side": "left"})


def tell_until_killed(path, acknowledged):
    """Tell one number after the other, and say so to a file only after each call has returned."""
    campaign = Campaign.open(path)
    told = int(acknowledged.stat().st_size)
    with open(acknowledged, "ab", buffering=0) as said:
        while True:
            campaign.tell({"y": float(told)}, point={"x": 0.0, "side": "left"})
            said.write(b".")
            told += 1


def test_processes_that_tell_at_once_lose_nothing(tmp_path):
    path = tmp_path / "c.db"
    Campaign.create(path, INPUTS, ["y"])
    context = multiprocessing.get_context("fork")
    processes = [context.Process(target=tell_many, args=(path, 100 * i, 25)) for i in range(4)]
    for process in processes:
        process.start()
    for process in processes:
        process.join()
        assert process.exitcode == 0
    told = sorted(row["y"] for row in Campaign.open(path).export())
    assert told == sorted(float(100 * i + j) for i in range(4) for j in range(25))


def test_fifty_kills_lose_no_result_that_was_acknowledged(tmp_path):
    path, acknowledged = tmp_path / "c.db", tmp_path / "said"
    Campaign.create(path, INPUTS, ["y"])
    acknowledged.touch()
    context = multiprocessing.get_context("fork")
    rng = np.random.default_rng(0)
    for _ in range(50):
        process = context.Process(target=tell_until_killed, args=(path, acknowledged))
        process.start()
        before = acknowledged.stat().st_size
        while acknowledged.stat().st_size == before and process.is_alive():
            time.sleep(0.001)
        time.sleep(rng.uniform(0.0, 0.03))
        os.kill(process.pid, signal.SIGKILL)
        process.join()
        told = [row["y"] for row in Campaign.open(path).export()]
        # A kill between the commit and the word of it may leave one more than was said.
        said = acknowledged.stat().st_size
        assert set(told) >= set(map(float, range(said))) and len(set(told)) <= said + 1
    assert said > 50
