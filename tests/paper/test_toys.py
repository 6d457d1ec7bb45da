"""Each experiment of the toy problems runs at smoke size; one set of fits serves all that look at
the same posteriors."""

import json
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
    posteriors,
    systems,
    toy_figures,
    toy_fit,
    uci,
)
from paper.fits import PAPER_METHODS, REFERENCES, Fit, load_or_fit
from paper.problems import PROBLEMS
from paper.records import PROVENANCE, Context, Record
from paper.reference.populations import Case
from twofold import Alpha, BNNLVRegressor
from twofold.envs.toy import BIMODAL, TOY_PROBLEMS

ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def smoke(work, output=None):
    return Context(True, work, output or work)


@pytest.fixture(scope="module")
def work(tmp_path_factory):
    """The work folder that these tests share."""
    return tmp_path_factory.mktemp("work")


@pytest.fixture(scope="module")
def compared(work):
    """The record of ``alpha_vs_hmc``; its fits are in the work folder."""
    return alpha_vs_hmc.compare_with_hmc(smoke(work))


@pytest.fixture(scope="module")
def models(compared, work):
    fits = [Fit(p, m, s) for p in TOY_PROBLEMS for m in PAPER_METHODS for s in (0, 1)]
    return load_or_fit(fits, True, work)


def test_claims_against_hmc_are_means_over_seeds(compared, models):
    values = compared.metrics
    per_method = {"aleatoric_abs_error", "test_log_likelihood", "mean_epistemic"}
    for problem in TOY_PROBLEMS:
        for method in PAPER_METHODS:
            found = {
                name.split("/")[2] for name in values if name.startswith(f"{problem}/{method}/")
            }
            assert per_method <= found
        # The reference is read where it is stored.
        assert f"{problem}/alpha_1/rank_correlation/mean" in values
    splits = [
        models[Fit("bimodal", "ensemble", seed)].decompose(PROBLEMS["bimodal"].inside(seed))
        for seed in (0, 1)
    ]
    means = [split.epistemic.mean() for split in splits]
    assert values["bimodal/ensemble/mean_epistemic/mean"] == pytest.approx(np.mean(means))
    assert values["bimodal/ensemble/mean_epistemic/se"] == pytest.approx(abs(np.diff(means))[0] / 2)
    test = BIMODAL.test_data(0, alpha_vs_hmc.TEST_SIZE), BIMODAL.test_data(1, 500)
    scores = [models[Fit("bimodal", "vb", s)].log_likelihood(*test[s]).mean() for s in (0, 1)]
    assert values["bimodal/vb/test_log_likelihood/mean"] == pytest.approx(np.mean(scores))


def test_halves_of_chains_are_the_chains(models):
    model = models[Fit("bimodal", "hmc", 0)]
    first, last = posteriors.split_chains(model)
    joined = np.concatenate([first.posterior_.weights, last.posterior_.weights])
    np.testing.assert_array_equal(joined, model.posterior_.weights)


def test_figures_and_calibration_use_the_same_fits(compared, models, work, tmp_path):
    before = {path: path.stat().st_mtime_ns for path in work.glob("*.model")}
    assert len(before) == 2 * len(PAPER_METHODS) * 2
    for name in ("figure_2", "appendix_a"):
        written = toy_figures.draw_splits(name, smoke(work, tmp_path))
        assert len(written) == 2 * len(toy_figures.FIGURES[name])
        assert all(path.stat().st_size > 1000 for path in written)
    rows = (tmp_path / "figure_2.csv").read_text().splitlines()
    total, epistemic, aleatoric = (
        np.array([float(row.split(",")[column]) for row in rows[1:]]) for column in (1, 3, 5)
    )
    assert len(rows) == 1 + toy_figures.POINTS
    np.testing.assert_allclose(total, epistemic + aleatoric, atol=1e-4)
    scores = calibration.score_calibration(smoke(work, tmp_path)).metrics
    same = "bimodal/alpha_1/test_log_likelihood/mean"
    assert scores[same] == pytest.approx(compared.metrics[same])
    assert 0.0 < scores["bimodal/vb/calibration_error/mean"] < 0.5
    assert 0.0 < scores["bimodal/ensemble/crps/mean"] < scores["bimodal/ensemble/rmse/mean"]
    assert (tmp_path / "calibration_bimodal.png").read_bytes().startswith(b"\x89PNG")
    assert before == {path: path.stat().st_mtime_ns for path in work.glob("*.model")}


def test_posteriors_are_compared_on_one_problem(models):
    methods = "alpha_1", "langevin", "ensemble", "hmc"
    problem = PROBLEMS["bimodal"]
    references = {
        (form, Case("bimodal", seed)): posteriors.evaluate(
            problem, seed, models[Fit("bimodal", "hmc", seed)]
        )
        for form in REFERENCES
        for seed in (0, 1)
    }
    record = Record("posteriors", {}, [0, 1])
    posteriors.measure(problem, [0, 1], models, methods, 20, record, references)
    values = record.metrics
    default = f"bimodal/{posteriors.DEFAULT}/"
    copied = {name.replace(default, "bimodal/default/") for name in values if default in name}
    assert len(copied) == 2 * 12 and copied <= set(values)
    assert values["bimodal/ensemble/oracle_gap/mean"] == pytest.approx(
        values["bimodal/oracle/test_log_likelihood/mean"]
        - values["bimodal/ensemble/test_log_likelihood/mean"]
    )
    for number in ("epistemic_abs_error", "reference_gap"):  # against itself
        assert values[f"bimodal/hmc/{number}/mean"] == pytest.approx(0.0, abs=1e-12)
    assert -1.0 <= values["bimodal/alpha_1/epistemic_rank_correlation/mean"] <= 1.0


@pytest.mark.slow
def test_the_contest_runs_with_all_methods(tmp_path):
    values = posteriors.compare_posteriors(smoke(tmp_path)).metrics
    for method in posteriors.METHODS:
        assert values[f"merging/{method}/oracle_gap/mean"] > 0.0


def test_asymmetry_of_aleatoric_curves():
    x = np.linspace(-0.5, 2.0, 101)
    symmetric = np.abs(x - np.pi / 4)
    assert alpha_vs_hmc.measure_asymmetry(x, symmetric) < 1e-2
    # A slope of 0.1 makes mirrored points differ by 0.2 of their distance, 0.1 of the depth.
    assert alpha_vs_hmc.measure_asymmetry(x, symmetric + 0.1 * x) == pytest.approx(0.1, rel=0.05)


def test_toy_fit_record(tmp_path):
    record = toy_fit.score_toy_fits(smoke(tmp_path))
    document = json.loads(record.write(tmp_path).read_text())
    assert set(document) == {*PROVENANCE, "metrics"}
    for problem in TOY_PROBLEMS:
        values = document["metrics"]
        score = f"{problem}/test_log_likelihood"
        seeds = [values[f"{score}/seed_{seed}"] for seed in document["seeds"]]
        assert values[f"{score}/mean"] == pytest.approx(np.mean(seeds))
        # Three epochs are not enough for the truth.
        assert -1000 < values[f"{score}/mean"] < values[f"{problem}/oracle/test_log_likelihood"]


def test_uci_runs_on_one_published_set(tmp_path):
    path = ROOT / uci.data_folder() / "energy.npz"
    if not path.exists():
        pytest.skip("the UCI data sets are not here; set TWOFOLD_DATA")
    splits = uci.load_splits(path, [0, 1])
    for x, y, test_x, test_y in splits:
        assert len(x) == len(y) == 691 and len(test_x) == len(test_y) == 77
    estimator = BNNLVRegressor((10,), inference=Alpha(epochs=2))
    found = uci.score_splits("energy", path, uci.digest_of(path), [0, 1], estimator, tmp_path)
    record = Record("uci", {}, [0])
    uci.add_scores(record, "energy", found)
    values = record.metrics
    assert values["energy/splits"] == 2 and 0 < values["energy/rmse/mean"] < 40
    assert -20 < values["energy/test_log_likelihood/mean"] < 0
    # Two epochs are not enough for what least squares finds.
    assert values["energy/splits_below_linear"] == 2 and not list(tmp_path.iterdir())


def test_groups_of_splits_hold_all_of_them():
    assert uci.group_splits(12) == [[0, 1, 2, 3, 4], [5, 6, 7, 8, 9], [10, 11]]
    assert uci.group_splits(3) == [[0, 1, 2]]


def test_scores_of_splits_are_counted_against_a_linear_model(tmp_path, monkeypatch):
    scores = [(-1.0, -2.0), (-3.0, -2.5), (-2.0, -2.0)]
    splits = [
        {"test_log_likelihood": own, "rmse": 1.0, "noise_std": 0.5, "linear": linear}
        for own, linear in scores
    ]
    record = Record("uci", {}, [0])
    uci.add_scores(record, "set/default", splits)
    values = record.metrics
    assert values["set/default/splits_below_linear"] == 1 and values["set/default/splits"] == 3
    assert values["set/default/test_log_likelihood/min"] == -3.0
    assert values["set/default/test_log_likelihood/mean"] == pytest.approx(-2.0)
    monkeypatch.setattr(uci, "PUBLISHED", {"set": ()})
    record.write(tmp_path)
    assert uci.tabulate_worst(tmp_path).endswith("| set | -2.00 | -3.00 | 1 of 3 |\n")


def test_missing_uci_data_is_explained(tmp_path):
    with pytest.raises(FileNotFoundError, match="TWOFOLD_DATA"):
        uci.load_splits(tmp_path / "energy.npz", [0])


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


def test_errors_of_the_split_are_small_where_the_truth_is_known():
    model, posterior = entropy_estimators.linear_gaussian()
    ratios = entropy_estimators.RATIOS
    errors = entropy_estimators.split_errors(model, posterior, ratios, "auto", 40, [0])
    # 40 evenly spread draws of the one weight are enough for this.
    assert errors.shape == (1, len(ratios)) and np.abs(errors).max() < 0.1


def test_bias_of_an_estimator_is_that_of_its_repetitions(monkeypatch):
    half = {"half": lambda samples: 0.5 + 0.0 * samples[:, 0]}
    monkeypatch.setattr(entropy_estimators, "FROM_SAMPLES", half)
    record = Record("entropy_estimators", {}, [])
    entropy_estimators.measure_target("gaussian", 10, 3, record)
    truth = 0.5 * np.log(2 * np.pi * np.e)
    assert record.metrics["gaussian/10/half/bias"] == pytest.approx(0.5 - truth)
    assert record.metrics["gaussian/10/half/spread"] == pytest.approx(0.0, abs=1e-6)


@pytest.mark.slow
def test_entropy_estimators_record(tmp_path):
    values = entropy_estimators.compare_estimators(smoke(tmp_path)).metrics
    for name in ("default", "nearest_neighbour", "adaptive", "kernel_density", "histogram"):
        assert 0.0 <= values[f"linear_gaussian/{name}/max_abs_error"] < 3.0
    assert values["time_ratio/nearest_neighbour_over_default"] > 0
    assert values["linear_gaussian/default/max_abs_error"] < 0.1


def test_systems_record(tmp_path):
    record = systems.measure_systems(smoke(tmp_path))
    published = json.loads((ROOT / "results/systems.json").read_text())["metrics"]
    for policy in systems.POLICIES:
        name = f"industrial/{policy}/cost"
        # Twenty episodes against ten thousand: five standard errors.
        apart = abs(record.metrics[f"{name}/mean"] - published[f"{name}/mean"])
        assert apart < 5 * record.metrics[f"{name}/se"]
    assert any(name.startswith("industrial/steps_per_second/") for name in record.metrics)
    (picture,) = systems.draw_river(smoke(tmp_path))
    assert picture.read_bytes().startswith(b"\x89PNG")


def test_batch_choice_record(tmp_path):
    values = batch_choice.compare_choices(smoke(tmp_path)).metrics
    for problem in batch_choice.PROBLEMS:
        one, together, random = (
            values[f"{problem}/{choice}/information/mean"]
            for choice in ("one_by_one", "together", "random")
        )
        assert min(one, together, random) > 0
        gain = values[f"{problem}/gain/mean"]
        assert np.sign(gain) == np.sign(together - one) or abs(gain) < 0.01


def test_copies_teach_little_together():
    covariance = np.ones((3, 3))
    noise = np.full(3, 0.5)
    alone = batch_choice.joint_information(covariance, noise, np.array([0]))
    both = batch_choice.joint_information(covariance, noise, np.array([0, 1]))
    assert alone == pytest.approx(0.5 * np.log(1 + 2))
    assert both == pytest.approx(0.5 * np.log(1 + 4))


def test_the_state_grows_with_the_data_only_without_an_encoder():
    bytes_of = {m: amortised.state_bytes(m, 1000) for m in amortised.METHODS}
    grown = {m: amortised.state_bytes(m, 1010) - bytes_of[m] for m in amortised.METHODS}
    assert grown == {"per_datum": 280, "encoder": 0, "nodes": 0}


@pytest.mark.slow
def test_three_ways_to_treat_z(tmp_path):
    record = amortised.compare_latents(smoke(tmp_path))
    for problem in TOY_PROBLEMS:
        for method in amortised.METHODS:
            place = f"{problem}/{method}"
            assert -1000 < record.metrics[f"{place}/test_log_likelihood/mean"] < -1
            assert record.metrics[f"{place}/ms_per_update"] > 0
    record.write(tmp_path)
    assert "one encoder" in scaling_tables.amortised(tmp_path)


def test_the_stored_reference_is_judged_like_a_fit(compared):
    # Its entropies and log-densities are read from a file, those of a fit are computed.
    with np.load(ROOT / "results" / "reference_paper.npz") as stored:
        parts = [stored[f"bimodal/{seed}"] for seed in (0, 1)]
        tests = [stored[f"bimodal/{seed}/test"] for seed in (0, 1)]
    values = compared.metrics
    assert values["bimodal/hmc/mean_epistemic/mean"] == pytest.approx(
        np.mean([epistemic.mean() for _, epistemic, _ in parts]), rel=1e-5
    )
    assert values["bimodal/hmc/test_log_likelihood/mean"] == pytest.approx(np.mean(tests), rel=1e-5)
