"""Test log-likelihood against iterations: Table 1 as curves, in a file and as a figure."""

import csv
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from paper.figures.curves import Curve, curves_figure
from paper.learning import Arm, Course, Size
from paper.markdown import metrics
from twofold.core.persistence import write_text
from twofold.report.style import PALETTE, style

TITLES = {
    "heteroscedastic": "Heteroscedastic",
    "bimodal": "Bimodal",
    "wet_chicken": "Wet-chicken",
}
LABELS = {
    "epistemic": "what it teaches, I(W; y)",
    "total": "all uncertainty, H(y|x)",
    "random": "at random",
    "together": "what five teach together",
    "gp": "Gaussian process, H(y|x)",
}
COLOURS = dict(
    zip(LABELS, (PALETTE[0], PALETTE[3], PALETTE[6], PALETTE[5], PALETTE[4]), strict=True)
)
LINES = {"paper": "--", "default": "-", "gp": ":"}
POSTERIORS = {"paper": ", α = 1", "default": ", ensemble", "gp": ""}


def write_curves(
    courses: Sequence[tuple[str, Sequence[Arm], Course]], size: Size, path: Path
) -> None:
    """Mean and standard error over repetitions of every scored round."""
    rounds = [n for n in range(size.rounds + 1) if n % size.scored == 0 or n == size.rounds]
    lines = ["posterior,problem,method,iteration,mean,se"]
    for posterior, arms, course in courses:
        for problem, method in dict.fromkeys(arm[:2] for arm in arms):
            own = [i for i, arm in enumerate(arms) if arm[:2] == (problem, method)]
            for number, scores in zip(rounds, course.scores[:, own], strict=False):
                error = scores.std(ddof=1) / np.sqrt(len(own))
                numbers = f"{number},{scores.mean():.4f},{error:.4f}"
                lines.append(f"{posterior},{problem},{method},{numbers}")
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, "\n".join(lines) + "\n")


def draw(results: Path) -> Path:
    """Draw ``table1.png`` from ``table1.csv`` and the oracles of ``table1.json``."""
    panels: dict[str, list[Curve]] = {problem: [] for problem in TITLES}
    with (results / "table1.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for place in dict.fromkeys((r["problem"], r["posterior"], r["method"]) for r in rows):
        problem, posterior, method = place
        own = [r for r in rows if (r["problem"], r["posterior"], r["method"]) == place]
        columns = np.array([[float(r[name]) for name in ("iteration", "mean", "se")] for r in own])
        panels[problem].append(
            Curve(
                LABELS[method] + POSTERIORS[posterior],
                columns[:, 0],
                columns[:, 1],
                columns[:, 2],
                COLOURS[method],
                LINES[posterior],
            )
        )
    values = metrics("table1", results)
    limits = {
        TITLES[problem]: values.get(f"{problem}/oracle/test_log_likelihood")
        for problem in panels
        if problem != "wet_chicken"  # whose truth has no density
    }
    path = results / "table1.png"
    with style():
        figure = curves_figure(
            {TITLES[problem]: curves for problem, curves in panels.items()},
            limits,
            "iterations (5 measurements each)",
            "test log-likelihood (nats)",
        )
        figure.savefig(path, dpi=100)
    return path
