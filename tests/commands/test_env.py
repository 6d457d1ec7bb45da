"""Logs of the systems, as a user asks for them."""

import sys

import numpy as np
import pytest

from twofold import cli
from twofold.envs import catalogue
from twofold.logs import read_minari, read_table


@pytest.fixture
def twofold(monkeypatch, capsys):
    """Run a command; returns exit code, stdout and stderr."""

    def run(*words):
        monkeypatch.setattr(sys, "argv", ["twofold", "env", *map(str, words)])
        with pytest.raises(SystemExit) as stopped:
            cli.main()
        shown = capsys.readouterr()
        return stopped.value.code or 0, shown.out, shown.err

    return run


def bounds(system):
    ends = zip(system.action_low, system.action_high, strict=True)
    return dict(zip(system.actions, ends, strict=True))


def test_systems_are_listed(twofold):
    code, shown, _ = twofold("list")
    assert code == 0
    for name in catalogue.SYSTEMS:
        assert name in shown


@pytest.mark.parametrize("suffix", ["csv", "parquet"])
def test_a_log_is_written_and_read_back(twofold, tmp_path, suffix):
    path = tmp_path / f"river.{suffix}"
    code, shown, _ = twofold("sample", "wet_chicken", "--transitions", 150, "--out", path)
    assert code == 0 and "200 transitions in 2 episodes" in shown
    system = catalogue.make("wet_chicken")
    log = read_table(
        path,
        observations=system.observations,
        actions=bounds(system),
        episode="episode",
        time="step",
        cost="cost",
    )
    assert log.transitions == 200 and len(log.episodes) == 2
    for episode in log.episodes:
        np.testing.assert_allclose(episode.costs, 5.0 - episode.observations[1:, 1], rtol=1e-5)


def test_the_same_seed_gives_the_same_log(twofold, tmp_path):
    paths = [tmp_path / name for name in ("a.csv", "b.csv", "c.csv")]
    for path, seed in zip(paths, (3, 3, 4), strict=True):
        twofold("sample", "wet_chicken", "--transitions", 5, "--out", path, "--seed", seed)
    first, again, other = (path.read_text() for path in paths)
    assert first == again != other


def test_a_minari_data_set_is_written_and_read_by_minari(twofold, tmp_path, monkeypatch):
    minari = pytest.importorskip("minari", reason="Minari is not installed (extra rl)")
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    words = ("--transitions", 120, "--minari", "industrial/behaviour-v0")
    code, shown, _ = twofold("sample", "industrial_benchmark", *words)
    assert code == 0 and "200 transitions, 2 episodes" in shown
    dataset = minari.load_dataset("industrial/behaviour-v0")
    assert dataset.total_steps == 200 and dataset.total_episodes == 2
    first = next(iter(dataset.iterate_episodes()))
    assert first.observations.shape == (101, 61) and first.actions.shape == (100, 3)
    log = read_minari("industrial/behaviour-v0")
    np.testing.assert_allclose(log.episodes[0].costs, -first.rewards)
    np.testing.assert_allclose(first.observations[1:, -1], -first.rewards, rtol=1e-6)


def test_a_plants_log_without_its_history(twofold, tmp_path):
    path = tmp_path / "plant.csv"
    words = ("--transitions", 10, "--param", "history=1", "--param", "drifting=true")
    assert twofold("sample", "industrial_benchmark", *words, "--out", path)[0] == 0
    heading = path.read_text().splitlines()[0]
    assert heading.startswith("episode,step,setpoint,velocity,gain,shift,cost")


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["windmill", "--out", "a.csv"], "there is no system 'windmill'"),
        (["wet_chicken"], "say where to"),
        (["wet_chicken", "--out", "a.csv", "--param", "depth=3"], "does not take these parameters"),
        (["wet_chicken", "--out", "a.csv", "--param", "length=x"], "expected NAME=NUMBER"),
        (["wet_chicken", "--out", "a.csv", "--seed", "4294967297"], "a seed below 2**32"),
        (["wet_chicken", "--out", "a.csv", "--param", "largest_drift=NaN"], "are not finite"),
        (["wet_chicken", "--out", "a.txt"], "expected a *.csv or *.parquet file"),
        (["wet_chicken", "--out", "nowhere/a.csv"], "in a folder that exists"),
        (["wet_chicken", "--out", "a.csv", "--policy", "best"], "behaviour or uniform"),
        (["wet_chicken", "--out", "a.csv", "--transitions", "0"], "at least 1 transition"),
    ],
)
def test_mistakes_are_one_sentence(twofold, words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, said = twofold("sample", *words)
    assert code == cli.BAD_INPUT and message in said and "Traceback" not in said
    assert not list(tmp_path.iterdir())
