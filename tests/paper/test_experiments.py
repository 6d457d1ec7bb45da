"""Each experiment runs at smoke size, and the published tables match the records."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks.tables import scaling as scaling_tables
from paper import (
    alpha_vs_hmc,
    amortised,
    batch_choice,
    calibration,
    entropy_estimators,
    figure_3,
    records,
    systems,
    tables,
    toy_figures,
    toy_fit,
    uci,
)
from paper.records import Context, Record
from twofold import BNNLVRegressor, load

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def smoke(work, output=None):
    return Context(True, work, output or work)


def test_toy_fit_record(tmp_path):
    record = toy_fit.score_toy_fits(smoke(tmp_path))
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
    estimator = BNNLVRegressor((10,), inference="alpha", epochs=2)
    found = uci.score_set("energy", path, uci.digest_of(path), 2, estimator, tmp_path)
    assert found["energy/splits"] == 2 and found["energy/rmse/mean"] > 0
    assert -20 < found["energy/test_log_likelihood/mean"] < 0


def test_claims_against_hmc_and_the_figures_share_their_fits(tmp_path):
    record = alpha_vs_hmc.compare_with_hmc(smoke(tmp_path))
    for problem in ("heteroscedastic", "bimodal"):
        for method in ("alpha_1", "alpha_0.5", "vb", "ensemble"):
            for name in ("rank_correlation", "mean_epistemic"):
                for number in ("mean", "se"):
                    assert f"{problem}/{method}/{name}/{number}" in record.metrics
        for name in ("rank_correlation/mean", "r_hat_max", "ess_min", "divergences"):
            assert f"{problem}/hmc/{name}" in record.metrics
    model = load(next(tmp_path.glob("bimodal-hmc-*.model")))
    first, last = alpha_vs_hmc.split_chains(model)
    joined = np.concatenate([first.posterior_.weights, last.posterior_.weights])
    np.testing.assert_array_equal(joined, model.posterior_.weights)
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.model")}
    assert len(before) == 2 * 5 * 2
    figures = tmp_path / "figures"
    figures.mkdir()
    for name, expected in toy_figures.FIGURES.items():
        written = toy_figures.draw_splits(name, smoke(tmp_path, figures))
        assert len(written) == 2 * len(expected)
        assert all(path.stat().st_size > 1000 for path in written)
    scores = calibration.score_calibration(smoke(tmp_path, figures))
    assert scores.metrics["bimodal/hmc/crps/mean"] > 0
    assert (tmp_path / "figures" / "calibration_bimodal.png").stat().st_size > 1000
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.glob("*.model")}


def test_asymmetry_of_aleatoric_curves():
    x = np.linspace(-0.5, 2.0, 101)
    symmetric = np.abs(x - np.pi / 4)
    assert alpha_vs_hmc.measure_asymmetry(x, symmetric) < 1e-2
    # A slope of 0.1 makes mirrored points differ by 0.2 of their distance, 0.1 of the depth.
    assert alpha_vs_hmc.measure_asymmetry(x, symmetric + 0.1 * x) == pytest.approx(0.1, rel=0.05)


def test_wet_chicken_map(tmp_path):
    record = figure_3.map_wet_chicken(smoke(tmp_path))
    for axis in ("x", "y"):
        assert 0 < record.metrics[f"epistemic_maximum/{axis}/mean"] < 5
    assert (tmp_path / "figure_3.png").read_bytes().startswith(b"\x89PNG")
    rows = (tmp_path / "figure_3.csv").read_text().splitlines()
    assert rows[0] == "x,y,transitions,total,epistemic,aleatoric"
    assert sum(float(row.split(",")[2]) for row in rows[1:]) == 200


def test_maximum_and_corners_of_a_map():
    centres = np.linspace(0.5, 4.5, 5)
    values = np.zeros((5, 5))
    values[4, 3] = 1.0
    one = figure_3.Map(np.zeros((1, 2)), centres, np.zeros((5, 5)), None)
    assert figure_3.find_maximum(one, values.ravel()) == (3.5, 4.5)
    values[4, 4] = 7.0
    assert figure_3.mean_over_corner(one, values.ravel(), right=True, top=True) == 7.0
    assert figure_3.mean_over_corner(one, values.ravel(), right=True, top=False) == 0.0


def test_entropy_estimators_record(tmp_path):
    record = entropy_estimators.compare_estimators(smoke(tmp_path))
    for name in ("default", "nearest_neighbour", "adaptive", "kernel_density", "histogram"):
        assert f"linear_gaussian/{name}/max_abs_error" in record.metrics
    assert record.metrics["time_ratio/nearest_neighbour_over_default"] > 0
    # 40 evenly spread draws of the one weight are enough for this.
    assert record.metrics["linear_gaussian/default/max_abs_error"] < 0.1


def test_missing_uci_data_is_explained(tmp_path):
    with pytest.raises(FileNotFoundError, match="TWOFOLD_DATA"):
        uci.load_splits(tmp_path / "energy.npz")


def test_records_of_several_machines_join(tmp_path, monkeypatch):
    here, there = tmp_path / "here", tmp_path / "there"
    for place, name, value in ((here, "a/seconds", 1.0), (there, "b/seconds", 2.0)):
        monkeypatch.setattr(records, "device", lambda place=place: place.name)
        record = Record("timing", {}, [0])
        record.add(name, value)
        record.write(place)
    records.join(there / "timing.json", here)
    joined = json.loads((here / "timing.json").read_text())
    assert joined["metrics"] == {"a/seconds": 1.0, "b/seconds": 2.0}
    assert joined["device"] == "there"
    assert [source["device"] for source in joined["kept_from"]] == ["here"]

    # The same machine does it again: the number is replaced, and where it came from is not doubled.
    again = Record("timing", {}, [0])
    again.add("b/seconds", 3.0)
    again.merge(here, lambda name: name != "b/seconds")
    renewed = json.loads((here / "timing.json").read_text())
    assert renewed["metrics"] == {"a/seconds": 1.0, "b/seconds": 3.0}
    assert [source["device"] for source in renewed["kept_from"]] == ["here"]


def test_standard_error_of_a_record():
    record = Record("x", {}, [0])
    record.add_mean("a", [1.0, 2.0, 3.0])
    assert record.metrics == {"a/mean": 2.0, "a/se": pytest.approx(1 / np.sqrt(3))}


@pytest.mark.parametrize("path", [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))])
def test_published_tables_match_the_records(path):
    text = path.read_text()
    assert tables.fill_tables(text, ROOT / "results") == text, "run `make tables`"


def test_systems_record(tmp_path):
    record = systems.measure_systems(smoke(tmp_path))
    for policy in ("zero", "random", "behaviour"):
        assert 100 < record.metrics[f"industrial/{policy}/cost/mean"] < 500
    assert any(name.startswith("industrial/steps_per_second/") for name in record.metrics)


def test_batch_choice_record(tmp_path):
    record = batch_choice.compare_choices(smoke(tmp_path))
    for problem in batch_choice.PROBLEMS:
        for choice in ("one_by_one", "together", "random"):
            assert record.metrics[f"{problem}/{choice}/information/mean"] > 0


def test_copies_teach_little_together():
    covariance = np.ones((3, 3))
    noise = np.full(3, 0.5)
    alone = batch_choice.joint_information(covariance, noise, np.array([0]))
    both = batch_choice.joint_information(covariance, noise, np.array([0, 1]))
    assert alone == pytest.approx(0.5 * np.log(1 + 2))
    assert both == pytest.approx(0.5 * np.log(1 + 4))


def test_three_ways_to_treat_z(tmp_path):
    record = amortised.compare_latents(smoke(tmp_path))
    for problem in ("heteroscedastic", "bimodal"):
        for method in amortised.METHODS:
            place = f"{problem}/{method}"
            assert np.isfinite(record.metrics[f"{place}/test_log_likelihood/mean"])
            assert record.metrics[f"{place}/ms_per_update"] > 0
    record.write(tmp_path)
    assert "one encoder" in scaling_tables.amortised(tmp_path)
    bytes_of = {m: amortised.state_bytes(m, 1000) for m in amortised.METHODS}
    grown = {m: amortised.state_bytes(m, 1010) - bytes_of[m] for m in amortised.METHODS}
    assert grown == {"per_datum": 280, "encoder": 0, "nodes": 0}


@pytest.mark.slow
def test_the_benchmark_of_scaling_at_smoke_size(tmp_path):
    words = [sys.executable, str(ROOT / "benchmarks/scaling.py"), "--smoke", "--output", tmp_path]
    subprocess.run(list(map(str, words)), check=True)
    found = json.loads((tmp_path / "scaling.json").read_text())["metrics"]
    assert found["rows_4000/seconds/fit"] > 0 and found["bytes_per_row/scratch"] == 8 * 21
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")
    assert "| 4,000 |" in scaling_tables.scaling(tmp_path)
    assert "28 |" in scaling_tables.scaling_bytes(tmp_path)
    assert found["row_group/rows"] == 4000
    assert found["row_group/4000/peak_bytes/read"] >= found["row_group/4000/peak_bytes/before"] > 0
    assert "\n| 1,000 |" in scaling_tables.row_groups(tmp_path)


@pytest.mark.slow
def test_row_groups_are_measured_alone_and_keep_the_sizes(tmp_path):
    earlier = Record("scaling", {}, [0])
    earlier.add("slope/fit", 0.9)
    earlier.add("row_group/7/x", 1.0)
    earlier.write(tmp_path)
    words = [sys.executable, ROOT / "benchmarks/scaling.py", "--smoke", "--only", "row_groups"]
    subprocess.run([*map(str, words), "--output", str(tmp_path)], check=True)
    found = json.loads((tmp_path / "scaling.json").read_text())["metrics"]
    assert found["slope/fit"] == 0.9 and "row_group/7/x" not in found
    assert found["row_group/1000/seconds/read"] > 0
    assert not (tmp_path / "scaling.png").exists()
