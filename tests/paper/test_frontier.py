"""Claims, trade-offs and rank correlations on trials whose answers are known."""

import json

import jax
import numpy as np
import pytest

from paper import frontier, frontier_tables, frontiers, industrial_random_batch
from paper.frontier import MIXED_DRAWS, Group, Trial, grid, mix_posteriors
from paper.frontier_claims import (
    claims,
    curves_of,
    dominated_share,
    rank_correlations,
    regrets,
    trade_offs,
)
from paper.pieces import PIECES
from paper.records import Context
from twofold import Alpha, BNNLVRegressor, fit_many
from twofold.core.persistence import OtherRunError


def trial(beta, gamma, cost, bias, method="alpha", seed=0, **more):
    risk = max(bias, 0.0) ** 0.5
    expected = dict(predicted_cost=10.0 - beta, epistemic_risk=risk, aleatoric_risk=1.0)
    criteria = dict(criterion_1=cost, criterion_2=cost, criterion_4=-cost)
    fields = {**expected, **criteria, **more}
    return Trial(
        method=method, seed=seed, beta=beta, gamma=gamma, true_cost=cost, true_deviation=1.0,
        model_bias=bias, bias_by_start=bias, **fields,
    )  # fmt: skip


@pytest.fixture
def as_the_paper_says():
    """Bias falls with β; ignoring risk is worst; γ = 0 is best; neighbours are worse."""
    found = []
    for seed in (0, 1):
        for gamma, shift in ((0.0, 0.0), (4.0, 3.0)):
            for beta, cost, bias in ((0, 12, 100), (1, 8, 30), (2, 9, 10), (4, 10, 3), (8, 11, 1)):
                value = cost + shift + 0.1 * seed * (beta + 1), bias - 0.5 * (gamma > 0)
                found.append(trial(beta, gamma, *value, seed=seed))
        found.append(trial(1.0, 1.0, 13.0, 20.0, seed=seed))
        for beta, cost, bias in ((0, 13, 90), (3, 14, 50), (9, 15, 20)):
            found.append(trial(beta, 0.0, cost, bias, method="nearest_neighbour", seed=seed))
    return found


def test_share_is_that_of_a_grid_of_points(rng):
    curve = rng.uniform(0.1, 0.9, (5, 2))
    low, high = np.array([0.0, 0.0]), np.array([1.0, 1.0])
    places = (np.stack(np.meshgrid(*[np.arange(400)] * 2), axis=-1).reshape(-1, 2) + 0.5) / 400
    counted = np.any(np.all(places[:, None] >= curve, axis=2), axis=1).mean()
    assert dominated_share(curve, low, high) == pytest.approx(counted, abs=0.01)
    assert dominated_share(np.array([[0.0, 0.0]]), low, high) == 1.0
    assert dominated_share(np.array([[1.0, 0.0]]), low, high) == 0.0


def test_claims_hold_where_trials_say_so(as_the_paper_says):
    found = claims(as_the_paper_says, "alpha", "nearest_neighbour", 0.0)
    decided = {name: value for name, value in found.items() if name.startswith("claims/")}
    assert len(decided) == 6
    assert set(decided.values()) == {1.0}


@pytest.mark.parametrize(
    ("name", "beta", "change"),
    [
        ("risk_ignoring_has_the_largest_bias", 0.0, {"model_bias": 20.0}),
        ("risk_ignoring_has_more_bias", 0.0, {"model_bias": 2.0}),
        ("risk_ignoring_costs_more", 0.0, {"true_cost": 7.0}),
        ("bias_falls_with_beta", 0.0, {"model_bias": 0.0}),
    ],
)
def test_claims_fall_with_what_they_rest_on(as_the_paper_says, name, beta, change):
    changed = [
        t._replace(**change) if (t.method, t.beta, t.gamma) == ("alpha", beta, 0.0) else t
        for t in as_the_paper_says
    ]
    assert claims(changed, "alpha", "nearest_neighbour", 0.0)[f"claims/{name}"] == 0.0
    assert claims(as_the_paper_says, "alpha", "nearest_neighbour", 0.0)[f"claims/{name}"] == 1.0


def test_the_best_curve_decides_the_trade_off(as_the_paper_says):
    shares = trade_offs(as_the_paper_says, curves_of(as_the_paper_says, "alpha"))
    assert shares["gamma_0"] > shares["gamma_4"]
    other = claims(as_the_paper_says, "alpha", "nearest_neighbour", 4.0)
    assert other["claims/gamma_4_has_the_best_trade_off"] == 0.0


def test_a_baseline_that_is_better_is_not_worse(as_the_paper_says):
    """Better than all others, and so outside of what they span."""
    better = [
        t._replace(true_cost=t.true_cost - 10.0, model_bias=0.5) if "near" in t.method else t
        for t in as_the_paper_says
    ]
    found = claims(better, "alpha", "nearest_neighbour", 0.0)
    assert found["claims/nearest_neighbour_is_worse"] == 0.0
    assert found["margin/nearest_neighbour_is_worse/mean"] < 0.0


def test_a_policy_whose_bias_is_lost_dominates_nothing(as_the_paper_says):
    def lost(t):
        return (t.method, t.beta, t.gamma, t.seed) == ("alpha", 8.0, 4.0, 0)

    trials = [t._replace(model_bias=np.nan) if lost(t) else t for t in as_the_paper_says]
    curves = curves_of(as_the_paper_says, "alpha")
    others = {
        name: (method, [pair for pair in own if pair != (8.0, 4.0)])
        for name, (method, own) in curves.items()
    }
    expected = trade_offs(as_the_paper_says, others)
    assert trade_offs(trials, curves) == pytest.approx(expected)
    assert min(expected["gamma_0"], expected["gamma_4"]) > 0.0


def test_rank_correlations_are_within_seeds(rng):
    trials = []
    for seed in range(3):
        for beta in range(6):
            bias = float(rng.uniform()) + 100.0 * seed
            trials.append(trial(float(beta), 0.0, float(beta), bias, seed=seed))
    found = rank_correlations(trials)
    assert found["rank_correlation/epistemic_risk_vs_bias"] == pytest.approx(1.0)
    assert found["rank_correlation/expected_cost_vs_cost"] == pytest.approx(-1.0)
    assert found["rank_correlation/criterion_vs_cost"] == pytest.approx(1.0)
    assert found["rank_correlation/criterion_beta_4_vs_cost"] == pytest.approx(-1.0)


def test_regret_is_what_the_chosen_policy_costs_above_the_best():
    """In one seed the model's favourite costs 3 more than the best, in the other it is the best;
    J with β = 1 is the true cost here, and J with β = 4 its opposite."""
    costs = {0: (5.0, 2.0, 4.0), 1: (1.0, 6.0, 3.0)}
    trials = [
        trial(float(2 - index), 0.0, cost, 1.0, seed=seed)
        for seed, own in costs.items()
        for index, cost in enumerate(own)
    ]
    found = regrets(trials)  # the model expects 10 − β: most of the first of each seed
    assert found["regret/predicted_cost"] == pytest.approx((3.0 + 0.0) / 2)
    assert found["regret/criterion_1"] == 0.0
    assert found["regret/criterion_4"] == pytest.approx((3.0 + 5.0) / 2)


def test_noise_alone_makes_no_claim(rng):
    """Identical policies, tried with noise: a claim that holds often by chance says nothing."""
    held = []
    for _ in range(100):
        trials = [
            trial(beta, gamma, rng.normal(10.0), rng.gamma(2.0), seed=seed)
            for seed in range(3)
            for gamma in (0.0, 4.0)
            for beta in (0.0, 1.0, 2.0, 4.0, 8.0)
        ]
        found = claims(trials, "alpha", "nearest_neighbour", 0.0)
        held.append(
            [found["claims/risk_ignoring_costs_more"], found["claims/bias_falls_with_beta"]]
        )
    # Two standard errors of three seeds: 9 % on one side, by Student's t with 2 degrees of freedom.
    assert np.mean(held, axis=0).max() < 0.09 + 4 * (0.09 * 0.91 / 100) ** 0.5


def test_policies_that_are_alike_or_lost_have_no_ranks():
    alike = [trial(float(beta), 0.0, 3.0, 1.0) for beta in range(5)]
    assert rank_correlations(alike)["rank_correlation/expected_cost_vs_cost"] == 0.0
    lost = [trial(float(b), 0.0, float(b), 1.0 + b, predicted_cost=float("nan")) for b in range(5)]
    found = rank_correlations(lost)
    assert found["rank_correlation/expected_cost_vs_cost"] == 0.0
    assert found["rank_correlation/epistemic_risk_vs_bias"] == pytest.approx(1.0)


def test_models_are_compared_on_the_seeds_that_all_of_them_have():
    """α = 1 ranks rightly in the third seed alone, which the ensemble does not have."""
    trials = [
        trial(float(b), 0.0, float(-b if seed == 2 else b), 1.0, method=method, seed=seed)
        for method, seeds in (("alpha", (0, 1, 2)), ("ensemble", (0, 1)))
        for seed in seeds
        for b in range(4)
    ]
    found = rank_correlations(trials)
    assert found["rank_correlation/expected_cost_vs_cost"] == pytest.approx(-1.0)
    assert found["ensemble/rank_correlation/expected_cost_vs_cost"] == pytest.approx(-1.0)
    assert found["alpha/rank_correlation/expected_cost_vs_cost"] == pytest.approx(-1.0 / 3.0)


def test_a_lead_is_judged_on_the_seeds_of_both_curves(as_the_paper_says):
    """A third seed of the paper's model, which the baseline does not have, is very different."""
    more = [
        t._replace(seed=2, true_cost=100.0 - t.true_cost)
        for t in as_the_paper_says
        if (t.method, t.seed) == ("alpha", 0)
    ]
    before = claims(as_the_paper_says, "alpha", "nearest_neighbour", 0.0)
    after = claims(as_the_paper_says + more, "alpha", "nearest_neighbour", 0.0)
    lead = "margin/nearest_neighbour_is_worse/mean"
    assert after[lead] == pytest.approx(before[lead])
    assert after["dominated_share/gamma_0"] == pytest.approx(before["dominated_share/gamma_0"])
    lead = "margin/gamma_0_has_the_best_trade_off/mean"
    assert after[lead] < before[lead]


def test_policies_whose_roll_outs_were_lost_are_read_from_a_record():
    values = {f"policies/alpha/0/{field}": 1.0 for field in ("seed", "beta", "gamma", "true_cost")}
    (found,) = frontier.recorded_trials(values)
    assert (found.method, found.beta, found.true_cost) == ("alpha", 1.0, 1.0)
    assert np.isnan(found.predicted_cost)


def test_policies_of_other_models_stay_as_they_were_recorded(monkeypatch, tmp_path):
    finished, added = [], 0.0

    def finish(problem, method, seed, *_):
        finished.append((method.name, seed))
        pairs = enumerate(method.weights)
        rows = [trial(*p, n + added, 99.0 - n, method.name, seed) for n, p in pairs]
        return Group(rows, [], 1.5, 1.0, {})

    monkeypatch.setattr(frontiers, "finish_group", finish)
    monkeypatch.setattr(frontiers, "draw_figures", lambda *_: None)
    context = Context(False, tmp_path, tmp_path)
    before = frontiers.trace_frontier("industrial_frontier", context)
    before.write(tmp_path)
    first, added = list(finished), 1.0
    finished.clear()
    after = frontiers.retrace_paper("industrial_frontier", context).metrics
    assert {name for name, _ in first} == {m.name for m in frontiers.INDUSTRIAL.methods}
    assert finished == [("alpha", seed) for seed in range(8)]
    for name in (n for n in before.metrics if n.endswith("/true_cost")):
        assert after[name] == before.metrics[name] + ("/alpha/" in name)
    assert after["ensemble/beta_2/gamma_0/true_cost/mean"] == 2.0
    assert after["nearest_neighbour/beta_3/gamma_0/true_cost/mean"] == 1.0
    assert PIECES["figure_4a_paper"].keeps("ensemble/test_log_likelihood/mean")
    assert not PIECES["figure_4a_paper"].keeps("alpha/test_log_likelihood/mean")


def test_a_bias_below_zero_is_covered():
    trials = [trial(0.0, 0.0, 1.0, 4.0, epistemic_risk=0.5)] + [
        trial(float(b), 0.0, 1.0, -0.1, epistemic_risk=0.5) for b in range(1, 10)
    ]
    assert frontiers.share_covered(trials) == {"bias_within_two_risks": 0.9}


def test_a_grid_has_a_curve_for_each_gamma_and_the_diagonal():
    found = grid((0.0, 1.0, 2.0), (0.0, 2.0))
    assert found[:6] == [(0.0, 0.0), (1.0, 0.0), (2.0, 0.0), (0.0, 2.0), (1.0, 2.0), (2.0, 2.0)]
    assert found[6:] == [(1.0, 1.0)]


@pytest.fixture
def stages(monkeypatch):
    """Groups whose stages are known numbers instead of fits and searches; the calls of a stage."""
    calls = []
    monkeypatch.setattr(frontier, "fit_model", lambda *_: calls.append("fit"))
    monkeypatch.setattr(frontier, "score_held_out", lambda *_: 1.5)
    monkeypatch.setattr(frontier, "build_model", lambda *_: None)
    monkeypatch.setattr(frontier, "find_policies", lambda *_: [])
    monkeypatch.setattr(frontier, "try_policies", lambda *_: [])
    return calls


def test_a_finished_group_is_read_and_one_of_other_settings_refused(stages, monkeypatch, tmp_path):
    small = frontiers.shrink(frontiers.RIVER)
    problem, method = small.problem(), small.methods[0]
    first = frontier.finish_group(problem, method, 0, small.trials, tmp_path)
    assert (first.log_likelihood, first.trials, stages) == (1.5, [], ["fit"])
    # Simulations of another machine may differ in their last digits: settings decide.
    monkeypatch.setattr(frontier, "fingerprint_data", lambda *_: {"log": "elsewhere"})
    assert frontier.finish_group(problem, method, 0, small.trials, tmp_path) == first
    assert stages == ["fit"]
    with pytest.raises(OtherRunError, match="method"):
        frontier.finish_group(problem, method._replace(beginnings=7), 0, small.trials, tmp_path)
    (tmp_path / "wet_chicken-alpha-0" / frontier.TRIALS).unlink()
    with pytest.raises(OtherRunError, match="begun with other data: log"):
        frontier.finish_group(problem, method, 0, small.trials, tmp_path)


def test_a_mixture_has_equally_many_draws_of_each_fit(rng):
    x = rng.normal(size=(40, 1))
    fits = [
        BNNLVRegressor(random_state=seed, inference=Alpha(epochs=1), hidden_layer_sizes=(2,))
        for seed in range(2)
    ]
    fit_many(fits, [x] * 2, [x] * 2)
    own = [np.asarray(fit.posterior_.sample(jax.random.key(i), MIXED_DRAWS).weights)
           for i, fit in enumerate(fits)]  # fmt: skip
    found = mix_posteriors(fits)
    assert found is fits[0]
    np.testing.assert_array_equal(found.posterior_.weights, np.concatenate(own))
    assert found.log_likelihood(x, x).shape == (40,)


@pytest.mark.slow
def test_the_river_leaves_a_record_and_figures_and_goes_on_where_it_stopped(tmp_path):
    record = frontiers.trace_frontier("wet_chicken_frontier", Context(True, tmp_path, tmp_path))
    names = set(record.metrics)
    assert {"policies/alpha/0/beta", "claims/bias_falls_with_beta"} <= names
    assert "rank_correlation/criterion_vs_cost" in names
    assert {p.name for p in tmp_path.glob("*.png")} == {
        "wet_chicken_frontier.png",
        "wet_chicken_rollouts.png",
        "wet_chicken_scores.png",
    }
    before = {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/*.policy")}
    lost = next(tmp_path.glob("*alpha-0/trials.json"))
    content = lost.read_text()
    lost.unlink()
    again = frontiers.trace_frontier("wet_chicken_frontier", Context(True, tmp_path, tmp_path))
    del record.metrics["seconds"], again.metrics["seconds"]
    assert again.metrics == record.metrics
    assert json.loads(lost.read_text())["trials"] == json.loads(content)["trials"]
    assert {path: path.stat().st_mtime_ns for path in tmp_path.glob("*/*.policy")} == before


@pytest.mark.slow
def test_the_random_batch_leaves_a_record_and_policies_for_a_plant(tmp_path):
    record = industrial_random_batch.search_by_model(Context(True, tmp_path, tmp_path))
    assert record.metrics["cost/best"] <= record.metrics["cost/mean"]
    assert len(list(tmp_path.glob("*.onnx"))) == 2
    direct = industrial_random_batch.search_on_simulator(Context(True, tmp_path, tmp_path))
    assert direct.name == record.name
    assert 100 < direct.metrics["direct/cost/best"] < 500


def test_what_does_not_hold_is_bounded(tmp_path):
    """Student's t with two degrees of freedom has its 95 % quantile at 2.920."""
    names = "risk_ignoring_costs_more", "bias_falls_with_beta"
    values = {f"claims/{name}": float(number) for number, name in enumerate(names)}
    for name in names:
        values |= {f"margin/{name}/mean": 0.5, f"margin/{name}/se": 1.0}
    # Policies of three seeds, in a record that another experiment with five was added to.
    values |= {f"policies/alpha/{number}/seed": float(number % 3) for number in range(6)}
    record = {"seeds": [0, 1, 2, 3, 4], "metrics": values}
    (tmp_path / "wind_frontier.json").write_text(json.dumps(record))
    _, _, costs, bias = frontier_tables.claims("wind_frontier", tmp_path).splitlines()
    assert costs.endswith("| **no** | 0.50 ± 1.00 | 3.42 |")
    assert bias.endswith("| yes | 0.50 ± 1.00 |  |")
