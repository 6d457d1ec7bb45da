"""What was found to go wrong once, each by itself."""

import json
import os

import numpy as np
import pytest

from twofold import Alpha, BNNLVRegressor, Ensemble, decompose_table, fit_table
from twofold.campaign import Campaign, CampaignError, Continuous, Integer
from twofold.cli.terminal import CommandError, check_place
from twofold.core import memory
from twofold.core.persistence import FileFormatError
from twofold.estimators import streaming
from twofold.estimators.training import NonFiniteEnergyError
from twofold.plant.forecast import Trial
from twofold.plant.project import ProjectError, open_project, read_json
from twofold.tables import TableError, open_table, read_table, write_table


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ({"inference": Ensemble(members=2, nodes=2, learning_rate=1e300)}, NonFiniteEnergyError),
        ({"hidden_layer_sizes": b"x"}, ValueError),
        ({"hidden_layer_sizes": {3: 3}}, ValueError),
        ({"inference": {3: 1, "x": 2}}, ValueError),
        ({"weight_variance": 10**400}, ValueError),
        ({"inference__updates": 2**40}, ValueError),
        ({"verbose": np.array([1, 2])}, ValueError),
        ({"dtype": np.array(["float32", "float64"])}, ValueError),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_settings(tiny, data, setting, error):
    with pytest.raises(error, match="finite|" + next(iter(setting)).split("__")[-1]):
        BNNLVRegressor(**tiny).set_params(**setting).fit(*data)


@pytest.mark.parametrize("magnitude", [1e-300, 1e300, 1e200, 1e-200])
def test_a_spread_without_a_square_is_refused(tiny, data, magnitude):
    X, y = data
    for inputs, outputs in ((X * magnitude, y), (X, y * magnitude)):
        with pytest.raises(ValueError, match="rescale"):
            BNNLVRegressor(**tiny).fit(inputs, outputs)


def test_masked_values_are_no_numbers(tiny, data, fitted):
    hidden = np.ma.masked_greater(data[0], 0.0)
    with pytest.raises(ValueError, match="masked"):
        BNNLVRegressor(**tiny).fit(hidden, data[1])
    with pytest.raises(ValueError, match="masked"):
        fitted.predict(hidden)


def test_a_complex_output_has_no_likelihood(fitted, data):
    with pytest.raises(ValueError, match="complex"):
        fitted.log_likelihood(data[0], data[1] + 1j)


@pytest.mark.parametrize(
    "call",
    [
        lambda model, X: model.predict(X),
        lambda model, X: model.sample(X, 20),
        lambda model, X: model.conditional_moments(X),
    ],
)
@pytest.mark.filterwarnings("ignore:overflow")
def test_predictions_that_are_no_numbers_are_warned_of(tiny, data, call):
    model = BNNLVRegressor(**tiny | {"activation": "relu"}).fit(*data)
    with pytest.warns(RuntimeWarning, match="1 of 2 rows have no finite prediction"):
        call(model, [[1e300, 0.0], [0.0, 0.0]])


@pytest.mark.parametrize(
    ("content", "delimiter"), [("a,b\n1," + "x" * 200_000, None), ("a,b\n1,2", ",,")]
)
def test_tables(tmp_path, content, delimiter):
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(TableError, match=r"CSV|delimiter"):
        read_table(tmp_path / "t.csv", delimiter=delimiter)


def test_a_table_that_cannot_be_written_leaves_the_old_one(tmp_path):
    path = tmp_path / "t.csv"
    write_table(path, {"a": [1, 2]})

    class Bad:
        def __iter__(self):
            raise OSError(28, "No space left on device")

    with pytest.raises(TableError, match=r"t\.csv cannot be written: No space"):
        write_table(path, {"a": Bad()})
    assert path.read_text() == "a\n1\n2\n" and list(tmp_path.iterdir()) == [path]


@pytest.mark.filterwarnings("ignore")
def test_a_pipe_is_not_waited_for(tmp_path, tiny, run_command):
    (tmp_path / "t.csv").write_text("a,y\n1,2\n2,3\n4,3\n")
    model = BNNLVRegressor(**tiny | {"inference": Alpha(nodes=2, draws=2, epochs=1)})
    fit_table(model, tmp_path / "t.csv", target="y").save(tmp_path / "model")
    for name in ("pipe.csv", "pipe.parquet"):
        pipe = tmp_path / name
        os.mkfifo(pipe)
        with pytest.raises(TableError, match="neither a file nor a folder"):
            open_table(pipe)
        for words in (
            ["fit", f"{pipe}", "--target=y", f"--out={tmp_path}/new"],
            ["decompose", f"{tmp_path}/model", f"{pipe}", f"--out={tmp_path}/out.csv"],
        ):
            code, _, err = run_command([*words, "--stream"])
            assert code == 2 and "neither a file nor a folder" in err


def test_a_column_that_arrow_cannot_give_is_said_with_its_file(tmp_path):
    pyarrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "t.parquet"
    column = pyarrow.array([b"\xff"] * 3).view(pyarrow.string())
    parquet.write_table(pyarrow.table({"a": column}), path)
    source = open_table(path)
    with pytest.raises(TableError, match=r"t\.parquet cannot be read as a Parquet file"):
        [block.values(["a"]) for block in source.blocks(2)]


@pytest.mark.parametrize(
    "heading", [",".join(f"column {n}" for n in range(999)), "x" * 9000 + ",y"]
)
@pytest.mark.parametrize("cell", ["1", "x" * 9000])
def test_long_names_cells_and_lists_are_said_in_short(tmp_path, tiny, heading, cell):
    path = tmp_path / "t.csv"
    path.write_text(heading + f"\n{cell}\n" * 3)
    source = open_table(path)
    for call in (
        lambda: fit_table(BNNLVRegressor(**tiny), path, target="z"),
        lambda: [one.values(source.names) for one in source.blocks(9)],
        lambda: read_table(path).values(["z"]),
        lambda: read_table(path).values(source.names),
    ):
        with pytest.raises(ValueError, match=r"t\.csv") as caught:
            call()
        assert len(str(caught.value)) < 2_000


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"target": None}, "target must be a list"),
        ({"target": b"y"}, "target must be a list"),
        ({"target": ["y", 3]}, "no column 3"),
        ({"target": "y", "inputs": "ab"}, "inputs must be a list of column names, got 'ab'"),
        ({"target": "y", "inputs": ["a", "a"]}, "column twice"),
        ({"target": ["y", "y"], "inputs": ["a"]}, "column twice"),
    ],
)
def test_names_of_columns(tmp_path, tiny, fitted, words, said):
    path = tmp_path / "t.csv"
    path.write_text("a,b,y\n1,2,3\n2,3,5\n")
    with pytest.raises(TableError, match=said):
        fit_table(BNNLVRegressor(**tiny), path, **words)
    with pytest.raises(TableError, match="inputs must be a list"):
        decompose_table(fitted, path, tmp_path / "out.csv", inputs="ab")
    with pytest.raises(TableError, match="expected the path of a table, got int"):
        fit_table(BNNLVRegressor(**tiny), 3, **words)


def test_more_blocks_than_can_be_counted(tmp_path, tiny, monkeypatch):
    monkeypatch.setattr(streaming, "STRIP_ROWS", 1)
    monkeypatch.setattr(streaming, "BLOCK_ROWS", 2)
    monkeypatch.setattr(memory, "available", lambda: 2**60)
    path = tmp_path / "t.csv"
    path.write_text("a,y\n" + "".join(f"{n},{n % 3}\n" for n in range(9)))
    with pytest.raises(ValueError, match="number of blocks in all epochs together must be"):
        method = Alpha(nodes=2, epochs=2**30)
        fit_table(BNNLVRegressor(**tiny | {"inference": method}), path, target="y")


@pytest.mark.parametrize(
    "call",
    [
        lambda c: c.tell({"y": 10**400}, point={"x": 0.5}),
        lambda c: c.tell({"y": 1.0}, proposal=[]),
        lambda c: c.tell({"y": 1.0}, proposal=True),
        lambda c: c.tell({"y": 1.0}, point=[0.5]),
        lambda c: c.ask(10**9),
        lambda c: Continuous("x", 1e-320, 2e-320),
        lambda c: Continuous("x", -1.7e308, 1.7e308),
        lambda c: Integer("n", 0, 10**400),
        lambda c: Campaign.open("nonsense://x"),
    ],
)
def test_campaigns(tmp_path, call):
    campaign = Campaign.create(tmp_path / "c.db", [Continuous("x", 0.0, 1.0)], ["y"])
    campaign.ask(1)
    with pytest.raises(CampaignError):
        call(campaign)


@pytest.mark.parametrize(
    "content", ["[]", '{"expected": 1}', '{"format_version": "x", "about": {}, "identity": {}}']
)
def test_projects(tmp_path, content):
    (tmp_path / "project.json").write_text(content)
    for read in (
        lambda: open_project(tmp_path),
        lambda: read_json(tmp_path / "project.json", Trial),
    ):
        with pytest.raises((ProjectError, FileFormatError), match="damaged"):
            read()


def test_weights_of_a_project_are_pairs(tmp_path):
    content = {
        "format_version": 1,
        "about": {"logged_cost": 1.0},
        "identity": {"risk_weights": [[1.0]]},
    }
    (tmp_path / "project.json").write_text(json.dumps(content))
    with pytest.raises(ProjectError, match="damaged"):
        open_project(tmp_path)


def test_nothing_that_is_read_is_written_over(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("a\n1\n")
    with pytest.raises(CommandError, match="is read by this command"):
        check_place(table, (), [table])
    check_place(tmp_path / "other.csv", (), [table, None])
