"""``twofold fit``, ``decompose``, ``suggest`` and ``report``, from a table to a page."""

import errno
import hashlib
import json
import os
import re
import shlex
import warnings

import numpy as np
import pyarrow.parquet
import pytest

import twofold
from twofold import Ensemble
from twofold.active import expected_information
from twofold.active.suggestion import suggest_rows
from twofold.cli import models
from twofold.cli.rows import split_rows
from twofold.cli.terminal import FAULT, MISTAKE, STOPPED
from twofold.estimators.training import InterruptedFitWarning
from twofold.tables import read_table

SMALL = ["inference=ensemble", "updates=20", "hidden_layer_sizes=[5]", "members=4"]
SMALL = [word for one in SMALL for word in ("--setting", one)]
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A table of an oven, with a column of names, and the model of it."""
    folder = tmp_path_factory.mktemp("oven")
    rng = np.random.default_rng(0)
    heat, time = rng.uniform(20, 80, 60), rng.uniform(1, 5, 60)
    rows = [
        f"batch {i},{h!r},{t!r},{0.5 * h + t * e!r}"
        for i, (h, t, e) in enumerate(
            zip(heat.tolist(), time.tolist(), rng.normal(size=60).tolist(), strict=True)
        )
    ]
    (folder / "oven.csv").write_text("name,heat,time,yield\n" + "\n".join(rows) + "\n")
    return folder


@pytest.fixture
def oven(folder, command, monkeypatch):
    monkeypatch.chdir(folder)
    if not (folder / "oven.twofold").exists():
        words = ["oven.csv", "--target", "yield", "--ignore", "name", "--out", "oven.twofold"]
        code, _, said = command("fit", *words, *SMALL, "--held-out", 0.1)
        assert code == 0, said
    return folder


def fit_words(**changes):
    words = {"target": "yield", "ignore": "name", "out": "other.twofold"} | changes
    return [part for name, v in words.items() for part in (f"--{name.replace('_', '-')}", v)]


def test_the_model_is_that_of_the_library(oven):
    model, about = models.load_model(oven / "oven.twofold")
    assert about.inputs == ["heat", "time"] and about.outputs == ["yield"]
    train, test = split_rows([read_table(oven / "oven.csv")], about)
    assert len(train.x) == 54 and len(test.x) == 6
    settings = {"inference": Ensemble(members=4, updates=20), "hidden_layer_sizes": (5,)}
    own = twofold.BNNLVRegressor(**settings, random_state=0).fit(train.x, train.y)
    np.testing.assert_array_equal(own.predict(test.x), model.predict(test.x))
    assert twofold.load(oven / "oven.twofold").predict(test.x).shape == (6,)
    assert not list(oven.glob("*.checkpoint"))


def test_the_record_repeats_the_run(oven, command):
    record = json.loads((oven / "oven.twofold.record.json").read_text())
    digest = hashlib.sha256((oven / "oven.csv").read_bytes()).hexdigest()
    assert record["reads"] == {"oven.csv": digest} and record["seeds"] == [0]
    assert record["settings"]["held_out"] == 0.1 and record["times"]["fit"] > 0
    assert "jax" in record["versions"] and record["wrote"] == "oven.twofold"
    before = (oven / "oven.twofold").read_bytes()
    code, _, _ = command(*shlex.split(record["command"])[1:])
    assert code == 0 and (oven / "oven.twofold").read_bytes() == before
    again = json.loads((oven / "oven.twofold.record.json").read_text())
    assert again["metrics"] == record["metrics"]


def test_another_model_is_not_replaced_unawares(oven, command, tmp_path):
    words = ["oven.csv", "--target", "yield", "--ignore", "name", "--out", tmp_path / "m", *SMALL]
    assert command("fit", *words)[0] == 0
    assert command("fit", *words, "--json")[0] == 0, "the same command may run again"
    (tmp_path / "moved.csv").write_bytes((oven / "oven.csv").read_bytes())
    assert command("fit", tmp_path / "moved.csv", *words[1:])[0] == 0
    model = (tmp_path / "m").read_bytes()
    changed = tmp_path / "changed.csv"
    changed.write_text((oven / "oven.csv").read_text() + "late,50,3,25\n")
    for other in (["oven.csv", *words[1:], "--seed", 1], [changed, *words[1:]]):
        code, shown, said = command("fit", *other)
        assert code == MISTAKE and shown == "" and "--force" in said and "--out" in said
        assert (tmp_path / "m").read_bytes() == model
    assert command("fit", "oven.csv", *words[1:], "--seed", 1, "--force")[0] == 0
    assert (tmp_path / "m").read_bytes() != model
    # A file that anything else put there is nobody's to replace, whatever its record says.
    (tmp_path / "m").write_bytes(model)
    code, _, said = command("fit", "oven.csv", *words[1:], "--seed", 1)
    assert code == MISTAKE and (tmp_path / "m").read_bytes() == model


def test_scores_are_those_of_the_rows_held_out(oven, command):
    model, about = models.load_model(oven / "oven.twofold")
    _, test = split_rows([read_table(oven / "oven.csv")], about)
    found = json.loads((oven / "oven.twofold.record.json").read_text())["metrics"]
    error = np.sqrt(np.mean((model.predict(test.x) - test.y) ** 2))
    assert found["held-out RMSE of yield"] == pytest.approx(error)
    density = model.log_likelihood(test.x, test.y).mean()
    assert found["held-out log-likelihood (nats)"] == pytest.approx(density)
    share = np.mean(1 - np.exp(-2 * model.decompose(test.x).epistemic))
    assert found["epistemic share of the variance"] == pytest.approx(max(share, 0.0))


def test_settings_come_from_a_file_and_the_command_line_has_the_last_word(oven, command):
    (oven / "run.toml").write_text(
        '[fit]\ndata = "oven.csv"\ntarget = "yield"\nout = "file.twofold"\ninputs = ["heat"]\n'
        'seed = 7\nheld_out = 0\n[fit.setting]\nupdates = 20\nhidden_layer_sizes = [4]\n'
        'inference = { method = "ensemble", members = 3 }\n[campaign.ask]\nnum = 3\n'
    )  # fmt: skip
    code, shown, _ = command("fit", "--config", "run.toml", "--seed", 8, "--json")
    found = json.loads(shown)
    assert code == 0 and found["model"] == "file.twofold" and found["metrics"]["rows fitted"] == 60
    model, about = models.load_model(oven / "file.twofold")
    assert about.inputs == ["heat"] and about.seed == 8
    assert model.get_params()["inference__updates"] == 20 and model.hidden_layer_sizes == (4,)
    assert model.posterior_.weights.shape[0] == 3


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('[fit]\ntraget = "yield"', "valid names for [fit] in run.toml: data, target,"),
        ('[fit]\ntraget = "yield"', "did you mean 'target'?"),
        ('[fits]\ntarget = "yield"', "got 'fits'; did you mean 'fit'?"),
        ("[suggest]\nnum = 3", "has no table [fit]"),
        ("[fit]\nseed = {a = 1}", "seed of [fit] in run.toml must be one value, got a table"),
        ("[fit\n", "run.toml is not a TOML file"),
        ("[fit]\nsetting = {chain = 3}", "got 'chain'; did you mean 'chains'?"),
    ],
)
def test_mistakes_in_a_file_are_named(oven, command, text, sentence):
    (oven / "run.toml").write_text(text)
    words = ["oven.csv", *fit_words(), "--config", "run.toml"]
    code, shown, said = command("fit", *words)
    assert code == MISTAKE and sentence in said and shown == ""
    assert said.count("\n") == 1 and not (oven / "other.twofold").exists()


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (["nowhere.csv", *fit_words()], "nowhere.csv cannot be read"),
        (["oven.csv", *fit_words(target="yeild")], "did you mean 'yield'?"),
        (["oven.csv", *fit_words(ignore="time")], "column 'name' has 60 different texts"),
        (["oven.csv", *fit_words(ignore="tiem")], "did you mean 'time'?"),
        (["oven.csv", *fit_words(inputs="heat,yield")], "no column twice"),
        (["oven.csv", *fit_words(inputs="heat,heat")], "no column twice"),
        (["oven.csv", *fit_words(target="yield,yield")], "no column twice"),
        (["oven.csv", *fit_words(out="oven.csv")], "oven.csv is read by this command"),
        (["oven.csv", *fit_words(out="new.csv")], "new.csv has the extension of a table"),
        (["comma1.csv", *fit_words(ignore="id")], "column 'heat' must be numbers"),
        (["one.csv", *fit_words(ignore="id")], "at least 2 rows, better 50 or more; got 1"),
        (["same.csv", *fit_words(ignore="id")], "'yield' is 2 in every row"),
        (["oven.csv.png", *fit_words()], "is not a text file: expected CSV or Parquet"),
        ([".", *fit_words()], "cannot be read"),
        (["oven.csv", *fit_words(inputs="name")], "one target and one input"),
        (["oven.csv", *fit_words(out="no/where.twofold")], "no/where.twofold cannot be written"),
        (["oven.csv", *fit_words(held_out=0.05)], "0.05 of 60 rows are 3, too few"),
        (["oven.csv", *fit_words(held_out=1)], "Invalid value for '--held-out'"),
        (["oven.csv", *fit_words(seed=-1)], "Invalid value for '--seed'"),
        (["oven.csv", *fit_words(setting="chains=1")], "chains must be an integer of at least 2"),
        (["oven.csv", *fit_words(setting="random_state=1")], "got 'random_state'"),
        (
            ["gaps.csv", *fit_words(ignore="id")],
            "1 of 3 rows have no finite number in a column ('heat' 1)",
        ),
        (["empty.csv", *fit_words()], "empty"),
    ],
)
def test_mistakes_are_one_sentence(oven, command, words, sentence):
    (oven / "gaps.csv").write_text("id,heat,yield\n1,1,2\n2,,3\n3,4,5\n")
    (oven / "empty.csv").write_text("")
    (oven / "comma1.csv").write_text('id,heat,yield\n1,"1,004",2\n2,857,3\n')
    (oven / "one.csv").write_text("id,heat,yield\n1,1,2\n")
    (oven / "same.csv").write_text("id,heat,yield\n1,1,2\n2,2,2\n")
    (oven / "oven.csv.png").write_bytes(b"\x89PNG\r\n\0\0\0")
    code, shown, said = command("fit", *words)
    assert code == MISTAKE and sentence in said and shown == "" and "Traceback" not in said
    assert not (oven / "other.twofold").exists()


def test_rows_with_gaps_are_left_out_where_wished_and_commas_are_understood(oven, command):
    rows = [f"{i},5;{i * i},25" for i in range(50)]
    (oven / "comma.csv").write_text("heat;yield\n;1\n" + "\n".join(rows) + "\n")
    words = ["comma.csv", "--target", "yield", "--out", "comma.twofold", "--drop-missing"]
    assert command("fit", *words, *SMALL, "--held-out", 0.2)[0] == 0
    _, about = models.load_model(oven / "comma.twofold")
    sheet = read_table(oven / "comma.csv")
    train, test = split_rows([sheet], about)
    lines = (oven / "comma.csv").read_text().splitlines()
    for place, x in zip(sheet.places(train.places), train.x[:, 0], strict=True):
        line = lines[int(place.removeprefix("line ")) - 1]
        assert float(line.partition(";")[0].replace(",", ".")) == x
    assert set(np.concatenate([train.x, test.x])[:, 0]) == {i + 0.5 for i in range(50)}


def test_two_targets_and_a_name_with_a_comma(oven, command):
    rows = "".join(f"{i},{i % 7},{2 * i}\n" for i in range(60))
    (oven / "two.csv").write_text('heat,"yield, dry",loss\n' + rows)
    words = ["two.csv", "--target", "yield, dry", "--out", "two.twofold", "--json"]
    code, shown, _ = command("fit", *words, *SMALL, "--held-out", 0.2)
    assert code == 0 and "held-out RMSE of yield, dry" in json.loads(shown)["metrics"]
    words = ["two.csv", "--target", "loss", "--target", "heat", "--out", "both.twofold", "--json"]
    code, shown, _ = command("fit", *words, *SMALL, "--held-out", 0.2)
    found = json.loads(shown)["metrics"]
    assert code == 0 and {"held-out RMSE of loss", "linear, held-out RMSE of heat"} <= set(found)


def test_of_few_rows_none_are_held_out(oven, command):
    (oven / "few.csv").write_text("heat,yield\n" + "".join(f"{i},{i % 5}\n" for i in range(20)))
    words = ["few.csv", "--target", "yield", "--out", "few.twofold", "--json", "--force"]
    alpha = ["inference=alpha", "epochs=2", "draws=2"]
    alpha = [word for one in alpha for word in ("--setting", one)]
    for settings, noted in ((SMALL, False), (alpha, True)):
        code, shown, said = command("fit", *words, *settings)
        assert code == 0 and json.loads(shown)["metrics"]["rows fitted"] == 20
        assert ("20 rows are too few to hold some out" in said) == noted


def test_a_stopped_fit_goes_on_where_it_was(oven, command, monkeypatch):
    real = twofold.BNNLVRegressor.fit

    def stopped(self, x, y, **facts):
        real(self, x, y, **facts)
        warnings.warn("stopped by Ctrl-C", InterruptedFitWarning, stacklevel=2)

    words = ["oven.csv", *fit_words(), *SMALL]
    with monkeypatch.context() as patch:
        patch.setattr(twofold.BNNLVRegressor, "fit", stopped)
        code, _, said = command("fit", *words)
    assert code == STOPPED and "other.twofold.checkpoint" in said
    assert not (oven / "other.twofold").exists() and list(oven.glob("other.twofold.checkpoint*"))
    assert command("fit", *words)[0] == 0
    assert not list(oven.glob("other.twofold.checkpoint*"))
    for name in ("other.twofold", "other.twofold.record.json"):
        (oven / name).unlink()


def test_a_table_is_split_in_two_parts(oven, command):
    (oven / "new.csv").write_text("who,time,heat\nann,2,30\nbob,3,90\n")
    model, _ = models.load_model(oven / "oven.twofold")
    x = np.array([[30.0, 2.0], [90.0, 3.0]])
    code, shown, _ = command("decompose", "oven.twofold", "new.csv", "--json")
    rows = json.loads(shown)
    split = model.decompose(x)
    assert code == 0 and [row["who"] for row in rows] == ["ann", "bob"]
    assert [row["heat"] for row in rows] == [30.0, 90.0]
    found = [[row[f"yield_{name}"] for row in rows] for name in ("epistemic_nats", "mean")]
    np.testing.assert_allclose(found, [split.epistemic, model.predict(x)], rtol=1e-5)
    assert [row["outside_range"] for row in rows] == ["", "heat"]
    words = ["new.csv", "--by", "variance", "--out", "split.parquet"]
    code, shown, said = command("decompose", "oven.twofold", *words)
    assert code == 0 and shown == "" and "wrote split.parquet: 2 rows" in said
    table = pyarrow.parquet.read_table("split.parquet").to_pydict()
    np.testing.assert_allclose(
        np.square(table["yield_total_sd"]),
        np.square(table["yield_epistemic_sd"]) + np.square(table["yield_aleatoric_sd"]),
        rtol=1e-4,  # six digits are written
    )
    assert table["who"] == ["ann", "bob"] and (oven / "split.parquet.record.json").exists()
    code, shown, _ = command("decompose", "oven.twofold", "new.csv")
    assert shown.splitlines()[0].startswith("who,time,heat,yield_mean,yield_total_nats")
    before = (oven / "new.csv").read_bytes()
    code, _, said = command("decompose", "oven.twofold", "new.csv", "--out", "new.csv")
    assert code == MISTAKE and "is read by this command" in said
    assert (oven / "new.csv").read_bytes() == before
    (oven / "parts").mkdir(exist_ok=True)
    pyarrow.parquet.write_table(pyarrow.table({"heat": [30.0], "time": [2.0]}), "parts/a.parquet")
    code, _, said = command("decompose", "oven.twofold", "parts", "--out", "parts/b.parquet")
    assert code == MISTAKE and "parts/b.parquet is read by this command" in said
    (oven / "bad.csv").write_text("time\n2\n")
    code, _, said = command("decompose", "oven.twofold", "bad.csv")
    assert code == MISTAKE and "has no column 'heat'" in said


def test_suggested_points_teach_most_together(oven, command):
    rng = np.random.default_rng(1)
    x = np.column_stack([rng.uniform(20, 80, 30), rng.uniform(1, 5, 30)])
    lines = [f"{i},{h!r},{t!r}" for i, (h, t) in enumerate(x.tolist())]
    (oven / "candidates.csv").write_text("id,heat,time\n" + "\n".join(lines) + "\n")
    code, shown, _ = command("suggest", "oven.twofold", "candidates.csv", "-n", 3, "--json")
    model, _ = models.load_model(oven / "oven.twofold")
    best = suggest_rows(model, x, 3)
    assert code == 0 and [int(row["id"]) for row in json.loads(shown)] == best.rows.tolist()
    assert best.rows[0] == np.argmax(expected_information(model, x))
    code, shown, _ = command("suggest", "oven.twofold", "--num", 2, "--json")
    for row in json.loads(shown):
        assert 20 <= row["heat"] <= 80 and 1 <= row["time"] <= 5
    code, shown, _ = command("suggest", "oven.twofold", "candidates.csv")
    assert code == 0 and "Measure here next, of 30 candidates" in shown
    code, _, said = command("suggest", "oven.twofold", "candidates.csv", "--num", 31)
    assert code == MISTAKE and "between 1 and 30 candidates, got 31" in said


def test_names_of_columns_travel_with_the_file(oven):
    pandas = pytest.importorskip("pandas")
    model = twofold.load(oven / "oven.twofold")
    frame = pandas.read_csv(oven / "oven.csv")[["time", "heat"]]
    expected = models.load_model(oven / "oven.twofold")[0].predict(frame[["heat", "time"]].values)
    np.testing.assert_array_equal(model.predict(frame), expected)
    with pytest.raises(ValueError, match="heat"):
        model.predict(frame[["time"]])


def test_a_table_of_dates_words_errors_and_batches(oven, command):
    rng = np.random.default_rng(0)
    lines = [
        f"2025-03-{1 + i % 28:02d},{'citric' if i % 3 else 'lactic'},{10 * (i % 7)},lot {i // 4},"
        f"{i % 2},{1 + i % 5},{i % 3 + 0.1 * rng.normal():.2f}"
        for i in range(48)
    ]
    heading = "day,acid,heat,lot,sigma,times,yield\n"
    (oven / "words.csv").write_text(heading + "\n".join(lines) + "\n")
    words = ["words.csv", *fit_words(ignore="times", out="words.twofold"), *SMALL]
    known = ["--error", "sigma", "--group", "lot", "--weight", "times"]
    code, shown, said = command("fit", *words, *known)
    assert code == 0, said
    assert "day: dates, in days" in shown and "acid: category (citric, lactic)" in shown
    _, about = models.load_model(oven / "words.twofold")
    assert about.features == ["day", "acid=citric", "acid=lactic", "heat"]
    train, _ = split_rows([read_table(oven / "words.csv")], about)
    assert set(train.error) == {0.0, 1.0} and len(np.unique(train.groups)) == 12
    settings = {"inference": Ensemble(members=4, updates=20), "hidden_layer_sizes": (5,)}
    own = twofold.BNNLVRegressor(**settings, random_state=0)
    own.fit(train.x, train.y, train.weight, y_error=train.error, groups=train.groups)
    model, _ = models.load_model(oven / "words.twofold")
    np.testing.assert_array_equal(model.predict(train.x), own.predict(train.x))
    code, shown, _ = command("suggest", "words.twofold", "--json", "-n", 3)
    points = json.loads(shown)
    assert code == 0 and {one["acid"] for one in points} <= {"citric", "lactic"}
    assert all(one["heat"] % 10 == 0 and one["day"].startswith("2025-03-") for one in points)
    (oven / "later.csv").write_text("day,acid,heat\n2025-04-15,citric,20\n")
    code, shown, said = command(
        "decompose", "words.twofold", "later.csv", "--quantiles", "0.1,0.9", "--json"
    )
    (row,) = json.loads(shown)
    assert code == 0 and row["outside_range"] == "day" and row["yield_q0.1"] < row["yield_q0.9"]
    assert (
        "1 of 1 rows lie outside the range that the model was fitted to (column 'outside_range')"
        in said
    )
    code, _, said = command("report", "words.twofold")
    assert code == 0, said
    (oven / "later.csv").write_text("day,acid,heat\n2025-03-15,malic,20\n")
    code, _, said = command("decompose", "words.twofold", "later.csv")
    assert code == MISTAKE and "'malic', which is not among the known words citric, lactic" in said
    for more, sentence in (
        (["--category", "acids"], "--category must name an input: day, acid, heat"),
        (
            ["--inputs", "heat,sigma", "--error", "sigma"],
            "sigma cannot be both an input and an error",
        ),
        (["--target", "acid"], "column 'acid' must be numbers"),
    ):
        code, _, said = command("fit", *words, *more, "--force")
        assert code == MISTAKE and sentence in said


def test_batches_of_suggestions_are_spread_and_lie_on_the_grid(oven, command):
    rng = np.random.default_rng(0)
    heat = rng.integers(20, 81, 60)
    lines = [f"{h},{h / 20 + 2 * rng.normal():.2f}" for h in heat]
    (oven / "whole.csv").write_text("heat,yield\n" + "\n".join(lines) + "\n")
    words = ["whole.csv", "--target", "yield", "--out", "whole.twofold"]
    assert command("fit", *words, *SMALL)[0] == 0
    code, shown, _ = command("suggest", "whole.twofold", "--json", "-n", 4)
    points = sorted(row["heat"] for row in json.loads(shown))
    assert code == 0 and all(float(point).is_integer() for point in points)
    assert np.diff(points).min() >= 0.5 / 4 * np.ptp(heat) - 1


def test_new_rows_are_added_to_a_model(oven, command):
    lines = (oven / "oven.csv").read_text().splitlines()
    (oven / "first.csv").write_text("\n".join(lines[:41]) + "\n")
    (oven / "new.csv").write_text("\n".join([lines[0], *lines[41:]]) + "\n")
    chains = ["chains=4", "updates=20", "steps=100", "samples=4", "hidden_layer_sizes=[5]"]
    settings = [word for one in chains for word in ("--setting", one)]
    assert command("fit", "first.csv", *fit_words(out="first.twofold"), *settings)[0] == 0
    before, _ = models.load_model(oven / "first.twofold")
    code, _, said = command("update", "first.twofold", "new.csv", "--out", "joined.twofold")
    assert code == 0 and "20 new rows, 40 before" in said, said
    model, about = models.load_model(oven / "joined.twofold")
    assert [name for name, _ in about.tables] == ["first.csv", "new.csv"]
    train, _ = split_rows([read_table(oven / name) for name, _ in about.tables], about)
    whole, _ = split_rows([read_table(oven / "oven.csv")], about)
    np.testing.assert_array_equal(train.x, whole.x)
    before.set_params(warm_start=True)
    expected = before.fit(whole.x, whole.y).predict(whole.x)
    np.testing.assert_array_equal(model.predict(whole.x), expected)
    assert not model.warm_start and command("report", "joined.twofold")[0] == 0
    # A table that has grown holds the old rows already.
    code, _, said = command("update", "first.twofold", "oven.csv", "--out", "grown.twofold")
    assert code == 0 and "20 new rows, 40 before" in said, said
    _, about = models.load_model(oven / "grown.twofold")
    assert [name for name, _ in about.tables] == ["oven.csv"]
    # Nothing is added twice, and no file is lost.
    code, _, said = command("update", "joined.twofold", "new.csv")
    assert code == MISTAKE and "was fitted to new.csv already" in said
    for place, sentence in (("new.csv", "is read by"), ("oven.csv", "extension of a table")):
        code, _, said = command("update", "first.twofold", "new.csv", "--out", place)
        assert (
            code == MISTAKE and sentence in said and (oven / place).read_text().startswith("name")
        )
    code, _, said = command("update", "first.twofold", "new.csv", "--out", "grown.twofold")
    assert code == MISTAKE and "--force" in said
    (oven / "first.csv").unlink()
    code, _, said = command("update", "first.twofold", "new.csv", "--out", "none.twofold")
    assert code == MISTAKE and "(first.csv) is neither beside it" in said and "--data" in said


def test_a_model_without_names_is_refused(oven, command):
    model, _ = models.load_model(oven / "oven.twofold")
    model.save(oven / "plain.twofold")
    for words in (["decompose", "plain.twofold", "oven.csv"], ["suggest", "plain.twofold"]):
        code, _, said = command(*words)
        assert code == MISTAKE and "names of its 2 inputs" in said
    code, _, said = command("report", "plain.twofold")
    assert code == MISTAKE and "which table it was fitted to" in said


def test_the_page_of_a_model(oven, command, tmp_path):
    code, shown, said = command("report", "oven.twofold")
    page = (oven / "oven.twofold.html").read_text()
    assert code == 0 and "wrote oven.twofold.html" in shown and said == ""
    assert "<svg" in page and "heat" in page and "yield" in page
    (number,) = set(re.findall(r"a typical row \(line (\d+)\)", page))
    line = (oven / "oven.csv").read_text().splitlines()[int(number) - 1]
    _, about = models.load_model(oven / "oven.twofold")
    train, _ = split_rows([read_table(oven / "oven.csv")], about)
    scale = train.x.std(axis=0)
    typical = np.argmin(np.abs((train.x - np.median(train.x, axis=0)) / scale).sum(axis=1))
    assert [float(cell) for cell in line.split(",")[1:3]] == train.x[typical].tolist()
    moved = tmp_path / "moved.csv"
    moved.write_text((oven / "oven.csv").read_text() + "late,50,3,25\n")
    code, _, said = command("report", "oven.twofold", "--data", moved, "--out", tmp_path / "a.html")
    assert code == 0 and "differs from the table" in said
    (oven / "oven.csv").rename(oven / "gone.csv")
    code, _, said = command("report", "oven.twofold")
    (oven / "gone.csv").rename(oven / "oven.csv")
    assert code == MISTAKE and "--data FILE" in said


def forge_source(oven, path, source, sha256=None):
    """The model with another table, as a file with a right checksum."""
    model, about = models.load_model(oven / "oven.twofold")
    ((_, digest),) = about.tables
    models.save_model(path, model, about._replace(tables=[(source, sha256 or digest)]))


def test_a_model_file_opens_no_other_file_than_its_table(oven, command, tmp_path, monkeypatch):
    """Files beside the model and in the current folder are found by name and content only."""
    secret = tmp_path / "secret.csv"
    secret.write_text("heat,time,yield\n1,2,3\n")
    (tmp_path / "shared").mkdir()
    monkeypatch.chdir(tmp_path / "shared")
    digest = hashlib.sha256(secret.read_bytes()).hexdigest()
    for source in ("/etc/passwd", str(secret), "../secret.csv", "..\\secret.csv", "..", ""):
        forge_source(oven, "forged.twofold", source, digest)
        code, shown, said = command("report", "forged.twofold")
        assert code == MISTAKE and shown == "" and "--data FILE" in said, source
        assert not (tmp_path / "shared/forged.twofold.html").exists()
    # Of the right name, but not the table: never parsed, for it is not even text.
    (tmp_path / "shared/passwd").write_bytes(b"\xff\x00" * 9)
    forge_source(oven, "forged.twofold", "/etc/passwd")
    code, _, said = command("report", "forged.twofold")
    assert code == MISTAKE and "passwd" in said and "has changed" in said


def test_a_table_is_found_beside_the_model_wherever_both_are(oven, command, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for name in ("oven.csv", "oven.twofold"):
        (tmp_path / name).write_bytes((oven / name).read_bytes())
    # A file of an earlier version has the whole path.
    forge_source(oven, "older.twofold", "/home/someone/oven.csv")
    for name in ("oven.twofold", "older.twofold"):
        code, shown, said = command("report", name)
        assert code == 0 and said == "" and f"wrote {name}.html" in shown


def test_files_to_share_hold_no_path_of_this_machine(oven, command):
    for name in ("oven.twofold", "oven.twofold.record.json"):
        assert str(oven).encode() not in (oven / name).read_bytes()


def test_what_cannot_be_reported_on_is_named(oven, command):
    assert "nothing.db cannot be read" in command("report", "nothing.db")[2]
    assert "is not a safetensors file" in command("report", "oven.csv")[2]
    assert "it has no project.json" in command("report", ".")[2]
    assert "without a campaign" in command("report", "sqlite:///oven.db")[2]
    code, _, said = command("report", "oven.twofold", "--out", "page.pdf")
    assert code == MISTAKE and "expected a file that ends in .html" in said


def test_a_full_disk_is_one_sentence_with_a_remedy(oven, command, monkeypatch):
    def fails(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr("twofold.core.persistence.os.fsync", fails)
    code, shown, said = command("report", "oven.twofold", "--out", "full.html")
    assert code == MISTAKE and shown == "" and said.count("\n") == 1 and "Errno" not in said
    assert "full.html: No space left on device; free some space" in said


def test_a_fault_of_our_own_says_so(oven, command, monkeypatch):
    def broken(*_):
        raise LookupError("no such thing")

    monkeypatch.setattr(models, "load_model", broken)
    code, shown, said = command("decompose", "oven.twofold", "oven.csv")
    assert code == FAULT and shown == ""
    assert "LookupError: no such thing" in said and "--debug" in said and said.count("\n") == 1
    code, _, said = command("decompose", "oven.twofold", "oven.csv", "--debug")
    assert code == FAULT and "Traceback" in said and "in broken" in said
