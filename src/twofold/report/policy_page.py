"""``policy_page``: what a folder of policies says as one HTML page, to choose β and γ by hand."""

import html
import io
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from matplotlib.figure import Figure

from twofold.core import persistence
from twofold.plant import summary
from twofold.plant.policy import LearnedPolicy
from twofold.plant.trial import Trial
from twofold.report import policies as figures
from twofold.report.page import (
    Markup,
    choose_button,
    chooser,
    clickable,
    numbers,
    page,
    paragraphs,
    picture,
    table,
    warning,
)
from twofold.report.policy_panels import (
    Limits,
    column_pictures,
    cost_limits,
    cost_pictures,
    distance_pictures,
)
from twofold.report.style import style

if TYPE_CHECKING:
    from twofold.plant.project import Project

PAGE, REPORT, FRONTIER = "report.html", "report.md", "frontier.csv"
DPI = 110
POLICY, COLUMNS = "policy", "columns"
# Columns that are shown at once.
MOST_COLUMNS = 8
OLD = (
    "An older version tried this policy, which kept neither roll-outs nor visited states: delete "
    "its .json file and start the same search again, which makes them."
)


def write_report(project: "Project") -> Path:
    """Write ``report.html``, ``report.md``, ``frontier.csv`` and the figures into the folder of a
    search; returns the path of ``report.md``."""
    folder, trials = project.folder, project.trials
    persistence.write_text(folder / PAGE, policy_page(project))
    persistence.write_text(folder / FRONTIER, summary.frontier_csv(trials, project.files))
    with style():
        for name, figure in figures.draw_figures(trials, project.logged_cost).items():
            buffer = io.BytesIO()
            figure.savefig(buffer, format="png", dpi=DPI)
            persistence.write_bytes(folder / f"{name}.png", buffer.getvalue())
    text = summary.page(project.quality, trials, project.about, project.files)
    persistence.write_text(folder / REPORT, text)
    return folder / REPORT


def policy_page(project: "Project") -> str:
    """The whole page."""
    best = summary.recommended(project.trials)
    with style():
        return page(
            "Policies and their risks",
            _introduction(project),
            [
                ("Which policy", _which(project, best)),
                ("Choose a policy", _chooser(project, best)),
                ("All policies", _all(project.trials)),
                ("How good the model is", f"<pre>{html.escape(project.quality.rstrip())}</pre>"),
            ],
        )


def _introduction(project: "Project") -> str:
    about = project.about
    return (
        f"From a log of {about['transitions']:,} transitions in {about['episodes']} episodes, of "
        f"which {about['held_out_transitions']:,} were held out, a model was fitted, and on it a "
        "policy was searched for each pair of risk weights: β for what more data would settle, γ "
        f"for noise. Costs and risks are per step, over the {len(project.trials[0].expected)} "
        "steps after held-out moments."
    )


def _which(project: "Project", best: int) -> str:
    """The advice; what speaks against it stands out."""
    trial = project.trials[best]
    first, opinion, *against = summary.advice(project.quality, project.trials, project.logged_cost)
    cards = {
        "recommended": "β {:g} · γ {:g}".format(*trial.weights),
        "a logged step cost": f"{project.logged_cost:.4g}",
        **_key_figures(trial),
    }
    return "".join([numbers(cards), paragraphs(first), *map(warning, against), paragraphs(opinion)])


def _key_figures(trial: Trial) -> dict[str, str]:
    return {
        "expected cost": f"{trial.cost:.4g}",
        "epistemic risk": f"{trial.epistemic_risk:.3g}",
        "aleatoric risk": f"{trial.aleatoric_risk:.3g}",
        "careful cost": f"{trial.careful_cost:.4g}",
        "states beyond the data": f"{trial.share_beyond:.1%}",
    }


def _choice(trial: Trial) -> tuple[str, str]:
    beta, gamma = trial.weights
    return f"{beta:.12g}", f"{gamma:.12g}"


def _chooser(project: "Project", best: int) -> str:
    trials = project.trials
    betas, gammas = (sorted({one.weights[part] for one in trials}) for part in (0, 1))
    selects = {
        "β (ignorance)": [f"{beta:.12g}" for beta in betas],
        "γ (noise)": [f"{gamma:.12g}" for gamma in gammas],
    }
    blocks = {
        _choice(trial): _block(project, number, limits)
        for number, (trial, limits) in enumerate(zip(trials, cost_limits(trials), strict=True))
    }
    return chooser(POLICY, selects, blocks, _choice(trials[best]), _frontier(trials, best))


def _frontier(trials: Sequence[Trial], best: int) -> str:
    """The frontier with points to click on, and beside it what to do with them."""
    figure = Figure(figsize=(4.5, 3.7), layout="constrained")
    markers = figures.frontier_axes(
        figure.subplots(), figures.frontier_points(trials), trials[best].weights
    )
    for trial in trials:
        markers[trial.weights].set_markersize(7.0)
        words = (
            f"Show {figures.named(trial.weights)}: expected cost {trial.cost:.4g}, epistemic risk "
            f"{trial.epistemic_risk:.3g}"
        )
        clickable(markers[trial.weights], POLICY, _choice(trial), words)
    shown = picture(
        figure,
        "Expected cost against epistemic risk of every policy, a curve for each γ",
        "Lower is cheaper, farther left is surer. A black or white ring marks the policy that is "
        "shown below.",
    )
    words = paragraphs(
        "Every point is a policy. Click on one, or go to it with the Tab key and press Enter, to "
        "see what the model expects of it; or choose its weights in the fields below.",
        "The larger β, the more a policy is held to where the data have settled what happens. The "
        "larger γ, the more it avoids noise. How much of each is right is for you to say: the "
        "frontier shows what it costs.",
    )
    return f'<div class="beside">{shown}<div>{words}</div></div>'


def _block(project: "Project", number: int, limits: Limits | None) -> str:
    """All about one policy."""
    trial = project.trials[number]
    return "".join(
        [
            f"<h3>What the policy with {figures.named(trial.weights)} costs</h3>",
            numbers(_key_figures(trial)),
            "" if trial.visited else warning(OLD),
            cost_pictures(trial, project.logged_cost, limits),
            "<h3>Its states against the data</h3>",
            distance_pictures(trial),
            _columns(trial),
            "<h3>Where the data have not settled what happens</h3>",
            _riskiest(trial),
            "<h3>How to use it</h3>",
            _usage(project, project.policies[number], project.files[number]),
        ]
    )


def _columns(trial: Trial) -> str:
    """Each column's band in front of the log's, some columns at a time."""
    names = list(trial.visited)
    if not names:
        return ""
    said = paragraphs(
        "Below in colour: where the policy takes each column (line: median, bands: 50 % and 90 % "
        "of visited values). In grey: the log (band: 90 % of logged values, dashed: their median, "
        "dotted: the least and the largest). Colour outside the dotted lines is where nothing was "
        "ever logged."
    )
    parts = [names[at : at + MOST_COLUMNS] for at in range(0, len(names), MOST_COLUMNS)]
    if len(parts) == 1:
        return said + column_pictures(trial, names)
    options = [f"{part[0]} to {part[-1]}" for part in parts]
    blocks = {
        (option,): column_pictures(trial, part) for option, part in zip(options, parts, strict=True)
    }
    return said + chooser(COLUMNS, {f"Columns ({len(names)})": options}, blocks)


def _riskiest(trial: Trial) -> str:
    rows = [[f"{value:.3g}" for value in row] for row in zip(*trial.riskiest.values(), strict=True)]
    names = [
        f"{name} ({share:.0%})"
        for name, share in list(trial.columns.items())[: summary.MOST_COLUMNS]
        if share >= summary.LEAST_EXPLAINED
    ]
    with_what = ", ".join(names) or "no column"
    return table(
        list(trial.riskiest),
        rows,
        "Visited states with the largest epistemic part of what comes next: where to log",
    ) + paragraphs(f"The epistemic part goes with {with_what}.")


def _usage(project: "Project", policy: LearnedPolicy, file: str) -> str:
    """The policy's files, and the lines that run it."""
    seen, done = (
        ", ".join(names) for names in (policy.embedding.observations, policy.embedding.actions)
    )
    arguments = "observations, actions" if policy.sees_actions else "observations"
    code = [
        "from twofold.plant import load_policy",
        "",
        f'policy = load_policy("{file}")',
        f"action = policy.act({arguments})",
    ]
    said = f"observations: at least {policy.history} rows of {seen}, newest last."
    if policy.sees_actions:
        said += f" actions: what was done between them, rows of {done}."
    onnx = file.removesuffix("policy") + "onnx"
    beside = ""
    if (project.folder / onnx).exists():
        beside = (
            f"<p>For a computer that has onnxruntime alone: <code>{html.escape(onnx)}</code></p>"
        )
    bounds = zip(policy.embedding.actions, policy.shape.low, policy.shape.high, strict=True)
    kept = ", ".join(f"{name} from {low:g} to {high:g}" for name, low, high in bounds)
    return (
        f"<p>Its file is <code>{html.escape(file)}</code>, beside this page. From a terminal: "
        f"<code>twofold policy act {html.escape(file)} recent.csv</code>. From Python:</p>"
        f"<pre>{html.escape(chr(10).join(code))}</pre>"
        + paragraphs(said, f"Actions keep to their bounds: {kept}.")
        + beside
    )


def _all(trials: Sequence[Trial]) -> str:
    """A row for each policy, with a button that shows it."""
    head, *body = summary.rows(trials)
    rows = [
        [choose_button(f"β = {row[0]}, γ = {row[1]}", POLICY, _choice(trial)), *row[2:]]
        for trial, row in zip(trials, body, strict=True)
    ]
    return table(["show", *head[2:]], rows) + Markup(
        "<ul>" + "".join(f"<li>{_emphasised(line)}</li>" for line in summary.EXPLANATION) + "</ul>"
    )


def _emphasised(line: str) -> str:
    """A line of the Markdown report, which has a dash and terms between stars."""
    return re.sub(r"\*(.+?)\*", r"<em>\1</em>", html.escape(line.removeprefix("- ")))
