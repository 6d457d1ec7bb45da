"""Experiments about posteriors that are judged by rows they keep out: their pure parts, and smoke
runs as jobs that are not repeated."""

import json

import numpy as np
import pytest

from paper import out_of_bag, small_tables, split_truth
from paper.fits import JUDGED, judged_settings
from paper.records import Context, Record
from paper.small_problems import SMALL_PROBLEMS
from twofold import BNNLVRegressor
from twofold.inference.method import resolve_method

pytestmark = pytest.mark.filterwarnings("ignore")
JOBS = "jobs/*"


def write(record, folder, names):
    """A record of ``name/mean`` and ``name/se`` that counts up from 0, and plain numbers."""
    for value, name in enumerate(names):
        record.add_mean(name, [value, value])
        record.add(name, value)
    record.write(folder)


@pytest.mark.parametrize("name", JUDGED)
def test_settings_are_the_user_s_defaults_but_in_smoke_runs(name):
    method = resolve_method(JUDGED[name])
    assert resolve_method(BNNLVRegressor(**judged_settings(name, False)).inference) == method
    small = resolve_method(judged_settings(name, True)["inference"])
    assert type(small) is type(method) and small.runs < method.runs


def test_noise_ratio_is_that_of_the_deviations_of_gaussians():
    entropies = 0.5 * np.log(2 * np.pi * np.e * np.square([[1.0, 4.0], [2.0, 2.0]]))
    assert split_truth.noise_ratio(*entropies) == pytest.approx((0.5 + 2.0) / 2)


def test_falls_are_counted_over_seeds_and_doublings():
    course = np.array([[4.0, 1.0], [3.0, 2.0], [2.0, 1.5]])
    assert split_truth.share_of_falls(course) == pytest.approx(3 / 4)


def test_gap_is_what_the_score_promises_too_much():
    scores = {"out_of_bag": -1.0, "test_log_likelihood": -1.25}
    assert out_of_bag.gap(scores | {"truth": -0.5, "test_truth": -0.5}) == 0.25
    assert out_of_bag.gap(scores | {"truth": -0.5, "test_truth": -0.75}) == 0.0


@pytest.mark.parametrize("problem", out_of_bag.ROWS)
def test_fresh_rows_are_drawn_as_those_of_training(problem):
    train, fresh = (
        f(problem, 1, 500)[0] for f in (out_of_bag.training_data, out_of_bag.fresh_data)
    )
    assert train.shape == fresh.shape and not {*train[:, 0]} & {*fresh[:, 0]}
    errors = np.hypot(train.std(axis=0), fresh.std(axis=0)) / np.sqrt(500)
    assert np.all(np.abs(train.mean(axis=0) - fresh.mean(axis=0)) < 4 * errors)


def test_tables_of_the_records(tmp_path):
    scores = [
        f"{p}/{n}/{m}/test_log_likelihood"
        for p in SMALL_PROBLEMS
        for n in small_tables.ROWS
        for m in (*small_tables.METHODS, "truth")
    ]
    write(Record("small_tables", {}, []), tmp_path, scores)
    lines = small_tables.tabulate_small_tables(tmp_path).splitlines()
    assert lines[0] == "| problem | rows | twofold | quick start | Gaussian process | truth |"
    first = "| 30 | 0.00 ± 0.00 | 1.00 ± 0.00 | 2.00 ± 0.00 | 3.00 |"
    assert lines[2].endswith(first) and len(lines) == 2 + 8 * 3

    parts = "out_of_bag", "test_log_likelihood", "standard_error", "gap", "quick/gap"
    gaps = [f"{problem}/{part}" for problem in out_of_bag.ROWS for part in parts]
    write(Record("out_of_bag", {}, []), tmp_path, gaps)
    lines = out_of_bag.tabulate_gaps(tmp_path).splitlines()
    assert lines[2] == "| wave | 100 | 0.00 | 1.00 | 2.00 | 3.00 ± 0.00 | 4.00 ± 0.00 |"
    assert len(lines) == 2 + len(out_of_bag.ROWS)

    record = Record("split_truth", {}, [])
    for problem in split_truth.PROBLEMS:
        places = [f"{problem}/{rows}" for rows in split_truth.ROWS]
        for name in ("noise_ratio", "epistemic"):
            for place in (problem, *places):
                record.add_mean(f"{place}/{name}", [1.0, 1.0])
        record.add(f"{problem}/epistemic_falls", 0.88)
    record.write(tmp_path)
    lines = split_truth.tabulate_splits(tmp_path).splitlines()
    assert lines[2].count(" 1.00 ") == 2 + len(split_truth.ROWS) and lines[2].endswith("| 88% |")


@pytest.mark.slow
@pytest.mark.parametrize(
    "make",
    [small_tables.score_small_tables, out_of_bag.compare_scores, split_truth.compare_splits],
    ids=["small_tables", "out_of_bag", "split_truth"],
)
def test_smoke_runs_are_kept_as_jobs(make, tmp_path):
    context = Context(True, tmp_path, tmp_path)
    first = make(context)
    kept = {path: path.stat().st_mtime_ns for path in tmp_path.glob(JOBS)}
    assert kept and not list(tmp_path.glob("*.checkpoint*"))
    assert make(context).metrics == first.metrics
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob(JOBS)} == kept
    document = json.loads(first.write(tmp_path).read_text())
    assert len(document["seeds"]) == 2 and np.isfinite(list(document["metrics"].values())).all()
