"""The frontiers of the three systems: ``results/<system>_frontier.json`` and their figures."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from paper import control_problems
from paper.control_problems import ControlProblem
from paper.frontier import (
    CAREFUL,
    MAIN,
    NEIGHBOUR,
    TRIALS,
    Group,
    Method,
    Trial,
    Trials,
    describe,
    finish_group,
    grid,
    group_folder,
    recorded_trials,
)
from paper.frontier_claims import at, claims, pairs, rank_correlations, regrets
from paper.frontier_figures import draw_figures
from paper.markdown import metrics
from paper.records import Context, Record
from twofold.core.jobs import Job, run_jobs
from twofold.plant.search import SearchSettings

BETAS = (0.0, 1.0, 2.0, 4.0, 8.0)
MEASURED = (
    "true_cost",
    "true_deviation",
    "predicted_cost",
    "epistemic_risk",
    "aleatoric_risk",
    "model_bias",
    "bias_by_start",
    "criterion_1",
    "criterion_2",
    "criterion_4",
)


class Frontier(NamedTuple):
    """An experiment: a system, the methods compared on it, and the γ that the paper found best."""

    name: str
    problem: Callable[[], ControlProblem]
    methods: tuple[Method, ...]
    seeds: tuple[int, ...]
    best_gamma: float
    trials: Trials = Trials()

    def members(self, *methods: str) -> list[tuple[Method, int]]:
        """The groups of some methods, or of all: each method with each of its seeds."""
        chosen = [one for one in self.methods if not methods or one.name in methods]
        return [(one, seed) for one in chosen for seed in one.seeds or self.seeds]


def _methods(
    sizes: dict[str, Any],
    settings: SearchSettings,
    gammas: Sequence[float],
    distances: Sequence[float],
    posteriors: Sequence[str],
    beginnings: int = 1,
    betas: Sequence[float] = BETAS,
    seeds: tuple[int, ...] | None = None,
) -> tuple[Method, ...]:
    """The paper's model with all weights, and some ``seeds``; other posteriors with γ = 0, and the
    baseline."""
    along = [(beta, 0.0) for beta in betas]
    mean_field = {"inference": "alpha", **sizes}
    ensemble = {"hidden_layer_sizes": sizes["hidden_layer_sizes"], "inference": "ensemble"}
    others = {
        "ensemble": ensemble,
        "alpha_0.5": {**mean_field, "alpha": 0.5},
        "variational": {**mean_field, "alpha": 1e-6},
    }
    one = {**ensemble, "latent_dim": 0, "members": 2}
    many = settings.weight_draws * settings.noise_draws * settings.starts
    alone = replace(settings, weight_draws=1, noise_draws=1, starts=max(1, many // 10))
    methods = [
        Method(MAIN, mean_field, grid(betas, gammas), settings, seeds=seeds),
        *(Method(name, others[name], along, settings) for name in posteriors),
        Method(NEIGHBOUR, one, [(beta, 0.0) for beta in distances], alone, distance=True),
    ]
    return tuple(method._replace(beginnings=beginnings) for method in methods)


INDUSTRIAL = Frontier(
    "industrial_frontier",
    control_problems.industrial,
    _methods(
        {
            "hidden_layer_sizes": (75, 75),
            "epochs": 600,
            "batch_size": 1200,
            "draws": 50,
            "learning_rate": 5e-3,
        },
        SearchSettings(100, 25, 5, 5, epochs=30, **CAREFUL),
        gammas=(0.0, 1.0, 4.0),
        distances=(0.0, 3.0, 10.0, 30.0, 100.0),
        posteriors=("ensemble", "alpha_0.5", "variational"),
        seeds=tuple(range(8)),
    ),
    seeds=(0, 1, 2),
    best_gamma=0.0,
)
QUICK = Frontier(
    "industrial_quick",
    control_problems.industrial_quick,
    _methods(
        {
            "hidden_layer_sizes": (50, 50),
            "epochs": 120,
            "batch_size": 1200,
            "draws": 25,
            "learning_rate": 5e-3,
        },
        SearchSettings(100, 20, 2, 2, epochs=15, **CAREFUL),
        gammas=(0.0,),
        distances=(0.0, 10.0, 100.0),
        posteriors=(),
    ),
    seeds=(0, 1),
    best_gamma=0.0,
)
RIVER = Frontier(
    "wet_chicken_frontier",
    control_problems.river,
    _methods(
        {"hidden_layer_sizes": (20, 20), "epochs": 600, "draws": 20},
        SearchSettings(25, 16, 5, 2, epochs=20, rounds=1, learning_rate=3e-3),
        gammas=(0.0, 1.0, 4.0),
        distances=(0.0, 0.3, 1.0, 3.0, 10.0),
        posteriors=("ensemble", "alpha_0.5", "variational"),
        beginnings=3,
    ),
    seeds=(0, 1, 2),
    best_gamma=0.0,
)
WIND = Frontier(
    "wind_frontier",
    control_problems.turbine,
    _methods(
        {
            "hidden_layer_sizes": (50, 50),
            "epochs": 300,
            "batch_size": 250,
            "draws": 50,
            "learning_rate": 5e-3,
        },
        SearchSettings(50, 16, 4, 1, epochs=15, rounds=1, learning_rate=3e-3),
        gammas=(0.0, 1.0, 7.5),
        distances=(0.0, 0.03, 0.1, 0.3, 1.0),
        posteriors=(),
        betas=(0.0, 2.0, 4.0, 8.0, 16.0),
    ),
    seeds=(0, 1, 2),
    best_gamma=7.5,
    trials=Trials(starts=100, repeats=20, weight_draws=50, noise_draws=10),
)
FRONTIERS = {frontier.name: frontier for frontier in (INDUSTRIAL, QUICK, RIVER, WIND)}


def shrink(frontier: Frontier) -> Frontier:
    """The frontier at the size of a smoke run."""
    quick = {"hidden_layer_sizes": (8,), "batch_size": 250}
    methods = []
    for method in frontier.methods[:1] + frontier.methods[-1:]:
        settings = replace(method.settings, horizon=5, epochs=1, updates=2, starts=2)
        brief = {"epochs": 2} if method.regressor["inference"] == "alpha" else {"updates": 20}
        regressor = {**method.regressor, **quick, **brief}
        methods.append(method._replace(regressor=regressor, settings=settings, seeds=None))

    def problem() -> ControlProblem:
        return replace(frontier.problem(), transitions=1000, length=100, horizon=5)

    trials = Trials(starts=4, repeats=3, weight_draws=3, noise_draws=2)
    return frontier._replace(problem=problem, methods=tuple(methods), seeds=(0, 1), trials=trials)


def retrace_paper(name: str, context: Context) -> Record:
    """``trace_frontier`` of the paper's model."""
    return trace_frontier(name, context, (MAIN,))


def trace_frontier(name: str, context: Context, chosen: Sequence[str] = ()) -> Record:
    """Complete the groups of a frontier, its record and its figures: those of all methods, or of
    the chosen ones, while the policies of others stay as they were recorded. Missing groups are
    jobs of the executor, or run here."""
    frontier = shrink(FRONTIERS[name]) if context.smoke else FRONTIERS[name]
    problem, work, output = frontier.problem(), context.work, context.output
    members = frontier.members(*chosen)
    if context.executor is not None:
        run_jobs(
            list_missing(name, frontier, members, context.smoke, work), executor=context.executor
        )
    groups = {
        (method.name, seed): finish_group(problem, method, seed, frontier.trials, work)
        for method, seed in members
    }
    record = metrics(name, context.folder_with(f"{name}.json")) if chosen else {}
    known = recorded_trials(record)
    renewed = {method.name for method, _ in members}
    recorded = [one for one in known if one.method not in renewed]
    trials = [*(trial for group in groups.values() for trial in group.trials), *recorded]
    main, seed = frontier.methods[0], frontier.seeds[0]
    policies = groups[main.name, seed].policies
    draw_figures(frontier.name, problem, main, seed, trials, policies, work, output)
    return compose_record(frontier, groups, trials)


def list_missing(
    name: str, frontier: Frontier, members: Sequence[tuple[Method, int]], smoke: bool, work: Path
) -> list[Job]:
    """One job per unfinished group, whose files are its result."""
    problem = frontier.problem()
    return [
        Job(
            f"{method.name}/{seed}",
            finish_job,
            (name, smoke, frontier.methods.index(method), seed, work.resolve()),
            {},
        )
        for method, seed in members
        if not (group_folder(problem, method, seed, work) / TRIALS).exists()
    ]


def finish_job(name: str, smoke: bool, number: int, seed: int, work: Path) -> None:
    """Complete the group of a method (by index) and a seed."""
    frontier = shrink(FRONTIERS[name]) if smoke else FRONTIERS[name]
    finish_group(frontier.problem(), frontier.methods[number], seed, frontier.trials, work)


def compose_record(
    frontier: Frontier, groups: dict[tuple[str, int], Group], trials: Sequence[Trial]
) -> Record:
    """The record: all policies, those of the groups and those recorded before, means over seeds,
    claims and rank correlations."""
    settings = {**_plain_settings(frontier), "made_by": _made_by(groups)}
    record = Record(frontier.name, settings, sorted({int(trial.seed) for trial in trials}))
    record.add("seconds", sum(group.seconds for group in groups.values()))
    for method in frontier.methods:
        of_method = [group for (name, _), group in groups.items() if name == method.name]
        if of_method:
            record.add_mean(
                f"{method.name}/test_log_likelihood", [group.log_likelihood for group in of_method]
            )
        for number, trial in enumerate(t for t in trials if t.method == method.name):
            for field in ("seed", "beta", "gamma", *MEASURED):
                if np.isfinite(getattr(trial, field)):
                    record.add(f"policies/{method.name}/{number}/{field}", getattr(trial, field))
        for beta, gamma in pairs(trials, method.name):
            chosen = at(trials, method.name, beta, gamma)
            for field in MEASURED:
                values = [getattr(trial, field) for trial in chosen]
                _add_finite(record, f"{method.name}/beta_{beta:g}/gamma_{gamma:g}/{field}", values)
    found = claims(trials, MAIN, NEIGHBOUR, frontier.best_gamma)
    judged = [trial for trial in trials if trial.method != NEIGHBOUR]
    found |= rank_correlations(judged) | regrets(judged)
    for name, value in found.items():
        if np.isfinite(value):
            record.add(name, value)
    for method in frontier.methods:
        if method.distance or not any(trial.method == method.name for trial in trials):
            continue
        for name, value in share_covered([t for t in trials if t.method == method.name]).items():
            record.add(f"{method.name}/{name}", value)
    return record


def _add_finite(record: Record, name: str, values: Sequence[float]) -> None:
    """The mean over seeds with finite roll-outs of the model, and the number of others."""
    known = [value for value in values if np.isfinite(value)]
    if len(known) > 1:
        record.add_mean(name, known)
    if len(known) < len(values):
        record.add(f"{name}/lost", len(values) - len(known))


def share_covered(trials: Sequence[Trial]) -> dict[str, float]:
    """The share of policies whose root bias is at most twice the epistemic risk.

    The bias is that of the mean over starts, the risk a mean over starts: a lenient measure.
    """
    within = [max(t.model_bias, 0.0) ** 0.5 <= 2.0 * t.epistemic_risk for t in trials]
    return {"bias_within_two_risks": float(np.mean(within))}


def _made_by(groups: dict[tuple[str, int], Group]) -> dict[str, dict[str, str]]:
    """Device and commit of each group, which may come from another machine or an earlier run."""
    return {f"{method}/{seed}": group.made_by for (method, seed), group in groups.items()}


def _plain_settings(frontier: Frontier) -> dict[str, Any]:
    problem = frontier.problem()
    return {m.name: describe(problem, m, frontier.trials) for m in frontier.methods}
