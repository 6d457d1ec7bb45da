"""``twofold fit``, ``decompose``, ``suggest`` and ``report``, from a table to a page."""

import hashlib
import json
import re
import shlex
import warnings

import numpy as np
import pyarrow.parquet
import pytest

import twofold
from twofold import Ensemble
from twofold.active import choose_batch, expected_information
from twofold.cli import models
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
    train, test = models.read_rows(read_table(oven / "oven.csv"), about)
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


def test_scores_are_those_of_the_rows_held_out(oven, command):
    model, about = models.load_model(oven / "oven.twofold")
    _, test = models.read_rows(read_table(oven / "oven.csv"), about)
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
        ('[fit]\ntraget = "yield"', "unknown key 'traget'; valid keys are data, target,"),
        ('[fit]\ntraget = "yield"', "did you mean 'target'?"),
        ('[fits]\ntarget = "yield"', "'fits', which is no command of twofold"),
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
        (["oven.csv", *fit_words(ignore="time")], "column 'name' must be numbers"),
        (["oven.csv", *fit_words(ignore="tiem")], "did you mean 'time'?"),
        (["oven.csv", *fit_words(inputs="heat,yield")], "no column twice"),
        (["oven.csv", *fit_words(inputs="heat,heat")], "no column twice"),
        (["oven.csv", *fit_words(target="yield,yield")], "no column twice"),
        (["oven.csv", *fit_words(out="oven.csv")], "oven.csv is read by this command"),
        (["oven.csv", *fit_words(out="new.csv")], "new.csv has the ending of a table"),
        (["comma1.csv", *fit_words(ignore="id")], "column 'heat' must be numbers"),
        (["one.csv", *fit_words(ignore="id")], "has 1 row; at least 2 are needed"),
        (["same.csv", *fit_words(ignore="id")], "'yield' is 2 in every row"),
        (["oven.csv.png", *fit_words()], "is no text file: expected CSV or Parquet"),
        ([".", *fit_words()], "cannot be read"),
        (["oven.csv", *fit_words(inputs="name")], "one target and one input"),
        (["oven.csv", *fit_words(out="no/where.twofold")], "no/where.twofold cannot be written"),
        (["oven.csv", *fit_words(held_out=0.05)], "0.05 of 60 rows are 3, too few"),
        (["oven.csv", *fit_words(held_out=1)], "--held-out of 0 to 0.9"),
        (["oven.csv", *fit_words(seed=-1)], "a seed below 2**32"),
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
    train, test = models.read_rows(sheet, about)
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
    words = ["two.csv", "--target", "loss,heat", "--out", "two.twofold", "--json"]
    code, shown, _ = command("fit", *words, *SMALL, "--held-out", 0.2)
    found = json.loads(shown)["metrics"]
    assert code == 0 and {"held-out RMSE of loss", "linear, held-out RMSE of heat"} <= set(found)


def test_of_few_rows_none_are_held_out(oven, command):
    (oven / "few.csv").write_text("heat,yield\n" + "".join(f"{i},{i % 5}\n" for i in range(20)))
    words = ["few.csv", "--target", "yield", "--out", "few.twofold", "--json"]
    alpha = ["inference=alpha", "epochs=2", "draws=2"]
    alpha = [word for one in alpha for word in ("--setting", one)]
    for settings, noted in ((SMALL, False), (alpha, True)):
        code, shown, said = command("fit", *words, *settings)
        assert code == 0 and json.loads(shown)["metrics"]["rows fitted"] == 20
        assert ("20 rows are too few to hold some out" in said) == noted


def test_a_stopped_fit_goes_on_where_it_was(oven, command, monkeypatch):
    real = twofold.BNNLVRegressor.fit

    def stopped(self, x, y):
        real(self, x, y)
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
    np.testing.assert_allclose([row["yield epistemic nats"] for row in rows], split.epistemic)
    np.testing.assert_allclose([row["yield mean"] for row in rows], model.predict(x))
    words = ["new.csv", "--by", "variance", "--out", "split.parquet"]
    code, shown, said = command("decompose", "oven.twofold", *words)
    assert code == 0 and shown == "" and "wrote split.parquet: 2 rows" in said
    table = pyarrow.parquet.read_table("split.parquet").to_pydict()
    np.testing.assert_allclose(
        np.square(table["yield total sd"]),
        np.square(table["yield epistemic sd"]) + np.square(table["yield aleatoric sd"]),
        rtol=1e-6,  # the three are added in single precision
    )
    assert table["who"] == ["ann", "bob"] and (oven / "split.parquet.record.json").exists()
    code, shown, _ = command("decompose", "oven.twofold", "new.csv")
    assert shown.splitlines()[0].startswith("who,time,heat,yield mean,yield total nats")
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
    scores = expected_information(model, x)
    means, variances = model.conditional_moments(x)
    best = choose_batch(scores, means, variances.mean(axis=0), 3)
    assert code == 0 and [int(row["id"]) for row in json.loads(shown)] == best.tolist()
    code, shown, _ = command("suggest", "oven.twofold", "--num", 2, "--json")
    for row in json.loads(shown):
        assert 20 <= row["heat"] <= 80 and 1 <= row["time"] <= 5
    code, shown, _ = command("suggest", "oven.twofold", "candidates.csv")
    assert code == 0 and "Measure here next, of 30 candidates" in shown
    code, _, said = command("suggest", "oven.twofold", "candidates.csv", "--num", 31)
    assert code == MISTAKE and "between 1 and 30 candidates, got 31" in said


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
    train, _ = models.read_rows(read_table(oven / "oven.csv"), about)
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


def test_what_cannot_be_reported_on_is_named(oven, command):
    assert "nothing.db cannot be read" in command("report", "nothing.db")[2]
    assert "is no safetensors file" in command("report", "oven.csv")[2]
    assert "it has no project.json" in command("report", ".")[2]
    assert "--out FILE.html" in command("report", "sqlite:///oven.db")[2]
    code, _, said = command("report", "oven.twofold", "--out", "page.pdf")
    assert code == MISTAKE and "expected a file that ends in .html" in said


def test_a_fault_of_our_own_says_so(oven, command, monkeypatch):
    def broken(*_):
        raise LookupError("no such thing")

    monkeypatch.setattr(models, "load_model", broken)
    code, shown, said = command("decompose", "oven.twofold", "oven.csv")
    assert code == FAULT and shown == ""
    assert "LookupError: no such thing" in said and "--debug" in said and said.count("\n") == 1
    code, _, said = command("decompose", "oven.twofold", "oven.csv", "--debug")
    assert code == FAULT and "Traceback" in said and "in broken" in said
