"""Figures of a frontier: 4 and 5 of the paper, and predictions of models against the truth."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jax
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy.stats import rankdata

from paper.control_problems import ControlProblem
from paper.frontier import (
    LUCK_STREAM,
    MAIN,
    NEIGHBOUR,
    START_STREAM,
    Method,
    Trial,
    build_model,
    fit_model,
)
from paper.frontier_claims import CAREFUL, at, common_seeds, curves_of, mean_of, pairs
from paper.frontier_tables import METHODS
from paper.truth import Starts, true_costs
from twofold.plant.forecast import forecast
from twofold.plant.policy import LearnedPolicy
from twofold.plant.rollout import MODEL
from twofold.report.figures import ALEATORIC, CHOSEN, DATA, EPISTEMIC, style

SHOWN_ROLLOUTS = 100
SAID = {
    ("predicted epistemic risk (rank)", "true model bias (rank)"): ("epistemic_risk", "model_bias"),
    ("predicted cost (rank)", "true cost (rank)"): ("predicted_cost", "true_cost"),
    ("J with β = 1 (rank)", "true cost (rank)"): ("criterion_1", "true_cost"),
}


def draw_figures(
    name: str,
    problem: ControlProblem,
    method: Method,
    seed: int,
    trials: Sequence[Trial],
    policies: Sequence[LearnedPolicy],
    work: Path,
    output: Path,
) -> None:
    """All figures, beside the record; ``policies`` are those of the method and the seed."""
    curves = {
        title.replace("_", " ", 1)
        .replace("gamma ", "γ = ")
        .replace("beta is_gamma", "β = γ"): curve
        for title, curve in curves_of(trials, MAIN).items()
    }
    curves["nearest neighbour"] = (NEIGHBOUR, pairs(trials, NEIGHBOUR))
    lines = {
        title: [_point(trials, m, pair) for pair in curve] for title, (m, curve) in curves.items()
    }
    stem = name.removesuffix("_frontier")
    panels = _rollouts(problem, method, seed, policies, work)
    with style():
        figures = {
            "frontier": frontier_figure(lines, stem.replace("_", "-")),
            "rollouts": rollout_figure(panels),
            "scores": score_figure(_said_and_came(trials)),
        }
        for title, figure in figures.items():
            figure.savefig(output / f"{stem}_{title}.png", dpi=110)


def _said_and_came(trials: Sequence[Trial]) -> dict[tuple[str, str], dict[str, Any]]:
    """Ranks of policies within their model and seed, from 0 (lowest) to 1."""
    names = [name for name in dict.fromkeys(t.method for t in trials) if name != NEIGHBOUR]
    return {
        titles: {METHODS[name]: _ranks(trials, name, *fields) for name in names}
        for titles, fields in SAID.items()
    }


def _ranks(trials: Sequence[Trial], method: str, said: str, came: str) -> tuple[Any, Any]:
    """Ranks of the policies that have both quantities."""
    parts = []
    for seed in common_seeds(trials, [method]):
        selected = [t for t in trials if (t.method, t.seed) == (method, seed)]
        values = np.array([[getattr(t, said), getattr(t, came)] for t in selected])
        values = values[np.isfinite(values).all(axis=1)]
        parts.append((rankdata(values, axis=0) - 1.0) / max(len(values) - 1, 1))
    together = np.concatenate(parts)
    return together[:, 0], together[:, 1]


def _point(
    trials: Sequence[Trial], method: str, pair: tuple[float, float]
) -> tuple[float, float, float, float]:
    chosen = at(trials, method, *pair)
    costs = [trial.true_cost for trial in chosen]
    error = float(np.std(costs, ddof=1) / len(costs) ** 0.5) if len(costs) > 1 else 0.0
    return pair[0], mean_of(chosen, "true_cost"), error, mean_of(chosen, "model_bias")


def _rollouts(
    problem: ControlProblem,
    method: Method,
    seed: int,
    policies: Sequence[LearnedPolicy],
    work: Path,
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Roll-outs of policies without risk weights, with epistemic weight and with aleatoric weight,
    from one state, on the system and on the model."""
    folder = work / f"{problem.name}-{method.name}-{seed}"
    if not (folder / MODEL).exists():
        raise FileNotFoundError(f"{folder} has no {MODEL} to draw roll-outs of")
    log = problem.batch(seed)
    model = build_model(problem, method, fit_model(problem, method, seed, log, folder), log)
    starts = problem.starts(jax.random.key(seed + START_STREAM), 1)
    steadiest = max(gamma for beta, gamma in method.weights if beta == 0.0)
    panels = {}
    for weights in dict.fromkeys([(0.0, 0.0), (CAREFUL, 0.0), (0.0, steadiest)]):
        chosen = next(p for p in policies if (p.epistemic_weight, p.aleatoric_weight) == weights)
        luck = jax.random.key(seed + LUCK_STREAM)
        true = true_costs(
            luck, problem.system, chosen, Starts(*starts), problem.horizon, SHOWN_ROLLOUTS
        )
        expected = forecast(model, chosen, starts.windows, problem.horizon)
        panels[f"β = {weights[0]:g}, γ = {weights[1]:g}"] = (true[0], expected.expected[0])
    return panels


CURVES = (EPISTEMIC, ALEATORIC, CHOSEN, "#CC79A7", "#56B4E9")


def frontier_axes(
    axes: Axes, curves: Mapping[str, Sequence[tuple[float, float, float, float]]]
) -> Axes:
    """Named curves of (β, true cost, its standard error, model bias); point sizes grow with β. A
    bias estimated as 0 is drawn at the left edge."""
    roots = np.sqrt([max(point[3], 0.0) for points in curves.values() for point in points])
    edge = 0.8 * min(roots[roots > 0], default=1.0)
    for index, (name, points) in enumerate(curves.items()):
        beta, cost, error, bias = np.array(sorted(points)).T
        bias = np.maximum(np.sqrt(np.maximum(bias, 0.0)), edge)
        black = name.startswith("nearest")
        colour = "black" if black else CURVES[index % len(CURVES)]
        axes.errorbar(
            bias, cost, error, color=colour, label=name, marker="s" if black else "o",
            markersize=4, linewidth=1.2, elinewidth=0.8, linestyle=":" if black else "-",
        )  # fmt: skip
        sizes = np.linspace(12.0, 70.0, len(beta))
        axes.scatter(bias, cost, sizes, color=colour, marker="s" if black else "o", zorder=3)
        for x, y, b in zip(bias, cost, beta, strict=True):
            if black or index == 0:
                place = (5, 5) if black else (-5, -12)
                axes.annotate(f"{b:g}", (x, y), place, textcoords="offset points", fontsize=8)
    axes.set(xlabel="root of the model bias per step (units of cost)", xscale="log")
    axes.set(ylabel="true cost per step")
    axes.legend(title="numbers are β; larger points, larger β", fontsize=8)
    return axes


def score_axes(axes: Axes, models: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Axes:
    """Predictions of models against the truth, as ranks within each model."""
    for index, (name, (said, came)) in enumerate(models.items()):
        colour, marker = CURVES[index % len(CURVES)], "osD^v"[index % 5]
        axes.scatter(said, came, 14, color=colour, marker=marker, alpha=0.8, label=name)
    return axes


def rollout_axes(axes: Axes, true: np.ndarray, expected: np.ndarray, title: str) -> Axes:
    """Roll-outs ``[R, T]`` on the true system, their mean, and the model's mean ``[T]``."""
    steps = np.arange(1, true.shape[1] + 1)
    axes.plot(steps, true.T, color=DATA, linewidth=0.4, alpha=0.35)
    axes.plot([], [], color=DATA, linewidth=0.8, label=f"{len(true)} true roll-outs")
    axes.plot(steps, true.mean(axis=0), color=CHOSEN, linewidth=2.0, label="their mean")
    axes.plot(steps, expected, color=EPISTEMIC, linewidth=2.0, label="mean on the model")
    axes.set(title=title, xlabel="step")
    return axes


def frontier_figure(
    curves: Mapping[str, Sequence[tuple[float, float, float, float]]], title: str
) -> Figure:
    """Figure 4."""
    figure, axes = plt.subplots(figsize=(7.5, 5.0), layout="constrained")
    frontier_axes(axes, curves)
    axes.set(title=title)
    return figure


def score_figure(
    panels: Mapping[tuple[str, str], Mapping[str, tuple[np.ndarray, np.ndarray]]],
) -> Figure:
    """Predictions of models against the truth: one panel per pair of quantities."""
    figure, row = plt.subplots(
        1, len(panels), figsize=(4.3 * len(panels), 3.9), layout="constrained"
    )
    for axes, ((said, came), models) in zip(np.atleast_1d(row), panels.items(), strict=True):
        score_axes(axes, models)
        axes.set(xlabel=said, ylabel=came)
    np.atleast_1d(row)[0].legend()
    return figure


def rollout_figure(panels: Mapping[str, tuple[np.ndarray, np.ndarray]]) -> Figure:
    """Figure 5: one panel per policy."""
    figure, row = plt.subplots(
        1, len(panels), figsize=(4.3 * len(panels), 3.8), sharey=True, layout="constrained"
    )
    for axes, (title, (true, expected)) in zip(np.atleast_1d(row), panels.items(), strict=True):
        rollout_axes(axes, true, expected, title)
    np.atleast_1d(row)[0].set(ylabel="cost")
    np.atleast_1d(row)[-1].legend()
    return figure
