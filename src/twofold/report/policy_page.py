"""The report of a policy search: an interactive page, and the same as text."""

import io
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

import twofold.report.policy_figures as figures
from twofold.core.persistence import write_bytes, write_text
from twofold.plant import quality
from twofold.plant.forecast import CAUTION, Trial
from twofold.plant.policy import LearnedPolicy
from twofold.plant.project import Project
from twofold.report import figures as house
from twofold.report.figures import LEGEND_ROOM, NO_ROOM, draw_panel, style
from twofold.report.page import Chooser, find_text_columns, format_change, write_page
from twofold.report.svg import make_clickable

PAGE, REPORT, FRONTIER = "report.html", "report.md", "frontier.csv"
TITLE = "Policies and their risks"
DPI = 110
# Columns that are shown at once, and states that the text lists.
MOST_COLUMNS, SHOWN_STATES = 8, 5
POLICY = "policy"
TERMS = {
    "Expected cost": "is the mean over the model's weights and noise.",
    "Epistemic risk": "is the standard deviation of the expected cost between posterior samples, "
    "which more data would lower.",
    "Aleatoric risk": "is the standard deviation due to noise.",
    "Risk-adjusted cost": f"is the expected cost plus {CAUTION:g} times the epistemic risk.",
    "Beyond the data": "are states farther from the nearest logged one than 99 % of held-out "
    "states are; ordinary operation has 1 %.",
    "Epistemic part": "is the variance of the expected next values between posterior samples, in "
    "standardised units.",
    "Epistemic risk varies with": "names observations, with the share of the variance of the "
    "epistemic part that their deciles explain.",
}
TEXT = """\
# {title}

From a log of {transitions:,} transitions in {episodes} episodes, of which \
{held_out_transitions:,} were held out. Costs and risks are per step, over roll-outs of {steps} \
steps from held-out states; the logged cost of held-out steps was {logged_cost:.4g}.

## Which policy

{advice}

The best policy found is in `{file}`.

{policies}

{terms}

## Where more data are needed

Visited states of the best policy with the largest epistemic uncertainty about the next step: log \
more data there.

{riskiest}

![Expected cost against epistemic risk](frontier.png)

![Expected cost and both risks over the horizon](risks.png)

![How far the policies leave the data](reach.png)

## Quality of the model

```text
{quality}
```
"""


def write_policy_report(project: Project) -> Path:
    """Write ``report.html``, ``report.md``, ``frontier.csv`` and the figures into the folder of a
    search; returns the path of ``report.md``."""
    folder = project.folder
    write_policy_page(folder / PAGE, project)
    write_text(folder / FRONTIER, quality.frontier_csv(project.trials, project.files))
    with style():
        for name, figure in figures.draw_figures(project.trials, project.logged_cost).items():
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png", dpi=DPI)
            write_bytes(folder / f"{name}.png", buffer.getvalue())
    write_text(folder / REPORT, _describe(project))
    return folder / REPORT


def write_policy_page(path: str | Path, project: Project) -> Path:
    """Write the page of a policy search, one self-contained HTML file."""
    trials = project.trials
    advice, opinion, *against = project.advice
    headings, *rows = quality.frontier_rows(trials)
    onnx = [file.removesuffix("policy") + "onnx" for file in project.files]
    onnx = [file if (project.folder / file).exists() else "" for file in onnx]
    costs, limits = [project.logged_cost] * len(trials), figures.choose_limits(trials)
    parts = trials, project.policies, project.files, onnx, costs, limits, rows
    policies = list(map(PolicyView, *parts))
    best = policies[quality.find_best(trials)]
    chosen = project.recommended is not None
    weights = zip(*(one.risk_weights for one in trials), strict=True)
    betas, gammas = ([f"{weight:.12g}" for weight in sorted(set(own))] for own in weights)
    selects = {"β (ignorance)": betas, "γ (noise)": gammas}
    choices = Chooser(POLICY, selects, {one.choice: one for one in policies}, best.choice)
    content = {
        "about": project.about, "quality": project.model_report, "policies": policies, "best": best,
        "advice": advice, "opinion": opinion, "against": against, "headings": headings,
        "terms": TERMS, "choices": choices,
        "best_is": "recommended" if chosen else "best found, not recommended",
        "frontier": partial(_draw_frontier, policies, best), "change": _compare(best),
        "figures": figures,
        "list_riskiest": list_riskiest, "room": house,
    }  # fmt: skip
    return write_page(path, "policies.html", TITLE, **content)


@dataclass(frozen=True)
class PolicyView:
    """One policy: what the model says of it, its files, and its figures."""

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
        """The options that choose it."""
        beta, gamma = self.trial.risk_weights
        return f"{beta:.12g}", f"{gamma:.12g}"

    @property
    def key_figures(self) -> dict[str, str]:
        names = "expected cost", "epistemic risk", "aleatoric risk", "risk-adjusted cost"
        costs = dict(zip(names, quality.list_costs(self.trial), strict=True))
        return costs | {"states beyond the data": f"{self.trial.share_beyond:.1%}"}

    @property
    def columns(self) -> Chooser | None:
        """Names of columns, some at a time, if the trial knows what was visited."""
        names = list(self.trial.visited)
        parts = [names[at : at + MOST_COLUMNS] for at in range(0, len(names), MOST_COLUMNS)]
        blocks = {(f"{part[0]} to {part[-1]}",): part for part in parts}
        options = {f"Columns ({len(names)})": [option for (option,) in blocks]}
        return Chooser("columns", options, blocks) if names else None

    @property
    def bounds(self) -> list[str]:
        """Of the actions."""
        shape, names = self.policy.shape, self.policy.embedding.actions
        pairs = zip(names, shape.low, shape.high, strict=True)
        return [f"{name} from {low:g} to {high:g}" for name, low, high in pairs]

    def draw(self, plot: Any, *arguments: Any, **labels: Any) -> Figure:
        """``plot(axes, trial, *arguments)`` as a small panel."""
        look: Any = {"size": figures.PANEL, "top": NO_ROOM} | labels
        return draw_panel(plot, self.trial, *arguments, **look)

    def draw_costs(self, plot: Any) -> Figure:
        """The same, beside the logged cost and on the scale of costs."""
        return self.draw(plot, self.logged_cost, top=LEGEND_ROOM, ylim=self.limits)


def _compare(best: PolicyView) -> str:
    """The risk-adjusted cost against what a logged step cost, where that is a cost."""
    cost, logged = best.trial.careful_cost, best.logged_cost
    return format_change(cost / logged - 1.0) if np.isfinite(cost) and logged > 0.0 else ""


def _describe(project: Project) -> str:
    """The report as Markdown."""
    number = quality.find_best(project.trials)
    best = project.trials[number]
    headings, *rows = quality.frontier_rows(project.trials)
    sentences = project.advice
    return TEXT.format(
        title=TITLE, steps=len(best.expected), advice="\n\n".join(sentences),
        file=project.files[number], policies=_make_table(headings, rows),
        terms="\n".join(f"- *{term}* {words}" for term, words in TERMS.items()),
        riskiest=_make_table(list(best.riskiest), list_riskiest(best)[:SHOWN_STATES]),
        quality=project.model_report, **project.about,
    )  # fmt: skip


def _make_table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    rule = ["---" if words else "---:" for words in find_text_columns(headings, rows)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headings, rule, *rows))


def list_riskiest(trial: Trial) -> list[list[str]]:
    """The visited states with the largest epistemic part."""
    rows = zip(*trial.riskiest.values(), strict=True)
    return [[f"{value:.3g}" for value in row] for row in rows]


def _draw_frontier(
    policies: list[PolicyView], best: PolicyView, size: tuple[float, float]
) -> Figure:
    """The frontier with points to click on."""

    def plot(axes: Axes) -> None:
        markers = figures.plot_frontier(
            axes, [one.trial for one in policies], best.trial, best.logged_cost
        )
        for one in policies:
            marker, (cost, risk, *_) = (
                markers[one.trial.risk_weights],
                quality.list_costs(one.trial),
            )
            marker.set_markersize(7.0)
            costs = f"expected cost {cost}, epistemic risk {risk}"
            make_clickable(marker, POLICY, one.choice, f"Show {one.name}: {costs}")

    return draw_panel(plot, size=size)
