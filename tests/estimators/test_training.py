"""A run can be watched, stopped, killed and continued without losing anything."""

import os
import signal
import subprocess
import sys
import time
import warnings
from types import SimpleNamespace

import numpy as np
import pytest

from twofold import Alpha, BNNLVRegressor
from twofold.core import persistence
from twofold.envs.toy import HETEROSCEDASTIC
from twofold.estimators.training import InterruptedFitWarning, NonFiniteEnergyError, whole_fits

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

# Shorter chunks leave time to kill between two of them; the result does not depend on them.
SCRIPT = """
import runpy, sys
from twofold.inference import loop
loop.CHUNK_EPOCHS = 16
runpy.run_path(sys.argv[1])["fit_toy"](sys.argv[2])
"""


def fit_toy(checkpoint):
    """A run of a few seconds, with a checkpoint after every chunk of it."""
    X, y = HETEROSCEDASTIC.training_data(0, 150)
    method = Alpha(epochs=800, draws=10)
    settings = {"checkpoint": checkpoint, "checkpoint_seconds": 0.01, "verbose": False}
    model = BNNLVRegressor(inference=method, random_state=0, **settings).fit(X, y)
    return {"energies": model.energies_, **model.posterior_._asdict()}


def kill_after_some_checkpoints(process, path):
    """Kill once the file has been renewed a few times; False where the run ended first."""
    seen = {path.stat().st_mtime_ns} if path.exists() else set()
    enough = len(seen) + 4
    while process.poll() is None:
        if path.exists():
            seen.add(path.stat().st_mtime_ns)
        if len(seen) >= enough:
            process.send_signal(signal.SIGKILL)
            process.wait()
            return process.returncode == -signal.SIGKILL
        time.sleep(0.005)
    return False


def test_killed_and_resumed_run_equals_an_uninterrupted_one_bit_for_bit(tmp_path):
    whole, checkpoint = fit_toy(None), tmp_path / "checkpoint"
    for _ in range(3):
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, __file__, checkpoint])
        assert kill_after_some_checkpoints(process, checkpoint)
    resumed = fit_toy(checkpoint)
    for name in whole:
        np.testing.assert_array_equal(whole[name], resumed[name])


def make_data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(100, 1))
    return X, X[:, 0] + 0.1 * rng.normal(size=100)


def test_checkpoint_of_another_run_is_refused(tmp_path):
    X, y = make_data()
    settings = {"inference": Alpha(epochs=3, draws=5), "checkpoint": tmp_path / "checkpoint"}
    BNNLVRegressor(**settings, random_state=0).fit(X, y)
    with pytest.raises(ValueError, match=r"another run: alpha was .*1.0.*, now .*0.5"):
        BNNLVRegressor(**settings, random_state=0).set_params(inference__alpha=0.5).fit(X, y)
    with pytest.raises(ValueError, match="data was"):
        BNNLVRegressor(**settings, random_state=0).fit(X, y + 1e-9)


def test_a_checkpoint_of_another_version_is_refused(tmp_path):
    X, y = make_data()
    path = tmp_path / "run.checkpoint"
    settings = {"inference": Alpha(epochs=2, draws=5), "random_state": 0}
    BNNLVRegressor(**settings, checkpoint=path).fit(X, y)
    stored = persistence.read(path, "checkpoint")
    older = stored.arrays | {"state/0": np.ones((1, 7), np.float32)}
    persistence.write(path, "checkpoint", older, stored.metadata)
    with pytest.raises(persistence.FileFormatError, match="another version of twofold; delete"):
        BNNLVRegressor(**settings, checkpoint=path).fit(X, y)


def test_inside_whole_fits_half_a_fit_is_no_result():
    with pytest.raises(KeyboardInterrupt, match="incomplete fit"), whole_fits():
        warnings.warn("stopped", InterruptedFitWarning, stacklevel=1)


def test_a_place_that_cannot_hold_a_checkpoint_is_refused_before_training(tmp_path):
    X, y = make_data()
    settings = {"inference": Alpha(epochs=10**7, draws=5), "random_state": 0}
    with pytest.raises(FileNotFoundError, match="create it"):
        BNNLVRegressor(**settings, checkpoint=tmp_path / "missing" / "file").fit(X, y)
    with pytest.raises(IsADirectoryError, match="is a directory"):
        BNNLVRegressor(**settings, checkpoint=tmp_path).fit(X, y)


def test_numpy_settings_can_be_checkpointed_and_a_finished_run_is_not_repeated(tmp_path):
    X, y = make_data()
    settings = {
        "inference": Alpha(epochs=np.int64(3), draws=np.int64(5)),
        "checkpoint": tmp_path / "file",
    }
    first = BNNLVRegressor(**settings, random_state=0).fit(X, y)
    written = (tmp_path / "file").stat().st_mtime_ns
    again = BNNLVRegressor(**settings, random_state=0).fit(X, y)
    assert (tmp_path / "file").stat().st_mtime_ns == written
    np.testing.assert_array_equal(first.predict(X), again.predict(X))


def test_damaged_checkpoint_is_refused_and_left_alone(tmp_path):
    X, y = make_data()
    path = tmp_path / "checkpoint"
    model = BNNLVRegressor(inference=Alpha(epochs=3, draws=5), random_state=0, checkpoint=path)
    model.fit(X, y)
    damaged = path.read_bytes()[:-20]
    path.write_bytes(damaged)
    with pytest.raises(ValueError, match="checkpoint"):
        model.fit(X, y)
    assert path.read_bytes() == damaged


def test_ctrl_c_keeps_what_has_been_learned(monkeypatch):
    X, y = make_data()
    from twofold.estimators.training import ProgressBar

    def press_ctrl_c(self, epoch, energy):
        if epoch >= 5:
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(ProgressBar, "update", press_ctrl_c)
    before = signal.getsignal(signal.SIGINT)
    model = BNNLVRegressor(inference=Alpha(epochs=10**6, draws=5), random_state=0)
    with pytest.warns(InterruptedFitWarning, match="of 1,000,000 epochs"):
        model.fit(X, y)
    assert 5 <= len(model.energies_) < 10**6
    assert not model.convergence_.converged
    assert np.isfinite(model.predict(X)).all()
    assert signal.getsignal(signal.SIGINT) is before


def test_progress_bar_shows_energy_and_speed(capsys):
    X, y = make_data()
    BNNLVRegressor(inference=Alpha(epochs=600, draws=5), random_state=0, verbose=True).fit(X, y)
    shown = capsys.readouterr().err
    assert "600/600 epochs" in shown and "energy" in shown and "updates/s" in shown


def test_silent_when_not_on_a_terminal(capsys):
    X, y = make_data()
    BNNLVRegressor(inference=Alpha(epochs=3, draws=5), random_state=0).fit(X, y)
    assert capsys.readouterr().err == ""


def test_energy_that_is_no_number_is_an_error():
    X, y = make_data()
    model = BNNLVRegressor(inference=Alpha(epochs=30, draws=5, learning_rate=1e30), random_state=0)
    with pytest.raises(NonFiniteEnergyError, match="lower learning_rate"):
        model.fit(X, y)


def test_where_no_bar_is_seen_a_long_fit_says_once_how_long_it_takes(monkeypatch, capsys):
    from twofold.estimators import training

    now = [0.0]
    monkeypatch.setattr(training, "time", SimpleNamespace(monotonic=lambda: now[0]))
    announced = "fitting: 30 of 100 epochs after 60 s, about 4 min left\n"
    for updates, said in (
        ([(30.0, 20), (60.0, 30), (90.0, 40)], announced),
        ([(30.0, 20), (60.0, 60)], ""),
        ([(150.0, 20), (151.0, 30), (159.0, 90)], ""),  # it was compiled for two minutes
    ):
        now[0] = 0.0
        bar = training.ProgressBar(training.Plan(100, np.ones(1, int), "epochs", "auto", None), 10)
        for now[0], epoch in updates:
            bar.update(epoch, 0.0)
        assert capsys.readouterr().err == said
