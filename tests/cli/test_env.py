"""Logs of the systems, as a user asks for them."""

import sys

import numpy as np
import pytest

from twofold.cli import app as cli
from twofold.cli.terminal import MISTAKE
from twofold.envs import catalogue
from twofold.plant.log_files import read_log
from twofold.plant.minari import read_minari


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
    log = read_log(
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
    assert code == 0 and "200 transitions in 2 episodes" in shown
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
        (["wet_chicken"], "--out FILE, --minari NAME"),
        (["wet_chicken", "--out", "a.csv", "--param", "depth=3"], "does not take these parameters"),
        (["wet_chicken", "--out", "a.csv", "--param", "length=x"], "must be a number, got 'x'"),
        (["wet_chicken", "--out", "a.csv", "--seed", "4294967297"], "Invalid value for '--seed'"),
        (["wet_chicken", "--out", "a.csv", "--param", "largest_drift=NaN"], "non-finite"),
        (["wet_chicken", "--out", "a.txt"], "expected a file that ends in .csv or .parquet"),
        (["wet_chicken", "--out", "nowhere/a.csv"], "nowhere/a.csv cannot be written"),
        (["wet_chicken", "--out", "a.csv", "--policy", "best"], "Invalid value for '--policy'"),
        (
            ["wet_chicken", "--out", "a.csv", "--transitions", "0"],
            "Invalid value for '--transitions'",
        ),
        (["wet_chicken", "--out", "a.csv", "--param", "name=3"], "does not take these parameters"),
    ],
)
def test_mistakes_are_one_sentence(twofold, words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, _, said = twofold("sample", *words)
    assert code == MISTAKE and message in said and "Traceback" not in said
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("name", "param", "message"),
    [
        ("wet_chicken", "width=null", "width of wet_chicken must be a number, got None"),
        ("wet_chicken", "width=true", "width of wet_chicken must be a number, got True"),
        ("wet_chicken", "horizon=0", "horizon must be 1 step or more, got 0"),
        ("industrial_benchmark", 'fatigue_weight="x"', "must be a number, got 'x'"),
        ("industrial_benchmark", "history=1.5", "must be a whole number, got 1.5"),
        ("industrial_benchmark", "horizon=0", "horizon must be 1 step or more, got 0"),
        ("industrial_benchmark", "drifting=3", "must be true or false, got 3"),
        (
            "wind_turbine",
            "turbine=3",
            "must be a Turbine, which can only be given in Python, got 3",
        ),
        ("wind_turbine", "warm_up=1.5", "warm_up of wind_turbine must be a whole number, got 1.5"),
        ("wind_turbine", "mean_wind=3", "must be a pair of numbers, got 3"),
        ("wind_turbine", 'mean_wind=["a", 9]', "must be a pair of numbers, got ['a', 9]"),
    ],
)
def test_a_parameter_of_the_wrong_kind_is_one_sentence(
    twofold, name, param, message, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    code, _, said = twofold("sample", name, "--out", "a.csv", "--param", param)
    assert code == MISTAKE and message in said and said.count("\n") == 1
    assert not list(tmp_path.iterdir())


def test_parameters_of_the_right_kind_are_taken():
    assert catalogue.make("wet_chicken", width=4, horizon=7).horizon == 7
    assert catalogue.make("industrial_benchmark", history=np.int64(1), horizon=8).horizon == 8
    assert catalogue.make("wind_turbine", mean_wind=[8, 9.5], horizon=9).horizon == 9


def test_episodes_are_as_long_as_the_horizon(twofold, tmp_path):
    words = ("--transitions", 20, "--param", "horizon=10", "--out", tmp_path / "river.csv")
    assert "20 transitions in 2 episodes" in twofold("sample", "wet_chicken", *words)[1]


@pytest.mark.parametrize("data_set", ["no version", "river", "r/a-v0", "../river-v0", "river-v0"])
def test_a_data_set_is_checked_before_anything_is_sampled(twofold, data_set, tmp_path, monkeypatch):
    pytest.importorskip("minari", reason="Minari is not installed (extra rl)")
    root = tmp_path / "sets"
    (root / "river-v0").mkdir(parents=True)
    monkeypatch.setenv("MINARI_DATASETS_PATH", str(root))
    monkeypatch.setattr("twofold.envs.system.episodes", None)
    path = tmp_path / "a.csv"
    code, _, said = twofold("sample", "wet_chicken", "--out", path, "--minari", data_set)
    assert code == MISTAKE and data_set in said and said.count("\n") == 1
    assert sorted(tmp_path.rglob("*")) == [root, root / "river-v0"]


def test_without_minari_the_extra_is_named(twofold, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "minari.storage", None)
    path = tmp_path / "a.csv"
    code, _, said = twofold("sample", "wet_chicken", "--out", path, "--minari", "river-v0")
    assert code == MISTAKE and "twofold[rl]" in said and not path.exists()
