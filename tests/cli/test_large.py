"""``twofold fit`` and ``decompose`` of tables that are read in blocks."""

import json

import numpy as np
import pyarrow
import pyarrow.parquet
import pytest

from twofold import Alpha
from twofold.cli import models
from twofold.cli import rows as rows_module
from twofold.cli.rows import draw_streamed, split_rows
from twofold.cli.run import hash_files
from twofold.cli.terminal import MISTAKE
from twofold.tables import read_table

SMALL = ["epochs=2", "hidden_layer_sizes=[5]", "draws=3", "nodes=4", "n_weight_draws=10"]
SMALL = [word for one in SMALL for word in ("--setting", one)]
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    """400 rows of an oven as Parquet; one yield is missing."""
    rng = np.random.default_rng(0)
    heat, time = rng.uniform(20, 80, 400), rng.uniform(1, 5, 400)
    result = 0.5 * heat + time * rng.normal(size=400)
    names = [f"batch {index}" for index in range(400)]
    columns = {"name": names, "heat": heat, "time": time, "yield": result}
    columns["yield"] = [None if i == 7 else v for i, v in enumerate(result.tolist())]
    path = tmp_path_factory.mktemp("large") / "oven.parquet"
    pyarrow.parquet.write_table(pyarrow.table(columns), path)
    return path


def fit(command, table, *words):
    told = ["--target", "yield", "--ignore", "name", "--drop-missing", "--json", *SMALL, *words]
    return command("fit", table, *told)


def test_a_streamed_fit_is_judged_by_rows_that_it_has_not_seen(table, command, tmp_path):
    out = tmp_path / "oven.twofold"
    code, shown, said = fit(command, table, "--stream", "--out", out)
    assert code == 0, said
    found, doubts = (json.loads(shown)[name] for name in ("metrics", "doubts"))
    assert doubts[0].startswith("the default method needs all rows at once; a table read in bl")
    model, about = models.load_model(out)
    assert model.inference == Alpha(epochs=2, draws=3, nodes=4)
    assert about.streamed and about.inputs == ["heat", "time"] and about.held_out == 0.1
    train, test = split_rows([read_table(table)], about)
    assert found["rows fitted"] == len(train.x) and found["rows held out"] == len(test.x)
    assert len(train.x) + len(test.x) == 399
    np.testing.assert_allclose(model.x_standardizer_.mean, train.x.mean(axis=0))
    density = model.log_likelihood(test.x, test.y).mean()
    assert found["held-out log-likelihood (nats)"] == pytest.approx(density)
    np.testing.assert_allclose([one.low for one in about.columns], train.x.min(axis=0))
    assert not list(tmp_path.glob("*.checkpoint"))


def test_large_tables_are_streamed_unasked(table, command, tmp_path, monkeypatch):
    monkeypatch.setattr(rows_module, "LARGE_BYTES", 1000)
    out = tmp_path / "oven.twofold"
    assert fit(command, table, "--out", out, "--held-out", 0)[0] == 0
    assert models.load_model(out)[1].streamed
    code, _, said = command("decompose", out, table)
    assert code == MISTAKE and "--out" in said
    code, _, said = command("report", out, "--data", table)
    assert code == MISTAKE and "a page needs all rows in memory" in said
    whole, split = tmp_path / "whole.parquet", tmp_path / "split.parquet"
    code, _, said = command("decompose", out, table, "--out", split)
    assert code == 0 and "wrote" in said and "400 rows" in said
    monkeypatch.undo()
    assert command("decompose", out, table, "--out", whole)[0] == 0
    found, expected = (pyarrow.parquet.read_table(path) for path in (split, whole))
    assert found.column_names == expected.column_names
    assert found.column("outside_range").to_pylist() == expected.column("outside_range").to_pylist()
    for name in found.column_names[4:-1]:
        # Blocks of another length are another program, with roundings of its own.
        np.testing.assert_allclose(found.column(name), expected.column(name), rtol=1e-5, atol=1e-6)


def test_what_cannot_be_streamed_is_refused(table, command, tmp_path):
    words = ["--stream", "--out", tmp_path / "m", "--setting", "inference=alpha"]
    code, _, said = command("fit", table, "--target", "yield", "--ignore", "name", *words)
    assert code == MISTAKE and "28 bytes for each row" in said
    for name in ("langevin", "ensemble"):
        method = [*words[:-1], f"inference={name}"]
        code, _, said = command("fit", table, "--target", "yield", "--ignore", "name", *method)
        assert code == MISTAKE and f"'{name}' needs all data in every step" in said
    (tmp_path / "same.csv").write_text("heat,yield\n1,2\n2,2\n3,2\n")
    code, _, said = command("fit", tmp_path / "same.csv", "--target", "yield", *words[:3])
    assert code == MISTAKE and "'yield' is 2 in every row" in said
    code, _, said = command("fit", table, "--target", "yeild", "--stream", "--out", tmp_path / "m")
    assert code == MISTAKE and "has no column 'yeild'" in said and "yield" in said


def test_rows_are_chosen_by_number_and_seed_alone():
    rows = np.arange(100_000)
    first, other = draw_streamed(rows, 0.1, 0), draw_streamed(rows, 0.1, 1)
    # Four standard errors of a share of 100,000, and of the share that two seeds choose both.
    assert abs(first.mean() - 0.1) < 4 * np.sqrt(0.09 / 1e5)
    assert abs((first & other).mean() - 0.01) < 4 * np.sqrt(0.0099 / 1e5)
    assert abs((first[1:] & first[:-1]).mean() - 0.01) < 4 * np.sqrt(0.0099 / 1e5)
    np.testing.assert_array_equal(draw_streamed(rows[500:600], 0.1, 0), first[500:600])
    assert not draw_streamed(rows, 0.0, 0).any()


def test_a_folder_has_a_digest(tmp_path):
    (tmp_path / "a").write_bytes(b"12")
    (tmp_path / "b").write_bytes(b"3")
    (tmp_path.parent / "joined").write_bytes(b"123")
    assert hash_files(tmp_path) == hash_files(tmp_path.parent / "joined")
