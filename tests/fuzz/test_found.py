"""What was found to go wrong once, each by itself."""

import json

import numpy as np
import pytest

from twofold import BNNLVRegressor
from twofold.campaign import Campaign, CampaignError, Continuous, Integer
from twofold.commands.errors import CommandError
from twofold.commands.output import check_place
from twofold.estimators.training import NonFiniteEnergyError
from twofold.logs import LogError, files
from twofold.persistence import FileFormatError
from twofold.policies import ProjectError, identity, trial


@pytest.mark.parametrize(
    ("setting", "error"),
    [
        ({"learning_rate": 1e300}, NonFiniteEnergyError),
        ({"hidden_layer_sizes": b"x"}, ValueError),
        ({"hidden_layer_sizes": {3: 3}}, ValueError),
        ({"inference_options": {3: 1, "x": 2}}, ValueError),
        ({"weight_variance": 10**400}, ValueError),
        ({"epochs": 2**40}, ValueError),
        ({"verbose": np.array([1, 2])}, ValueError),
        ({"dtype": np.array(["float32", "float64"])}, ValueError),
    ],
)
@pytest.mark.filterwarnings("ignore")
def test_settings(tiny, data, setting, error):
    with pytest.raises(error, match="finite|" + next(iter(setting))):
        BNNLVRegressor(**tiny | setting).fit(*data)


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
def test_predictions_that_are_no_numbers_are_warned_of(fitted, call):
    with pytest.warns(RuntimeWarning, match="1 of 2 rows have no finite prediction"):
        call(fitted, [[1e300, 0.0], [0.0, 0.0]])


@pytest.mark.parametrize(
    ("content", "delimiter"), [("a,b\n1," + "x" * 200_000, None), ("a,b\n1,2", ",,")]
)
def test_tables(tmp_path, content, delimiter):
    (tmp_path / "t.csv").write_text(content)
    with pytest.raises(LogError, match=r"CSV|delimiter"):
        files.read(tmp_path / "t.csv", delimiter, "utf-8")


def test_a_table_that_cannot_be_written_leaves_the_old_one(tmp_path):
    path = tmp_path / "t.csv"
    files.write(path, {"a": [1, 2]})

    class Bad:
        def __iter__(self):
            raise OSError(28, "No space left on device")

    with pytest.raises(LogError, match=r"t\.csv cannot be written: No space"):
        files.write(path, {"a": Bad()})
    assert path.read_text() == "a\n1\n2\n" and list(tmp_path.iterdir()) == [path]


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
    for read in (lambda: identity.read(tmp_path), lambda: trial.read(tmp_path / "project.json")):
        with pytest.raises((ProjectError, FileFormatError), match="damaged"):
            read()


def test_weights_of_a_project_are_pairs(tmp_path):
    content = {"format_version": 1, "about": {"logged_cost": 1.0}, "identity": {"weights": [[1.0]]}}
    (tmp_path / "project.json").write_text(json.dumps(content))
    with pytest.raises(ProjectError, match="damaged"):
        identity.read(tmp_path)


def test_nothing_that_is_read_is_written_over(tmp_path):
    table = tmp_path / "t.csv"
    table.write_text("a\n1\n")
    with pytest.raises(CommandError, match="is read by this command"):
        check_place(table, (), [table])
    check_place(tmp_path / "other.csv", (), [table, None])
