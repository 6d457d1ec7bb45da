"""One command for each table and figure of the paper, and for further experiments."""

import argparse
import json
import sys
from pathlib import Path

from paper.pieces import PIECES
from twofold.core.naming import nearest
from twofold.core.persistence import to_plain

STOPPED = 130  # exit code for Ctrl-C, as in shells
COMMANDS = {
    "list": "list all tables and figures",
    "tables": "update the tables in README and docs from results/",
    "join": "merge records made elsewhere into records of the same name in results/",
}


def build_parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m paper",
        description=__doc__,
        epilog="Commands: " + "; ".join(f"{name}: {text}" for name, text in COMMANDS.items()),
    )
    parser.add_argument(
        "name", nargs="?", default="list", help="name of a table or figure (see list), or a command"
    )
    parser.add_argument("records", nargs="*", type=Path, help="for join: paths of records")
    parser.add_argument("--smoke", action="store_true", help="a tiny run of a few seconds")
    parser.add_argument(
        "--resume",
        action=argparse.BooleanOptionalAction,
        default=True,
        help="resume the unfinished work of an earlier run",
    )
    parser.add_argument(
        "--output", type=Path, help="folder for records and figures (default: results)"
    )
    parser.add_argument("--executor", help="where to run jobs: local (default) or ray")
    parser.add_argument("--json", action="store_true", help="print the result as JSON")
    return parser


def main() -> None:
    """Parse the command line and run it."""
    parser = build_parser()
    arguments = parser.parse_args()
    known = [*COMMANDS, *PIECES]
    if arguments.name not in known:
        parser.error(
            f"there is no table or figure {arguments.name!r}; python -m paper list shows all"
            f"{nearest(arguments.name, known)}"
        )
    if (arguments.name == "join") != bool(arguments.records):
        parser.error("join needs paths of records; no other command takes paths")
    try:
        execute(arguments)
    except KeyboardInterrupt as stopped:
        print(str(stopped) or "stopped", file=sys.stderr)
        raise SystemExit(STOPPED) from stopped
    except (ValueError, OSError, ImportError) as error:
        raise SystemExit(f"paper: {error}") from error


def execute(arguments: argparse.Namespace) -> None:
    """Run a command, or make a table or figure."""
    if arguments.name == "list":
        show_pieces(arguments.json)
    elif arguments.name == "tables":
        from paper.tables import renew_tables

        for path in renew_tables(Path()):
            print(f"updated {path}")
    elif arguments.name == "join":
        from paper.records import join

        for path in arguments.records:
            print(f"joined {join(path, arguments.output or Path('results'))}")
    else:
        make(arguments)


def make(arguments: argparse.Namespace) -> None:
    """Make a table or figure and print its files and metrics."""
    from paper.runner import make_piece
    from twofold.core.sharding import enable_compile_cache

    enable_compile_cache()
    made = make_piece(
        arguments.name, arguments.smoke, arguments.output, arguments.resume, arguments.executor
    )
    if arguments.json:
        print(json.dumps(to_plain(made._asdict()), indent=2))
        return
    for file in made.files:
        print(f"wrote {file}")
    for metric, value in made.metrics.items():
        print(f"{metric:60s} {value:.4f}")


def show_pieces(as_json: bool) -> None:
    """Print the list of tables and figures, as text or JSON."""
    if as_json:
        print(json.dumps({name: piece._asdict() for name, piece in PIECES.items()}, indent=2))
        return
    width = max(map(len, PIECES))
    for name, piece in PIECES.items():
        print(f"{name:{width}s}  {piece.place:16s}  {piece.shows}")


if __name__ == "__main__":
    main()
