"""From a log to policies in a folder: all of it, once, and nothing lost or mixed up."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from dataclasses import replace
from html import unescape
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone

from twofold import Alpha, BNNLVRegressor
from twofold.core.sharding import enable_compile_cache
from twofold.estimators.training import ProgressBar, StoppedFit
from twofold.plant import project as module
from twofold.plant.embedding import embed
from twofold.plant.log import Episode, Log, LogError
from twofold.plant.project import ProjectError, find_policies, open_project
from twofold.plant.quality import PlanningWarning
from twofold.plant.replay import PASSAGES
from twofold.plant.search import SearchSettings, file_name
from twofold.plant.tuning import TuningSettings
from twofold.report import write_policy_report

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore::twofold.plant.quality.PlanningWarning"),
]

WEIGHTS = [(0.0, 0.0), (2.0, 0.0)]
SETTINGS = SearchSettings(horizon=4, weight_draws=3, noise_draws=2, epochs=30, updates=2)
REGRESSOR = BNNLVRegressor(
    (5,),
    inference=Alpha(epochs=60, draws=4),
    n_weight_draws=8,
    n_latent_draws=4,
    checkpoint_seconds=0.001,
    verbose=False,
)


def make_log(seed=0):
    """A tank whose level rises with the flow and falls by itself."""
    rng = np.random.default_rng(seed)
    parts = []
    for number in range(6):
        flows, levels = rng.uniform(0.0, 2.0, (25, 1)), [rng.normal()]
        for (flow,) in flows:
            levels.append(0.8 * levels[-1] + 0.5 * flow + 0.1 * rng.normal())
        parts.append(Episode(np.array(levels)[:, None], flows, name=str(number)))
    return Log(("level",), ("flow",), [0.0], [2.0], tuple(parts))


def cost(row):
    return (row["level"] - 2.0) ** 2 + 0.1 * row["flow"]


def with_limit(row):
    """The same cost, and a limit that no logged level comes near."""
    return cost(row) + 1e6 * (row["level"] > 4.0 * max_level())


def max_level():
    return max(float(episode.observations[:, 0].max()) for episode in make_log().episodes)


def find(folder, log=None, function=cost, **changes):
    options = {"regressor": REGRESSOR, "risk_weights": WEIGHTS, "settings": SETTINGS}
    options |= {"tuning": None}
    return find_policies(log or make_log(), function, folder, verbose=False, **(options | changes))


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A folder that a search has been finished in."""
    enable_compile_cache()  # for the processes that will be killed
    folder = tmp_path_factory.mktemp("found") / "tank"
    write_policy_report(find(folder))
    return folder


def content(folder):
    return {path: path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


def same(project, other):
    for one, two in zip(project.policies, other.policies, strict=True):
        np.testing.assert_array_equal(one.weights, two.weights)
    for one, two in zip(project.trials, other.trials, strict=True):
        np.testing.assert_equal(vars(one), vars(two))


def test_a_folder_has_everything(finished):
    project = open_project(finished)
    names = {path.name for path in content(finished)}
    written = {"model.safetensors", "quality.json", "report.html", "frontier.csv"}
    assert written <= names
    for pair in WEIGHTS:
        assert {file_name(pair) + ".policy", file_name(pair) + ".json"} <= names
        assert (file_name(pair) + ".onnx" in names) == (find_spec("onnx") is not None)
    with (finished / "frontier.csv").open() as file:
        rows = list(csv.DictReader(file))
    assert [(float(row["beta"]), float(row["gamma"])) for row in rows] == WEIGHTS
    for row, trial in zip(rows, project.trials, strict=True):
        assert float(row["expected_cost"]) == pytest.approx(trial.cost)
        assert (finished / row["policy"]).exists()
    assert str(project.quality) in unescape((finished / "report.html").read_text())
    assert project.regressor.checkpoint is None


def test_a_tuned_model_is_kept_and_read_again(tmp_path, monkeypatch):
    settings = TuningSettings(4, 2, (3,), (1.0,), stretches=2, epochs=2, updates=5)
    monkeypatch.setattr("twofold.plant.tuned.is_better", lambda after, before: True)
    project = find(tmp_path / "tank", tuning=settings)
    assert project.tuning.kept and str(project.tuning) in project.model_report
    assert project.regressor.posterior_.weights.shape[0] == 4
    write_policy_report(project)
    assert str(project.tuning) in unescape((tmp_path / "tank" / "report.html").read_text())
    again = open_project(tmp_path / "tank")
    assert again.tuning == project.tuning
    for name in ("quality.json", "tuned.safetensors"):
        (tmp_path / "tank" / name).unlink()
    shutil.rmtree(tmp_path / "tank" / "policies")
    same(find(tmp_path / "tank", tuning=settings), project)
    with pytest.raises(ProjectError, match="tuning"):
        find(tmp_path / "tank")


def test_values_between_two_betas_are_searched_once_more(finished, tmp_path, monkeypatch):
    between = [(0.5, 0.0), (1.0, 0.0)]
    seen = []

    def finer(trials):
        seen.append([one.risk_weights for one in trials])
        return between

    monkeypatch.setattr(module, "finer_weights", finer)
    folder = tmp_path / "tank"
    shutil.copytree(finished, folder)
    before = content(folder / "policies")
    # The finished folder lacks them: the same search goes on, and changes nothing else.
    project = find(folder)
    expected = [WEIGHTS[0], *between, WEIGHTS[1]]
    assert [one.risk_weights for one in project.policies] == expected
    assert [one.risk_weights for one in project.trials] == expected
    assert all(pairs == WEIGHTS for pairs in seen)
    assert all((folder / file).exists() for file in project.files)
    after = content(folder / "policies")
    assert all(after[path] == found for path, found in before.items())
    same(find(folder), project)
    same(open_project(folder), project)
    page = write_policy_report(project).read_text()
    assert "β = 0.5" in unescape(page)
    # Stopped between the searches, a folder is complete without them, and the search resumes.
    (folder / "policies" / f"{file_name(between[1])}.json").unlink()
    assert [one.risk_weights for one in open_project(folder).policies] == WEIGHTS
    same(find(folder), project)


def test_trials_keep_rollouts_and_what_was_visited(finished):
    logged = make_log().split(0.2, seed=0)[0]
    flows = np.concatenate([one.actions[:, 0] for one in logged.episodes])
    for trial in open_project(finished).trials:
        assert trial.rollouts.shape == (22, SETTINGS.horizon)  # as many passages are held out
        assert {name: band.shape for name, band in trial.visited.items()} == {
            "level": (SETTINGS.horizon, 5),
            "flow": (SETTINGS.horizon, 5),
        }
        assert trial.rollouts.mean() == pytest.approx(trial.cost, abs=4 * trial.rollouts.std() / 5)
        assert trial.logged["flow"] == pytest.approx(
            np.percentile(flows, [0, 5, 25, 50, 75, 95, 100]), rel=1e-3
        )


def test_trials_without_rollouts_are_shown_without_them(finished, tmp_path):
    older = shutil.copytree(finished, tmp_path / "older")
    for path in (older / "policies").glob("beta*.json"):
        content = json.loads(path.read_text())
        for name in ("rollouts", "visited", "logged"):
            del content[name]
        path.write_text(json.dumps(content))
    write_policy_report(open_project(older))
    text = (older / "report.html").read_text()
    assert "sample roll-outs" not in text
    text = (finished / "report.html").read_text()
    assert "sample roll-outs" in text


def test_the_logged_cost_is_that_of_the_passages_from_which_policies_are_forecast(finished):
    _, test = make_log().split(0.2, seed=0)
    project = open_project(finished)
    length, first, passages = SETTINGS.horizon, project.policies[0].history - 1, []
    for one in test.episodes:
        costs = (one.observations[1:, 0] - 2.0) ** 2 + 0.1 * one.actions[:, 0]
        passages += [costs[at : at + length] for at in range(first, len(costs) - length + 1)]
    assert len(passages) == project.quality.multi_step.windows < PASSAGES
    assert project.logged_cost == pytest.approx(np.mean(passages))
    older = replace(project.quality.multi_step, logged_cost=np.nan)
    older = replace(project, quality=replace(project.quality, multi_step=older))
    assert older.logged_cost == project.about["logged_cost"]


def test_the_best_policy_is_recommended_if_it_saves_more_than_replayed_costs_are_off(finished):
    project = open_project(finished)
    best = int(np.argmin([one.careful_cost for one in project.trials]))

    def judged(bias, saving, risk, second=0.5):
        seen = project.quality.multi_step
        multi_step = replace(seen, bias=np.full(4, bias / seen.deviation), separate=0)
        known = {"saving": saving, "saving_risk": risk, "second_saving": second}
        trials = [replace(one, **known) for one in project.trials]
        quality = replace(project.quality, multi_step=multi_step)
        return replace(project, quality=quality, trials=tuple(trials)).recommended

    assert project.quality.far_below_linear  # so brief a fit needs a second opinion
    assert judged(0.45, 0.5, 0.2) is project.policies[best]
    assert judged(-0.55, 0.5, 0.2) is None
    assert judged(0.45, 0.5, 0.3) is None
    assert judged(0.45, 0.5, 0.2, second=0.4) is None
    assert judged(0.45, 0.5, 0.2, second=np.nan) is None


def test_a_model_far_below_a_linear_regression_gets_a_second_opinion(finished):
    assert all(np.isfinite(one.second_saving) for one in open_project(finished).trials)


def test_a_finished_folder_is_read_and_nothing_is_done_again(finished, monkeypatch):
    before = open_project(finished)
    model = (finished / "model.safetensors").stat().st_mtime_ns
    for name in ("search_policies", "assess", "evaluate_policy"):
        monkeypatch.setattr(module, name, None)
    monkeypatch.setattr(BNNLVRegressor, "fit", None)
    same(find(finished), before)
    assert (finished / "model.safetensors").stat().st_mtime_ns == model


def test_what_is_missing_is_made_again(finished):
    before = open_project(finished)
    path = finished / "policies" / f"{file_name(WEIGHTS[1])}.json"
    path.unlink()
    (finished / "policies" / f"{file_name(WEIGHTS[0])}.policy").unlink()
    with pytest.raises(ProjectError, match=r"finished: policies/beta-0_gamma-0\.policy and 1"):
        open_project(finished)
    same(find(finished), before)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"log": make_log(seed=1)}, "another run: log was .*; cost was"),
        ({"function": lambda row: row["level"]}, r"another run: cost was '\w+', now '\w+'\. Give"),
        ({"function": with_limit}, r"another run: cost was '\w+', now '\w+'\. Give"),
        ({"embedding": embed(make_log(), history=2)}, "embedding was .*; inputs was"),
        ({"risk_weights": [(0.0, 0.0)]}, "risk_weights was"),
        ({"settings": replace(SETTINGS, horizon=5)}, r"run: horizon was 4, now 5\. Give"),
        ({"held_out": 0.5}, "held_out was 0.2, now 0.5"),
        ({"random_state": 1}, "random_state was 0, now 1"),
    ],
    ids=lambda part: next(iter(part)) if isinstance(part, dict) else "",
)
def test_a_folder_of_another_search_is_refused_and_left_alone(finished, change, message):
    before = content(finished)
    with pytest.raises(ProjectError, match=message):
        find(finished, **change)
    assert content(finished) == before


def test_a_folder_of_something_else_is_refused_and_left_alone(tmp_path):
    (tmp_path / "thesis.txt").write_text("years")
    for folder in (tmp_path, tmp_path / "thesis.txt"):
        with pytest.raises(ProjectError, match=r"not empty and has no project\.json"):
            find(folder)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]
    with pytest.raises(ProjectError, match=r"it has no project\.json"):
        open_project(tmp_path)
    (tmp_path / "project.json").write_text("{")
    with pytest.raises(ProjectError, match="is damaged"):
        open_project(tmp_path)


def test_a_folder_without_risk_weights_is_refused(tmp_path):
    content = {"format_version": 1, "identity": {"weights": [[0.0, 0.0]]}}
    content["about"] = {"logged_cost": 1.0}
    (tmp_path / "project.json").write_text(json.dumps(content))
    with pytest.raises(ProjectError, match=r"is damaged .*risk_weights"):
        open_project(tmp_path)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"settings": replace(SETTINGS, noise_draws=1)}, "noise_draws must be"),
        ({"risk_weights": [(-1.0, 0.0)]}, "must be finite and at least 0"),
        ({"risk_weights": []}, "must be pairs"),
        ({"held_out": 1.0}, "held_out must be a fraction"),
        ({"random_state": -1}, "random_state must be"),
        ({"function": lambda row: np.nan * row["level"]}, "must be finite"),
        ({"function": lambda row: row["volume"]}, "asks for 'volume'"),
        (
            {"log": make_log().pick([0]), "embedding": embed(make_log(), history=8)},
            "needs held-out episodes of at least 9 rows, but the longest has 6",
        ),
    ],
)
def test_what_cannot_be_is_refused_before_a_folder_is_made(tmp_path, change, message):
    with pytest.raises((ProjectError, LogError), match=message):
        find(tmp_path / "tank", **change)
    assert not list(tmp_path.iterdir())


def test_doubts_come_before_the_search(tmp_path, monkeypatch):
    def no_search(*_, **__):
        raise RuntimeError("searching")

    monkeypatch.setattr(module, "search_policies", no_search)
    quick = clone(REGRESSOR).set_params(inference__epochs=1)
    for _ in range(2):  # when it goes on as well
        with (
            pytest.warns(PlanningWarning, match="not good enough"),
            pytest.raises(RuntimeError, match="searching"),
        ):
            find(tmp_path / "tank", regressor=quick)


@pytest.mark.parametrize("phase", ["fitting", "searching"])
def test_ctrl_c_stops_and_the_next_call_goes_on(finished, tmp_path, monkeypatch, phase):
    def press_ctrl_c(self, epoch, energy):
        if epoch == 1 and self.title == phase:
            os.kill(os.getpid(), signal.SIGINT)

    def remember(self, plan, done, init=ProgressBar.__init__):
        init(self, plan, done)
        self.title = plan.title

    with monkeypatch.context() as patched:
        patched.setattr(ProgressBar, "__init__", remember)
        patched.setattr(ProgressBar, "update", press_ctrl_c)
        with pytest.raises(StoppedFit, match="the same call resumes from there"):
            find(tmp_path / "tank")
    assert (tmp_path / "tank/model.safetensors").exists() == (phase == "searching")
    assert not list((tmp_path / "tank").rglob("*.policy"))
    same(find(tmp_path / "tank"), open_project(finished))


SCRIPT = """
import sys, warnings
sys.path.insert(0, sys.argv[1])
from twofold.core.sharding import enable_compile_cache
enable_compile_cache()
import test_project
warnings.simplefilter("ignore")
test_project.find(sys.argv[2])
"""


def test_a_killed_process_goes_on_and_finds_the_same(finished, tmp_path):
    folder = tmp_path / "tank"
    words = [Path(__file__).parent, folder]
    for checkpoint in ("fit.checkpoint", "policies/search.checkpoint"):
        process = subprocess.Popen([sys.executable, "-c", SCRIPT, *map(str, words)])
        while process.poll() is None and not (folder / checkpoint).exists():
            time.sleep(0.001)
        process.send_signal(signal.SIGKILL)
        process.wait()
        assert process.returncode == -signal.SIGKILL
        assert not list(folder.rglob("*.policy"))
    same(find(folder), open_project(finished))
