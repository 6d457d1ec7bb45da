"""The HAWC2 adapter: its calls on a stand-in, and its errors, the licence's among them."""

import sys
from dataclasses import replace

import numpy as np
import pytest

pytest.importorskip("gymnasium", reason="Gymnasium is not installed (extra rl)")

from gymnasium.utils.env_checker import check_env

from twofold.envs.wind import hawc2
from twofold.envs.wind.hawc2 import Hawc2Env, LicenceError, explain, load_library
from twofold.envs.wind.task import PARAMS

SHORT = replace(PARAMS, warm_up=2, history=2, horizon=4)
REFUSAL = (
    "*** ERROR *** DLL load failed with error: licence_manager\n"
    "*** ERROR *** Program not allowed to run on this computer\n"
    "*** ERROR *** error-code: 111 Local config file does not exist.\n"
)


class StandIn:
    """The calls of ``h2lib.H2Lib`` that the adapter makes, with simple answers."""

    opened = 0

    def __init__(self, suppress_output=False):
        StandIn.opened += 1
        self.variables, self.time, self.lines = {}, 0.0, []

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
        # Wind, power in kW, speed in rad/s, torque in N·m, pitch in rad, moment in kN·m.
        pitch = self.variables.get(1, 0.0)
        torque = 40_000 * (1 + self.variables.get(2, 0.0))
        return np.array([10.0, 4000.0, 1.2, torque, pitch, 5e4 + 1e3 * (round(self.time * 10) % 2)])

    def close(self):
        StandIn.opened -= 1


class Dying(StandIn):
    """A library whose process ends when it reads a model."""

    def read_input(self, htc, model_path="."):
        raise Exception("H2LibThread process died before or while executing read_input(a.htc, .)")


def env(library=StandIn, **settings):
    return Hawc2Env("turbine.htc", params=SHORT, library=library, **settings)


def test_gymnasium_accepts_it():
    check_env(env(), skip_render_check=True)


def test_offsets_and_measurements_pass_through():
    turbine = env()
    turbine.reset(seed=0)
    observation, reward, ended, over, info = turbine.step(np.array([-2 / 3, 0.5]))
    assert turbine._hawc2.variables == pytest.approx({1: np.radians(-2.0), 2: 0.1})
    newest = observation[:9]
    expected = [10.0, 4.0, 1.2 * 30 / np.pi, 44.0, -2.0, 50.5, 1.0, -2.0, 10.0]
    np.testing.assert_allclose(newest, expected, rtol=1e-5)
    assert reward == pytest.approx(4.0 / 5.0 - 0.1 * 1.0 / 10.0)
    assert not ended and not over and info["time"] == pytest.approx(3.0)


def test_an_episode_is_cut_off_and_another_opens_a_fresh_hawc2():
    before, turbine = StandIn.opened, env()
    turbine.reset(seed=0)
    overs = [turbine.step(np.zeros(2))[3] for _ in range(4)]
    assert overs == [False, False, False, True]
    turbine.reset()
    assert StandIn.opened == before + 1
    turbine.close()
    assert StandIn.opened == before
    with pytest.raises(RuntimeError, match="call reset first"):
        turbine.step(np.zeros(2))


def test_each_episode_can_have_its_own_model():
    seen = []
    turbine = Hawc2Env(
        lambda seed: seen.append(seed) or f"wind_{seed}.htc", params=SHORT, library=StandIn
    )
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
        Hawc2Env("turbine.htc")


def test_a_refusal_becomes_a_clear_error(monkeypatch):
    monkeypatch.setattr(hawc2, "last_words", lambda htc, path: REFUSAL)
    with pytest.raises(LicenceError, match=r"error-code: 111.*needs a licence from DTU"):
        env(library=Dying).reset(seed=0)


def test_another_failure_says_what_hawc2_printed():
    error = explain("reading\n*** ERROR *** no such file\n", Exception("process died"))
    assert not isinstance(error, LicenceError)
    assert "process died" in str(error) and "no such file" in str(error)


def test_the_real_library_refuses_without_a_licence(tmp_path):
    pytest.importorskip("h2lib", reason="h2lib is not installed (extra wind)")
    words = "begin simulation;\n time_stop 1.0;\nend simulation;\nexit;\n"
    (tmp_path / "empty.htc").write_text(words)
    if "error-code" not in hawc2.last_words("empty.htc", str(tmp_path)):
        pytest.skip("HAWC2 has a licence here")
    with pytest.raises(LicenceError, match=r"HAWC2 refused to run \(error-code: 111"):
        Hawc2Env("empty.htc", str(tmp_path)).reset(seed=0)
