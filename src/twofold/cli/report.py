"""``twofold report``: one HTML page about a model, a campaign or a search for policies."""

from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import numpy as np
import typer
from typer import Argument, Option

from twofold.cli import models
from twofold.cli.rows import find_tables, is_large, split_rows
from twofold.cli.run import Run
from twofold.cli.serve import Show, name_campaign
from twofold.cli.terminal import CommandError, check_place, print_note
from twofold.tables import read_table
from twofold.tables.table import disk_errors

SQLITE = b"SQLite format 3\0"


def report(
    run: Run,
    subject: Annotated[str, Argument(help="Model or campaign file, or folder of a policy search.")],
    out: Annotated[Path | None, Option(help="HTML file (default: beside the subject).")] = None,
    data: Annotated[Path | None, Option(help="Table of the model, if moved.")] = None,
    show: Show = False,
) -> None:
    """Write one self-contained HTML page about a model, a campaign or a search for policies.

    Example: twofold report oven.twofold
    """
    kind = kind_of(subject)
    page = out or default_place(subject, kind)
    check_place(page, (".html",), [Path(subject), data, run.config])
    if data is not None and kind != "model":
        raise CommandError(f"--data is for models only, but {subject} is a {kind}")
    with run.timed("page"):
        if kind == "model":
            _write_model_page(page, Path(subject), data, run)
        elif kind == "campaign":
            from twofold.campaign import Campaign
            from twofold.report import write_campaign_page

            write_campaign_page(page, Campaign.open(subject), f"Campaign {name_campaign(subject)}")
        else:
            from twofold.plant.project import open_project
            from twofold.report import write_policy_page

            write_policy_page(page, open_project(subject))
    run.show({"page": page, "kind": kind, "record": run.write(page)}, f"wrote {page}")
    if show:
        typer.launch(page.resolve().as_uri())


def kind_of(subject: str) -> str:
    """The kind of a path or database URL: model, campaign or policy search."""
    if "://" in subject:
        return "campaign"
    path = Path(subject)
    if path.is_dir():
        return "search"
    with disk_errors(path, "read"), path.open("rb") as file:
        return "campaign" if file.read(len(SQLITE)) == SQLITE else "model"


def default_place(subject: str, kind: str) -> Path:
    """``report.html`` in a folder, a file beside a file; for a URL, in the current folder."""
    if "://" in subject:
        return Path(f"{Path(urlsplit(subject).path).stem or 'campaign'}.html")
    path = Path(subject)
    return path / "report.html" if kind == "search" else path.with_name(path.name + ".html")


def _write_model_page(page: Path, path: Path, data: Path | None, run: Run) -> None:
    from twofold.report import write_model_page

    run.reads(path)
    model, about = models.load_model(path)
    if not about.tables:
        raise CommandError(
            f"{path} does not store which table it was fitted to; fit it with twofold fit, or call "
            "twofold.report.write_model_page from Python"
        )
    paths = find_tables(path, about) if data is None else [data]
    for table in filter(is_large, paths):
        raise CommandError(
            f"a page needs all rows in memory, and {table} is a folder or too large; give a part "
            "of it with --data FILE"
        )
    if data is not None and run.reads(data) not in dict(about.tables).values():
        print_note(f"{data} differs from the table that {path} was fitted to")
    tables = [read_table(table) for table in paths]
    train, test = split_rows(tables, about)
    held_out = None if test is None else (test.x, test.y, test.error)
    names = [name for table in tables for name in table.places(np.arange(len(table)))]
    write_model_page(
        page, model, train.x, train.y, inputs=about.features, outputs=about.outputs,
        held_out=held_out, title=f"{', '.join(about.outputs)}, from {about.tables[0][0]}",
        rows=[names[place] for place in train.places], columns=about.columns,
        y_error=train.error, verdict=about.verdict,
    )  # fmt: skip
