"""Other libraries on the same tables: scores, splits, and how their processes are started."""

import json
import os
import subprocess
import sys

import numpy as np
import pytest
from scipy.stats import norm

from benchmarks import regression
from benchmarks.peers import known_parts, processes, public_tables, regress
from benchmarks.tables.regression import (
    PARTS,
    tabulate_beside,
    tabulate_peer_splits,
    tabulate_regression,
    tabulate_splits_beside,
)
from paper.problems import ONE_DIMENSIONAL, PROBLEMS
from paper.records import Record
from paper.reference.answers import Answers
from paper.reference.populations import Case


def test_crps_is_that_of_the_normal_distribution(rng):
    draws, y = rng.normal(size=(4_000, 3)), np.array([-1.0, 0.0, 2.0])
    exact = y * (2 * norm.cdf(y) - 1) + 2 * norm.pdf(y) - 1 / np.sqrt(np.pi)
    np.testing.assert_allclose(public_tables.crps(draws, y), exact, atol=0.05)


def test_crps_is_the_mean_over_all_pairs_of_draws(rng):
    draws, y = rng.normal(size=(7, 2)), rng.normal(size=2)
    pairs = [np.abs(a - b) for i, a in enumerate(draws) for j, b in enumerate(draws) if i != j]
    naive = np.abs(draws - y).mean(axis=0) - 0.5 * np.mean(pairs, axis=0)
    np.testing.assert_allclose(public_tables.crps(draws, y), naive)


def test_a_mixture_has_the_density_and_moments_of_its_parts(rng):
    means, deviations, y = rng.normal(size=(3, 5)), rng.uniform(0.5, 1, (3, 5)), rng.normal(size=5)
    found = regress.describe_mixture(means, deviations, y, False)
    density = norm.pdf(y, means, deviations).mean(axis=0)
    np.testing.assert_allclose(found["log_density"], np.log(density))
    np.testing.assert_allclose(found["draws"].mean(axis=0), found["mean"], atol=0.25)
    np.testing.assert_allclose(found["draws"].std(axis=0), found["deviation"], rtol=0.2)


def test_the_parts_of_a_mixture_far_apart_are_one_component_and_the_choice_between_them():
    means, deviations = np.array([[0.0, 0.0], [100.0, 0.0]]), np.array([[1.0, 2.0], [3.0, 2.0]])
    found = regress.split_mixture(means, deviations)
    aleatoric = np.log([3.0**0.5, 2.0]) + 0.5 * np.log(2 * np.pi * np.e)
    np.testing.assert_allclose(found["aleatoric"], aleatoric)
    np.testing.assert_allclose(found["epistemic"], [np.log(2.0), 0.0], atol=1e-3)
    # One component of two hundred that is very wide, or very far away, takes the others' away.
    means, deviations = np.zeros((200, 2)), np.full((200, 2), 0.1)
    deviations[0, 0], means[0, 1] = 1e4, 1e4
    share = 1 / 200
    apart = -share * np.log(share) - (1 - share) * np.log(1 - share)
    found = regress.split_mixture(means, deviations)
    np.testing.assert_allclose(found["epistemic"], apart, rtol=1e-2)
    assert regress.split_mixture(means[:1], deviations[:1]) == {}


def test_parts_are_compared_with_the_truth(monkeypatch):
    problem = regression.ONE_DIMENSIONAL["skewed"]

    def predict(adapter, options, environment, table, name):
        points = table["X_test"][:, 0]
        assert table["parts"] and len(table["X"]) == len(table["y"])
        scarce = 1.0 / problem.input_density(points)
        parts = {"epistemic": scarce, "epistemic_deviation": -scarce}
        return parts | {"aleatoric": problem.entropy(points) - 0.25}, {}

    monkeypatch.setattr(regression, "predict_apart", predict)
    found = regression.measure_parts("skewed", 0, "bde", {}, None)
    expected = {"epistemic_rank": 1.0, "epistemic_deviation_rank": -1.0, "aleatoric_rank": 1.0}
    assert found == pytest.approx(expected | {"aleatoric_order": 1.0, "aleatoric_error": 0.25})


def test_the_reference_is_compared_at_points_among_the_data():
    points = PROBLEMS["heteroscedastic"].inside(0)[:, 0]
    problem = ONE_DIMENSIONAL["heteroscedastic"]
    parts = -np.log(problem.input_density(points)), problem.entropy(points) + 0.5
    answers = Answers(sum(parts), *parts, np.zeros(1))
    case = Case("heteroscedastic", 0)
    found = known_parts.compare_reference(*case, {("reference_plain", case): answers})
    assert found["epistemic_rank"] == found["aleatoric_rank"] == pytest.approx(1.0)
    assert found["aleatoric_error"] == pytest.approx(0.5)
    assert "epistemic_deviation_rank" not in found


def test_the_probability_of_a_rounded_value_is_a_share_of_the_draws():
    draws = np.array([[4.6, 0.0], [5.4, 0.0], [5.6, 0.0], [5.0, 0.0]])
    found = public_tables.log_probability(draws, np.array([5.0, 9.0]), 1.0)
    np.testing.assert_allclose(np.exp(found), [3.5 / 5.0, 0.5 / 5.0])
    table = {"mean": draws[0], "deviation": np.ones(2), "log_density": np.zeros(2), "draws": draws}
    scored = public_tables.score(table, np.array([5.0, 9.0]), 1.0, 1.0)
    assert scored["log_probability"] == pytest.approx(found.mean())


def test_fits_side_by_side_are_those_one_by_one_without_seconds(monkeypatch, tmp_path):
    def predict(adapter, options, environment, table, name):
        found.append(len(os.sched_getaffinity(0)))
        return {"mean": np.zeros(len(table["y_test"]))}, {"seconds_fit": 1.0}

    found: list[int] = []
    available = len(os.sched_getaffinity(0))
    monkeypatch.setattr(regression, "predict_apart", predict)
    chosen = ["diabetes"], ["linear"], 3, False
    alone = regression.measure(*chosen, None).metrics
    found.clear()
    beside = regression.measure(*chosen, tmp_path, workers=2).metrics
    assert found == [min(regression.CORES, available)] * 3
    assert len(os.sched_getaffinity(0)) == available
    seconds = {f"diabetes/linear/seconds_fit/{part}" for part in ("mean", "se")}
    assert beside == {name: value for name, value in alone.items() if name not in seconds}


def test_the_order_of_values_is_judged_where_the_truth_differs():
    truth = np.array([0.0, 0.05, 1.0, 1.01])
    assert known_parts.share_in_order(np.array([2.0, 1.0, 4.0, 3.0]), truth) == 1.0
    assert known_parts.share_in_order(-truth, truth) == -1.0
    assert known_parts.share_in_order(np.array([0.0, 3.0, 1.0, 2.0]), truth) == 0.0


def test_scores_in_units_of_the_target_are_those_of_the_scaled_problem(rng):
    y = rng.normal(size=50)
    found = regress.describe_mixture(np.zeros((1, 50)), np.ones((1, 50)), y, False)
    scaled = regress.describe_mixture(np.zeros((1, 50)), np.full((1, 50), 10.0), 10 * y, False)
    small, large = public_tables.score(found, y, 1.0), public_tables.score(scaled, 10 * y, 10.0)
    assert small == pytest.approx(large)
    assert small["nll_gaussian"] == pytest.approx(-small["test_log_likelihood"])
    assert 0.8 < small["coverage_90"] < 1.0
    assert public_tables.score({"mean": y + 1.0}, y, 1.0) == {"rmse": pytest.approx(1.0)}


def test_a_split_at_random_keeps_every_row_once():
    x = np.arange(50.0)[:, None]
    train, y, test, y_test = public_tables.split_at_random(x, x[:, 0], 3)
    assert len(test) == 10
    assert sorted(np.concatenate([train, test])[:, 0]) == list(range(50))
    np.testing.assert_array_equal(np.concatenate([y, y_test])[:, None], np.r_[train, test])


def test_an_environment_that_is_not_there_says_how_to_make_it(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(FileNotFoundError, match=r"\.peers/bde; run: make peers"):
        regression.interpreter("bde")
    assert regression.interpreter(None) == sys.executable


def test_a_process_is_given_the_table_and_its_predictions_are_scored(monkeypatch):
    def run(command, env, **_):
        library, table, target, options = command[2:]
        assert (library, json.loads(options)) == ("linear", {"tol": 1})
        with np.load(table) as file:
            np.savez(target, mean=file["y_test"] + 2.0)
        return subprocess.CompletedProcess(
            command, 0, '{"seconds_fit": 1, "seconds_predict": 2}', ""
        )

    monkeypatch.setattr(processes.subprocess, "run", run)
    found = regression.measure_fit("diabetes", 1, "linear", {"tol": 1}, None, False)
    assert found == {"rmse": pytest.approx(2.0), "seconds_fit": 1, "seconds_predict": 2}


def test_a_process_that_fails_says_why(monkeypatch):
    failed = subprocess.CompletedProcess([], 1, "", "Traceback\n  a line\nno memory\n")
    monkeypatch.setattr(processes.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(RuntimeError, match="linear on diabetes failed: no memory"):
        regression.measure_fit("diabetes", 0, "linear", {}, None, False)


def test_smoke_size_never_joins_the_record(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["regression.py", "--smoke"])
    with pytest.raises(SystemExit):
        regression.main()
    assert "--output" in capsys.readouterr().err


def test_a_kept_fit_is_known_by_the_source_and_the_packages(tmp_path, monkeypatch):
    own = regression.describe_source(regression.LIBRARIES["twofold"])
    assert own == regression.describe_source(regression.LIBRARIES["gp"])
    monkeypatch.chdir(tmp_path)
    found = []
    for packages in ("bde==1", "bde==2"):
        folder = tmp_path / ".peers/bde"
        (folder / "bin").mkdir(parents=True, exist_ok=True)
        (folder / "bin/python").touch()
        (folder / ".installed").write_text(packages)
        found.append(regression.describe_source(regression.LIBRARIES["bde"]))
    assert len({own, *found}) == 3


def test_the_table_has_a_row_for_each_library_that_was_measured(tmp_path):
    record = Record("regression", {}, [0])
    seconds = {"seconds_fit": 1.0, "seconds_predict": 2.0}
    record.add_means("diabetes/forest", [{"rmse": 57.0} | seconds])
    every = dict.fromkeys(("test_log_likelihood", "nll_gaussian", "crps", "coverage_90"), 0.5)
    record.add_means("diabetes/gp", [every | {"rmse": 54.0} | seconds])
    record.add("diabetes/gp/splits", 3)
    record.write(tmp_path)
    gp, forest = tabulate_regression(tmp_path).splitlines()[2:]
    assert gp.startswith("| diabetes | Gaussian process | 3 | 0.5")
    assert forest.startswith("| diabetes | random forest | – | – | – | – | – | 57.0")
    assert gp.endswith("| 1.0 | – | 2.0 |")


def test_the_short_table_has_a_row_for_each_table_and_a_column_for_each_library(tmp_path):
    record = Record("regression", {}, [0])
    scores = {"test_log_likelihood": -1.0, "crps": 0.5}
    for place, splits in {"diabetes/twofold": 2, "diabetes/gp": 3, "wine/twofold": 1}.items():
        record.add_means(place, [scores])
        record.add(f"{place}/splits", splits)
    record.add_means("skewed/twofold", [{"epistemic_rank": 1.0}])
    record.write(tmp_path)
    heading, _, row = tabulate_beside(tmp_path).splitlines()
    assert heading.count("|") == row.count("|") == 7
    known = "-1.00 ± 0.00; 0.50 ± 0.00"
    assert row == f"| diabetes | {known} | – | – | – | {known} (3 splits) |"


def test_the_table_of_parts_has_a_row_for_each_problem_and_library(tmp_path):
    record = Record("regression", {}, [0])
    parts = dict.fromkeys(PARTS, 0.9)
    for place in ("skewed/catboost", "bimodal/twofold", "skewed/twofold", "skewed/twofold_quick"):
        record.add_means(place, [parts])
        record.add(f"{place}/splits", 1)
    record.add_means("diabetes/gp", [{"rmse": 54.0}])
    record.write(tmp_path)
    rows = [row.split(" | ")[:2] for row in tabulate_peer_splits(tmp_path).splitlines()[2:]]
    expected = [["| bimodal", "twofold"], ["| skewed", "twofold"], ["| skewed", "CatBoost"]]
    assert rows == [*expected[:2], ["| skewed", "twofold, quick"], expected[2]]
    rows = [row.split(" | ")[:2] for row in tabulate_splits_beside(tmp_path).splitlines()[2:]]
    assert rows == expected


def test_an_impossible_number_of_splits_and_nothing_to_measure_are_refused(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["regression.py", "--splits", "0"])
    with pytest.raises(SystemExit):
        regression.main()
    assert "--splits must be at least 1, got 0" in capsys.readouterr().err
    with pytest.raises(ValueError, match="none of linear is measured on skewed"):
        regression.measure(["skewed"], ["linear"], 1, False, None)


def test_the_two_parts_of_this_library_reach_the_file(tmp_path, rng):
    x = rng.normal(size=(30, 1))
    fit = regress.fit_twofold({"inference": {"method": "ensemble", "members": 2, "updates": 10}})
    predict = fit(x, x[:, 0] + rng.normal(size=30))
    assert {"epistemic", "aleatoric", "epistemic_deviation"} <= set(
        predict(x[:3], np.zeros(3), True)
    )
    assert "epistemic" not in predict(x[:3], np.zeros(3), False)


@pytest.mark.parametrize("name", ["diabetes", "skewed"])
def test_fits_side_by_side_are_scored_like_single_ones(monkeypatch, name):
    options = {"inference": {"method": "ensemble", "members": 2, "updates": 10}}
    monkeypatch.setattr(known_parts, "PART_POINTS", 20)
    found = regression.measure_together(name, options, 2)
    measured = {"epistemic_rank", "aleatoric_order"} if name == "skewed" else {"crps", "rmse"}
    assert len(found) == 2 and all(measured <= set(one) for one in found)
    assert found[0] != found[1]


def test_a_run_side_by_side_is_one_job_and_needs_this_library(monkeypatch, tmp_path, capsys):
    every = [{"rmse": 1.0}, {"rmse": 3.0}]
    monkeypatch.setattr(regression, "measure_together", lambda *_: every)
    record = regression.measure(["diabetes"], ["twofold"], 2, False, None, together=True)
    assert record.metrics["diabetes/twofold/rmse/mean"] == 2.0
    assert record.metrics["diabetes/twofold/splits"] == 2
    monkeypatch.setattr(sys, "argv", ["regression.py", "--libraries", "gp", "--together"])
    with pytest.raises(SystemExit):
        regression.main()
    assert "not of gp" in capsys.readouterr().err
