"""Table 1 compared with the paper's, and its curves, from ``results/table1.json`` and
``table1.csv``."""

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from paper.markdown import markdown, mean_and_error, metrics
from paper.records import Context
from twofold.report.figures import PALETTE, TRUTH, style

PROBLEMS = ("heteroscedastic", "bimodal", "wet_chicken")
# Mean and standard error of I, H and GP in Table 1 of the paper.
PUBLISHED = {
    "heteroscedastic": {"epistemic": (-1.79, 0.03), "total": (-1.92, 0.03), "gp": (-2.09, 0.02)},
    "bimodal": {"epistemic": (-2.04, 0.01), "total": (-2.06, 0.02), "gp": (-2.86, 0.01)},
    "wet_chicken": {"epistemic": (1.18, 0.16), "total": (0.57, 0.20), "gp": (-3.22, 0.03)},
}
NAMES = {
    "epistemic": "I(W; y)",
    "total": "H(y given x)",
    "random": "at random",
    "together": "five together",
    "gp": "H of a Gaussian process",
}
POSTERIORS = ("paper", "default")
COLUMNS = ("α = 1", "ensemble", "Gaussian process")
SCORE = "test_log_likelihood"
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
POSTERIOR_LABELS = {"paper": ", α = 1", "default": ", ensemble", "gp": ""}


def tabulate_scores(results: Path) -> str:
    """Test log-likelihood after all iterations, for each problem and strategy."""
    values = metrics("table1", results)
    rows = []
    for problem in PROBLEMS:
        truth = values.get(f"{problem}/oracle/{SCORE}")
        for method, name in NAMES.items():
            published = PUBLISHED[problem].get(method)
            cells = ["–" if published is None else f"{published[0]:.2f} ± {published[1]:.2f}"]
            cells += _cells(values, problem, method, SCORE)
            rows.append([problem.replace("_", "-"), name, *cells])
        cells = ["–" if truth is None else f"{truth:.2f}"] * len(COLUMNS)
        if problem == "wet_chicken":  # known only with the ensembles' noise
            cells = ["", cells[1], ""]
        rows.append([problem.replace("_", "-"), "(true process)", "", *cells])
    return markdown(["problem", "choice", "paper", *COLUMNS], rows)


def tabulate_wet_chicken(results: Path) -> str:
    """The scores on wet-chicken in standardised units."""
    values = metrics("table1", results)
    rows = [
        [name, *_cells(values, "wet_chicken", method, f"{SCORE}_standardised")]
        for method, name in NAMES.items()
    ]
    return markdown(["choice", *COLUMNS], rows)


def tabulate_gains(results: Path) -> str:
    """Gain of choosing by I over other strategies, paired by repetition."""
    values = metrics("table1", results)
    rows = []
    for problem in PROBLEMS:
        published = PUBLISHED[problem]
        row = [
            problem.replace("_", "-"),
            f"{published['epistemic'][0] - published['total'][0]:.2f}",
        ]
        for other in ("total", "random"):
            for posterior in POSTERIORS:
                row.append(_cell(values, f"{problem}/epistemic_over_{other}/{posterior}", 3))
        row.append(_cell(values, f"{problem}/together_over_epistemic/default", 3))
        row.append(_cell(values, f"{problem}/epistemic/default/oracle_gap", 3))
        rows.append(row)
    headings = ["problem", "over H, paper", "over H, α = 1", "over H, ensemble"]
    headings += ["over random, α = 1", "over random, ensemble", "five together over I, ensemble"]
    return markdown([*headings, "short of the true process, ensemble"], rows)


def tabulate_times(results: Path) -> str:
    """Training time of the networks in minutes, and estimated hours on two CPU cores."""
    done, scaled = metrics("table1", results), metrics("bench_table1", results)
    rows = []
    for block, name in zip(POSTERIORS, COLUMNS, strict=False):
        for group, problems in (("toys", "both toys"), ("river", "wet-chicken")):
            seconds = done.get(f"seconds/{block}/{group}")
            hours = scaled[f"cpu/{block}/{group}/hours"]
            taken = "–" if seconds is None else f"{seconds / 60:.1f}"
            rows.append([f"{name}, {problems}", taken, f"{hours:.0f}"])
    return markdown(["", "minutes taken", "hours on two CPU cores"], rows)


def _cells(values: dict[str, float], problem: str, method: str, score: str) -> list[str]:
    """One cell per posterior, and one for the Gaussian process."""
    if method == "gp":
        return ["", "", _cell(values, f"{problem}/gp/{score}")]
    return [
        *(_cell(values, f"{problem}/{method}/{posterior}/{score}") for posterior in POSTERIORS),
        "",
    ]


def _cell(values: dict[str, float], name: str, digits: int = 2) -> str:
    return mean_and_error(values, name, digits) if f"{name}/mean" in values else "–"


def draw_curves(context: Context) -> list[Path]:
    """Draw ``table1.png`` from ``table1.csv`` and the oracles of ``table1.json``."""
    results = context.folder_with("table1.csv")
    panels: dict[str, list[Curve]] = {problem: [] for problem in TITLES}
    with (results / "table1.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for place in dict.fromkeys((r["problem"], r["posterior"], r["method"]) for r in rows):
        problem, posterior, method = place
        own = [r for r in rows if (r["problem"], r["posterior"], r["method"]) == place]
        columns = ([float(r[name]) for r in own] for name in ("iteration", "mean", "se"))
        look = LABELS[method] + POSTERIOR_LABELS[posterior], COLOURS[method], LINES[posterior]
        panels[problem].append(Curve(*map(np.array, columns), *look))
    values = metrics("table1", results)
    limits = {
        TITLES[problem]: values.get(f"{problem}/oracle/{SCORE}")
        for problem in panels
        if problem != "wet_chicken"  # whose truth has no density
    }
    path = context.output / "table1.png"
    with style():
        titled = {TITLES[problem]: curves for problem, curves in panels.items()}
        draw_panels(titled, limits).savefig(path, dpi=100)
    return [path]


class Curve(NamedTuple):
    """Means and standard errors along x."""

    x: np.ndarray
    mean: np.ndarray
    error: np.ndarray
    label: str
    color: str
    line: str


def draw_panels(
    panels: Mapping[str, Sequence[Curve]], limits: Mapping[str, float | None]
) -> Figure:
    """One panel per problem; ``limits`` are upper bounds of the score, if known."""
    size = 4.4 * len(panels), 4.6
    figure, axes = plt.subplots(1, len(panels), figsize=size, layout="constrained", squeeze=False)
    handles = {}
    for axis, (title, curves) in zip(axes[0], panels.items(), strict=True):
        for curve in curves:
            low, high = curve.mean - curve.error, curve.mean + curve.error
            axis.plot(curve.x, curve.mean, curve.line, color=curve.color, label=curve.label)
            axis.fill_between(curve.x, low, high, color=curve.color, alpha=0.15, linewidth=0)
        if limits.get(title) is not None:
            axis.axhline(limits[title], color=TRUTH, linestyle=(0, (1, 1)), label="true process")
        axis.set(title=title, xlabel="iterations (5 measurements each)")
        handles |= {
            label: one for one, label in zip(*axis.get_legend_handles_labels(), strict=True)
        }
    axes[0, 0].set_ylabel("test log-likelihood (nats)")
    figure.legend(
        list(handles.values()), list(handles), loc="outside lower center", ncols=3, handlelength=3
    )
    return figure
