"""The HAWC2 adapter: its calls on a stand-in, and its errors, the licence's among them."""

import sys
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="Gymnasium is not installed (extra rl)")

from gymnasium.utils.env_checker import check_env

from paper.wind import hawc2
from paper.wind.hawc2 import (
    DTU_10MW,
    SENSORS,
    Hawc2Env,
    LicenceError,
    Ratings,
    Sensor,
    explain,
    last_words,
    load_library,
)
from twofold.envs.wind.task import PARAMS

SHORT = replace(PARAMS, warm_up=2, history=2, horizon=4)
REFUSAL = (
    "*** ERROR *** DLL load failed with error: licence_manager\n"
    "*** ERROR *** Program not allowed to run on this computer\n"
    "*** ERROR *** error-code: 111 Local config file does not exist.\n"
)
LIBRARY = """
import os, subprocess, sys, time


class H2Lib:
    def read_input(self, htc, model_path="."):
        print("reading", htc, flush=True)
        {ending}
"""
STUCK = "subprocess.run([sys.executable, '-c', 'import time; time.sleep(600)'])"


class StandIn:
    """The calls of ``h2lib.H2Lib`` that the adapter makes, with simple answers."""

    opened = 0

    def __init__(self, suppress_output=False):
        StandIn.opened += 1
        self.variables, self.time, self.lines, self.factor = {}, 0.0, [], 1.0

    def read_input(self, htc, model_path="."):
        self.htc = htc

    def init(self):
        assert self.htc is not None

    def add_sensor(self, line):
        first = 3 * len(self.lines) + 1
        self.lines.append(line)
        return (first, first + 1, first + 2)

    def set_variable_sensor_value(self, number, value):
        self.variables[number] = value

    def run(self, time):
        assert time > self.time
        self.time = time

    def get_sensor_values(self, ids):
        # Wind, power in W, speed in rad/s, torque in N·m, pitch in rad, moment in kN·m.
        pitch = self.variables.get(1, 0.0)
        torque = 8e6 * (1 + self.variables.get(2, 0.0))
        moment = 5e4 + 1e3 * (round(self.time * 10) % 2)
        return self.factor * np.array([10.0, 8e6, 1.0, torque, pitch, moment])

    def close(self):
        StandIn.opened -= 1


class Dying(StandIn):
    """A library whose process ends when it reads a model."""

    def read_input(self, htc, model_path="."):
        raise Exception("H2LibThread process died before or while executing read_input(a.htc, .)")


class Crashing(StandIn):
    """A library whose process ends in the course of an episode."""

    def run(self, time):
        super().run(time)
        if time > 3.5:
            raise Exception(f"H2LibThread process died before or while executing run({time})")


class Poor(StandIn):
    """A model without a second DLL."""

    def add_sensor(self, line):
        return () if line.startswith("dll inpvec 2") else super().add_sensor(line)


def env(library=StandIn, **settings):
    settings = {"params": SHORT, "ratings": DTU_10MW} | settings
    return Hawc2Env("turbine.htc", library=library, **settings)


@pytest.fixture
def fake_h2lib(tmp_path, monkeypatch):
    """Let a fresh Python find a library that reads a model and then ends in a certain way."""

    def write(ending):
        (tmp_path / "h2lib.py").write_text(LIBRARY.format(ending=ending))
        monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    return write


@pytest.fixture(autouse=True)
def none_open():
    """Every test counts for itself."""
    StandIn.opened = 0


def test_gymnasium_accepts_it():
    check_env(env(), skip_render_check=True)


def test_offsets_and_measurements_pass_through():
    turbine = env()
    turbine.reset(seed=0)
    observation, reward, ended, over, info = turbine.step(np.array([-2 / 3, 0.5]))
    assert turbine._hawc2.variables == pytest.approx({1: np.radians(-2.0), 2: 0.1})
    newest = observation[:9]
    expected = [10.0, 8.0, 30 / np.pi, 8800.0, -2.0, 50.5, 1.0, -2.0, 10.0]
    np.testing.assert_allclose(newest, expected, rtol=1e-5)
    assert reward == pytest.approx(8.0 / 10.0 - 0.1 * 1.0 / 25.0)
    assert not ended and not over and info["time"] == pytest.approx(3.0)


def test_an_episode_is_cut_off_and_another_opens_a_fresh_hawc2():
    turbine = env()
    turbine.reset(seed=0)
    overs = [turbine.step(np.zeros(2))[3] for _ in range(4)]
    assert overs == [False, False, False, True]
    turbine.reset()
    assert StandIn.opened == 1
    turbine.close()
    assert StandIn.opened == 0
    with pytest.raises(RuntimeError, match="call reset first"):
        turbine.step(np.zeros(2))


def test_each_episode_can_have_its_own_model():
    seen = []
    turbine = env()
    turbine.htc = lambda seed: seen.append(seed) or f"wind_{seed}.htc"
    turbine.reset(seed=1)
    turbine.reset()
    assert len(set(seen)) == 2 and turbine._hawc2.htc == f"wind_{seen[-1]}.htc"


def test_without_h2lib_the_extra_is_named(monkeypatch):
    monkeypatch.setitem(sys.modules, "h2lib", None)
    with pytest.raises(
        ImportError, match=r"h2lib, which is not installed; pip install 'twofold\[wind\]'"
    ):
        load_library()
    with pytest.raises(ImportError, match="h2lib"):
        Hawc2Env("turbine.htc", ratings=DTU_10MW)


def test_a_refusal_becomes_a_clear_error_and_leaves_nothing_open(fake_h2lib):
    fake_h2lib(f"print({REFUSAL!r}, flush=True); os._exit(1)")
    with pytest.raises(LicenceError, match=r"error-code: 111.*needs a licence from DTU"):
        env(library=Dying).reset(seed=0)
    assert StandIn.opened == 0


def test_a_hawc2_that_hangs_is_ended_with_what_it_has_started(fake_h2lib, monkeypatch):
    # The words come only when nobody holds the pipe any more, the process inside included.
    fake_h2lib(STUCK)
    monkeypatch.setattr(hawc2, "PATIENCE", 3.0)
    with pytest.raises(RuntimeError, match=r"died.*reading turbine.htc; nothing more within 3 s"):
        env(library=Dying).reset(seed=0)


def test_another_failure_says_what_hawc2_printed():
    error = explain("reading\n*** ERROR *** no such file\n", Exception("process died"))
    assert not isinstance(error, LicenceError)
    assert "process died" in str(error) and "no such file" in str(error)


def test_the_power_is_the_generators():
    turbine = env()
    turbine.reset(seed=0)
    assert turbine._hawc2.lines[1] == "dll inpvec 2 2" and SENSORS.power.factor == 1e-6
    other = env(sensors=SENSORS._replace(power=Sensor("aero power", factor=1e-3)))
    other.reset(seed=0)
    assert other._hawc2.lines[1] == "aero power"


def test_reward_and_bounds_follow_the_ratings():
    small, large = (
        env(ratings=Ratings(power, torque=10_000.0, load_scale=scale))
        for power, scale in ((8.0, 1.0), (16.0, 100.0))
    )
    for turbine, reward in ((small, 1.0 - 0.1), (large, 0.5 - 0.001)):
        turbine.reset(seed=0)
        observation, found, *_ = turbine.step(np.zeros(2))
        assert found == pytest.approx(reward)
        assert turbine.observation_space.shape == observation.shape
    highest = large.observation_space.high
    np.testing.assert_allclose(highest[[1, 3, 5, 6]], [32.0, 20_000.0, 4000.0, 6000.0])
    np.testing.assert_array_equal(highest[9:], highest[:9])


@pytest.mark.parametrize("name", ["power", "torque", "load_scale"])
@pytest.mark.parametrize("value", [0.0, -5.0, np.nan, np.inf])
def test_ratings_must_be_positive(name, value):
    with pytest.raises(ValueError, match=f"{name} must be positive and finite"):
        Ratings(**({"power": 5.0, "torque": 40.0} | {name: value}))


def test_nobody_guesses_the_rated_power():
    with pytest.raises(TypeError, match="ratings"):
        Hawc2Env("turbine.htc", library=StandIn)


@pytest.mark.parametrize("sample", [0.3, 0.0, -0.1, 2.0, np.nan])
def test_samples_must_fill_a_decision(sample):
    with pytest.raises(ValueError, match=r"sample must be a share of 1.0 s"):
        env(sample=sample)


@pytest.mark.parametrize("action", [[np.nan, 0.0], [0.0, np.inf], [0.0], [[0.0, 0.0]], 0.5])
def test_what_is_no_action_is_refused_and_the_episode_goes_on(action):
    turbine = env()
    turbine.reset(seed=0)
    time = turbine._hawc2.time
    with pytest.raises(ValueError, match=r"an action must be \(2,\) finite numbers"):
        turbine.step(np.array(action))
    assert turbine._hawc2.time == time
    assert turbine.step(np.array([5.0, -5.0]))[4]["time"] == pytest.approx(time + 1.0)
    assert turbine._hawc2.variables == pytest.approx({1: np.radians(3.0), 2: -0.2})


def test_a_crash_in_an_episode_closes_hawc2():
    turbine = env(library=Crashing)
    turbine.reset(seed=0)
    turbine.step(np.zeros(2))
    with pytest.raises(RuntimeError, match=r"HAWC2 failed at 3.6 s: .*died.*call reset"):
        turbine.step(np.zeros(2))
    assert StandIn.opened == 0
    with pytest.raises(RuntimeError, match="call reset first"):
        turbine.step(np.zeros(2))


def test_numbers_that_are_not_finite_close_hawc2():
    turbine = env()
    turbine.reset(seed=0)
    turbine._hawc2.factor = np.nan
    with pytest.raises(RuntimeError, match="not finite by 3 s"):
        turbine.step(np.zeros(2))
    assert StandIn.opened == 0


def test_a_missing_sensor_is_named_and_hawc2_closed():
    with pytest.raises(RuntimeError, match=r"no value 0 of the sensor 'dll inpvec 2 2'.*Sensors"):
        env(library=Poor).reset(seed=0)
    assert StandIn.opened == 0


def test_the_real_library_refuses_without_a_licence(tmp_path):
    pytest.importorskip("h2lib", reason="h2lib is not installed (extra wind)")
    words = "begin simulation;\n time_stop 1.0;\nend simulation;\nexit;\n"
    (tmp_path / "empty.htc").write_text(words)
    if "error-code" not in last_words("empty.htc", str(tmp_path)):
        pytest.skip("HAWC2 has a licence here")
    with pytest.raises(LicenceError, match=r"HAWC2 refused to run \(error-code: 111"):
        Hawc2Env("empty.htc", str(tmp_path), ratings=DTU_10MW).reset(seed=0)
