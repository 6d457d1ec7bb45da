"""``twofold policy``: from a log and a cost to policies with known risks."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer import Argument, Option

from twofold.cli import terminal
from twofold.cli.fit import DateOrder, Seed, Text, Texts
from twofold.cli.run import Run, verb
from twofold.cli.terminal import CommandError, parse_settings, to_table

if TYPE_CHECKING:
    from twofold.estimators.regressor import BNNLVRegressor
    from twofold.plant.log import Window
    from twofold.plant.policy import LearnedPolicy
    from twofold.plant.project import Project
    from twofold.plant.search import SearchSettings

app = typer.Typer(help="Find policies from a log and a cost function.", no_args_is_help=True)

FUNCTION = "FILE.py:FUNCTION"
RATE = "Largest change of an action per step: NAME=VALUE, or none (default: as in the log)"
LIMIT = "Limits of an observation: NAME:LOW:HIGH; -inf or inf for none"
BETAS, QUICK_BETAS = "0,1,2,4,8,30", "0,2,8,30"
QUICK_SEARCH = {"epochs": 8, "weight_draws": 10}
QUICK_DRAWS, QUICK_EPOCHS, QUICK_UPDATES = 10, 20, 15_000
QUICK_TUNING = dict[str, Any](draws=16, trial_draws=4, horizons=(10,), stretches=8, epochs=4)
# Without an explicit number of passes, a model is fitted to at most this many rows: about an hour
# on two cores.
MOST_ROWS = 1_500_000
PolicyFile = Annotated[Path, Argument(help="Policy file (*.policy) of a search.")]


@verb(app)
def search(
    run: Run,
    log: Annotated[Path, Argument(help="CSV or Parquet file with a row per time step.")],
    observations: Annotated[str, Option(help="Observed columns: a,b,c")],
    action: Annotated[list[str], Option(help="Action column with bounds: NAME:LOW:HIGH")],
    cost: Annotated[str, Option(help=f"Cost of a row: {FUNCTION}")],
    out: Annotated[Path, Option(help="Output folder; an existing one is resumed.")],
    episode: Annotated[Text, Option(help="Column that identifies the episode of a row.")] = None,
    time: Annotated[Text, Option(help="Time column.")] = None,
    date_order: DateOrder = None,
    history: Annotated[int, Option(help="Number of past rows the model sees.")] = 1,
    known: Annotated[Text, Option(help=f"Known dynamics: {FUNCTION}")] = None,
    held: Annotated[Texts, Option(help="Column kept at its last value in roll-outs.")] = None,
    exogenous: Annotated[Text, Option(help="Columns that no action influences: a,b")] = None,
    max_rate: Annotated[Texts, Option(help=RATE)] = None,
    limit: Annotated[Texts, Option(help=LIMIT)] = None,
    transform: Annotated[
        Texts, Option(help="Transform of a column: NAME=log1p, logit or log1p_logit")
    ] = None,
    missing: Annotated[Texts, Option(help="Marker for missing values.")] = None,
    mend: Annotated[Texts, Option(help="Repairs to allow: sort,drop_missing, …")] = None,
    beta: Annotated[Text, Option(help=f"Weights of the epistemic risk (default: {BETAS}).")] = None,
    gamma: Annotated[str, Option(help="Weights of the aleatoric risk.")] = "0",
    horizon: Annotated[int, Option(help="Number of steps to plan ahead.")] = 50,
    setting: Annotated[Texts, Option(help="Search setting, such as epochs=50")] = None,
    model: Annotated[Texts, Option(help="Model setting, such as epochs=2000")] = None,
    tune: Annotated[bool, Option(help="Tune the model on roll-outs, where that helps.")] = True,
    quick: Annotated[
        bool, Option("--quick", help="Short fit and search, for a first answer.")
    ] = False,
    seed: Seed = 0,
) -> None:
    """Fit a model, evaluate it, search policies for a grid of risk weights, and write a report.

    Example: twofold policy search tank.csv --observations temperature,heater --action valve:0:1
    --cost tank.py:cost --episode run --time time --history 6 --out tank
    """
    from twofold.plant.cost import keep_within
    from twofold.plant.embedding import embed
    from twofold.plant.log_files import read_log
    from twofold.plant.project import find_policies, planning_regressor
    from twofold.plant.tuning import TuningSettings
    from twofold.report.policy_page import write_policy_report

    cost_function = terminal.load_function("cost", cost)
    dynamics = None if known is None else terminal.load_function("known", known)
    betas = terminal.parse_numbers("beta", beta or (QUICK_BETAS if quick else BETAS))
    gammas = terminal.parse_numbers("gamma", gamma)
    settings = build_search_settings(horizon, setting or [], QUICK_SEARCH if quick else {})
    names, bounds = terminal.split_words(observations), dict(map(terminal.parse_bounds, action))
    repairs: dict[str, Any] = dict.fromkeys(terminal.split_words(",".join(mend or [])), True)
    episodes = read_log(
        log, observations=names, actions=bounds, episode=episode, time=time,
        date_order=date_order, missing=missing or [], history=history, **repairs,
    )  # fmt: skip
    base = planning_regressor(episodes.transitions)
    if quick:
        batch_size = base.get_params()["inference__batch_size"]
        passes = QUICK_UPDATES * batch_size // episodes.transitions
        base.set_params(inference__draws=QUICK_DRAWS, inference__epochs=max(QUICK_EPOCHS, passes))
    regressor = terminal.build_regressor(model or [], "model", base)
    _check_size(episodes.transitions, regressor)
    transforms = terminal.parse_pairs(transform or [])
    embedding = embed(
        episodes, history=history, held=held or [], transforms=transforms, known=dynamics,
        exogenous=terminal.split_words(exogenous or ""),
    )  # fmt: skip
    limits = dict(terminal.parse_bounds(text, "limit") for text in limit or [])
    cost_function = keep_within(cost_function, episodes, limits)
    if quick and passes >= QUICK_EPOCHS:
        terminal.print_message("a first answer takes one to two minutes on two cores")
    run.reads(log)
    with run.timed("search"):
        project = find_policies(
            episodes, cost_function, out, embedding=embedding, regressor=regressor,
            risk_weights=[(b, g) for g in gammas for b in betas], settings=settings,
            random_state=seed, max_rate=parse_rates(max_rate or []),
            tuning=TuningSettings(**QUICK_TUNING if quick else {}) if tune else None,
        )  # fmt: skip
    write_policy_report(project)
    run.metrics |= list_metrics(project)
    run.write(out)
    show_project(project, run)


@verb(app)
def report(run: Run, folder: Annotated[Path, Argument(help="Output folder of a search.")]) -> None:
    """Show the policies of a search and write its report again; nothing is fitted.

    Example: twofold policy report tank
    """
    from twofold.plant.project import open_project
    from twofold.report.policy_page import write_policy_report

    project = open_project(folder)
    write_policy_report(project)
    show_project(project, run)


@verb(app)
def act(
    run: Run,
    file: PolicyFile,
    recent: Annotated[Path, Argument(help="Table of recent rows, the newest last.")],
) -> None:
    """Show the action of a policy after the last rows of a table; actions in the last row are
    ignored.

    Example: twofold policy act tank/policies/beta-2_gamma-0.policy recent.csv
    """
    from twofold.plant.policy import load_policy

    policy = load_policy(file)
    window = read_window(policy, recent)
    try:
        action = policy.act(*window)
    except ValueError as error:
        raise CommandError(f"{recent}: {error}") from error
    names = policy.embedding.actions
    cells = zip(names, action, policy.shape.low, policy.shape.high, strict=True)
    rows = [[name, f"{value:.6g}", f"{low:g}", f"{high:g}"] for name, value, low, high in cells]
    content = dict(zip(names, action.tolist(), strict=True))
    run.show(content, to_table(["action", "value", "low", "high"], rows))


@verb(app)
def export(
    run: Run, file: PolicyFile, out: Annotated[Path, Argument(help="ONNX file to write.")]
) -> None:
    """Export a policy to ONNX, for computers with onnxruntime and without twofold.

    Example: twofold policy export tank/policies/beta-2_gamma-0.policy tank.onnx
    """
    from twofold.plant.policy import load_policy

    load_policy(file).export_onnx(out)
    run.show({"file": out}, f"wrote {out}")


def _check_size(rows: int, regressor: "BNNLVRegressor") -> None:
    """Refuse logs that would take days to fit."""
    from twofold.inference.method import MIN_EPOCHS

    if getattr(regressor.inference, "epochs", 0) is None and rows > MOST_ROWS:
        passes = max(1, MIN_EPOCHS * MOST_ROWS // rows)
        raise CommandError(
            f"the log has {rows:,} rows, too many for the default of {MIN_EPOCHS} passes over the "
            f"data (at most {MOST_ROWS:,} rows); set --model epochs={passes}, or write every "
            f"{-(-rows // MOST_ROWS)}th row to another file"
        )


def parse_rates(texts: list[str]) -> dict[str, float] | None:
    """Rates from ``NAME=VALUE``; None means those of the log, an empty mapping no limits."""
    if texts == ["none"]:
        return {}
    try:
        return {name: float(value) for name, value in terminal.parse_pairs(texts).items()} or None
    except ValueError as error:
        raise CommandError(f"--max-rate takes NAME=VALUE, or none: {error}") from error


def build_search_settings(
    horizon: int, texts: list[str], base: Mapping[str, Any] = {}
) -> "SearchSettings":
    """Settings of the search, with ``NAME=VALUE`` replacing those of ``base``."""
    from dataclasses import fields

    from twofold.plant.search import SearchSettings

    settings = parse_settings(texts)
    names = [field.name for field in fields(SearchSettings) if field.name != "horizon"]
    terminal.check_names("--setting", settings, names)
    return SearchSettings(horizon=horizon, **{**base, **settings})


def read_window(policy: "LearnedPolicy", path: Path) -> "Window":
    """The last rows of a table as input of a policy; unused columns may be absent."""
    import numpy as np

    from twofold.plant.log import Window
    from twofold.plant.log_files import read_raw_log

    embedding, history = policy.embedding, policy.history
    used = [n for n, lags in zip(embedding.observations, embedding.lags, strict=True) if lags]
    ends = zip(embedding.actions, policy.shape.low, policy.shape.high, strict=True)
    actions = {name: (low, high) for name, low, high in ends} if policy.sees_actions else {}
    raw = read_raw_log(path, observations=used, actions=actions)
    if len(raw) < history:
        raise CommandError(f"the policy needs the last {history} rows, {path} has {len(raw)}")
    for name, texts in raw.texts.items():
        for text in texts.values():
            raise CommandError(f"{path}: {name!r} must be numbers, got {text!r}")
    absent = np.full(len(raw), np.nan)
    columns = [raw.values.get(name, absent) for name in embedding.observations]
    past = [raw.values[name][:-1] for name in embedding.actions] if actions else None
    return Window(np.stack(columns, axis=1), None if past is None else np.stack(past, axis=1))


def list_metrics(project: "Project") -> dict[str, float]:
    """The model's estimates for each policy, as a flat mapping."""
    parts = "cost", "epistemic_risk", "aleatoric_risk", "careful_cost", "share_beyond"
    metrics = {"logged_cost": float(project.logged_cost)}
    for trial in project.trials:
        name = "beta_{:g}/gamma_{:g}".format(*trial.risk_weights)
        metrics |= {f"{name}/{part}": getattr(trial, part) for part in parts}
    return metrics


def show_project(project: "Project", run: Run) -> None:
    from dataclasses import asdict

    from twofold.plant.recommendation import frontier_rows
    from twofold.report.policy_page import FRONTIER, PAGE

    first, *sentences = project.advice
    best = project.recommended
    weights = None if best is None else dict(zip(("beta", "gamma"), best.risk_weights, strict=True))
    content = {
        "headline": first,
        "folder": project.folder,
        "recommended": weights,
        "advice": [first, *sentences],
        "doubts": [str(doubt) for doubt in project.doubts],
        "tuning": project.tuning and asdict(project.tuning),
        "metrics": list_metrics(project),
    }
    head, *body = frontier_rows(project.trials)
    wrote = f"wrote {project.folder / PAGE} and {project.folder / FRONTIER}"
    tuned = [str(project.tuning)] if project.tuning else []
    run.show(content, first, to_table(head, body), *sentences, *tuned, wrote)
