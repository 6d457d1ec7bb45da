"""``twofold policy``: from a log and a cost to policies with known risks."""

import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from twofold.commands.policy_input import (
    PolicyError,
    action_after,
    bounds,
    function_at,
    numbers,
    regressor_of,
    search_settings,
    transform,
    words,
)
from twofold.compilation import enable_compile_cache
from twofold.estimators.training import NonFiniteEnergyError
from twofold.logs import embed, read_table
from twofold.persistence import FileFormatError
from twofold.policies import ProjectError, find_policies, load_policy, open_project
from twofold.policies.project import Project, Stopped
from twofold.policies.summary import REPORT, advice, rows

app = typer.Typer(help="Policies from a log and a cost, with their risks.")

STOPPED = 130
FUNCTION = "FILE.py:FUNCTION"
PolicyFile = Annotated[Path, typer.Argument(help="A file *.policy of a search.")]


@app.command(name="search")
def search_command(
    log: Annotated[Path, typer.Argument(help="A CSV or Parquet file, a row for each time step.")],
    observations: Annotated[str, typer.Option(help="Columns that are seen: a,b,c")],
    action: Annotated[list[str], typer.Option(help="NAME:LOW:HIGH of a column that is set.")],
    cost: Annotated[str, typer.Option(help=f"{FUNCTION}, the cost of a row.")],
    out: Annotated[Path, typer.Option(help="A new folder, or one that is to go on.")],
    episode: Annotated[str | None, typer.Option(help="Column of rows that go together.")] = None,
    time: Annotated[str | None, typer.Option(help="Column of times.")] = None,
    history: Annotated[int, typer.Option(help="Rows that the model looks back over.")] = 1,
    known: Annotated[str | None, typer.Option(help=f"{FUNCTION}, what need not be learnt.")] = None,
    held: Annotated[list[str] | None, typer.Option(help="Column that keeps its value.")] = None,
    seen_as: Annotated[
        list[str] | None, typer.Option("--transform", help="NAME=log1p, logit or log1p_logit.")
    ] = None,
    missing: Annotated[list[str] | None, typer.Option(help="Word for no value.")] = None,
    mend: Annotated[str, typer.Option(help="What may be done: sort,drop_missing, …")] = "",
    beta: Annotated[str, typer.Option(help="Weights of the epistemic risk.")] = "0,1,2,4",
    gamma: Annotated[str, typer.Option(help="Weights of the aleatoric risk.")] = "0",
    horizon: Annotated[int, typer.Option(help="Steps that policies look ahead.")] = 50,
    setting: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE of the search, such as epochs=50.")
    ] = None,
    model: Annotated[
        list[str] | None, typer.Option(help="NAME=VALUE of the model, such as epochs=2000.")
    ] = None,
    seed: Annotated[int, typer.Option(help="The same seed gives the same policies.")] = 0,
) -> None:
    """Fit a model, judge it, find policies for a grid of risk weights, and write a report.

    Example: twofold policy search tank.csv --observations temperature,heater --action valve:0:1
    --cost tank.py:cost --episode run --time time --history 6 --out tank
    """
    with _sentences():
        costs = function_at("cost", cost)
        part = None if known is None else function_at("known", known)
        pairs = [(b, g) for g in numbers("gamma", gamma) for b in numbers("beta", beta)]
        settings, regressor = search_settings(horizon, setting or []), regressor_of(model or [])
        mending: dict[str, Any] = dict.fromkeys(words(mend), True)
        found = read_table(
            log,
            observations=words(observations),
            actions=dict(map(bounds, action)),
            episode=episode,
            time=time,
            missing=missing or [],
            history=history,
            **mending,
        )
        kinds = dict(map(transform, seen_as or []))
        embedding = embed(found, history=history, held=held or [], transforms=kinds, known=part)
        enable_compile_cache()
        project = find_policies(
            found,
            costs,
            out,
            embedding=embedding,
            regressor=regressor,
            weights=pairs,
            settings=settings,
            random_state=seed,
        )
        show(project)


@app.command()
def report(folder: Annotated[Path, typer.Argument(help="The folder of a search.")]) -> None:
    """Show what was found, and write the report again; nothing is fitted.

    Example: twofold policy report tank
    """
    with _sentences():
        project = open_project(folder)
        project.write_report()
        show(project)


@app.command()
def act(
    file: PolicyFile,
    recent: Annotated[Path, typer.Argument(help="A table that ends with the newest row.")],
    as_json: Annotated[bool, typer.Option("--json", help="One line of JSON.")] = False,
) -> None:
    """The action after the last rows of a table; what is set in the very last row does not count.

    Example: twofold policy act tank/policies/beta-2_gamma-0.policy recent.csv
    """
    with _sentences():
        policy = load_policy(file)
        found = action_after(policy, recent)
    if as_json:
        print(json.dumps(dict(zip(policy.embedding.actions, found.tolist(), strict=True))))
        return
    table = Table("action", "value", "from", "to")
    ends = zip(policy.shape.low, policy.shape.high, strict=True)
    for name, value, (low, high) in zip(policy.embedding.actions, found, ends, strict=True):
        table.add_row(name, f"{value:.6g}", f"{low:g}", f"{high:g}")
    Console().print(table)


@app.command()
def export(
    file: PolicyFile, out: Annotated[Path, typer.Argument(help="The ONNX file to write.")]
) -> None:
    """Write a policy for a computer that has onnxruntime and not twofold.

    Example: twofold policy export tank/policies/beta-2_gamma-0.policy tank.onnx
    """
    with _sentences():
        load_policy(file).export_onnx(out)
    print(f"wrote {out}")


def show(project: Project) -> None:
    """The table of policies, and the advice."""
    head, *body = rows(project.trials)
    table = Table(*head)
    for row in body:
        table.add_row(*row)
    Console().print(table)
    print(*advice(project.quality, project.trials, project.logged_cost), sep="\n")
    print(f"wrote {project.folder / REPORT}")


@contextmanager
def _sentences() -> Iterator[None]:
    """Mistakes as ``PolicyError``; what Ctrl-C leaves as a sentence too."""
    mistakes = ProjectError, FileFormatError, NonFiniteEnergyError, OSError, ImportError
    try:
        yield
    except Stopped as stopped:
        print(f"twofold: {stopped}", file=sys.stderr)
        raise typer.Exit(STOPPED) from stopped
    except mistakes as error:
        raise PolicyError(str(error)) from error
