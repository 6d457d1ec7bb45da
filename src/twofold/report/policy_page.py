"""The report of a search for policies: a page to choose β and γ by, and the same as text."""

import io
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from matplotlib.figure import Figure

from twofold.core.persistence import write_bytes, write_text
from twofold.plant import summary
from twofold.plant.forecast import CAUTION, Trial
from twofold.plant.policy import LearnedPolicy
from twofold.report import policy_figures as figures
from twofold.report.page import Chooser, render_page
from twofold.report.style import style
from twofold.report.svg import make_clickable

if TYPE_CHECKING:
    from twofold.plant.project import Project

PAGE, REPORT, FRONTIER = "report.html", "report.md", "frontier.csv"
TITLE = "Policies and their risks"
DPI = 110
PANEL, SMALL = (4.0, 3.1), (4.0, 2.5)
# In inches above the axes: room for a legend, for a title, or for neither.
LEGEND_ROOM, TITLE_ROOM, NO_ROOM = 0.45, 0.3, 0.1
# Columns that are shown at once.
MOST_COLUMNS = 8
# States that the text lists.
SHOWN_STATES = 5
POLICY = "policy"
TERMS = {
    "Expected cost": "is the mean over the model's weights and noise.",
    "Epistemic risk": "is the deviation of the expected cost between models that the data allow, "
    "which more data would lower.",
    "Aleatoric risk": "is the deviation that noise makes, which they would not.",
    "Careful cost": f"is the expected cost and {CAUTION:g} times the epistemic risk.",
    "Beyond the data": "are states farther from the nearest logged one than 99 % of held-out "
    "states are; ordinary operation has 1 %.",
    "Epistemic part": "is the variance of the expected next values between models that the data "
    "allow, in squared deviations.",
    "Goes with": "names observations, with the share of the variance of the epistemic part "
    "between states that their deciles explain.",
}


def write_policy_report(project: "Project") -> Path:
    """Write ``report.html``, ``report.md``, ``frontier.csv`` and the figures into the folder of a
    search; returns the path of ``report.md``."""
    folder = project.folder
    write_policy_page(folder / PAGE, project)
    write_text(folder / FRONTIER, summary.frontier_csv(project.trials, project.files))
    with style():
        for name, figure in figures.draw_figures(project.trials, project.logged_cost).items():
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png", dpi=DPI)
            write_bytes(folder / f"{name}.png", buffer.getvalue())
    write_text(folder / REPORT, render_page("policies.md", TITLE, **_collect(project)))
    return folder / REPORT


def write_policy_page(path: str | Path, project: "Project") -> Path:
    """Write the page of a search for policies, one HTML file that needs nothing else."""
    content = _collect(project)
    choices = _offer_policies(content["policies"], content["best"])
    frontier = _draw_frontier(content["policies"], content["best"])
    page = render_page("policies.html", TITLE, choices=choices, frontier=frontier, **content)
    write_text(Path(path), page)
    return Path(path)


@dataclass(frozen=True)
class PolicyView:
    """One policy: what the model says of it, its files, and its figures."""

    trial: Trial
    policy: LearnedPolicy
    file: str
    onnx: str | None
    logged_cost: float
    limits: tuple[float, float] | None
    row: list[str]

    @property
    def name(self) -> str:
        """By its weights."""
        return figures.name_policy(self.trial)

    @property
    def choice(self) -> tuple[str, str]:
        """The options that choose it."""
        beta, gamma = self.trial.risk_weights
        return f"{beta:.12g}", f"{gamma:.12g}"

    @property
    def columns(self) -> Chooser | None:
        """Names of columns, some at a time, if the trial knows what was visited."""
        names = list(self.trial.visited)
        parts = [names[at : at + MOST_COLUMNS] for at in range(0, len(names), MOST_COLUMNS)]
        blocks = {(f"{part[0]} to {part[-1]}",): part for part in parts}
        options = {f"Columns ({len(names)})": [option for (option,) in blocks]}
        return Chooser("columns", options, blocks) if names else None

    @property
    def riskiest(self) -> list[list[str]]:
        """The visited states with the largest epistemic part."""
        rows = zip(*self.trial.riskiest.values(), strict=True)
        return [[f"{value:.3g}" for value in row] for row in rows]

    @property
    def explained(self) -> list[str]:
        """Columns that the epistemic part goes with."""
        largest = list(self.trial.columns.items())[: summary.MOST_COLUMNS]
        return [f"{name} ({part:.0%})" for name, part in largest if part >= summary.LEAST_EXPLAINED]

    @property
    def bounds(self) -> list[str]:
        """Of the actions."""
        shape, names = self.policy.shape, self.policy.embedding.actions
        pairs = zip(names, shape.low, shape.high, strict=True)
        return [f"{name} from {low:g} to {high:g}" for name, low, high in pairs]

    def draw_rollouts(self) -> Figure:
        """Costs of single roll-outs."""
        return self._draw_costs(figures.plot_rollouts)

    def draw_bands(self) -> Figure:
        """The expected cost with both parts of its uncertainty."""
        return self._draw_costs(figures.plot_cost_bands)

    def draw_deviations(self) -> Figure:
        """Both risks alone."""
        figure = self._draw(figures.plot_deviations, top=LEGEND_ROOM)
        figures.place_legend_above(figure.axes[0])
        return figure

    def draw_distances(self) -> Figure:
        """How far its states are from the data."""
        return self._draw(figures.plot_distances, title="", ylabel="median distance (deviations)")

    def draw_share_beyond(self) -> Figure:
        """How many of its states are beyond the data."""
        return self._draw(figures.plot_share_beyond, title="", ylabel="share beyond the data (%)")

    def draw_column(self, name: str) -> Figure:
        """What it visits of a column, in front of what the log has."""
        return self._draw(figures.plot_column, name, size=SMALL, top=TITLE_ROOM)

    def _draw_costs(self, plot: Any) -> Figure:
        figure = self._draw(plot, top=LEGEND_ROOM)
        (axes,) = figure.axes
        figures.plot_logged_cost(axes, self.logged_cost)
        axes.set(ylim=self.limits)
        figures.place_legend_above(axes)
        return figure

    def _draw(
        self, plot: Any, *more: Any, size: tuple[float, float] = PANEL, top: float = NO_ROOM,
        **labels: str,
    ) -> Figure:  # fmt: skip
        return figures.draw_small_panel(plot, self.trial, *more, size=size, top=top, **labels)


def _collect(project: "Project") -> dict[str, Any]:
    """What both templates show."""
    trials = project.trials
    first, opinion, *against = summary.advice(project.doubts, trials, project.logged_cost)
    headings, *rows = summary.rows(trials)
    onnx = [file.removesuffix("policy") + "onnx" for file in project.files]
    onnx_files = [file if (project.folder / file).exists() else None for file in onnx]
    parts = zip(
        trials, project.policies, project.files, onnx_files, figures.choose_limits(trials), rows,
        strict=True,
    )  # fmt: skip
    policies = [
        PolicyView(trial, policy, file, onnx, project.logged_cost, limits, row)
        for trial, policy, file, onnx, limits, row in parts
    ]
    return {
        "about": project.about,
        "quality": str(project.quality),
        "policies": policies,
        "best": policies[summary.recommend(trials)],
        "advice": first,
        "opinion": opinion,
        "against": against,
        "headings": headings,
        "terms": TERMS,
        "shown_states": SHOWN_STATES,
    }


def _offer_policies(policies: list[PolicyView], best: PolicyView) -> Chooser:
    selects = {
        label: [
            f"{weight:.12g}"
            for weight in sorted({one.trial.risk_weights[part] for one in policies})
        ]
        for part, label in enumerate(("β (ignorance)", "γ (noise)"))
    }
    return Chooser(POLICY, selects, {one.choice: one for one in policies}, best.choice)


def _draw_frontier(policies: list[PolicyView], best: PolicyView) -> Figure:
    """The frontier with points to click on."""
    with style():
        figure = Figure(figsize=(4.5, 3.7), layout="constrained")
        trials = [one.trial for one in policies]
        markers = figures.plot_frontier(figure.subplots(), trials, best.trial)
    for one in policies:
        marker, trial = markers[one.trial.risk_weights], one.trial
        marker.set_markersize(7.0)
        costs = f"expected cost {trial.cost:.4g}, epistemic risk {trial.epistemic_risk:.3g}"
        make_clickable(marker, POLICY, one.choice, f"Show {one.name}: {costs}")
    return figure
