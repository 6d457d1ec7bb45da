"""``python -m twofold.experiments NAME``: one command for each table and figure."""

import argparse
from pathlib import Path

from twofold.compilation import enable_compile_cache
from twofold.experiments import demo, tables, toy_fit, uci
from twofold.experiments.records import commit

RECORDED = {"toy_fit": toy_fit.run, "uci": uci.run}


def main() -> None:
    """Parse the command line and run one experiment."""
    parser = argparse.ArgumentParser(prog="python -m twofold.experiments", description=__doc__)
    parser.add_argument("name", choices=["demo", "tables", *RECORDED])
    parser.add_argument("--smoke", action="store_true", help="a rehearsal of a few seconds")
    parser.add_argument("--output", type=Path, help="folder for results (default: see below)")
    parser.epilog = "Default folders: demo-output for the demo, results for records."
    arguments = parser.parse_args()
    enable_compile_cache()
    if arguments.name == "demo":
        demo.run(arguments.smoke, arguments.output or Path("demo-output"))
    elif arguments.name == "tables":
        for path in tables.run(Path()):
            print(f"renewed {path}")
    else:
        work = Path(".cache/experiments") / ("smoke" if arguments.smoke else commit())
        work.mkdir(parents=True, exist_ok=True)
        record = RECORDED[arguments.name](arguments.smoke, work)
        default = work if arguments.smoke else Path("results")
        print(f"wrote {record.write(arguments.output or default)}")
        for name, value in record.metrics.items():
            print(f"{name:60s} {value:.4f}")


if __name__ == "__main__":
    main()
