"""Logs hold together, and say so when they do not."""

import jax
import numpy as np
import pytest

from twofold.envs import system, wet_chicken
from twofold.plant.log import Episode, Log, LogError, from_episodes


def test_columns_are_those_of_the_episodes(log):
    assert log.transitions == 49
    np.testing.assert_array_equal(log.column("b")[:8], log.episodes[0].observations[:, 1])
    np.testing.assert_array_equal(log.column("v")[7:19], log.episodes[1].actions[:, 1])


def test_a_split_keeps_every_episode_whole_and_once(log):
    many = log.pick([0, 1, 2] * 4)
    learn, held_out = many.split(0.25, seed=3)
    assert (len(learn.episodes), len(held_out.episodes)) == (9, 3)
    lengths = sorted(map(len, learn.episodes + held_out.episodes))
    assert lengths == sorted(map(len, many.episodes))
    again = many.split(0.25, seed=3)[1].episodes
    assert [one.name for one in again] == [one.name for one in held_out.episodes]


def test_of_one_episode_the_last_part_is_held_out(log):
    learn, held_out = log.pick([2]).split(0.2)
    (first,), (last,) = learn.episodes, held_out.episodes
    assert (len(first), len(last)) == (24, 6) and last.times[0] == first.times[-1]
    for part in ("observations", "actions", "costs", "times"):
        shared = part in ("observations", "times")
        both = np.concatenate([getattr(first, part), getattr(last, part)[shared:]])
        np.testing.assert_array_equal(both, getattr(log.episodes[2], part))
    for part in (0.001, 0.999):
        assert all(side.transitions >= 1 for side in log.pick([0]).split(part))


@pytest.mark.parametrize("part", [0.0, 1.0, 0.99])
def test_a_split_leaves_something_on_both_sides(log, part):
    with pytest.raises(LogError, match="on both sides"):
        log.split(part)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"actions": ("u", "a")}, "must be unique, got 'a'"),
        ({"action_low": [-1.0]}, "got 1 lower and 2 upper bounds"),
        ({"action_high": [1.0, -2.0]}, "v: bounds must be finite and low < high"),
        ({"action_low": [-np.inf, 0.0]}, "u: bounds must be finite"),
        ({"observations": ("a", "b")}, "must have 2 columns"),
        ({"episodes": ()}, "at least one observation column and one episode"),
    ],
)
def test_what_does_not_fit_together_is_refused(log, change, message):
    fields = {name: getattr(log, name) for name in log.__dataclass_fields__}
    with pytest.raises(LogError, match=message):
        Log(**fields | change)


def test_costs_belong_to_all_episodes_or_to_none(log):
    bare = Episode(log.episodes[0].observations, log.episodes[0].actions)
    with pytest.raises(LogError, match="for all episodes or for none"):
        Log(log.observations, log.actions, [-1, -1], [1, 1], (bare, log.episodes[1]))


def test_an_episode_has_one_observation_more_than_actions():
    with pytest.raises(LogError, match="5 actions and needs 6 observations, got 5"):
        Episode(np.zeros((5, 1)), np.zeros((5, 1)))
    with pytest.raises(LogError, match="5 actions and needs 5 costs, got 6"):
        Episode(np.zeros((6, 1)), np.zeros((5, 1)), costs=np.zeros(6))


def test_simulated_episodes_become_a_log():
    river = wet_chicken.wet_chicken()
    found = system.episodes(jax.random.key(0), river, system.uniform(river), 6, 4)
    log = from_episodes(river, found)
    assert (log.transitions, len(log.episodes)) == (24, 4)
    assert log.observations == tuple(river.observations)
    np.testing.assert_array_equal(log.episodes[2].observations, np.asarray(found.observations[2]))
    np.testing.assert_array_equal(log.episodes[3].costs, np.asarray(found.costs[3]))


def test_the_pieces_of_a_run_stay_together():
    pieces = [("a", 3), ("b", 2), ("c", 2), ("d", 1)]
    episodes = [
        Episode(np.zeros((3, 1)), np.zeros((2, 1)), origin=run)
        for run, count in pieces
        for _ in range(count)
    ]
    log = Log(("x",), ("u",), [-1.0], [1.0], tuple(episodes))
    for seed in range(10):
        train, test = log.split(0.5, seed)
        assert len(train.episodes) + len(test.episodes) == 8
        sides = [{one.origin for one in side.episodes} for side in (train, test)]
        assert not sides[0] & sides[1] and len(sides[0]) == len(sides[1]) == 2
    alone = Log(("x",), ("u",), [-1.0], [1.0], tuple(episodes[:3]))
    train, test = alone.split(0.3)
    assert len(train.episodes) == 2 and len(test.episodes) == 1
