"""What a campaign proposes, what it says of itself, and what it cannot be made of."""

import numpy as np
import pytest

from tests.campaign.conftest import FEWEST, INPUTS, OUTPUTS, SETTINGS
from twofold.active import advise, is_enough
from twofold.campaign import Campaign, CampaignError
from twofold.campaign import campaign as module
from twofold.campaign.storage import Storage

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def test_first_points_are_spread(campaign):
    first = campaign.ask(4)
    assert [proposal.number for proposal in first] == [1, 2, 3, 4]
    assert all("too few measurements" in proposal.reason for proposal in first)
    assert len({str(proposal.point) for proposal in [*first, *campaign.ask(4)]}) == 8


def test_with_enough_measurements_the_model_chooses(filled):
    (chosen,) = filled.ask()
    assert "expected information gain" in chosen.reason
    parts = chosen.split["standard_deviation"]
    for name in ("y", "w"):
        squares = [parts[part][name] ** 2 for part in ("epistemic", "aleatoric", "total")]
        assert squares[0] + squares[1] == pytest.approx(squares[2], rel=1e-3)


def test_a_target_is_what_proposals_and_the_curve_are_about(filled, tmp_path):
    from twofold.active import assess

    campaign = Campaign.create(tmp_path / "t.db", INPUTS, OUTPUTS, target="w", settings=SETTINGS)
    names = ["measurement", "proposal", "note"]
    for row in filled.export():
        point = {one: row[one] for one in row if one not in [*names, *OUTPUTS]}
        campaign.tell({one: row[one] for one in OUTPUTS}, point=point)
    (chosen,) = campaign.ask()
    pool = campaign.space.spread(module.choosing.POOL, seed=1)
    nats = assess(campaign.model(), campaign.space.encode(pool)).split.epistemic[:, 1]
    assert chosen.point == pool[int(nats.argmax())]
    assert chosen.split["information_nats"] == pytest.approx(nats.max())
    assert set(chosen.split["standard_deviation"]["epistemic"]) == set(OUTPUTS)
    reference = campaign.space.spread(module.REFERENCE, module.REFERENCE_SEED)
    known = assess(campaign.model(), campaign.space.encode(reference)).split.epistemic[:, 1]
    (row,) = campaign.status().curve
    assert row["epistemic_nats"] == pytest.approx(np.maximum(known, 0.0).mean())


def test_a_question_reads_once_and_splits_each_set_of_points_once(filled, monkeypatch):
    from twofold.estimators.regressor import BNNLVRegressor

    calls = []

    def count(owner, name):
        original = getattr(owner, name)

        def call(*arguments, **options):
            calls.append(name)
            return original(*arguments, **options)

        monkeypatch.setattr(owner, name, call)

    for name in ("decompose", "conditional_moments", "fit"):
        count(BNNLVRegressor, name)
    for name in ("read", "reading", "writing"):
        count(Storage, name)
    monkeypatch.setattr(module, "left_to_learn", lambda known: {"points": len(known.information)})
    filled.ask(2)
    # The candidates, and, because the model is new, the points that the curve is averaged over.
    splits = ["decompose", "conditional_moments"]
    assert sorted(calls) == sorted(["read", "reading", "writing", *splits, *splits])
    calls.clear()
    filled.ask(2)
    assert sorted(calls) == sorted(["read", "reading", "writing", *splits])
    (row,) = filled._read().curve
    assert (row["measurements"], row["numbers"]) == (
        FEWEST,
        {"points": module.REFERENCE, "warm": 0.0, "changes": 0},
    )


def test_another_opening_sees_everything(filled, tmp_path):
    again = Campaign.open(tmp_path / "c.db")
    assert again.export() == filled.export()
    assert again.space == filled.space and again.outputs == OUTPUTS
    assert again.settings == filled.settings


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
    with pytest.raises(CampaignError, match=r"at most 9 points, .*got 10"):
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
    ("share", "verdict"), [(0.02, "consider stopping"), (0.3, "more measurements are worthwhile")]
)
def test_it_is_time_to_stop_when_noise_is_all_that_is_left(share, verdict):
    curve = [{"measurements": 30, "epistemic_nats": 0.1, "epistemic_share": share}]
    assert advise(curve, missing=0, complete=30).startswith(verdict)
    assert is_enough(curve) == (share < 0.05) and not is_enough([])


def test_pending_proposals_count_as_underway(filled):
    pending = filled.ask(3)
    later = filled.ask(3)
    assert filled.pending() == [*pending, *later]
    assert len({str(proposal.point) for proposal in [*pending, *later]}) == 6


def test_a_campaign_without_a_model_says_what_it_needs(campaign):
    assert "10 more complete measurements are needed" in campaign.status().advice


def test_status_says_what_is_left_to_learn(filled):
    assert "ask once" in filled.status().advice
    filled.ask()
    status = filled.status()
    (point,) = status.curve
    assert point["measurements"] == 10 and 0 < point["epistemic_share"] < 1
    assert f"about {point['epistemic_share']:.0%} of the predictive variance" in status.advice
    filled.tell({"y": 0.0, "w": 0.0}, point={"x": 0.0, "side": "left"})
    assert "(1 more since then" in filled.status().advice


def test_the_curve_has_one_point_for_each_model(filled):
    for _ in range(2):
        filled.ask()
    filled.tell({"y": 1.0}, point={"x": 4.5, "side": "left"})
    filled.ask()
    assert len(filled.status().curve) == 1, "a partial result leaves the model as it is"
    filled.tell({"y": 0.0, "w": 0.0}, point={"x": 0.0, "side": "left"})
    filled.ask()
    assert [row["measurements"] for row in filled.status().curve] == [10, 11]


def test_a_refit_adds_to_the_curve_and_proposes_nothing(filled):
    for _ in range(2):
        filled.refit()
    assert len(filled.status().curve) == 1 and filled.pending() == []
    filled.ask()
    assert len(filled.status().curve) == 1, "the question finds the same model"


def test_a_refit_needs_enough_measurements(campaign):
    assert campaign.status().missing == FEWEST
    with pytest.raises(CampaignError, match="more complete measurements are needed"):
        campaign.refit()


def test_every_write_changes_the_revision(campaign):
    point, seen = {"x": 0.0, "side": "left"}, [campaign.revision()]
    for write in (
        lambda: campaign.ask(2),
        lambda: campaign.cancel(2),
        lambda: campaign.tell({"y": 0.125}, point=point),
        lambda: campaign.tell({"w": 1.0}, point=point),
        lambda: campaign.correct(1, {"y": 2.0}),
        lambda: campaign.correct(1, {"y": 0.125}),
        lambda: campaign.correct(1, note="new batch"),
        lambda: campaign.remove(1),
    ):
        write()
        seen.append(campaign.revision())
    assert len(set(seen)) == len(seen) and campaign.revision() == seen[-1]
    assert len({one.proposals for one in seen}) == 3


def test_two_that_ask_at_once_get_different_points(campaign, tmp_path, monkeypatch):
    other, choose, turns = Campaign.open(tmp_path / "c.db"), Campaign._choose, []

    def slowly(self, *arguments):
        chosen = choose(self, *arguments)
        if not turns:
            turns.append(1)
            turns.extend(other.ask(3))
        return chosen

    monkeypatch.setattr(Campaign, "_choose", slowly)
    own = campaign.ask(3)
    assert [proposal.number for proposal in own] == [4, 5, 6]
    assert len({str(proposal.point) for proposal in [*own, *turns[1:]]}) == 6


@pytest.mark.parametrize(
    ("outputs", "changes", "message"),
    [
        ([], {}, "needs a list of outputs"),
        ("yield", {}, "needs a list of outputs, such as .* got 'yield'"),
        (["x"], {}, "must be unique"),
        ([" y"], {}, "or have spaces around it, got ' y'"),
        (["proposal"], {}, "proposal is the name of a column"),
        (["y", "y_total_sd"], {}, "y_total_sd is the name of a column"),
        (["y"], {"settings": {"alfa": 1.0}}, "no setting alfa"),
        (["y"], {"settings": {"checkpoint": "run"}}, "no setting checkpoint"),
        (["y"], {"settings": {"epochs": -1}}, "epochs"),
        (
            ["y"],
            {"settings": {"inference": {"method": "ensemble", "membres": 3}}},
            "did you mean .members",
        ),
        (["y"], {"settings": {"random_state": np.random.RandomState(0)}}, "settings: .*JSON"),
        (["y"], {"target": "z"}, "target must be one of the outputs y, got 'z'"),
        (["y"], {"candidates": []}, "at least one point"),
        (["y"], {"candidates": [{"x": 50.0, "side": "left"}]}, "x must lie between"),
        (["y"], {"candidates": [{"x": 1.0, "side": "left"}] * 2}, "candidates 1 and 2 are both at"),
    ],
)
def test_impossible_campaigns_are_refused(tmp_path, outputs, changes, message):
    with pytest.raises(CampaignError, match=message):
        Campaign.create(tmp_path / "c.db", INPUTS, outputs, **changes)
    assert not (tmp_path / "c.db").exists()
