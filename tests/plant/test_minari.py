"""Logs become Minari data sets that Minari itself reads, and come back."""

import os
import sys
from dataclasses import replace

import numpy as np
import pytest

from twofold.plant.log import LogError
from twofold.plant.minari import read_minari, write_minari

minari = pytest.importorskip("minari")
spaces = pytest.importorskip("gymnasium.spaces")


def test_a_stock_reader_reads_it(log, tmp_path, monkeypatch):
    write_minari(log, "plant/log-v0", root=tmp_path, author="somebody")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    assert "plant/log-v0" in minari.list_local_datasets()
    dataset = minari.load_dataset("plant/log-v0")
    assert (dataset.total_episodes, dataset.total_steps) == (3, 49)
    assert dataset.action_space.shape == (2,)
    for one, found in zip(log.episodes, dataset.iterate_episodes(), strict=True):
        np.testing.assert_array_equal(found.observations, one.observations)
        np.testing.assert_array_equal(found.actions, one.actions)
        np.testing.assert_array_equal(found.rewards, -one.costs)
        assert found.truncations.tolist() == [False] * (len(one) - 1) + [True]
        assert not found.terminations.any()
        assert dataset.action_space.contains(found.actions[0])
        assert dataset.observation_space.contains(found.observations[0])
    assert len(list(dataset.sample_episodes(2))) == 2
    halves = minari.split_dataset(dataset, sizes=[1, 2], seed=0)
    assert [half.total_episodes for half in halves] == [1, 2]


@pytest.mark.parametrize("with_costs", [True, False])
def test_it_comes_back_whole(log, tmp_path, with_costs):
    if not with_costs:
        episodes = tuple(replace(one, costs=None, times=None) for one in log.episodes)
        log = replace(log, episodes=episodes)
    write_minari(log, "log-v0", root=tmp_path)
    again = read_minari("log-v0", root=tmp_path)
    assert (again.observations, again.actions) == (log.observations, log.actions)
    np.testing.assert_array_equal(again.action_low, log.action_low)
    for one, other in zip(log.episodes, again.episodes, strict=True):
        assert one.name == other.name
        for field in ("observations", "actions", "costs", "times"):
            np.testing.assert_array_equal(getattr(one, field), getattr(other, field))


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_a_data_set_of_somebody_else(tmp_path, monkeypatch):
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    rng = np.random.default_rng(0)

    def write(name, observations, space):
        steps = len(observations) - 1
        minari.create_dataset_from_buffers(
            name,
            [
                minari.data_collector.EpisodeBuffer(
                    observations=observations, actions=rng.uniform(size=(steps, 1)),
                    rewards=[2.0] * steps, terminations=[False] * steps,
                    truncations=[False] * steps,
                )
            ],
            observation_space=space, action_space=spaces.Box(0.0, 1.0, (1,)),
        )  # fmt: skip

    write("other/array-v0", rng.normal(size=(6, 2, 2)), spaces.Box(-9.0, 9.0, (2, 2)))
    log = read_minari("other/array-v0")
    assert log.observations == tuple(f"observation_{i}" for i in range(4))
    assert (log.actions, log.transitions) == (("action_0",), 5)
    assert log.episodes[0].costs.tolist() == [-2.0] * 5
    write("other/discrete-v0", np.array([0, 1, 2]), spaces.Discrete(3))
    with pytest.raises(LogError, match="arrays of numbers"):
        read_minari("other/discrete-v0")


def test_mistakes_are_named_and_the_environment_is_as_before(log, tmp_path, monkeypatch):
    monkeypatch.delenv("MINARI_DATASETS_PATH", raising=False)
    with pytest.raises(LogError, match="there is no Minari data set 'no-v0'"):
        read_minari("no-v0", root=tmp_path)
    write_minari(log, "log-v0", root=tmp_path)
    with pytest.raises(LogError, match="already exists"):
        write_minari(log, "log-v0", root=tmp_path)
    assert "MINARI_DATASETS_PATH" not in os.environ
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(LogError, match=r"pip install 'twofold\[rl\]'"):
        write_minari(log, "log-v1", root=tmp_path)
