"""Experiments as jobs: what is missing is handed out, and what comes back is the same."""

import numpy as np
import pytest

from twofold.executors import LocalExecutor
from twofold.experiments import frontiers, runner, table1, uci

pytestmark = pytest.mark.filterwarnings("ignore")


class Recorder(LocalExecutor):
    """Runs jobs here and remembers their names."""

    def __init__(self):
        self.names = []

    def map(self, jobs):
        self.names += [job.name for job in jobs]
        yield from super().map(jobs)


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


def test_every_set_is_a_job_and_none_is_done_twice(sets, tmp_path):
    (tmp_path / "here").mkdir(), (tmp_path / "there").mkdir()
    wanted = uci.run_default(True, tmp_path / "here").metrics
    executor = Recorder()
    found = uci.run_default(True, tmp_path / "there", executor).metrics
    assert found == wanted
    assert {"first/default/rmse/mean", "second/default/test_log_likelihood/se"} <= set(found)
    assert executor.names == ["first/default", "second/default"]
    assert uci.run_default(True, tmp_path / "there", executor).metrics == wanted
    assert len(executor.names) == 2


def test_a_set_that_has_changed_is_done_again(sets, tmp_path, monkeypatch):
    done = []
    monkeypatch.setattr(uci, "measure", lambda place, *_: done.append(place))
    uci.run_default(True, tmp_path)
    folder = tmp_path / "data" / "uci"
    (folder / "second.npz").write_bytes((folder / "first.npz").read_bytes())
    uci.run_default(True, tmp_path)
    assert done == ["first/default", "second/default", "second/default"]


def test_a_set_that_is_missing_is_named(sets, tmp_path, monkeypatch):
    monkeypatch.setattr(uci, "SETS", ("first", "third"))
    monkeypatch.setattr(uci, "measure", lambda *_: None)
    with pytest.raises(FileNotFoundError, match=r"third\.npz; set TWOFOLD_DATA"):
        uci.run(True, tmp_path)


def test_groups_of_a_frontier_that_are_missing_are_handed_out(tmp_path, monkeypatch):
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
    executor = Recorder()
    frontiers.run("wet_chicken_frontier", True, tmp_path, tmp_path, executor)
    missing = [("alpha", 0), ("nearest_neighbour", 0), ("nearest_neighbour", 1)]
    assert executor.names == [f"{name}/{seed}" for name, seed in missing]
    # First those that were missing, then all of them, to be read.
    assert advanced[:3] == missing and len(advanced) == 7


def test_blocks_of_the_table_are_handed_out(tmp_path, monkeypatch):
    advanced = []
    monkeypatch.setattr(
        table1.Part, "advance", lambda part, work: advanced.append((part.block, part.group))
    )
    monkeypatch.setattr(table1, "compose", lambda *_: "composed")
    executor = Recorder()
    assert table1.run(True, tmp_path, tmp_path, executor) == "composed"
    parts = [(block, group) for block in table1.BLOCKS for group in table1.GROUPS]
    assert executor.names == [f"{block}/{group}" for block, group in parts]
    assert advanced == parts + parts


def test_an_experiment_of_one_job_has_no_use_for_an_executor(tmp_path):
    with pytest.raises(ValueError, match=r"toy_fit is one job.*uci.*table1"):
        runner.run("toy_fit", True, tmp_path, executor=LocalExecutor())
