"""How long a new user waits, from typing a command to the prompt, and whether campaigns learn.

    python benchmarks/first_use.py            all commands, then 15 campaigns of ten rounds
    python benchmarks/first_use.py --smoke    one table and one short campaign

Every command runs twice in a copy of the same folder: first with an empty compile cache
(``cold/wall_seconds``), then with the cache that the first run has filled. A campaign begins with
random points; its last model is compared with one fitted to as many random points. Writes
``results/first_use.json``; an interrupted run keeps its measurements.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from paper.records import Record, commit
from paper.small_problems import SMALL_PROBLEMS
from twofold.active import expected_information
from twofold.campaign import Campaign, Continuous
from twofold.core.jobs import Job, run_jobs

TABLES = {120: 1, 500: 10, 750: 1, 1500: 5}
MODES: dict[str, list[str]] = {"quick": ["--quick"], "default": []}
LOG_ROWS, EPISODE = 20_000, 200
PROBLEMS = {"wave": 1.0, "corner": 1.0, "ridge": 2.0}
SEEDS = [0, 1, 2, 3, 4]
ROUNDS, FIRST, EACH, GRID = 10, 10, 3, 400
WORK = Path(".cache/bench/unfinished")
RUN = "import sys; from twofold.cli import main; main()"
SMALL = ["inference=ensemble", "updates=20", "members=4"]
COST = "def cost(row):\n    return (row['level'] - 1.0) ** 2 + 0.1 * row['flow'] ** 2\n"


def write_table(path: Path, rows: int, inputs: int) -> None:
    """A smooth function of the first input, with noise that grows with it."""
    rng = np.random.default_rng(rows)
    x = rng.uniform(-1.0, 1.0, (rows, inputs))
    y = np.sin(4.0 * x[:, 0]) + x.sum(axis=1) + (0.2 + 0.15 * x[:, 0]) * rng.normal(size=rows)
    names = ",".join([*(f"x{i}" for i in range(inputs)), "y"])
    np.savetxt(path, np.column_stack([x, y]), "%.6g", ",", header=names, comments="")


def write_log(path: Path, rows: int) -> None:
    """A tank with a proportional controller that explores, in episodes."""
    rng = np.random.default_rng(0)
    lines, level = ["run,minute,level,flow"], 1.0
    for row in range(rows):
        if row % EPISODE == 0:
            level = rng.uniform(0.0, 2.0)
        flow = float(np.clip(0.5 + 0.8 * (1.0 - level) + 0.3 * rng.normal(), 0.0, 2.0))
        lines.append(f"{row // EPISODE},{row % EPISODE},{level:.5f},{flow:.5f}")
        level = max(0.0, 0.9 * level + 0.2 * flow + 0.02 * rng.normal() * (1.0 + level))
    path.write_text("\n".join(lines) + "\n")


def run_command(words: list[str], folder: Path, cache: Path) -> dict[str, Any]:
    """Run a command in its own process; its times and output."""
    environment = os.environ | {"JAX_COMPILATION_CACHE_DIR": str(cache)}
    begun = time.perf_counter()
    with (folder / "said.txt").open("w+") as said, (folder / "shown.txt").open("w+") as shown:
        command = [sys.executable, "-c", RUN, *words]
        process = subprocess.Popen(command, cwd=folder, env=environment, stdout=shown, stderr=said)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        said.seek(0)
        shown.seek(0)
        texts = said.read(), shown.read()
    if process.returncode:
        raise RuntimeError(f"twofold {' '.join(words)} failed: {texts[0][-2000:]}")
    wall = time.perf_counter() - begun
    return {"wall": wall, "cpu": usage.ru_utime + usage.ru_stime, "said": texts[0], "out": texts[1]}


def time_twice(prepare: Callable[[Path], None], words: list[str]) -> dict[str, Any]:
    """A command in a prepared folder with an empty compile cache, and in a copy of that folder with
    a filled one."""
    with tempfile.TemporaryDirectory(prefix="twofold-first-use-") as place:
        first, second, cache = (Path(place) / name for name in ("first", "second", "programs"))
        first.mkdir()
        prepare(first)
        shutil.copytree(first, second)
        cold, warm = (run_command(words, folder, cache) for folder in (first, second))
        return {**warm, "cold": cold["wall"], **describe_page(second)}


def describe_page(folder: Path) -> dict[str, float]:
    """The size of a report's page, and the seconds to make it, without the start of the program."""
    found: dict[str, float] = {}
    for page in folder.glob("*.html"):
        seconds = json.loads(page.with_name(f"{page.name}.record.json").read_text())["times"]
        found = {"kilobytes": page.stat().st_size / 1e3, "page_seconds": seconds["page"]}
    return found


def prepare_table(rows: int) -> Callable[[Path], None]:
    """A folder with one table."""
    return lambda folder: write_table(folder / "table.csv", rows, TABLES[rows])


def prepare_model(rows: int) -> Callable[[Path], None]:
    """A folder with a table and its quick model."""

    def prepare(folder: Path) -> None:
        write_table(folder / "table.csv", rows, TABLES[rows])
        fit = ["fit", "table.csv", "--target", "y", "--out", "table.twofold", "--quick"]
        run_command(fit, folder, folder / "programs")

    return prepare


def prepare_campaign(models: int, small: bool) -> Callable[[Path], None]:
    """A folder with a campaign of 40 results and this many calls of ``ask``."""

    def prepare(folder: Path) -> None:
        settings = {"inference": {"method": "ensemble", "updates": 20}} if small else {}
        campaign = Campaign.create(
            folder / "oven.db", [Continuous("x0", -1, 1)], ["y"], settings=settings
        )
        problem, rng = SMALL_PROBLEMS["wave"], np.random.default_rng(0)
        for _ in range(40):
            _measure(campaign, problem, rng)
        for _ in range(models):
            campaign.ask(1)
            _measure(campaign, problem, rng)

    return prepare


def _measure(campaign: Campaign, problem: Any, rng: np.random.Generator) -> None:
    x = rng.uniform(-1.0, 1.0, (1, 1))
    campaign.tell({"y": float(problem.sample_outputs(rng, x)[0])}, point={"x0": float(x[0, 0])})


def prepare_log(folder: Path) -> None:
    """A folder with a plant's log and a cost."""
    write_log(folder / "log.csv", LOG_ROWS)
    (folder / "cost.py").write_text(COST)


def list_commands(smoke: bool) -> dict[str, tuple[Callable[[Path], None], list[str]]]:
    """For each name in the record, the preparation of the folder, and the command."""
    found: dict[str, tuple[Callable[[Path], None], list[str]]] = {}
    settings = [word for one in SMALL for word in ("--setting", one)] if smoke else []
    for rows in list(TABLES)[: 1 if smoke else None]:
        for mode, words in MODES.items():
            fit = ["fit", "table.csv", "--target", "y", "--out", "table.twofold", "--json"]
            fit += settings if smoke else words
            found[f"fit/{rows}/{mode}"] = prepare_table(rows), fit
    found["suggest"] = prepare_model(120), ["suggest", "table.twofold"]
    found["report"] = prepare_campaign(1, smoke), ["report", "oven.db"]
    found["report_model"] = prepare_model(120 if smoke else 500), ["report", "table.twofold"]
    found["ask_first"] = prepare_campaign(0, smoke), ["campaign", "ask", "oven.db"]
    found["ask_later"] = prepare_campaign(1, smoke), ["campaign", "ask", "oven.db"]
    found["status"] = prepare_campaign(1, smoke), ["campaign", "status", "oven.db"]
    tell = ["campaign", "tell", "oven.db", "y=0.3", "x0=0.1"]
    found["tell"] = prepare_campaign(0, smoke), tell
    if not smoke:
        search = "policy search log.csv --observations level --action flow:0:2 --episode run"
        search += " --time minute --cost cost.py:cost --out tank --quick"
        found["policy_search_quick"] = prepare_log, search.split()
    return found


def run_campaign(name: str, seed: int, rounds: int, small: bool) -> dict[str, float]:
    """The information left after the random points and at the end, the error of the last model
    divided by that of one fitted to as many random points, and the ``agreement`` of the last model,
    whose chains continue those of an earlier one, with a model fitted from scratch."""
    problem, half, rng = SMALL_PROBLEMS[name], PROBLEMS[name], np.random.default_rng(seed)
    names = [f"x{i}" for i in range(problem.inputs)]
    settings: dict[str, Any] = {"random_state": seed}
    if small:
        settings |= {"inference": {"method": "ensemble", "updates": 20}}

    def draw(count: int) -> np.ndarray:
        return rng.uniform(-half, half, (count, problem.inputs))

    def tell(campaign: Campaign, x: np.ndarray) -> None:
        y = problem.sample_outputs(rng, x)
        for row, value in zip(x.tolist(), y.tolist(), strict=True):
            campaign.tell({"y": value}, point=dict(zip(names, row, strict=True)))

    grid = draw(GRID)
    with tempfile.TemporaryDirectory(prefix="twofold-campaign-") as place:
        inputs = [Continuous(one, -half, half) for one in names]
        chosen, plain = (
            Campaign.create(Path(place) / file, inputs, ["y"], settings=settings)
            for file in ("chosen.db", "plain.db")
        )
        tell(chosen, draw(FIRST))
        for _ in range(rounds):
            points = [one.point for one in chosen.ask(EACH)]
            tell(chosen, np.array([[point[one] for one in names] for point in points], float))
        chosen.ask(1)
        curve, warm = chosen.status().curve, chosen.model()
        shutil.copy(Path(place) / "chosen.db", Path(place) / "cold.db")
        cold = Campaign.open(Path(place) / "cold.db").model()
        agreement = compare_choices(warm, cold, grid)
        tell(plain, draw(FIRST + EACH * rounds))
        errors = [
            float(np.sqrt(np.mean(np.square(one.model().predict(grid) - problem.location(grid)))))
            for one in (chosen, plain)
        ]
    nats = [float(curve[place]["epistemic_nats"]) for place in (0, -1)]
    scores = {"first": nats[0], "last": nats[1], "over_random": errors[0] / errors[1]}
    return scores | {"agreement": agreement}


def compare_choices(warm: Any, cold: Any, grid: np.ndarray) -> float:
    """Information of one model's best point according to the other model, as a share of that of the
    other model's own best point."""
    nats = expected_information(cold, grid)
    return float(nats[np.argmax(expected_information(warm, grid))] / nats.max())


def add_command(record: Record, name: str, found: dict[str, Any]) -> None:
    """Record times, and the warnings and scores of a fit."""
    record.add(f"{name}/wall_seconds", found["wall"])
    record.add(f"{name}/cpu_seconds", found["cpu"])
    record.add(f"{name}/cold/wall_seconds", found["cold"])
    for part in ("kilobytes", "page_seconds"):
        if part in found:
            record.add(f"{name}/{part}", found[part])
    if name.startswith("fit/"):
        content = json.loads(found["out"])
        record.add(f"{name}/warnings", len(content["doubts"]) + found["said"].count("note:"))
        score = content["metrics"]["out-of-bag log-likelihood (nats)"]
        record.add(f"{name}/out_of_bag_log_likelihood", score)


def measure(smoke: bool, work: Path | None) -> Record:
    """All commands, then all campaigns; each is a job."""
    problems, seeds = (["wave"], SEEDS[:1]) if smoke else (list(PROBLEMS), SEEDS)
    rounds = 1 if smoke else ROUNDS
    record = Record("first_use", {"rounds": rounds, "first": FIRST, "each": EACH}, list(seeds))
    commands = list_commands(smoke)
    jobs = [Job(name, time_twice, own, {"name": name}) for name, own in commands.items()]
    for name, found in zip(commands, run_jobs(jobs, work), strict=True):
        add_command(record, name, found)
    places = [(name, seed) for name in problems for seed in seeds]
    jobs = [
        Job(f"{name}/{seed}", run_campaign, (name, seed, rounds, smoke), {"at": [name, seed]})
        for name, seed in places
    ]
    every = run_jobs(jobs, work)
    for name in problems:
        own = [one for (at, _), one in zip(places, every, strict=True) if at == name]
        record.add_mean(f"campaign/{name}/first_nats", [one["first"] for one in own])
        record.add_mean(f"campaign/{name}/last_nats", [one["last"] for one in own])
        record.add_mean(f"campaign/{name}/rmse_over_random", [one["over_random"] for one in own])
    falls = [one["last"] < one["first"] for one in every]
    record.add_mean("ask_later/agreement", [one["agreement"] for one in every])
    record.add("campaign/left_to_learn_falls", float(np.mean(falls)))
    ratio = float(np.exp(np.mean(np.log([one["over_random"] for one in every]))))
    record.add("campaign/rmse_over_random", ratio)
    return record


def main() -> None:
    """Parse the command line, measure, write the record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("results"))
    options = parser.parse_args()
    work = None if options.smoke else WORK / f"first_use-{commit()}"
    record = measure(options.smoke, work)
    print(f"wrote {record.write(options.output)}")
    if work is not None:
        shutil.rmtree(work)  # the next run measures again
    for name, value in record.metrics.items():
        print(f"{name:44s} {value:8.2f}")


if __name__ == "__main__":
    main()
