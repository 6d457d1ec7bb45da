"""Mending leaves out what is bad, keeps all else as it was, and never joins what was apart."""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from twofold.plant.log import LogError
from twofold.plant.log_files import read_log

EVERYTHING = dict.fromkeys(
    "split_at_restarts sort drop_duplicates drop_missing drop_stuck clip_actions "
    "split_at_gaps".split(),
    True,
)


def transitions(log):
    """Every step of a log as a tuple of numbers."""
    return {
        (*one.observations[t], *one.actions[t], *one.observations[t + 1])
        for one in log.episodes
        for t in range(len(one))
    }


@pytest.mark.filterwarnings("ignore::twofold.plant.log.LogWarning")
@settings(
    max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(data=st.data())
def test_what_is_left_are_steps_of_the_clean_log(rows, columns, write, data):
    clean = transitions(read_log(write(rows), **columns))
    spoilt = [dict(row) for row in rows]
    places = st.integers(0, len(rows) - 1)
    for place in data.draw(st.lists(places, max_size=5)):
        spoilt[place]["level"] = "nan"
    for place in data.draw(st.lists(places, max_size=5)):
        spoilt[place]["valve"] = ""
    for place in sorted(data.draw(st.sets(places, max_size=8)), reverse=True):
        del spoilt[place]
    for place in data.draw(st.lists(st.integers(0, 100), max_size=3)):
        spoilt.insert(place, dict(spoilt[place]))
    order = data.draw(st.randoms(use_true_random=False))
    if data.draw(st.booleans()):
        order.shuffle(spoilt)
    mended = read_log(
        write(spoilt), **columns, sort=True, drop_duplicates=True, drop_missing=True,
        split_at_gaps=True,
    )  # fmt: skip
    left = transitions(mended)
    assert left <= clean
    # Each row that is missing or bad takes at most the two steps that it is part of.
    assert len(left) >= len(clean) - 2 * (5 + 5 + 8)


def test_a_row_without_an_action_is_still_the_end_of_what_went_before(rows, columns, write):
    rows[10]["valve"] = ""
    log = read_log(write(rows), **columns, drop_missing=True)
    assert [len(one) for one in log.episodes] == [10, 28, 39, 39]
    assert [one.name for one in log.episodes] == ["r0", "r0/2", "r1", "r2"]
    assert log.episodes[0].observations[-1, 0] == rows[10]["level"]


def test_a_row_without_a_cost_begins_a_new_episode(rows, columns, write):
    rows[10]["cost"] = ""
    log = read_log(write(rows), **columns, cost="cost", drop_missing=True)
    assert [len(one) for one in log.episodes] == [9, 29, 39, 39]
    assert all(np.isfinite(one.costs).all() for one in log.episodes)
    assert log.episodes[1].observations[0, 0] == rows[10]["level"]


def test_actions_are_clipped_to_their_bounds(rows, columns, write):
    rows[3]["valve"], rows[8]["valve"] = 1.5, -2.0
    log = read_log(write(rows), **columns, clip_actions=True)
    assert log.episodes[0].actions[[3, 8], 0].tolist() == [1.0, 0.0]


def test_everything_at_once_does_not_harm_a_clean_log(rows, columns, write):
    plain, mended = (read_log(write(rows), **columns, **options) for options in ({}, EVERYTHING))
    assert transitions(plain) == transitions(mended)
    assert len(mended.episodes) == 3


def test_a_log_of_which_nothing_is_left_is_refused(rows, columns, write):
    for row in rows:
        row["level"] = ""
    with pytest.raises(LogError, match="is left after the repairs"):
        read_log(write(rows), **columns, drop_missing=True)
