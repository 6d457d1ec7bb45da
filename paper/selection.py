"""Is the recommended policy the right one? Offline selection compared with the truth.

On each task ``twofold policy search --quick`` finds policies for a grid of β from one log, and
recommends one of them or none. All of them and the logged controller are then evaluated on the true
system, from the same starts. The *regret* of a rule is the true cost of its choice above that of
the best one, as a share of the logged controller's cost. Rules: the product's recommendation;
the lowest predicted cost; the lowest cost by fitted Q evaluation, or the logged controller if the
log cost less. The *replay bias* is as in ``dynamics``.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import numpy as np

from paper.control_problems import ControlProblem
from paper.dynamics import score_replay
from paper.fitted_q import evaluate_by_q
from paper.frontier import LUCK_STREAM, START_STREAM
from paper.markdown import markdown, metrics
from paper.records import Context, Record, commit, device
from paper.selection_tasks import NOISY_TASKS, TASKS, Task
from paper.truth import logged_costs, true_costs
from twofold.cli.policy import (
    QUICK_BETAS,
    QUICK_DRAWS,
    QUICK_EPOCHS,
    QUICK_SEARCH,
    QUICK_TUNING,
    QUICK_UPDATES,
)
from twofold.core import persistence
from twofold.plant.cost import cost_of
from twofold.plant.log import Log
from twofold.plant.project import Project, find_policies, open_project, planning_regressor
from twofold.plant.rollout import DynamicsModel
from twofold.plant.search import SearchSettings
from twofold.plant.tuning import TuningSettings

NAME = "selection"
BETAS = tuple(map(float, QUICK_BETAS.split(",")))
PASSAGES = 500
RULES = "regret", "lowest_predicted_regret", "fqe_regret"


def judge_noisy_tasks(context: Context) -> Record:
    """``judge_selection`` of the tasks where good policies leave the data."""
    return judge_selection(context, NOISY_TASKS)


def judge_selection(context: Context, chosen: Sequence[str] = tuple(TASKS)) -> Record:
    """Run all missing seeds of the chosen tasks, and write the record."""
    tasks = {name: TASKS[name] for name in chosen}
    tasks = {name: shrink(task) for name, task in tasks.items()} if context.smoke else tasks
    results: dict[str, list[dict[str, Any]]] = {}
    for name, task in tasks.items():
        for seed in task.seeds:
            one = finish_task(task, seed, context.work / NAME / f"{name}-{seed}", context.smoke)
            results.setdefault(name, []).append(one)
    made_by = {
        name: [{key: one[key] for key in ("device", "commit")} for one in runs]
        for name, runs in results.items()
    }
    seeds = sorted({seed for task in tasks.values() for seed in task.seeds})
    record = Record(NAME, {"betas": list(BETAS), "made_by": made_by}, seeds)
    for name, of_seeds in results.items():
        add_task(record, name, of_seeds)
    return record


def shrink(task: Task) -> Task:
    """The task at the size of a smoke run."""
    problem = replace(task.problem(), transitions=400, length=40, horizon=5)
    return Task(lambda: problem, horizon=5, seeds=(0,), starts=4, repeats=2)


def finish_task(task: Task, seed: int, folder: Path, smoke: bool) -> dict[str, Any]:
    """A log, its policies and their true costs, read from a file if it exists."""
    path = folder / "found.json"
    if not path.exists():
        problem = task.problem()
        log = problem.batch(seed)
        project = find_quickly(problem, task.horizon, log, folder, seed, smoke)
        result = {
            "betas": [policy.epistemic_weight for policy in project.policies],
            **try_all(task, problem, project, seed),
            **score_offline(problem, log, project, seed, 5 if smoke else PASSAGES),
        }
        persistence.write_text(path, json.dumps(persistence.to_plain(result), indent=1))
    return json.loads(path.read_text()) | {"recommended": index_recommended(open_project(folder))}


def index_recommended(project: Project) -> int | None:
    """Index of the recommended policy, None for the present controller."""
    weights = [policy.risk_weights for policy in project.policies]
    recommended = project.recommended
    return None if recommended is None else weights.index(recommended.risk_weights)


def find_quickly(
    problem: ControlProblem, horizon: int, log: Log, folder: Path, seed: int, smoke: bool
) -> Project:
    """The same search as ``policy search --quick``."""
    regressor = planning_regressor(log.transitions)
    updates = 10 if smoke else QUICK_UPDATES
    passes = updates * regressor.get_params()["inference__batch_size"] // log.transitions
    epochs = max(1 if smoke else QUICK_EPOCHS, passes)
    regressor.set_params(inference__draws=QUICK_DRAWS, inference__epochs=epochs)
    brief: dict[str, Any] = {"epochs": 1, "updates": 2} if smoke else {}
    return find_policies(
        log,
        problem.cost,
        folder,
        embedding=problem.embed(log),
        regressor=regressor,
        risk_weights=[(beta, 0.0) for beta in BETAS],
        settings=SearchSettings(horizon=horizon, **{**QUICK_SEARCH, **brief}),
        tuning=TuningSettings(**{**QUICK_TUNING, **brief}),
        random_state=seed,
    )


def try_all(task: Task, problem: ControlProblem, project: Project, seed: int) -> dict[str, Any]:
    """True costs per step of all policies and of the logged controller."""
    starts = problem.starts(jax.random.key(seed + START_STREAM), task.starts)
    luck = jax.random.key(seed + LUCK_STREAM)
    fixed = starts, problem.horizon, task.repeats
    true = [
        float(true_costs(luck, problem.system, policy, *fixed).mean())
        for policy in project.policies
    ]
    logged = float(logged_costs(luck, problem.system, problem.behaviour, *fixed).mean())
    return {"true": true, "logged": logged, "device": device(), "commit": commit()}


def score_offline(
    problem: ControlProblem, log: Log, project: Project, seed: int, passages: int
) -> dict[str, Any]:
    """The results of the model, the recommendation and fitted Q evaluation, from the log alone."""
    policies, horizon = project.policies, project.trials[0].expected.shape[0]
    model = DynamicsModel(project.regressor, problem.embed(log), problem.cost, log)
    replay = score_replay(problem, model, seed, passages, horizon)
    return {
        "predicted": [trial.cost for trial in project.trials],
        "risk": [trial.epistemic_risk for trial in project.trials],
        "beyond": [trial.share_beyond for trial in project.trials],
        "in_log": project.logged_cost,
        "tuned": bool(project.tuning and project.tuning.kept),
        "seen_bias": project.quality.multi_step.replay_bias,
        "by_q": evaluate_by_q(log, cost_of(problem.cost, log), policies, horizon, seed).tolist(),
        "replay_bias": replay["bias"],
    }


def choices(result: dict[str, Any]) -> dict[str, int | None]:
    """The choice of each rule: the index of a policy, or None for the logged controller."""
    predicted, by_q = (
        np.nan_to_num(np.array(result[name], float), nan=np.inf) for name in ("predicted", "by_q")
    )
    best = int(np.argmin(by_q))
    return {
        "regret": result["recommended"],
        "lowest_predicted_regret": int(np.argmin(predicted)),
        "fqe_regret": best if by_q[best] < result["in_log"] else None,
    }


def costs_of_choices(result: dict[str, Any]) -> dict[str, float]:
    """The true cost of each rule's choice."""
    costs = *result["true"], result["logged"]
    return {name: costs[-1 if one is None else one] for name, one in choices(result).items()}


def regrets(result: dict[str, Any]) -> dict[str, float]:
    """The regret of each rule, as a share of the logged controller's cost."""
    best = min(*result["true"], result["logged"])
    return {
        name: (cost - best) / abs(result["logged"])
        for name, cost in costs_of_choices(result).items()
    }


def add_task(record: Record, name: str, results: Sequence[dict[str, Any]]) -> None:
    """Add means over seeds to the record."""
    record.add(f"{name}/seeds", len(results))
    record.add_means(name, [regrets(one) for one in results])
    bias = [one["replay_bias"] for one in results]
    record.add(f"{name}/replay_bias", sum(map(abs, bias)) / len(bias))
    record.add_mean(f"{name}/signed_replay_bias", bias)
    kept = [one["recommended"] is None for one in results]
    record.add(f"{name}/abstained", sum(kept) / len(kept))
    record.add(f"{name}/tuned", sum(one["tuned"] for one in results) / len(results))
    record.add_mean(f"{name}/logged_cost", [one["logged"] for one in results])
    record.add_mean(
        f"{name}/cost/recommended", [costs_of_choices(one)["regret"] for one in results]
    )
    record.add_mean(f"{name}/cost/best", [min(*one["true"], one["logged"]) for one in results])
    for beta in BETAS:
        for field in ("true", "predicted", "risk", "beyond", "by_q"):
            found = [one[field][one["betas"].index(beta)] for one in results]
            values = [np.nan if value is None else value for value in found]
            if np.isfinite(values).all():
                record.add_mean(f"{name}/beta_{beta:g}/{field}", values)


def tabulate_regrets(results: Path) -> str:
    """The regret of each rule, and the replay bias of the model."""
    values = metrics(NAME, results)
    rows = []
    for name in TASKS:
        means = [f"{name}/{kind}/mean" for kind in ("logged_cost", "cost/best", "cost/recommended")]
        costs = [f"{values[mean]:.3g}" for mean in means]
        shares = [f"{values[f'{name}/{rule}/mean']:.1%}" for rule in RULES]
        kept, bias = values[f"{name}/abstained"], values[f"{name}/replay_bias"]
        label = f"{name.replace('_', ' ')} ({values[f'{name}/seeds']:.0f})"
        rows.append([label, *costs, *shares, f"{kept:.0%}", f"{bias:.3f}"])
    titles = ["logged cost", "best", "recommended", "regret", "of the lowest predicted cost"]
    titles += ["of fitted Q evaluation", "controller kept", "replay bias"]
    return markdown(["task (logs)", *titles], rows)
