"""A model's quality, for linear plants whose perfect model is written down instead of fitted, and
which policy is recommended, and what is said of it."""

from dataclasses import asdict, replace

import numpy as np
import pytest

from twofold.plant.forecast import Trial
from twofold.plant.project import ProjectError, read_json, write_json
from twofold.plant.quality import (
    Doubt,
    OneStep,
    PlanningWarning,
    Quality,
    Scores,
    assess,
    compare,
    find_doubts,
    warn_about,
)
from twofold.plant.recommendation import (
    advice,
    find_best,
    finer_weights,
    frontier_csv,
    frontier_rows,
    recommend,
)

from .linear_tank import NOISE, TRUE, log_of, model_of


@pytest.mark.parametrize("y_ndim", [1, 2])
def test_a_perfect_model_covers_what_it_says_and_leaves_no_doubt(y_ndim, recwarn):
    """One passage in each of 250 held-out episodes, so that they are independent; a share p of n
    has a standard error of ``sqrt(p (1 - p) / n)``."""
    horizon, count = 8, 250
    training, held_out = log_of(100, 20), log_of(count, horizon, seed=1)
    model = model_of(training, TRUE, y_scale=2.0, y_ndim=y_ndim)
    found = assess(model, held_out, horizon, windows=count)
    one, many = found.one_step, found.multi_step
    assert (one.rows, many.windows, many.horizon) == (count * horizon, count, horizon)
    assert many.separate == count
    rows = count * horizon
    assert one.coverage_50[0] == pytest.approx(0.5, abs=4 * np.sqrt(0.25 / rows))
    assert one.coverage_90[0] == pytest.approx(0.9, abs=4 * np.sqrt(0.09 / rows))
    np.testing.assert_allclose(many.coverage_90, 0.9, atol=4 * np.sqrt(0.09 / count))
    # The noise of a level after t steps adds up to NOISE² Σ 0.8^2k; RMSEs err by 1 / sqrt(2 n).
    deviation = NOISE * np.sqrt(np.cumsum(0.64 ** np.arange(horizon)))
    np.testing.assert_allclose(many.error * many.deviation, deviation, rtol=4 / np.sqrt(2 * count))
    errors = deviation / many.deviation / np.sqrt(count)
    assert np.all(np.abs(many.bias) < 4 * errors * np.sqrt(1 + 1 / 200))
    assert not many.non_finite.any()
    # The negative entropy of the noise, with a standard error of sqrt(1 / 2 n).
    score = -0.5 * np.log(2 * np.pi * np.e * NOISE**2)
    assert one.model.raw == pytest.approx(score, abs=4 * np.sqrt(0.5 / rows))
    assert one.model.standardised == pytest.approx(one.model.raw + np.log(2.0))
    assert one.linear.standardised == pytest.approx(one.linear.raw + np.log(2.0))
    assert one.linear.raw == pytest.approx(one.model.raw, abs=0.01)
    assert found.doubts == ()
    warn_about(found.doubts)
    assert not [one for one in recwarn if one.category is PlanningWarning]
    assert "Doubt" not in str(found) and "No held-out" not in str(found)


@pytest.mark.parametrize(
    ("weights", "noise", "expected"),
    [
        (TRUE, 0.1, ["log_likelihood", "coverage", "cost_coverage"]),
        ([0.3, 0.5, 0.1], 10.0, ["log_likelihood", "cost_error"]),
        ([1e9, 0.5, 0.1], 10.0, ["log_likelihood", "coverage", "cost_error", "cost_coverage"]),
    ],
    ids=["too sure", "unstable", "explosive"],
)
def test_a_model_of_another_plant_is_doubted(weights, noise, expected):
    training, held_out = log_of(50, 20), log_of(30, 7, seed=1)
    found = assess(model_of(training, weights, noise), held_out, 7)
    assert [doubt.kind for doubt in found.doubts] == expected
    for doubt in found.doubts:
        assert f"Doubt: {doubt}." in str(found)
    assert str(Quality.of(**asdict(found))) == str(found)
    with pytest.warns(PlanningWarning, match="not good enough to plan with") as caught:
        warn_about(found.doubts)
    assert all(str(doubt) in str(caught[0].message) for doubt in found.doubts)


def test_a_horizon_longer_than_all_episodes_is_cut_and_said():
    training, held_out = log_of(50, 20), log_of(30, 7, seed=1)
    found = assess(model_of(training, TRUE), held_out, 50)
    assert found.multi_step.horizon == 7
    assert "has the 50 steps of the horizon" in str(found)
    with pytest.raises(ValueError, match="horizon must be at least 1"):
        assess(model_of(training, TRUE), held_out, 0)


def test_roll_outs_that_are_lost_stay_lost_and_count_for_nothing_else():
    samples = np.zeros((4, 3, 3))
    samples[0, 0, 1] = np.nan  # finite again afterwards
    samples[1:3, 1, 2] = np.inf
    costs = np.array([[1.0, 1.0, 1.0], [2.0, 2.0, 2.0], [3.0, 3.0, 3.0]])
    found = compare(samples, costs, cost_mean=2.0, cost_scale=0.5)
    np.testing.assert_allclose(found.non_finite, [0.0, 1 / 12, 3 / 12])
    one = OneStep(9, Scores(0.0, 0.0), Scores(0.0, 0.0), np.array([0.5]), np.array([0.9]))
    assert "non_finite" in [doubt.kind for doubt in find_doubts(("level",), one, found)]
    np.testing.assert_allclose(found.bias, [-4.0, -5.0, -6.0])
    np.testing.assert_allclose(found.error, [2 * np.sqrt(14 / 3), 2 * np.sqrt(6.5), 6.0])
    np.testing.assert_allclose(found.mean_error, [2 * np.sqrt(2 / 3), np.sqrt(2), 2.0])
    nothing = compare(np.full((2, 1, 1), np.nan), costs[:1, :1], 2.0, 0.5)
    assert np.isnan([nothing.bias[0], nothing.error[0], nothing.coverage_90[0]]).all()


def trial_of(beta, cost, epistemic, beyond=0.01):
    steps = np.ones(4)
    columns = {"level": 0.6, "heat": 0.04}
    return Trial(
        beta, 0.0, cost * steps, epistemic * steps, 2.0 * steps, steps, beyond * steps, 1.0, 2.0,
        columns, {"after steps": np.array([3.0, 1.0]), "level": np.array([7.25, 6.5])},
    )  # fmt: skip


DOUBT = Doubt("coverage", 0.6, 0.7, "level")
TRIALS = [trial_of(0.0, 10.0, 3.0, beyond=0.4), trial_of(1.0, 11.0, 1.0), trial_of(4.0, 14.0, 0.1)]


def test_the_lowest_risk_adjusted_cost_is_recommended():
    assert [one.careful_cost for one in TRIALS] == pytest.approx([16.0, 13.0, 14.2])
    assert find_best(TRIALS) == recommend(TRIALS, 15.0) == 1
    lost = trial_of(2.0, np.nan, 1.0)
    assert find_best([lost, *TRIALS]) == recommend([lost, *TRIALS], 15.0) == 2


@pytest.mark.parametrize("trials", [TRIALS, TRIALS[:1], [trial_of(0.0, 1.0, 6.5, beyond=0.4)]])
def test_without_a_policy_that_is_expected_to_be_better_none_is_recommended(trials):
    assert recommend(trials, 13.0) is None
    said = advice((), trials, 13.0)[0]
    assert said.startswith("Keep the present controller: no policy found is expected to be better")
    assert "is recommended" not in said and "a logged step cost 13" in said


def test_a_gain_smaller_than_the_bias_of_replayed_costs_is_no_gain():
    assert recommend(TRIALS, 15.0, 1.9) == 1  # 13 against 15
    for bias in (2.0, 2.1, np.nan):
        assert recommend(TRIALS, 15.0, bias) is None
    said = advice((), TRIALS, 15.0, 2.1)[0]
    assert (
        said.startswith("Keep the present controller")
        and "replayed costs of the logged controller may be off by 2.1" in said
    )
    assert "no replayed cost is finite" in advice((), TRIALS, 15.0, np.nan)[0]
    assert "replayed" not in advice((), TRIALS, 15.0, 1.0)[0]


@pytest.mark.parametrize(("behind", "expected"), [(0.09, False), (0.11, True), (np.nan, True)])
def test_a_model_far_below_a_linear_regression_needs_a_second_opinion(behind, expected):
    """By 0.1 nats per output, of which there are two."""
    flat = np.full(2, 0.9)
    one = OneStep(9, Scores(0.0, -1.0), Scores(0.0, -1.0 + 2 * behind), flat, flat)
    many = compare(np.zeros((6, 5, 4)), np.zeros((5, 4)), cost_mean=2.0, cost_scale=0.5)
    assert Quality(("a", "b"), 4, one, many, ()).far_below_linear == expected


@pytest.mark.parametrize(
    ("second", "expected", "said"),
    [(2.1, 1, "is recommended"), (1.9, None, "save 1.9 a step"), (np.nan, None, "no finite")],
)
def test_a_second_opinion_must_agree(second, expected, said):
    known = {"saving": 2.5, "saving_risk": 0.1, "second_saving": second}
    trials = [replace(one, **known) for one in TRIALS]
    assert recommend(trials, 15.0, 2.0, second=True) == expected
    assert said in advice((), trials, 15.0, 2.0, second=True)[0]
    assert recommend(trials, 15.0, 2.0) == 1


def test_a_known_saving_counts_and_not_what_all_logged_steps_cost():
    """It must be more than the bias, and above 0 under most of what the data allow."""
    for saving, risk, expected in ((2.2, 1.0, 1), (1.8, 0.1, None), (2.2, 1.2, None)):
        trials = [TRIALS[0], replace(TRIALS[1], saving=saving, saving_risk=risk)]
        assert recommend(trials, 0.0, 1.9) == expected
        assert f"save {saving:g} ± {risk:g} a step" in advice((), trials, 0.0, 1.9)[0]


def test_the_bias_and_spread_of_replayed_costs_are_those_of_means_over_passages():
    rng = np.random.default_rng(0)
    samples, costs = rng.normal(size=(6, 5, 4)), rng.normal(2.0, 3.0, (5, 4))
    found = compare(samples, costs, cost_mean=2.0, cost_scale=0.5)
    off = [samples[:, passage].mean() - costs[passage].mean() for passage in range(5)]
    assert found.replay_bias == pytest.approx(np.mean(off))
    assert found.replay_margin == pytest.approx(abs(np.mean(off)))  # of an older file
    error = np.std(off) / np.sqrt(3)
    margin = replace(found, separate=3).replay_margin
    assert margin == pytest.approx(abs(np.mean(off)) + 2 * error)
    assert found.spread * found.deviation == pytest.approx(np.std(off))


@pytest.mark.parametrize("part", ["expected", "epistemic"])
def test_a_forecast_that_is_not_finite_is_never_a_number_nor_recommended(part):
    values = {part: np.array([1.0, np.inf, 1.0, 1.0])}
    lost = replace(trial_of(2.0, -5.0, 0.1, beyond=0.0), **values)
    away = trial_of(0.5, 1.0, 0.1, beyond=0.9)
    assert find_best([lost, away]) == 1 and recommend([lost, away], 15.0) is None
    assert recommend([lost], 1e9) is None and "No forecast is finite" in advice((), [lost], 9.0)[0]
    cells = frontier_rows([lost])[1]
    assert cells[2:6] == ["forecast not finite", "–", "–", "–"]
    row = frontier_csv([lost], ["a.policy"]).splitlines()[1]
    assert "inf" not in row and "nan" not in row


def test_who_is_mostly_beyond_the_data_is_not_recommended():
    away = trial_of(0.5, 1.0, 0.1, beyond=0.6)
    assert find_best([away, *TRIALS]) == 2
    assert "of the 3 of 4 that stay mostly within the data" in advice((), [away, *TRIALS], 15)[0]
    alone = advice((), [away, TRIALS[1]], 15)[0]
    assert "it is the only one of 2 that stays mostly within the data. Its" in alone
    farther = trial_of(0.0, 0.5, 0.1, beyond=0.9)
    assert find_best([farther, away]) == 1
    assert recommend([farther, away], 15.0) is None
    assert "All of them are mostly beyond the data" in advice((), [farther, away], 15.0)[0]


def test_finer_steps_of_beta_are_advised_above_a_policy_that_leaves_the_data():
    away, near = trial_of(2.0, 8.0, 0.1, beyond=0.7), trial_of(30.0, 12.0, 0.1)
    between = trial_of(8.0, 13.0, 0.1)
    for trials, high in (([away, near], "30"), ([away, between, near], "8")):
        (hint,) = (one for one in advice((), trials, 15.0) if "between" in one)
        assert f"between 2 and {high} " in hint
    dearer = trial_of(2.0, 20.0, 0.1, beyond=0.7)
    inside = trial_of(2.0, 8.0, 0.1)
    close = trial_of(20.0, 8.0, 0.1, beyond=0.7)
    other = replace(away, aleatoric_weight=1.0)
    lost = trial_of(30.0, 12.0, 0.1, beyond=0.6)
    without = [dearer, near], [inside, near], [close, near], [other, near], [away, lost], [near]
    for trials in without:
        assert not any("between" in one for one in advice((), trials, 15.0))
        assert finer_weights(trials) == []


def test_values_between_two_betas_divide_their_ratio_evenly():
    away, near = trial_of(2.0, 8.0, 0.1, beyond=0.7), trial_of(16.0, 12.0, 0.1)
    assert finer_weights([away, near]) == [(4.0, 0.0), (8.0, 0.0)]
    ignoring = trial_of(0.0, 8.0, 0.1, beyond=0.7)
    assert finer_weights([ignoring, near]) == [(4.0, 0.0), (8.0, 0.0)]
    careful = [replace(one, aleatoric_weight=3.0) for one in (away, near)]
    assert finer_weights(careful) == [(4.0, 3.0), (8.0, 3.0)]


def test_the_advice_says_why_and_how_far_to_believe_it():
    first, second, *rest = advice((), TRIALS, 15.0)
    assert (
        "β = 1 and γ = 0 is recommended: it has the lowest risk-adjusted cost of 3 policies."
        in first
    )
    assert "11 + 2 · 1 = 13" in first and "cost 15" in first
    assert "model's opinion" in second and rest == []


@pytest.mark.parametrize(
    ("trials", "doubts", "logged_cost", "expected"),
    [
        (TRIALS[:1], (), 20.0, "40% of the states it visits are beyond the data"),
        (TRIALS, [DOUBT], 20.0, "level cover 60% of the measurements: it is overconfident."),
    ],
)
def test_what_speaks_against_it_is_said(trials, doubts, logged_cost, expected):
    (said,) = advice(doubts, trials, logged_cost)[2:]
    assert expected in said


def test_tables_have_a_row_for_each_policy():
    head, *body = frontier_rows(TRIALS)
    assert all(len(row) == len(head) for row in body) and len(body) == 3
    assert body[0][-2:] == ["40.0%", "level 60%"]
    table = frontier_csv(TRIALS, ["a.policy", "b.policy", "c.policy"]).splitlines()
    assert table[2] == "1.0,0.0,11.0,1.0,2.0,13.0,0.01,b.policy"


def test_a_trial_survives_its_file(tmp_path):
    bands = np.arange(20.0).reshape(4, 5)
    bands[1, 2] = np.nan
    more = {"rollouts": np.ones((3, 4)), "visited": {"level": bands}, "logged": {"level": bands[0]}}
    lost = replace(trial_of(2.0, np.nan, np.inf), **more)
    write_json(tmp_path / "one.json", asdict(lost))
    found = read_json(tmp_path / "one.json", Trial)
    assert np.isnan(found.expected).all() and np.isnan(found.epistemic).all()
    assert found.columns == lost.columns and found.risk_weights == lost.risk_weights
    np.testing.assert_array_equal(found.beyond, lost.beyond)
    np.testing.assert_equal({name: getattr(found, name) for name in more}, more)
    for text in ("{", '{"far": 1}'):
        (tmp_path / "one.json").write_text(text)
        with pytest.raises(ProjectError, match="is damaged"):
            read_json(tmp_path / "one.json", Trial)


def test_a_number_of_a_quality_file_that_is_none_is_named():
    training, held_out = log_of(50, 20), log_of(30, 7, seed=1)
    found = assess(model_of(training, TRUE), held_out, 5).multi_step
    with pytest.raises(ValueError, match="logged_cost of a quality cannot be"):
        replace(found, logged_cost=np.array([]))
