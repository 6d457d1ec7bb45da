"""The cost model reproduces what it was fitted to, and grows as its formulas say."""

import json
import math
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from benchmarks import cost_formulas as cost_model
from benchmarks.cost_formulas import HELD, TERMS, Point, fit, key, parse
from benchmarks.tables import cost_model as cost_tables
from benchmarks.tables.suite import DEVICES
from paper.markdown import metrics
from paper.records import Record

RESULTS = Path(__file__).parents[2] / "results"
NAMES = "N D K H S M L T".split()
SIZES = [
    {"T": t, "M": m, "N": n, "S": s, "H": h}
    for t, m, n, s, h in [
        (10, 50, 25, 1, 75), (100, 50, 25, 1, 75), (100, 25, 10, 1, 75), (50, 50, 25, 10, 75),
        (50, 50, 25, 1, 150), (7, 20, 30, 2, 20),
    ]
]  # fmt: skip
MEMORY = (1e6, 20.0, 700.0, 3.0)


def measured(job, sizes, constants, memory=None):
    """Points that follow the formulas exactly; nobody knows what a choice holds."""
    times = [float(np.dot(constants, TERMS[job](size))) for size in sizes]
    held = [0.0 if memory is None else float(np.dot(memory, HELD[job](size))) for size in sizes]
    return [Point(*one) for one in zip(sizes, times, held, strict=True)]


def all_fits():
    """Machines for which everything is known."""
    model = [
        {"N": n, "D": 5, "H": h, "S": s}
        for n, h, s in [(50, 20, 8), (200, 20, 32), (900, 20, 32), (200, 50, 8)]
    ]
    asked = [{"N": n, "D": d} for n, d in [(30, 2), (200, 2), (30, 8)]]
    return {
        "search": fit("search", measured("search", SIZES, (1e-3, 1e-4, 1e-9, 1e-11))),
        "ensemble": fit("ensemble", measured("ensemble", model, (1e-3, 1e-3, 1e-8, 1e-10))),
        "choice": fit("choice", measured("choice", asked, (1.0, 0.01, 0.1))),
    }


def test_constants_are_found_again():
    constants = (2e-3, 3e-4, 1e-9, 1e-11)
    found = fit("search", measured("search", SIZES, constants, MEMORY))
    np.testing.assert_allclose(found.time, constants, rtol=1e-6)
    np.testing.assert_allclose(found.memory, MEMORY, rtol=1e-6)
    assert found.time_error < 1e-9 and found.memory_error < 1e-9


def test_a_point_off_the_formula_shows_as_error():
    points = measured("choice", [{"N": n, "D": d} for n in (10, 100) for d in (2, 8)], (1, 0.1, 1))
    assert fit("choice", points).time_error < 1e-9
    points[0] = points[0]._replace(seconds=2 * points[0].seconds)
    assert fit("choice", points).time_error > 0.1


def test_memory_off_the_formula_shows_as_error():
    points = measured("search", SIZES, (1e-3, 1e-4, 1e-9, 1e-11), MEMORY)
    points[1] = points[1]._replace(memory=3 * points[1].memory)
    found = fit("search", points)
    errors = [abs(found.bytes(point) / point.memory - 1) for point in points]
    assert found.memory_error == max(errors) > 0.1


def test_splits_take_the_estimate_of_the_library():
    sizes = [{"N": n, "D": 1, "M": 10, "L": 10, "H": 20} for n in (10, 100, 1000)]
    estimates = (90.0, 150.0, 120.0)
    points = [Point(size, 1.0, 100.0, own) for size, own in zip(sizes, estimates, strict=True)]
    found = fit("variance", points)
    assert len(found.memory) == 0 and found.memory_error == pytest.approx(0.5)
    assert [found.bytes(point) for point in points] == list(estimates)
    unknown = [point._replace(estimate=0.0) for point in points]
    assert fit("variance", unknown).memory_error is None


def test_constants_are_never_negative():
    falling = [Point({"N": n, "D": 2}, 1.0 / n) for n in (10, 100, 1000)]
    assert fit("choice", falling).time.min() >= 0


@pytest.mark.parametrize("job", TERMS)
def test_more_of_anything_never_costs_less(job):
    size = dict.fromkeys(NAMES, 10)
    for terms in [TERMS[job], *([HELD[job]] if job in HELD else [])]:
        once = np.array(terms(size))
        for name in NAMES:
            assert (np.array(terms(size | {name: 20})) >= once).all()


def product(label, symbols):
    """The value of a label such as ``T·M·N·S·(4 W_m + 6 W_p)``."""
    factors = []
    for factor in label.split("·"):
        parts = [part.split() for part in factor.strip("()").split(" + ")]
        numbers = [[symbols[word] if word in symbols else int(word) for word in p] for p in parts]
        factors.append(sum(map(math.prod, numbers)))
    return math.prod(factors)


@pytest.mark.parametrize(
    "size", [dict.fromkeys(NAMES, 10), {n: 300 + i for i, n in enumerate(NAMES)}]
)
def test_labels_say_what_the_terms_are(size):
    d, h = size["D"] + 1, size["H"]
    rows = size["N"]
    room = 64 if rows <= 64 else 320  # 300 rows have room in 2^8 · 5/4
    own = {
        "W": d * h + h * h + h,
        "W_m": 62 * h + h * h + h,
        "W_p": 61 * 20 + 20 * 20 + 20 * 3,
        "R": room,
        "B": min(250, room),
        "U": math.ceil(rows / min(250, room)),
        "Q": 24,
    }
    for labels, terms in ((cost_model.LABELS, TERMS), (cost_model.HELD_LABELS, HELD)):
        assert labels.keys() == terms.keys()
        for job, function in terms.items():
            assert [product(label, size | own) for label in labels[job]] == function(size), job


def test_growth_in_each_size():
    nested = {"N": 10, "D": 1, "M": 10, "L": 10, "H": 20}
    for name in ("N", "M", "L"):
        one, two = (cost_model.entropy(nested | {name: nested[name] * k}) for k in (1, 2))
        assert two[2:] == [2 * term for term in one[2:]]
    once, often = (cost_model.training({"N": n, "D": 1, "K": 50, "H": 20}) for n in (250, 5000))
    assert often[1:] == [20 * term for term in once[1:]]  # so many batches


def test_policies_at_once_are_those_of_the_library(monkeypatch):
    steps = 100 * 50 * 25
    # What the policy saw and what it is in units of it, the observation, and a byte for each unit.
    kept = 4 * (2 * 61 + 62) + (62 + 75 + 75 + 1 + 20 + 20)
    assert cost_model.paper_policies_at_once() == 8 * 2**30 // (steps * kept)
    module = sys.modules[cost_model.policies_at_once.__module__]
    monkeypatch.setattr(module, "MOST_BYTES", 3 * steps * kept)
    assert cost_model.paper_policies_at_once() == 3


def test_a_frontier_is_linear_in_groups_and_updates():
    fits = all_fits()
    once, twice = (cost_model.frontier_seconds(fits, 100, 100, updates) for updates in (10, 20))
    assert twice == pytest.approx(2 * once)
    assert cost_model.groups(250, 100) == [100, 100, 50]
    group, half = (cost_model.frontier_seconds(fits, policies, 100) for policies in (100, 50))
    assert cost_model.frontier_seconds(fits, 250, 100) == pytest.approx(2 * group + half)
    assert cost_model.frontier_seconds(fits, 250, 250) < 2 * group + half


def test_campaigns_are_linear_in_their_number():
    fits = all_fits()
    one, many = (cost_model.campaigns_seconds(fits, number, 200) for number in (1, 1000))
    assert many == pytest.approx(1000 * one)
    assert cost_model.campaigns_seconds(fits, 1, 100) < one
    update = fits["ensemble"].seconds({"N": 200, "D": 5, "H": 20, "S": 32})
    question = fits["choice"].seconds({"N": 200, "D": 5})
    assert one == pytest.approx(cost_model.CAMPAIGN_UPDATES * update + question)


def write_record(folder, points):
    """A record of a search on a CPU."""
    values = {}
    for point in points:
        values[f"search/{key(point.sizes)}/cpu/seconds"] = point.seconds
        values[f"search/{key(point.sizes)}/cpu/bytes"] = point.memory
    (folder / "cost_model.json").write_text(json.dumps({"metrics": values}))
    return values


def test_tables_from_a_record(tmp_path):
    constants = (2e-3, 3e-4, 0.0, 1e-11)
    values = write_record(tmp_path, measured("search", SIZES, constants, MEMORY))
    assert parse(key(SIZES[0])) == SIZES[0]
    assert len(cost_model.points(values, "search", "cpu")) == len(SIZES)
    assert cost_model.points(values, "search", "gpu") == []
    table = cost_tables.measured_table("search", tmp_path)
    assert table.count("0% |") == 2 * len(SIZES)  # time and memory
    assert "| search | 0% | – | 0% | – |" in cost_tables.errors_table(tmp_path)
    times = cost_tables.time_constants(tmp_path)
    assert "| search | 1 | 2 ms | – |\n|  | T | 300 µs | – |\n" in times
    assert "|  | T·M·N·S·(4 W_m + 6 W_p) | 10 ps | – |" in times
    memory = cost_tables.memory_constants(tmp_path)
    assert "| search | 1 | 1 MB | – |\n|  | M·N·S·H | 20 B | – |" in memory
    assert "a frontier of 1,000 policies, 69 at once" in cost_tables.calculations(tmp_path)


def test_a_term_with_constant_zero_was_not_seen():
    assert cost_tables.amount(0.0, cost_tables.SECONDS) == "not seen"
    assert cost_tables.amount(1.5e-16, cost_tables.SECONDS) == "0.15 fs"
    assert cost_tables.amount(2500.0, cost_tables.BYTES) == "2.5 kB"
    assert cost_tables.amount(999_999.9, cost_tables.BYTES) == "1 MB"


@pytest.mark.slow
def test_the_benchmark_at_smoke_size(tmp_path):
    earlier = Record("cost_model", {}, [0])
    old, other, kept = (
        f"{name}/seconds" for name in ("variance/N=7/cpu", "variance/N=7/tpu", "choice/N=7/cpu")
    )
    for name in (old, other, kept):
        earlier.add(name, 1.0)
    earlier.write(tmp_path)
    words = [sys.executable, RESULTS.parent / "benchmarks/cost_model.py", "--smoke"]
    words += ["--only", "training", "variance", "forecast", "--output", tmp_path]
    subprocess.run(list(map(str, words)), check=True, env=os.environ | {"JAX_PLATFORMS": "cpu"})
    values = metrics("cost_model", tmp_path)
    # What was measured anew is gone; other devices and other jobs stay.
    assert old not in values and {other, kept} <= values.keys()
    for job in ("training", "variance", "forecast"):
        (point,) = cost_model.points(values, job, "cpu")
        assert point.seconds > 0 and point.memory > 0
        assert (point.estimate > 0) == (job == "variance")
    rows, inputs = 64, 1
    (point,) = cost_model.points(values, "training", "cpu")
    # More than the data, and a mean and a ρ of q(z) with Adam's moments.
    assert point.memory > 4 * rows * (inputs + 1 + 6)


def test_the_record_is_met_within_the_errors_that_are_stated():
    values = metrics("cost_model", RESULTS)
    for device in DEVICES:
        for job, fitted in cost_model.fits(values, device).items():
            for point in cost_model.points(values, job, device):
                off = abs(fitted.seconds(point.sizes) / point.seconds - 1)
                assert off <= fitted.time_error + 1e-9
                if fitted.memory_error is not None:
                    off = abs(fitted.bytes(point) / point.memory - 1)
                    assert off <= fitted.memory_error + 1e-9
