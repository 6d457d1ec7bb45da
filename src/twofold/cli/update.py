"""``twofold update``: new rows for a model that was fitted before."""

from pathlib import Path
from typing import Annotated

import numpy as np
from typer import Argument, Option

from twofold.cli import fitting, models
from twofold.cli.fit import Force, ModelFile, check_model_place, finish
from twofold.cli.rows import find_tables, read_all, read_rows
from twofold.cli.run import Run
from twofold.cli.terminal import CommandError, print_message, print_note
from twofold.tables import Table, read_table


def update(
    run: Run,
    model: ModelFile,
    data: Annotated[Path, Argument(help="Table of the new rows, or of old and new ones.")],
    out: Annotated[Path | None, Option(help="Model file to write (default: the same).")] = None,
    old: Annotated[Path | None, Option("--data", help="The model's table, if moved.")] = None,
    force: Force = False,
) -> None:
    """Add new rows to a fitted model, with the settings it was fitted with.

    Chains are continued, unless rows are held out; other methods are fitted from scratch. The
    model's table is looked up beside the model and in the current folder, unless the new table
    contains its rows.

    Example: twofold update oven.twofold new.csv
    """
    place = out or model
    check_model_place(place, [data, old, run.config])
    run.reads(model)
    fitted, about = models.load_model(model)
    if not about.tables or about.streamed:
        raise CommandError(
            f"{model} was not fitted by twofold fit to a table in memory; fit it again to all rows"
        )
    source = data.name, run.reads(data)
    if source[1] in [digest for _, digest in about.tables]:
        raise CommandError(f"{model} was fitted to {data} already: it holds no new rows")
    old_tables = [] if old is None else [old]
    try:
        old_tables = old_tables or find_tables(model, about)
    except CommandError:
        if source[0] not in dict(about.tables):
            raise
        print_note(f"assuming that {source[0]} contains the rows the model was fitted to")
    tables, about = _join(about, old_tables, data, source, run)
    if place != model:
        run.protect(place, force)
    checkpoint = place.with_name(place.name + ".checkpoint")
    fitted.set_params(warm_start=not about.held_out, checkpoint=checkpoint)
    result = fitting.fit_in_memory(fitted, tables, about, run)
    fitted.set_params(warm_start=False)
    finish(run, place, fitted, result, [])


def _join(
    about: models.About, old: list[Path], data: Path, source: tuple[str, str], run: Run
) -> tuple[list[Table], models.About]:
    """The tables to fit to, and their description; the new one alone if it has the old rows."""
    new = read_table(data)
    if not old:
        return [new], about._replace(tables=[source])
    tables = [read_table(path) for path in old]
    before, rows = read_all(tables, about).x, read_rows(new, about).x
    known, count = [(path.name, run.reads(path)) for path in old], len(before)
    contained = len(rows) >= count and np.array_equal(rows[:count], before)
    print_message(f"{len(rows) - count * contained} new rows, {count} before")
    if contained:
        return [new], about._replace(tables=[source])
    return [*tables, new], about._replace(tables=[*known, source])
