"""The paper's claims: numbers from records, verdicts from numbers."""

import json
from pathlib import Path

import numpy as np
import pytest

from paper import claims, claims_policy, claims_toy
from paper.claim import Check, Number, correlated, over_seeds
from paper.frontier import recorded_trials
from paper.markdown import metrics

RESULTS = Path(__file__).parents[2] / "results"
JUDGED = [(group, one) for group in claims.GROUPS for one in claims.judge(group, RESULTS)]
MEASURED = [(group, one) for group, one in JUDGED if one.checks]


def named(case):
    group, one = case
    return f"{group}: {one.claim.text}"[:60]


@pytest.mark.parametrize("case", MEASURED, ids=map(named, MEASURED))
def test_every_number_is_in_its_record_and_finite(case):
    for check in [*case[1].checks, *case[1].others]:
        assert np.isfinite(check.number.mean)
        assert np.isfinite(check.number.error) and check.number.error >= 0.0


@pytest.mark.parametrize("case", MEASURED, ids=map(named, MEASURED))
def test_the_verdict_turns_with_the_numbers(case):
    checks = case[1].checks
    assert claims.verdict([_at(check, 1.0) for check in checks]) == claims.HOLDS
    assert claims.verdict([_at(check, -1.0) for check in checks]) == claims.FAILS
    assert claims.verdict([_at(check, 0.0) for check in checks]) == claims.UNCLEAR


def _at(check: Check, distance: float) -> Check:
    """The check with its number on the right side of the line, on the wrong one, or on it."""
    away = distance if check.above else -distance
    return check._replace(number=Number(check.line + away, 0.1))


def test_a_number_within_two_errors_of_its_line_is_not_clear():
    assert claims.side(Check(Number(0.19, 0.1))) == 0
    assert claims.side(Check(Number(0.21, 0.1))) == 1
    assert claims.side(Check(Number(-0.21, 0.1))) == -1
    assert claims.side(Check(Number(-0.21, 0.1), above=False)) == 1


def test_a_claim_holds_in_part_if_some_of_its_numbers_say_so():
    assert claims.verdict(correlated(Number(0.3, 0.01))) == claims.PARTLY
    assert claims.verdict(correlated(Number(0.9, 0.01))) == claims.HOLDS
    assert claims.verdict(correlated(Number(-0.3, 0.01))) == claims.FAILS
    assert claims.verdict([]) == claims.UNKNOWN


def test_a_changed_record_changes_the_table(tmp_path):
    record = json.loads((RESULTS / "wet_chicken_map.json").read_text())
    record["metrics"]["epistemic_maximum/share_in_top_right"] = 1.0
    (tmp_path / "wet_chicken_map.json").write_text(json.dumps(record))
    before, after = (claims.judge("river", folder)[0] for folder in (RESULTS, tmp_path))
    assert claims.verdict(before.checks) == claims.FAILS
    assert claims.verdict(after.checks) == claims.HOLDS
    assert "share of seeds: 1.00" in claims.tabulate_group("river", tmp_path)


def test_the_policies_of_a_record_are_those_it_summarises():
    values = metrics("industrial_frontier", RESULTS)
    every = recorded_trials(values)
    costs = [t.true_cost for t in every if (t.method, t.beta, t.gamma) == ("alpha", 4.0, 0.0)]
    mean, error = over_seeds(costs)
    assert mean == pytest.approx(values["alpha/beta_4/gamma_0/true_cost/mean"])
    assert error == pytest.approx(values["alpha/beta_4/gamma_0/true_cost/se"])


@pytest.mark.parametrize(
    ("name", "checks"),
    [
        ("risk_ignoring_costs_more", claims_policy.excess("true_cost", (0.0, 0.0), (4.0, 0.0))),
        ("bias_falls_with_beta", claims_policy.bias_falls("alpha")),
        (
            "nearest_neighbour_is_worse",
            claims_policy.ahead("gamma_0", ["nearest_neighbour"]),
        ),
    ],
)
def test_margins_of_policies_are_those_that_the_record_holds(name, checks):
    values = metrics("industrial_frontier", RESULTS)
    number = checks(values)[0].number
    assert number.mean == pytest.approx(values[f"margin/{name}/mean"])
    assert number.error == pytest.approx(values[f"margin/{name}/se"])


def test_no_gaussian_prediction_of_the_bimodal_problem_expects_more():
    generator = np.random.default_rng(0)
    x = generator.uniform(-0.5, 2.0, 400_000)
    branch = np.where(generator.random(x.size) < 0.5, np.sin(x), np.cos(x))
    y = 10.0 * branch + generator.standard_normal(x.size)
    mean, variance = 5.0 * (np.sin(x) + np.cos(x)), 1.0 + 25.0 * (np.sin(x) - np.cos(x)) ** 2
    density = -0.5 * np.log(2.0 * np.pi * variance) - 0.5 * (y - mean) ** 2 / variance
    # The standard error of the mean is below 0.002.
    assert density.mean() == pytest.approx(claims_toy.gaussian_limit(), abs=0.006)


def test_the_summary_counts_every_claim():
    last = claims.tabulate_summary(RESULTS).strip().splitlines()[-1]
    counts = [int(cell) for cell in last.split("|")[2:-1]]
    assert sum(counts) == len(JUDGED)
    assert counts[-1] == len(JUDGED) - len(MEASURED)
