"""``twofold reproduce``: the paper's tables and figures, and what goes beyond them."""

from pathlib import Path
from typing import Annotated

import typer

from twofold.commands.errors import CommandError
from twofold.commands.executor import ExecutorName, chosen
from twofold.commands.output import AsJson, show_json, show_table
from twofold.commands.run import Run
from twofold.experiments.catalogue import PIECES
from twofold.naming import nearest

LIST = "list"


def known(incomplete: str) -> list[str]:
    """Names for the shell to complete."""
    return [name for name in (LIST, *PIECES) if name.startswith(incomplete)]


def reproduce(
    ctx: typer.Context,
    name: Annotated[
        str, typer.Argument(help="A table or figure, or list.", autocompletion=known)
    ] = LIST,
    smoke: Annotated[bool, typer.Option(help="A rehearsal of seconds to minutes.")] = False,
    resume: Annotated[
        bool, typer.Option(help="Go on with work that an earlier run has left.")
    ] = True,
    output: Annotated[
        Path | None, typer.Option(help="Folder for records and figures (default: results).")
    ] = None,
    executor: ExecutorName = None,
    as_json: AsJson = False,
) -> None:
    """Make a table or figure of the paper anew; its record says how it came about.

    A full run takes minutes to hours; what is done of it is kept in .cache/experiments, and the
    same command goes on with it.

    Example: twofold reproduce figure_1 --smoke
    """
    if name == LIST:
        _list(as_json)
        return
    if name not in PIECES:
        names = [LIST, *PIECES]
        raise CommandError(
            f"there is no table or figure {name!r}; twofold reproduce list shows those there are"
            f"{nearest(name, names)}"
        )
    from twofold.compilation import enable_compile_cache
    from twofold.experiments import runner

    enable_compile_cache()
    run = Run(ctx)
    found = runner.run(PIECES[name].experiment, smoke, output, resume, chosen(executor))
    if not found.metrics:  # a figure has no record of its own
        run.write(found.files[0])
    if as_json:
        show_json({"files": found.files, "metrics": found.metrics})
        return
    for file in found.files:
        print(f"wrote {file}")
    for metric, value in found.metrics.items():
        print(f"{metric:60s} {value:.4f}")


def _list(as_json: bool) -> None:
    if as_json:
        show_json({name: piece._asdict() for name, piece in PIECES.items()})
        return
    rows = [[name, piece.place, piece.shows] for name, piece in PIECES.items()]
    show_table(["name", "in the paper", "shows"], rows)
