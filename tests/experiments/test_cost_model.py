"""The cost model reproduces what it was fitted to, and grows as its formulas say."""

import json
from pathlib import Path

import numpy as np
import pytest

from twofold.experiments import cost_model
from twofold.experiments.cost_model import Point, fit, key, parse

RESULTS = Path(__file__).parents[2] / "results"
SIZES = [
    {"T": t, "M": m, "N": n, "S": s, "H": 75}
    for t, m, n, s in [(10, 50, 25, 1), (100, 50, 25, 1), (100, 25, 10, 1), (50, 50, 25, 10)]
]


def measured(job, sizes, constants, memory=(1e6, 50.0)):
    """Points that follow the formula exactly; nobody knows what a choice holds."""
    times = [float(np.dot(constants, cost_model.TERMS[job](size))) for size in sizes]
    if job == "choice":
        return [Point(size, time, 0.0) for size, time in zip(sizes, times, strict=True)]
    held = [float(np.dot(memory, cost_model.held(job, size))) for size in sizes]
    return [Point(*one) for one in zip(sizes, times, held, strict=True)]


def all_fits():
    """Machines for which everything is known."""
    model = [
        {"N": n, "D": 5, "H": h, "S": s}
        for n, h, s in [(50, 20, 8), (200, 20, 32), (900, 20, 32), (200, 50, 8)]
    ]
    asked = [{"N": n, "D": d} for n, d in [(30, 2), (200, 2), (30, 8)]]
    return {
        "search": fit("search", measured("search", SIZES, (1e-3, 1e-4, 1e-11))),
        "ensemble": fit("ensemble", measured("ensemble", model, (1e-3, 1e-3, 1e-8, 1e-10))),
        "choice": fit("choice", measured("choice", asked, (1.0, 0.01, 0.1))),
    }


def test_constants_are_found_again():
    constants = (2e-3, 3e-4, 1e-11)
    found = fit("search", measured("search", SIZES, constants))
    np.testing.assert_allclose(found.time, constants, rtol=1e-6)
    assert found.time_error < 1e-9 and found.memory_error < 1e-9


def test_a_point_off_the_formula_shows_as_error():
    points = measured("choice", [{"N": n, "D": d} for n in (10, 100) for d in (2, 8)], (1, 0.1, 1))
    assert fit("choice", points).time_error < 1e-9
    points[0] = points[0]._replace(seconds=2 * points[0].seconds)
    assert fit("choice", points).time_error > 0.1


def test_constants_are_never_negative():
    falling = [Point({"N": n, "D": 2}, 1.0 / n, 0.0) for n in (10, 100, 1000)]
    assert fit("choice", falling).time.min() >= 0


@pytest.mark.parametrize("job", cost_model.TERMS)
def test_more_of_anything_never_costs_less(job):
    names = "N D K H S M L T".split()
    size = dict.fromkeys(names, 10)
    once = np.array(cost_model.TERMS[job](size))
    for name in names:
        assert (np.array(cost_model.TERMS[job](size | {name: 20})) >= once).all()


def test_growth_in_each_size():
    nested = {"N": 10, "D": 1, "M": 10, "L": 10, "H": 20}
    for name in ("N", "M", "L"):
        one, two = (cost_model.entropy(nested | {name: nested[name] * k}) for k in (1, 2))
        assert two[2:] == [2 * term for term in one[2:]]
    once, often = (cost_model.training({"N": n, "D": 1, "K": 50, "H": 20}) for n in (250, 5000))
    assert often[1:] == [20 * term for term in once[1:]]  # so many batches


def test_a_frontier_is_linear_in_groups_and_updates():
    fits = all_fits()
    plenty, little = 1e12, fits["search"].bytes(cost_model.paper_search(100))
    assert cost_model.policies_at_once(fits, 1000, plenty) == 1000
    assert cost_model.policies_at_once(fits, 1000, little) == 100
    once, twice = (cost_model.frontier_seconds(fits, 100, plenty, updates) for updates in (10, 20))
    assert twice == pytest.approx(2 * once)
    group = cost_model.frontier_seconds(fits, 100, little)
    assert cost_model.frontier_seconds(fits, 1000, little) == pytest.approx(10 * group)
    assert cost_model.frontier_seconds(fits, 1000, plenty) < 10 * group


def test_campaigns_are_linear_in_their_number():
    fits = all_fits()
    one, many = (cost_model.campaigns_seconds(fits, number, 200) for number in (1, 1000))
    assert many == pytest.approx(1000 * one)
    assert cost_model.campaigns_seconds(fits, 1, 100) < one
    update = fits["ensemble"].seconds({"N": 200, "D": 5, "H": 20, "S": 32})
    question = fits["choice"].seconds({"N": 200, "D": 5})
    assert one == pytest.approx(cost_model.CAMPAIGN_UPDATES * update + question)


def test_tables_from_a_record(tmp_path):
    values = {}
    for point in measured("search", SIZES, (2e-3, 3e-4, 1e-11)):
        values[f"search/{key(point.sizes)}/cpu/seconds"] = point.seconds
        values[f"search/{key(point.sizes)}/cpu/bytes"] = point.memory
    (tmp_path / "cost_model.json").write_text(json.dumps({"metrics": values}))
    assert parse(key(SIZES[0])) == SIZES[0]
    assert len(cost_model.points(values, "search", "cpu")) == len(SIZES)
    assert cost_model.points(values, "search", "gpu") == []
    assert "| +0% |" in cost_model.measured_table("search", tmp_path)
    assert "| search | 0% | – |" in cost_model.errors_table(tmp_path)
    assert "a frontier of 1,000 policies" in cost_model.calculations(tmp_path)


def test_the_record_is_met_within_the_error_that_is_stated():
    values = cost_model.metrics("cost_model", RESULTS)
    for device in cost_model.DEVICES:
        for job, fitted in cost_model.fits(values, device).items():
            for point in cost_model.points(values, job, device):
                off = abs(fitted.seconds(point.sizes) / point.seconds - 1)
                assert off <= fitted.time_error + 1e-9
