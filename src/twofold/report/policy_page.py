"""The page of a policy search: the policies, their forecasts, and where they leave the data."""

from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import twofold.report.policy_figures as figures
from twofold.core.persistence import write_text
from twofold.plant import recommendation
from twofold.plant.forecast import CAUTION, Trial
from twofold.plant.policy import LearnedPolicy
from twofold.plant.project import Project
from twofold.report.figures import draw_panel
from twofold.report.page import Chooser, format_change, write_page
from twofold.report.svg import make_clickable

PAGE, FRONTIER = "report.html", "frontier.csv"
TITLE = "Policies and their risks"
MOST_COLUMNS = 8  # shown at once
POLICY = "policy"


def write_policy_report(project: Project) -> Path:
    """Write ``report.html`` and ``frontier.csv`` to a search's folder; returns the page path."""
    write_text(
        project.folder / FRONTIER, recommendation.frontier_csv(project.trials, project.files)
    )
    return write_policy_page(project.folder / PAGE, project)


def write_policy_page(path: str | Path, project: Project) -> Path:
    """Write the page of a policy search, one self-contained HTML file."""
    trials = project.trials
    advice, opinion, *against = project.advice
    headings, *rows = recommendation.frontier_rows(trials)
    onnx = [file.removesuffix("policy") + "onnx" for file in project.files]
    onnx = [file if (project.folder / file).exists() else "" for file in onnx]
    costs, limits = [project.logged_cost] * len(trials), figures.choose_limits(trials)
    parts = trials, project.policies, project.files, onnx, costs, limits, rows
    policies = list(map(PolicyView, *parts))
    best = policies[recommendation.find_best(trials)]
    chosen = project.recommended is not None
    cost, logged = best.trial.careful_cost, best.logged_cost
    comparable = np.isfinite(cost) and logged > 0.0
    change = format_change(cost / logged - 1.0) if comparable else ""
    weights = zip(*(one.risk_weights for one in trials), strict=True)
    betas, gammas = ([f"{weight:.12g}" for weight in sorted(set(own))] for own in weights)
    selects = {"β (epistemic)": betas, "γ (aleatoric)": gammas}
    choices = Chooser(POLICY, selects, {one.choice: one for one in policies}, best.choice)
    content = {
        "about": project.about, "quality": project.model_report, "policies": policies, "best": best,
        "advice": advice, "opinion": opinion, "against": against, "headings": headings,
        "caution": CAUTION, "choices": choices,
        "best_is": "recommended" if chosen else "best found, not recommended",
        "frontier": partial(_draw_frontier, policies, best), "change": change,
        "figures": figures, "list_riskiest": list_riskiest,
    }  # fmt: skip
    return write_page(path, "policies.html", TITLE, **content)


@dataclass(frozen=True)
class PolicyView:
    """One policy: its evaluation by the model, its files, and its figures."""

    trial: Trial
    policy: LearnedPolicy
    file: str
    onnx: str
    logged_cost: float
    limits: tuple[float, float] | None
    row: list[str]

    @property
    def name(self) -> str:
        return figures.name_policy(self.trial)

    @property
    def choice(self) -> tuple[str, str]:
        """The options of the chooser that select it."""
        beta, gamma = self.trial.risk_weights
        return f"{beta:.12g}", f"{gamma:.12g}"

    @property
    def key_figures(self) -> dict[str, str]:
        names = "expected cost", "epistemic risk", "aleatoric risk", "risk-adjusted cost"
        costs = dict(zip(names, recommendation.list_costs(self.trial), strict=True))
        return costs | {"states beyond the data": f"{self.trial.share_beyond:.1%}"}

    @property
    def columns(self) -> Chooser | None:
        """Names of the visited columns in groups; None without visited states."""
        names = list(self.trial.visited)
        parts = [names[at : at + MOST_COLUMNS] for at in range(0, len(names), MOST_COLUMNS)]
        blocks = {(f"{part[0]} to {part[-1]}",): part for part in parts}
        options = {f"Columns ({len(names)})": [option for (option,) in blocks]}
        return Chooser("columns", options, blocks) if names else None

    @property
    def bounds(self) -> list[str]:
        """Bounds of the actions as text."""
        shape, names = self.policy.shape, self.policy.embedding.actions
        pairs = zip(names, shape.low, shape.high, strict=True)
        return [f"{name} from {low:g} to {high:g}" for name, low, high in pairs]

    def draw(self, plot: Any, *arguments: Any, **labels: Any) -> Figure:
        """``plot(axes, trial, *arguments)`` as a small panel."""
        return draw_panel(plot, self.trial, *arguments, **{"size": figures.PANEL} | labels)


def list_riskiest(trial: Trial) -> list[list[str]]:
    """The visited states with the largest epistemic part."""
    rows = zip(*trial.riskiest.values(), strict=True)
    return [[f"{value:.3g}" for value in row] for row in rows]


def _draw_frontier(
    policies: list[PolicyView], best: PolicyView, size: tuple[float, float]
) -> Figure:
    """The frontier with clickable points."""

    def plot(axes: Axes) -> None:
        trials = [one.trial for one in policies]
        markers = figures.plot_frontier(axes, trials, best.trial, best.logged_cost)
        for one in policies:
            cost, risk, *_ = recommendation.list_costs(one.trial)
            marker = markers[one.trial.risk_weights]
            marker.set_markersize(7.0)
            costs = f"expected cost {cost}, epistemic risk {risk}"
            make_clickable(marker, POLICY, one.choice, f"Show {one.name}: {costs}")

    return draw_panel(plot, size=size)
