"""``twofold report``: one HTML page about a model, a campaign or a search for policies."""

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

from twofold.cli import models
from twofold.cli.run import Run
from twofold.cli.terminal import CommandError, check_place, name_unreadable, say

SQLITE = b"SQLite format 3\0"


def report(
    run: Run,
    subject: Annotated[str, Argument(help="Model or campaign file, or folder of a policy search.")],
    out: Annotated[Path | None, Option(help="HTML file (default: beside the subject).")] = None,
    data: Annotated[Path | None, Option(help="Table of the model, if it was moved.")] = None,
    show: Annotated[bool, Option("--open", help="Open the page in the browser.")] = False,
) -> None:
    """Write one self-contained HTML page about a model, a campaign or a search for policies.

    Example: twofold report oven.twofold
    """
    from twofold.campaign import Campaign
    from twofold.plant import open_project
    from twofold.report import write_campaign_page, write_policy_page

    kind = kind_of(subject)
    page = out or default_place(subject, kind)
    check_place(page, (".html",), [Path(subject), data, run.config])
    if data is not None and kind != "model":
        raise CommandError(f"--data goes with a model, and {subject} is a {kind}")
    with run.timed("page"):
        if kind == "model":
            _write_model_page(page, Path(subject), data, run)
        elif kind == "campaign":
            write_campaign_page(page, Campaign.open(subject))
        else:
            write_policy_page(page, open_project(subject))
    run.show({"page": page, "kind": kind, "record": run.write(page)}, f"wrote {page}")
    if show:
        typer.launch(page.resolve().as_uri())


def kind_of(subject: str) -> str:
    """What a path or database URL holds."""
    if "://" in subject:
        return "campaign"
    path = Path(subject)
    if path.is_dir():
        return "search"
    with name_unreadable(path), path.open("rb") as file:
        return "campaign" if file.read(len(SQLITE)) == SQLITE else "model"


def default_place(subject: str, kind: str) -> Path:
    """``report.html`` in a folder, else a file beside the subject, with its name."""
    if "://" in subject:
        raise CommandError("a campaign in a database needs --out FILE.html")
    path = Path(subject)
    return path / "report.html" if kind == "search" else path.with_name(path.name + ".html")


def _write_model_page(page: Path, path: Path, data: Path | None, run: Run) -> None:
    from twofold.report import write_model_page
    from twofold.tables import read_table

    run.reads(path)
    model, about = models.load_model(path)
    if about is None:
        raise CommandError(
            f"{path} does not store which table it was fitted to; fit it with twofold fit, or call "
            "twofold.report.write_model_page from Python"
        )
    table = data or Path(about.source)
    part = "; give a part of it with --data FILE"
    if table.is_dir():
        raise CommandError(f"a page needs one file with all rows, and {table} is a folder{part}")
    if not table.is_file():
        raise CommandError(f"the table {table} does not exist; give its new place with --data FILE")
    if models.is_large(table):
        raise CommandError(f"a page needs all rows in memory, and {table} is too large{part}")
    if run.reads(table) != about.sha256:
        say(f"note: {table} differs from the table that {path} was fitted to")
    rows = read_table(table)
    train, test = models.read_rows(rows, about)
    held_out = None if test is None else (test.x, test.y)
    write_model_page(
        page, model, train.x, train.y, inputs=about.inputs, outputs=about.outputs,
        held_out=held_out, title=f"{', '.join(about.outputs)}, from {Path(about.source).name}",
        rows=rows.places(train.places),
    )  # fmt: skip
