"""Experiments as jobs: what is missing is handed out, and what comes back is the same."""

import tempfile
from pathlib import Path

import numpy as np
import pytest

from paper import frontiers, jobs, runner, table1, uci
from paper.fits import CONTINUED
from twofold.core import persistence
from twofold.core.jobs import EXECUTORS, JobError
from twofold.estimators.training import StoppedFit

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture
def names(monkeypatch):
    """The names of the jobs that were run."""
    found, run_locally = [], EXECUTORS["local"]

    def record(missing, options):
        found.extend(job.name for job in missing.values())
        yield from run_locally(missing, options)

    monkeypatch.setitem(EXECUTORS, "local", record)
    return found


@pytest.fixture
def sets(tmp_path, monkeypatch, rng):
    """Two small sets where the experiment looks for its data."""
    folder = tmp_path / "data" / "uci"
    folder.mkdir(parents=True)
    for name in ("first", "second"):
        x = rng.normal(size=(20, 2))
        tests = {f"test_{i}": np.arange(4 * i, 4 * i + 4) for i in range(2)}
        np.savez(folder / f"{name}.npz", X=x, y=x[:, 0], n_splits=2, **tests)
    monkeypatch.setenv("TWOFOLD_DATA", str(tmp_path / "data"))
    monkeypatch.setattr(uci, "SETS", ("first", "second"))
    monkeypatch.setattr(uci, "HIDDEN", (3,))


def test_every_set_is_a_job_and_none_is_done_twice(sets, tmp_path, names):
    wanted = uci.run_default(True, tmp_path).metrics
    assert {"first/default/rmse/mean", "second/default/test_log_likelihood/se"} <= set(wanted)
    assert uci.run_default(True, tmp_path, "local").metrics == wanted
    assert names == ["first/default", "second/default"]


def test_a_set_that_has_changed_is_done_again(sets, tmp_path, names):
    before = uci.run_default(True, tmp_path, "local").metrics
    folder = tmp_path / "data" / "uci"
    (folder / "second.npz").write_bytes((folder / "first.npz").read_bytes())
    after = uci.run_default(True, tmp_path, "local").metrics
    assert names == ["first/default", "second/default", "second/default"]
    for name, value in after.items():
        assert value == before[name.replace("second", "first")]
    assert after != before


def test_a_set_that_is_missing_is_its_own_job_s_failure(sets, tmp_path, monkeypatch):
    monkeypatch.setattr(uci, "SETS", ("third", "first"))
    with pytest.raises(JobError, match=r"1 of 2 jobs failed – third: FileNotFoundError: .*"
                       r"third\.npz; set TWOFOLD_DATA"):  # fmt: skip
        uci.run(True, tmp_path)
    (kept,) = (tmp_path / "jobs").iterdir()
    assert persistence.read(kept, "result").metadata["name"] == "first"


def test_a_set_that_changes_before_its_turn_is_not_taken_for_the_former_one(
    sets, tmp_path, monkeypatch
):
    folder, run_locally = tmp_path / "data" / "uci", EXECUTORS["local"]

    def meddle(missing, options):
        (folder / "second.npz").write_bytes((folder / "first.npz").read_bytes())
        yield from run_locally(missing, options)

    monkeypatch.setitem(EXECUTORS, "local", meddle)
    with pytest.raises(JobError, match=r"second/default: ValueError: .*second\.npz has changed"):
        uci.run_default(True, tmp_path, "local")
    assert len(list((tmp_path / "jobs").iterdir())) == 1


def test_a_fit_that_was_stopped_does_not_stand_in_the_way_of_other_settings(tmp_path, monkeypatch):
    checkpoints = []

    def stop(estimators, *_):
        checkpoints.append(estimators[0].checkpoint)
        raise StoppedFit

    monkeypatch.setattr(jobs, "fit_whole", stop)
    for smoke in (True, True, False):
        with pytest.raises(StoppedFit):
            jobs.fitted([jobs.Job("bimodal", "alpha_1", 0)], smoke, tmp_path)
    assert checkpoints[0] == checkpoints[1] != checkpoints[2]


def test_groups_of_a_frontier_that_are_missing_are_handed_out(tmp_path, monkeypatch, names):
    advanced = []
    monkeypatch.setattr(
        frontiers,
        "advance",
        lambda problem, method, seed, *rest: advanced.append((method.name, seed)),
    )
    monkeypatch.setattr(frontiers, "draw", lambda *_: None)
    monkeypatch.setattr(frontiers, "recorded", lambda *_: None)
    frontier = frontiers.rehearsal(frontiers.RIVER)
    done = frontiers.folder_of(frontier.problem(), frontier.methods[0], 1, tmp_path)
    done.mkdir()
    (done / "trials.json").write_text("{}")
    frontiers.run("wet_chicken_frontier", True, tmp_path, tmp_path, "local")
    missing = [("alpha", 0), ("nearest_neighbour", 0), ("nearest_neighbour", 1)]
    assert names == [f"{name}/{seed}" for name, seed in missing]
    # First those that were missing, then all of them, to be read.
    assert advanced[:3] == missing and len(advanced) == 7


def test_blocks_of_the_table_are_handed_out(tmp_path, monkeypatch, names):
    advanced = []
    monkeypatch.setattr(
        table1.Part, "advance", lambda part, work: advanced.append((part.block, part.group))
    )
    monkeypatch.setattr(table1, "compose", lambda *_: "composed")
    assert table1.run(True, tmp_path, tmp_path, "local") == "composed"
    parts = [(block, group) for block in table1.BLOCKS for group in table1.GROUPS]
    assert names == [f"{block}/{group}" for block, group in parts]
    assert advanced == parts + parts


def test_an_experiment_of_one_job_has_no_use_for_an_executor(tmp_path):
    with pytest.raises(ValueError, match=r"toy_fit is one job.*uci.*table1"):
        runner.run("toy_fit", True, tmp_path, executor="local")


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder for temporary ones."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def test_a_rehearsal_leaves_its_results_and_no_work(temporary, tmp_path, monkeypatch):
    works = []

    def experiment(smoke, work):
        (work / "half").touch()
        works.append(work)
        return runner.Record("nothing", {}, [])

    monkeypatch.setitem(runner.RECORDED, "toy_fit", experiment)
    runner.run("toy_fit", True, tmp_path / "results")
    assert (tmp_path / "results" / "nothing.json").exists() and not list(temporary.iterdir())
    (file,) = runner.run("toy_fit", True, None).files
    assert list(temporary.rglob("*")) == [file.parent, file]
    assert works[0].parent == temporary


def stopped(name, smoke, resume=True):
    """What an experiment says that is stopped by Ctrl-C."""
    with pytest.raises(KeyboardInterrupt) as stop:
        runner.run(name, smoke, None, resume)
    return str(stop.value).removeprefix("stopped by Ctrl-C; ")


@pytest.mark.parametrize("name", ["toy_fit", "figure_1", "table1_gp"])
def test_only_what_can_be_continued_says_so(name, temporary, tmp_path, monkeypatch):
    def stop(*_):
        raise StoppedFit(f"stopped by Ctrl-C; {CONTINUED}")

    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(runner.RECORDED, "toy_fit", stop)
    monkeypatch.setitem(runner.table1.ADVANCES, "table1_gp", stop)
    monkeypatch.setattr(runner.toy_figures, "run", stop)
    assert stopped(name, smoke=True) == "a rehearsal keeps nothing"
    assert not list(temporary.iterdir())
    assert stopped(name, smoke=False) == CONTINUED
    told = stopped(name, smoke=False, resume=False)
    place = Path(told.removeprefix("what is done lies in ").removesuffix(", unfinished"))
    assert place.is_dir() and place.name.startswith(f"{name}-")
