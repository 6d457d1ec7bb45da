"""Each experiment runs at smoke size, and the published tables match the records."""

import json
from pathlib import Path

import numpy as np
import pytest

from twofold.experiments import demo, tables, toy_fit, uci
from twofold.experiments.records import Record

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def test_demo_writes_a_figure_and_a_page(tmp_path, capsys):
    demo.run(smoke=True, output=tmp_path)
    assert (tmp_path / "figure.png").read_bytes().startswith(b"\x89PNG")
    page = (tmp_path / "index.html").read_text()
    assert "<svg" in page and "src=" not in page and "http-equiv" not in page
    assert "Measure here next" in capsys.readouterr().out


def test_toy_fit_record(tmp_path):
    record = toy_fit.run(smoke=True, work=tmp_path)
    path = record.write(tmp_path)
    document = json.loads(path.read_text())
    keys = {"command", "commit", "versions", "device", "seconds", "settings", "seeds", "metrics"}
    assert set(document) == keys
    for problem in ("heteroscedastic", "bimodal"):
        assert np.isfinite(document["metrics"][f"{problem}/test_log_likelihood/mean"])


def test_uci_runs_on_one_published_set(tmp_path):
    path = ROOT / uci.data_folder() / "energy.npz"
    if not path.exists():
        pytest.skip("the UCI data sets are not here; set TWOFOLD_DATA")
    splits = uci.load_splits(path, limit=2)
    for x, y, test_x, test_y in splits:
        assert len(x) == len(y) == 691 and len(test_x) == len(test_y) == 77
    record = Record("uci", {}, [0])
    uci.measure("energy", splits, 2, tmp_path, record)
    assert np.isfinite(record.metrics["energy/test_log_likelihood/mean"])
    assert record.metrics["energy/rmse/mean"] > 0


def test_missing_uci_data_is_explained(tmp_path):
    with pytest.raises(FileNotFoundError, match="TWOFOLD_DATA"):
        uci.load_splits(tmp_path / "energy.npz")


def test_standard_error_of_a_record():
    record = Record("x", {}, [0])
    record.add_mean("a", [1.0, 2.0, 3.0])
    assert record.metrics == {"a/mean": 2.0, "a/se": pytest.approx(1 / np.sqrt(3))}


@pytest.mark.parametrize("path", [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))])
def test_published_tables_match_the_records(path):
    text = path.read_text()
    assert tables.fill(text, ROOT / "results") == text, "run `make tables`"
