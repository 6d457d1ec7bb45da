"""``python -m paper NAME``: one command for each table and figure."""

import argparse
import sys
from pathlib import Path

from paper import runner, tables
from paper.records import join
from twofold.core.compilation import enable_compile_cache
from twofold.core.jobs import EXECUTORS

STOPPED = 130  # Ctrl-C, as shells have it


def main() -> None:
    """Parse the command line and run one experiment."""
    parser = argparse.ArgumentParser(prog="python -m paper", description=__doc__)
    names = ["tables", "join", *runner.FIGURES, *runner.names()]
    parser.add_argument("name", choices=names)
    parser.add_argument("records", nargs="*", type=Path, help="for join: records made elsewhere")
    parser.add_argument("--smoke", action="store_true", help="a rehearsal of a few seconds")
    parser.add_argument("--output", type=Path, help="folder for results (default: results)")
    parser.add_argument("--executor", choices=list(EXECUTORS), help="where to run jobs")
    arguments = parser.parse_args()
    if (arguments.name == "join") != bool(arguments.records):
        parser.error("join takes the paths of records, and nothing else does")
    enable_compile_cache()
    try:
        run(arguments)
    except KeyboardInterrupt as stopped:
        print(str(stopped) or "stopped", file=sys.stderr)
        raise SystemExit(STOPPED) from stopped


def run(arguments: argparse.Namespace) -> None:
    """What the command line asks for."""
    if arguments.name == "tables":
        for path in tables.run(Path()):
            print(f"renewed {path}")
    elif arguments.name == "join":
        for path in arguments.records:
            print(f"joined {join(path, arguments.output or Path('results'))}")
    elif arguments.name in runner.FIGURES:
        print(f"wrote {runner.FIGURES[arguments.name](arguments.output or Path('results'))}")
    else:
        made = runner.run(
            arguments.name, arguments.smoke, arguments.output, executor=arguments.executor
        )
        for file in made.files:
            print(f"wrote {file}")
        for metric, value in made.metrics.items():
            print(f"{metric:60s} {value:.4f}")


if __name__ == "__main__":
    main()
