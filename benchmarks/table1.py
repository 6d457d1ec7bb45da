"""How long Table 1 takes on this machine: a round of each block of networks, timed and scaled up.

    python benchmarks/table1.py

A fit of a fiftieth of a round's updates is timed after one that compiles; what a round does beside
that (choosing, and scoring every fifth time) is timed as it is. Writes a record,
``results/bench_table1.json``,
keeping what other devices have written there.
"""

import argparse
import time
import warnings
from pathlib import Path

import jax

from paper import table_1
from paper.learning import choose, fit_networks
from paper.learning_problems import LEARNING_PROBLEMS
from paper.records import Record
from twofold.core.sharding import enable_compile_cache

SHARE = 50


def seconds_of_a_round(part: table_1.Part) -> float:
    """Fitting, choosing and scoring for all arms, the fits scaled up."""
    updates, settings = part.training
    fit = fit_networks(part.arms, part.size, updates // SHARE, settings)
    problems = [LEARNING_PROBLEMS[arm.problem] for arm in part.arms]
    data = [problem.initial(arm.seed) for problem, arm in zip(problems, part.arms, strict=True)]
    fit(0, data)
    started = time.perf_counter()
    models = fit(0, data)
    fitting = SHARE * (time.perf_counter() - started)
    arm, problem, model = part.arms[0], problems[0], models[0]
    pool, test = problem.pool(arm.seed, 0, part.size.pool), problem.test(arm.seed)
    for _ in range(2):
        started = time.perf_counter()
        choose(arm.method, model, pool, part.size.taken, 0)
        choosing = time.perf_counter() - started
        started = time.perf_counter()
        model.log_likelihood(*test)
        scoring = time.perf_counter() - started
    return fitting + len(part.arms) * (choosing + scoring / part.size.scored)


def main() -> None:
    """Time every part and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")
    enable_compile_cache()
    platform = jax.devices()[0].platform
    record = Record("bench_table1", {"share_of_a_fit_timed": 1 / SHARE}, table_1.SEEDS)
    for part in table_1.list_parts(smoke=False):
        if part.training is not None and part.block != "together":
            seconds = seconds_of_a_round(part)
            place = f"{platform}/{part.block}/{part.group}"
            record.add(f"{place}/seconds_per_round", seconds)
            record.add(f"{place}/hours", seconds * (part.size.rounds + 1) / 3600)
            print(f"{place}: {seconds:.1f} s a round", flush=True)
    path = record.merge(arguments.output, lambda name: not name.startswith(f"{platform}/"))
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
