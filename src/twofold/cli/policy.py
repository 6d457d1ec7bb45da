"""``twofold policy``: from a log and a cost to policies with known risks."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from twofold.cli.config import Config
from twofold.cli.errors import CommandError
from twofold.cli.output import AsJson, show_json, show_table
from twofold.cli.run import Run

if TYPE_CHECKING:
    from twofold.plant.project import Project

app = typer.Typer(help="Policies from a log and a cost, with their risks.", no_args_is_help=True)

FUNCTION = "FILE.py:FUNCTION"
PolicyFile = Annotated[Path, typer.Argument(help="A file *.policy of a search.")]


@app.command(name="search")
def search_command(
    ctx: typer.Context,
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
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Fit a model, judge it, find policies for a grid of risk weights, and write a report.

    Example: twofold policy search tank.csv --observations temperature,heater --action valve:0:1
    --cost tank.py:cost --episode run --time time --history 6 --out tank
    """
    from twofold.cli.policy_input import bounds, function_at, numbers, search_settings, transform
    from twofold.cli.settings import regressor_of, words
    from twofold.core.compilation import enable_compile_cache
    from twofold.plant.embedding import embed
    from twofold.plant.log_files import read_log
    from twofold.plant.project import find_policies, planning_regressor
    from twofold.report import write_policy_report

    run = Run(ctx, seed)
    with _sentences():
        costs = function_at("cost", cost)
        part = None if known is None else function_at("known", known)
        pairs = [(b, g) for g in numbers("gamma", gamma) for b in numbers("beta", beta)]
        settings = search_settings(horizon, setting or [])
        regressor = regressor_of(model or [], "model", planning_regressor())
        mending: dict[str, Any] = dict.fromkeys(words(mend), True)
        found = read_log(
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
        run.reads(log)
        enable_compile_cache()
        with run.timed("search"):
            project = find_policies(
                found,
                costs,
                out,
                embedding=embedding,
                regressor=regressor,
                risk_weights=pairs,
                settings=settings,
                random_state=seed,
            )
        write_policy_report(project)
        run.metrics |= metrics_of(project)
        run.write(out)
        show(project, as_json)


@app.command()
def report(
    folder: Annotated[Path, typer.Argument(help="The folder of a search.")],
    as_json: AsJson = False,
) -> None:
    """Show what was found, and write the report again; nothing is fitted.

    Example: twofold policy report tank
    """
    from twofold.plant.project import open_project
    from twofold.report import write_policy_report

    with _sentences():
        project = open_project(folder)
        write_policy_report(project)
        show(project, as_json)


@app.command()
def act(
    file: PolicyFile,
    recent: Annotated[Path, typer.Argument(help="A table that ends with the newest row.")],
    as_json: AsJson = False,
) -> None:
    """The action after the last rows of a table; what is set in the very last row does not count.

    Example: twofold policy act tank/policies/beta-2_gamma-0.policy recent.csv
    """
    from twofold.cli.policy_input import action_after
    from twofold.plant.policy import load_policy

    with _sentences():
        policy = load_policy(file)
        found = action_after(policy, recent)
    names = policy.embedding.actions
    if as_json:
        show_json(dict(zip(names, found.tolist(), strict=True)))
        return
    ends = zip(policy.shape.low, policy.shape.high, strict=True)
    rows = [
        [name, f"{value:.6g}", f"{low:g}", f"{high:g}"]
        for name, value, (low, high) in zip(names, found, ends, strict=True)
    ]
    show_table(["action", "value", "from", "to"], rows)


@app.command()
def export(
    file: PolicyFile, out: Annotated[Path, typer.Argument(help="The ONNX file to write.")]
) -> None:
    """Write a policy for a computer that has onnxruntime and not twofold.

    Example: twofold policy export tank/policies/beta-2_gamma-0.policy tank.onnx
    """
    from twofold.plant.policy import load_policy

    with _sentences():
        load_policy(file).export_onnx(out)
    print(f"wrote {out}")


def metrics_of(project: "Project") -> dict[str, float]:
    """What the model says of each policy, as flat numbers."""
    parts = "cost", "epistemic_risk", "aleatoric_risk", "careful_cost", "share_beyond"
    found = {"logged_cost": float(project.logged_cost)}
    for one in project.trials:
        beta, gamma = one.risk_weights
        found |= {f"beta_{beta:g}/gamma_{gamma:g}/{part}": getattr(one, part) for part in parts}
    return found


def show(project: "Project", as_json: bool) -> None:
    """The table of policies, and the advice."""
    from twofold.plant.summary import advice, recommend, rows
    from twofold.report.policy_page import PAGE, REPORT

    sentences = advice(project.doubts, project.trials, project.logged_cost)
    if as_json:
        best = project.trials[recommend(project.trials)]
        show_json(
            {
                "folder": project.folder,
                "recommended": dict(zip(("beta", "gamma"), best.risk_weights, strict=True)),
                "advice": sentences,
                "doubts": [str(doubt) for doubt in project.doubts],
                "metrics": metrics_of(project),
            }
        )
        return
    head, *body = rows(project.trials)
    show_table(head, body)
    print(*sentences, sep="\n")
    print(f"wrote {project.folder / REPORT} and {project.folder / PAGE}")


@contextmanager
def _sentences() -> Iterator[None]:
    """Mistakes as sentences."""
    from twofold.core.persistence import FileFormatError
    from twofold.core.resume import OtherRunError
    from twofold.estimators.training import NonFiniteEnergyError
    from twofold.plant.project import ProjectError

    mistakes = (
        ProjectError,
        OtherRunError,
        FileFormatError,
        NonFiniteEnergyError,
        OSError,
        ImportError,
    )
    try:
        yield
    except mistakes as error:
        raise CommandError(str(error)) from error
