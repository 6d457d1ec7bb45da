"""``python -m twofold.experiments NAME``: one command for each table and figure."""

import argparse
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from twofold.compilation import enable_compile_cache
from twofold.experiments import (
    alpha_vs_hmc,
    batch_choice,
    calibration,
    contest,
    contest_figure,
    demo,
    entropy_estimators,
    frontiers,
    industrial_original,
    off_manifold,
    random_batch,
    systems,
    table1,
    table1_curves,
    tables,
    toy_figures,
    toy_fit,
    uci,
    wet_chicken_map,
)
from twofold.experiments.records import Record, commit, join

RECORDED: dict[str, Callable[[bool, Path], Record]] = {
    "toy_fit": toy_fit.run,
    "uci": uci.run,
    "uci_default": uci.run_default,
    "entropy_estimators": entropy_estimators.run,
    "alpha_vs_hmc": alpha_vs_hmc.run,
    "posteriors": contest.run,
    "off_manifold": off_manifold.run,
    "systems": systems.run,
    "systems_speed": systems.run_speed,
    "systems_original": industrial_original.run,
    "batch_choice": batch_choice.run,
    "industrial_direct": random_batch.run_direct,
}

# What a run leaves of the record that it shares with other commands.
KEPT: dict[str, Callable[[str], bool]] = {
    "uci": lambda metric: uci.DEFAULT in metric,
    "uci_default": lambda metric: uci.DEFAULT not in metric,
    "posteriors": lambda metric: "/seconds_" in metric,
    "systems": lambda metric: "/steps_per_second/" in metric or "/original/" in metric,
    "systems_speed": lambda metric: True,
    "industrial_direct": lambda metric: not metric.startswith("direct/"),
    "industrial_random_batch": lambda metric: metric.startswith("direct/"),
    "systems_original": lambda metric: True,
}

# Drawn from records and curves that are there.
FIGURES: dict[str, Callable[[Path], Path]] = {
    "posteriors_figure": contest_figure.run,
    "table1_figure": table1_curves.draw,
    "river": systems.draw_river,
}

DRAWN: dict[str, Callable[[bool, Path, Path], Record]] = {
    "figure_3": wet_chicken_map.run,
    "calibration": calibration.run,
    "table1": table1.run,
    "table1_record": table1.compose,
    "industrial_random_batch": random_batch.run,
    **{name: partial(frontiers.run, name) for name in frontiers.FRONTIERS},
}


def main() -> None:
    """Parse the command line and run one experiment."""
    parser = argparse.ArgumentParser(prog="python -m twofold.experiments", description=__doc__)
    names = ["demo", "tables", "join", *FIGURES]
    names += [*RECORDED, *DRAWN, *table1.ADVANCES, *toy_figures.FIGURES]
    parser.add_argument("name", choices=names)
    parser.add_argument("records", nargs="*", type=Path, help="for join: records made elsewhere")
    parser.add_argument("--smoke", action="store_true", help="a rehearsal of a few seconds")
    parser.add_argument("--output", type=Path, help="folder for results (default: see below)")
    parser.epilog = "Default folders: demo-output for the demo, results for records and figures."
    arguments = parser.parse_args()
    if (arguments.name == "join") != bool(arguments.records):
        parser.error("join takes the paths of records, and nothing else does")
    enable_compile_cache()
    if arguments.name == "demo":
        demo.run(arguments.smoke, arguments.output or Path("demo-output"))
    elif arguments.name == "tables":
        for path in tables.run(Path()):
            print(f"renewed {path}")
    elif arguments.name == "join":
        for path in arguments.records:
            print(f"joined {join(path, arguments.output or Path('results'))}")
    elif arguments.name in FIGURES:
        print(f"wrote {FIGURES[arguments.name](arguments.output or Path('results'))}")
    else:
        run(arguments.name, arguments.smoke, arguments.output)


def run(name: str, smoke: bool, output: Path | None) -> None:
    """Run an experiment that leaves a record or figures; unfinished work waits in ``.cache``."""
    work = Path(tempfile.mkdtemp()) if smoke else Path(".cache/experiments") / _folder(name)
    work.mkdir(parents=True, exist_ok=True)
    output = output or (work if smoke else Path("results"))
    if name in toy_figures.FIGURES:
        for path in toy_figures.run(name, smoke, work, output):
            print(f"wrote {path}")
        return
    if name in table1.ADVANCES:
        table1.ADVANCES[name](smoke, work)
        print(f"{name} is done; its course lies in {work}, and table1 makes the record")
        return
    record = DRAWN[name](smoke, work, output) if name in DRAWN else RECORDED[name](smoke, work)
    kept = KEPT.get(name, lambda metric: False)
    print(f"wrote {record.merge(output, kept)}")
    for metric, value in record.metrics.items():
        print(f"{metric:60s} {value:.4f}")


def _folder(name: str) -> str:
    """Of one version of the source; long runs that are made in pieces outlive it."""
    if name.startswith("table1"):
        return "table1"
    in_pieces = {*frontiers.FRONTIERS, "industrial_random_batch"}
    return "frontiers" if name in in_pieces else commit()


if __name__ == "__main__":
    main()
