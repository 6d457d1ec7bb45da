"""The registry of pieces, the command line, work that is resumed, and experiments as jobs."""

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest

from paper import __main__ as command_line
from paper import fits, frontiers, runner, table_1, uci
from paper.fits import CONTINUED
from paper.frontier import Group
from paper.pieces import PIECES, Piece, commands_for
from paper.records import Context, Record
from twofold.core import persistence
from twofold.core.jobs import EXECUTORS, JobError
from twofold.estimators.training import StoppedFit

RESULTS = Path(__file__).parents[2] / "results"
MAKEFILE = Path(__file__).parents[2] / "Makefile"
pytestmark = pytest.mark.filterwarnings("ignore")


def smoke(work, executor=None):
    return Context(True, work, work, executor)


def type_in(monkeypatch, capsys, *words):
    """Exit code, output and last line of errors of a command."""
    monkeypatch.setattr("sys.argv", ["paper", *map(str, words)])
    try:
        command_line.main()
        code = 0
    except SystemExit as stop:
        code = stop.code
    shown, said = capsys.readouterr()
    return code, shown, said.splitlines()[-1:]


def use_maker(monkeypatch, name, maker, **changes):
    """Let a function of the test make a piece."""
    monkeypatch.setitem(PIECES, name, PIECES[name]._replace(**changes))
    monkeypatch.setattr(Piece, "load_maker", lambda piece: maker)


@pytest.mark.parametrize("name", PIECES)
def test_every_piece_has_a_maker_and_a_record_that_is_there(name):
    piece = PIECES[name]
    assert callable(piece.load_maker())
    assert piece.record is None or (RESULTS / f"{piece.record}.json").exists()
    assert {*commands_for(piece.record)} <= {f"python -m paper {other}" for other in PIECES}


def test_pieces_of_one_record_leave_each_other_s_metrics():
    """Every metric of a shared record is renewed by one of its pieces, and kept by the others."""
    for record in ("uci", "industrial_random_batch"):
        sharing = [piece for piece in PIECES.values() if piece.record == record]
        for metric in json.loads((RESULTS / f"{record}.json").read_text())["metrics"]:
            assert sum(not piece.keeps(metric) for piece in sharing) == 1, metric
    assert commands_for("uci") == ["python -m paper uci", "python -m paper uci_default"]
    table_1 = ["python -m paper table_1", "python -m paper table_1_record"]
    assert commands_for("table1") == table_1
    assert commands_for("bench_search") == []


def test_the_list_is_for_people_and_machines(monkeypatch, capsys):
    code, shown, _ = type_in(monkeypatch, capsys, "list", "--json")
    assert code == 0 and json.loads(shown)["table_1"]["record"] == "table1"
    code, shown, _ = type_in(monkeypatch, capsys)
    assert code == 0 and [line.split()[0] for line in shown.splitlines()] == list(PIECES)
    code, _, (said,) = type_in(monkeypatch, capsys, "figure_11")
    assert code == 2 and "did you mean 'figure_1'?" in said
    code, _, (said,) = type_in(monkeypatch, capsys, "join")
    assert code == 2 and "paths of records" in said
    code, _, _ = type_in(monkeypatch, capsys, "uci", "--smoke", "--executor", "rya")
    assert "did you mean 'ray'?" in code


def test_a_figure_is_made_and_a_record_beside_it_says_how(tmp_path, monkeypatch, capsys):
    def draw(name, context):
        assert name == "figure_1" and context.smoke
        (context.output / "figure_1.png").write_bytes(b"")
        return [context.output / "figure_1.png"]

    use_maker(monkeypatch, "figure_1", draw)
    output = tmp_path / "new"
    code, shown, _ = type_in(monkeypatch, capsys, "figure_1", "--smoke", "--output", output)
    assert (code, shown) == (0, f"wrote {output / 'figure_1.png'}\n")
    record = json.loads((output / "figure_1.png.record.json").read_text())
    assert record["settings"] == {"smoke": True} and "--smoke" in record["command"]
    code, shown, _ = type_in(
        monkeypatch, capsys, "figure_1", "--smoke", "--output", output, "--json"
    )
    assert json.loads(shown) == {"files": [str(output / "figure_1.png")], "metrics": {}}


def test_work_is_resumed_unless_one_wishes_otherwise(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    works = []

    def make(context):
        works.append(context.work)
        return Record("nothing", {}, [])

    use_maker(monkeypatch, "toy_fit", make)
    for resume in (True, True, False):
        runner.make_piece("toy_fit", False, tmp_path, resume)
    assert works[0] == works[1] != works[2]
    use_maker(monkeypatch, "toy_fit", make, work="long")
    runner.make_piece("toy_fit", False, tmp_path)
    assert works[3].name == "long"


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


def test_every_group_of_splits_is_a_job_and_none_is_done_twice(sets, tmp_path, names, monkeypatch):
    monkeypatch.setattr(uci, "GROUP", 1)
    groups = [f"{name}/default, splits {i} to {i}" for name in ("first", "second") for i in (0, 1)]
    wanted = uci.score_sets_by_default(smoke(tmp_path)).metrics
    assert {"first/default/rmse/mean", "second/default/test_log_likelihood/se"} <= set(wanted)
    assert uci.score_sets_by_default(smoke(tmp_path, "local")).metrics == wanted
    assert names == groups

    folder = tmp_path / "data" / "uci"  # a set that has changed is scored again
    (folder / "second.npz").write_bytes((folder / "first.npz").read_bytes())
    after = uci.score_sets_by_default(smoke(tmp_path, "local")).metrics
    assert names == groups + groups[2:]
    for name, value in after.items():
        assert value == wanted[name.replace("second", "first")]
    assert after != wanted


def test_a_set_that_is_missing_is_its_own_job_s_failure(sets, tmp_path, monkeypatch):
    monkeypatch.setattr(uci, "SETS", ("third", "first"))
    reason = r"1 of 2 jobs failed – third/default, splits 0 to 1: FileNotFoundError: .*third\.npz"
    with pytest.raises(JobError, match=reason + "; set TWOFOLD_DATA"):
        uci.score_sets_by_default(smoke(tmp_path))
    (kept,) = (tmp_path / "jobs").iterdir()
    assert persistence.read(kept, "result").metadata["name"] == "first/default, splits 0 to 1"


def test_a_set_that_changes_before_its_turn_is_not_taken_for_the_former_one(
    sets, tmp_path, monkeypatch
):
    folder, run_locally = tmp_path / "data" / "uci", EXECUTORS["local"]

    def meddle(missing, options):
        (folder / "second.npz").write_bytes((folder / "first.npz").read_bytes())
        yield from run_locally(missing, options)

    monkeypatch.setitem(EXECUTORS, "local", meddle)
    with pytest.raises(JobError, match=r"second/default.*: ValueError: .*second\.npz has changed"):
        uci.score_sets_by_default(smoke(tmp_path, "local"))
    assert len(list((tmp_path / "jobs").iterdir())) == 1


def test_a_fit_that_was_stopped_does_not_stand_in_the_way_of_other_settings(tmp_path, monkeypatch):
    checkpoints = []

    def stop(models, *_):
        checkpoints.append(models[0].checkpoint)
        raise StoppedFit

    monkeypatch.setattr(fits, "fit_complete", stop)
    for small in (True, True, False):
        with pytest.raises(StoppedFit):
            fits.load_or_fit([fits.Fit("bimodal", "alpha_1", 0)], small, tmp_path)
    assert checkpoints[0] == checkpoints[1] != checkpoints[2]


def test_groups_of_a_frontier_that_are_missing_are_handed_out(tmp_path, monkeypatch, names):
    advanced = []

    def finish(problem, method, seed, *rest):
        advanced.append((method.name, seed))
        return Group([], [], 0.0, 0.0, {})

    monkeypatch.setattr(frontiers, "finish_group", finish)
    monkeypatch.setattr(frontiers, "draw_figures", lambda *_: None)
    monkeypatch.setattr(frontiers, "compose_record", lambda *_: None)
    frontier = frontiers.shrink(frontiers.RIVER)
    done = frontiers.group_folder(frontier.problem(), frontier.methods[0], 1, tmp_path)
    done.mkdir()
    (done / "trials.json").write_text("{}")
    frontiers.trace_frontier("wet_chicken_frontier", smoke(tmp_path, "local"))
    missing = [("alpha", 0), ("nearest_neighbour", 0), ("nearest_neighbour", 1)]
    assert names == [f"{name}/{seed}" for name, seed in missing]
    # First those that were missing, then all of them, to be read.
    assert advanced[:3] == missing and len(advanced) == 7


def test_parts_of_the_table_are_handed_out(tmp_path, monkeypatch, names):
    learnt = []
    monkeypatch.setattr(table_1.Part, "learn", lambda part, work: learnt.append(part.name))
    monkeypatch.setattr(table_1, "compose_record", lambda _: "composed")
    assert table_1.learn_all_blocks(smoke(tmp_path, "local")) == "composed"
    parts = [f"{block}/{group}" for block in table_1.BLOCKS for group in table_1.GROUPS]
    assert names == parts and learnt == parts + parts


def test_a_piece_of_one_job_has_no_use_for_an_executor(tmp_path):
    with pytest.raises(ValueError, match=r"toy_fit is one job.*table_1.*uci"):
        runner.make_piece("toy_fit", True, tmp_path, executor="local")


@pytest.fixture
def temporary(tmp_path, monkeypatch):
    """The folder for temporary ones."""
    place = tmp_path / "temporary"
    place.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(place))
    return place


def test_a_smoke_run_leaves_its_results_and_no_work(temporary, tmp_path, monkeypatch):
    works = []

    def make(context):
        (context.work / "half").touch()
        works.append(context.work)
        return Record("nothing", {}, [])

    use_maker(monkeypatch, "toy_fit", make)
    runner.make_piece("toy_fit", True, tmp_path / "results")
    assert (tmp_path / "results" / "nothing.json").exists() and not list(temporary.iterdir())
    (file,) = runner.make_piece("toy_fit", True, None).files
    assert list(temporary.rglob("*")) == [file.parent, file]
    assert works[0].parent == temporary


def test_ctrl_c_says_whether_the_run_can_be_continued(temporary, tmp_path, monkeypatch, capsys):
    def stop(*_):
        raise StoppedFit(f"stopped by Ctrl-C; {CONTINUED}")

    monkeypatch.chdir(tmp_path)
    use_maker(monkeypatch, "toy_fit", stop)
    code, _, said = type_in(monkeypatch, capsys, "toy_fit", "--smoke")
    assert (code, said) == (130, ["stopped by Ctrl-C; a smoke run keeps nothing"])
    assert not list(temporary.iterdir())
    code, _, said = type_in(monkeypatch, capsys, "toy_fit")
    assert (code, said) == (130, [f"stopped by Ctrl-C; {CONTINUED}"])
    code, _, (said,) = type_in(monkeypatch, capsys, "toy_fit", "--no-resume")
    place = Path(said.removeprefix("stopped by Ctrl-C; unfinished work is kept in "))
    assert code == 130 and place.is_dir() and place.name.startswith("toy_fit-")


def test_ctrl_c_between_jobs_is_heard(tmp_path, monkeypatch):
    def stop(*_):
        raise KeyboardInterrupt
        yield

    monkeypatch.setitem(EXECUTORS, "local", stop)
    monkeypatch.setenv("TWOFOLD_DATA", str(tmp_path))
    with pytest.raises(KeyboardInterrupt, match="stopped by Ctrl-C; a smoke run keeps nothing"):
        runner.make_piece("uci", True, tmp_path, executor="local")
