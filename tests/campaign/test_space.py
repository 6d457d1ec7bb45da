"""Inputs of a campaign: what they take, what they refuse, and as numbers."""

import json

import numpy as np
import pytest

from twofold.campaign import CampaignError, Categorical, Continuous, Integer, Space

SPACE = Space(
    (Continuous("heat", 20.0, 80.0), Integer("stirs", 1, 4), Categorical("acid", ("a", "b")))
)
POINT = {"heat": 50.0, "stirs": 2, "acid": "b"}


def test_points_become_rows_of_numbers():
    np.testing.assert_array_equal(SPACE.encode([POINT]), [[50.0, 2.0, 0.0, 1.0]])
    assert SPACE.encode([]).shape == (0, 4)


def test_values_are_taken_as_their_kind():
    found = SPACE.check({"acid": "a", "stirs": np.float64(3.0), "heat": np.int64(40)})
    assert found == {"heat": 40.0, "stirs": 3, "acid": "a"}
    assert [type(value) for value in found.values()] == [float, int, str]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"heat": 81}, "heat must lie between 20.0 and 80.0, got 81"),
        ({"heat": float("nan")}, "heat must be a finite number, got nan"),
        ({"heat": "hot"}, "heat must be a finite number, got 'hot'"),
        ({"heat": True}, "heat must be a finite number, got True"),
        ({"stirs": 2.5}, "stirs must be a whole number, got 2.5"),
        ({"stirs": 0}, "stirs must lie between 1 and 4, got 0"),
        ({"acid": "c"}, "acid must be one of a, b, got 'c'"),
        ({"haet": 1}, "no input 'haet', only heat, stirs, acid; did you mean 'heat'"),
    ],
)
def test_wrong_points_are_refused_in_words(change, message):
    with pytest.raises(CampaignError, match=message):
        SPACE.check(POINT | change)


def test_a_missing_input_is_named():
    with pytest.raises(CampaignError, match="the input stirs, acid is missing"):
        SPACE.check({"heat": 50.0})


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: Continuous("x", 1.0, 1.0), "low < high"),
        (lambda: Continuous("x", 0.0, np.inf), "finite"),
        (lambda: Continuous("x", 0.0, 1.0, log=True), "logarithmic scale needs bounds above 0"),
        (lambda: Integer("x", 1, 2.5), "whole numbers"),
        (lambda: Categorical("x", ("a", "a")), "at least two different words"),
        (lambda: Space(()), "at least one input"),
        (lambda: Space((Continuous("x", 0, 1), Continuous("x", 0, 2))), "different names"),
        (lambda: Space.from_plain([{"kind": "complex", "name": "x"}]), "kind must be one of"),
    ],
)
def test_impossible_spaces_are_refused(build, message):
    with pytest.raises(CampaignError, match=message):
        build()


def test_a_space_survives_json():
    assert Space.from_plain(json.loads(json.dumps(SPACE.to_plain()))) == SPACE


def test_spread_points_are_valid_even_and_repeatable():
    points = SPACE.spread(64, seed=3)
    assert [SPACE.check(point) for point in points] == points
    assert points == SPACE.spread(64, seed=3) and points != SPACE.spread(64, seed=4)
    assert points[:10] == SPACE.spread(10, seed=3)
    stirs = np.bincount([point["stirs"] for point in points], minlength=5)[1:]
    np.testing.assert_array_equal(stirs, 16)
    heats = np.sort([point["heat"] for point in points])
    assert np.abs(heats - np.linspace(20, 80, 64)).max() < 2.0


@pytest.mark.parametrize(
    ("low", "high", "placed"),
    [(20.0, 80.0, 27.407), (0.0, 1.0, 0.1235), (1000.0, 1001.0, 1000.1235), (0.0, 1e6, 123500.0)],
)
def test_proposals_have_no_more_digits_than_make_sense(low, high, placed):
    one = Continuous("x", low, high)
    assert one.at_fractions(np.array([0.0, 0.123456789, 1.0])) == [low, placed, high]
    assert float(one.format(placed)) == placed


def test_an_input_on_a_logarithmic_scale_is_spread_modelled_and_rounded_on_it():
    rate = Continuous("rate", 1e-4, 1e-1, log=True)
    space = Space((rate,))
    values = np.array([point["rate"] for point in space.spread(64, seed=0)])
    assert ((values >= 1e-4) & (values <= 1e-1)).all()
    assert np.abs(np.sort(np.log10(values)) - np.linspace(-4, -1, 64)).max() < 0.1
    np.testing.assert_allclose(space.encode([{"rate": 0.01}]), [[np.log(0.01)]])
    assert rate.at_fractions(np.array([0.0, 0.123456789, 1.0])) == [1e-4, 2.3462e-4, 1e-1]
    assert rate.agree(1e-3, 1.006e-3) and not rate.agree(1e-3, 1.008e-3)
    assert Space.from_plain(json.loads(json.dumps(space.to_plain()))) == space
    assert rate.format(0.00123456789) == "0.0012346"


def test_a_proposal_stays_within_bounds_that_are_finer_than_its_digits():
    assert Continuous("x", 0.1234547, 1.0).at_fractions(np.array([0.0])) == [0.1234547]
    assert Continuous("x", 0.0, 0.9999996).at_fractions(np.array([1.0])) == [0.9999996]


def test_points_agree_but_for_rounding():
    assert SPACE.agree(POINT, POINT | {"heat": 50.059})
    assert not SPACE.agree(POINT, POINT | {"heat": 50.061})
    assert not SPACE.agree(POINT, POINT | {"stirs": 3})
    assert not SPACE.agree(POINT, POINT | {"acid": "a"})
