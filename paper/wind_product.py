"""The wind turbine with the library's defaults: from a log to a recommended policy.

The paper's model keeps the wind at its last value. Here the wind is an exogenous column, replayed
from the log, and all else is what ``policy search --quick`` does: the model is tuned on roll-outs,
actions change no faster than in the log, and the present controller is kept if no policy is
expected to help. ``over_neutral`` is the gain of a policy over neutral offsets in unseen winds, in
rated power, over whole episodes; it is 0 if the present controller is kept.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from paper.control_problems import ControlProblem, turbine
from paper.markdown import markdown, mean_and_error, metrics
from paper.records import Context, Record, commit, device
from paper.selection import BETAS, find_quickly
from paper.truth import costs_from, warm_up
from twofold.core import persistence
from twofold.envs.system import constant
from twofold.envs.wind import task as wind
from twofold.plant.policy import LearnedPolicy
from twofold.plant.project import Project, open_project
from twofold.plant.recommendation import find_best

WIND = "wind (m/s)"
PARTS = "/without_abstaining", "/best"
WIND_STREAM, NOISE_STREAM = 40_000, 50_000
BEFORE = 10  # seconds at the neutral action before a policy begins, in addition to those of a reset


class Case(NamedTuple):
    """A log, and the number of test winds; ``place`` is the prefix of its metrics."""

    name: str
    place: str
    transitions: int
    exploration: float
    seeds: tuple[int, ...]
    horizon: int = 50
    winds: int = 200


CASES = (
    Case("paper", "", 5_000, 0.15, (0, 1, 2, 3, 4)),
    Case("large", "large_log/", 40_000, 0.4, (0, 1, 2)),
)


class Found(NamedTuple):
    """Results of one log: gains of all policies over neutral offsets, the best one by the model,
    whether it is recommended, and its expected saving."""

    gains: list[float]
    best: int
    recommended: bool
    saving: float
    saving_risk: float
    replay_bias: float
    tuned: bool
    made_by: dict[str, str]

    @property
    def over_neutral(self) -> float:
        """Gain of following the recommendation."""
        return self.gains[self.best] if self.recommended else 0.0


def measure_product(context: Context) -> Record:
    """Run both cases with all seeds."""
    cases = tuple(map(_shrink, CASES)) if context.smoke else CASES
    found = [[find_case(case, seed, context) for seed in case.seeds] for case in cases]
    settings = {
        case.name: {
            **case._asdict(),
            "betas": BETAS,
            "made_by": [one.made_by for one in every],
        }
        for case, every in zip(cases, found, strict=True)
    }
    record = Record("wind_frontier", {"product": settings}, list(cases[0].seeds))
    for case, every in zip(cases, found, strict=True):
        add_case(record, case, every)
    return record


def add_case(record: Record, case: Case, found: Sequence[Found]) -> None:
    """Add means over the logs of a case."""
    record.add_mean(f"{case.place}over_neutral", [one.over_neutral for one in found])
    record.add(f"{case.place}abstained/share", np.mean([not one.recommended for one in found]))
    followed = [one.gains[one.best] for one in found]
    record.add_mean(f"{case.place}over_neutral/without_abstaining", followed)
    record.add_mean(f"{case.place}over_neutral/best", [max(one.gains) for one in found])
    for name in ("saving", "saving_risk", "replay_bias", "tuned"):
        values = [float(getattr(one, name)) for one in found]
        record.add_mean(f"{case.place}product/{name}", values)


def tabulate_product(results: Path) -> str:
    """Gains of the recommendations for both cases."""
    values, rows = metrics("wind_frontier", results), list[list[str]]()
    measured = [case for case in CASES if f"{case.place}abstained/share" in values]
    if not measured:
        return markdown(["not measured yet"], [])
    for case in measured:
        gain, share = f"{case.place}over_neutral", values[f"{case.place}abstained/share"]
        shown = [mean_and_error(values, f"{gain}{part}", 4) for part in ("", *PARTS)]
        label = f"{case.transitions:,} transitions, exploration {case.exploration:g}"
        rows.append([label, shown[0], f"{share:.0%}", *shown[1:]])
    headings = [
        "log",
        "recommended",
        "controller kept",
        "lowest risk-adjusted cost",
        "best of four",
    ]
    return markdown(headings, rows)


def _shrink(case: Case) -> Case:
    """The case at the size of a smoke run."""
    return case._replace(transitions=1_000, seeds=(0, 1), horizon=5, winds=4)


def product_problem(case: Case) -> ControlProblem:
    """The paper's problem with the case's log, and the wind as an exogenous column."""
    problem = turbine()
    behaviour = wind.behaviour(wind.Params(exploration=case.exploration))
    embed = partial(problem.embed, held=(), exogenous=[WIND])
    return replace(problem, behaviour=behaviour, transitions=case.transitions, embed=embed)


def find_case(case: Case, seed: int, context: Context) -> Found:
    """Find policies for one log and evaluate them; read from files if they exist."""
    folder = context.work / f"{case.name}-{seed}"
    path = folder / "found.json"
    if path.exists():
        known = json.loads(path.read_text())
        return describe(open_project(folder / "policies"), **known)
    problem = product_problem(case)
    log, place = problem.batch(seed), folder / "policies"
    project = find_quickly(problem, case.horizon, log, place, seed, context.smoke)
    gains = gains_over_neutral(problem, project.policies, seed, case.winds)
    known = {"gains": gains, "made_by": {"device": device(), "commit": commit()}}
    persistence.write_text(path, json.dumps(known))
    return describe(project, **known)


def describe(project: Project, gains: list[float], made_by: dict[str, str]) -> Found:
    """The gains of a project's policies, and its recommendation."""
    number = find_best(project.trials)
    best = project.trials[number]
    return Found(
        gains,
        number,
        project.recommended is not None,
        best.saving,
        best.saving_risk,
        project.quality.multi_step.replay_bias,
        bool(project.tuning and project.tuning.kept),
        made_by,
    )


def gains_over_neutral(
    problem: ControlProblem, policies: Any, seed: int, winds: int
) -> list[float]:
    """Mean cost per second of neutral offsets minus that of each policy, in the same winds."""
    system, first = problem.system, policies[0]
    neutral, key = constant(np.zeros(2)), jax.random.key(seed + WIND_STREAM)
    starts = warm_up(key, system, neutral, BEFORE, first.history, winds)
    keys = jax.random.split(jax.random.key(seed + NOISE_STREAM), (winds, 1))

    def cost(policy: LearnedPolicy, scale: float = 1.0) -> float:
        weights, units = policy.leaves
        leaves = scale * weights, units
        parts = system.step, system.observe, system.cost
        own = policy.embedding, policy.shape, problem.horizon, leaves, starts, keys
        return float(np.asarray(costs_from(parts, *own), float).mean())

    idle = cost(first, 0.0)  # with zero weights it acts in the middle of its bounds
    return [idle - cost(policy) for policy in policies]
