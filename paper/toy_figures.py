"""Figures 1 and 2 of the paper, its appendices A (HMC) and B (other values of α), and the same
six panels for the default posterior.

Each figure is drawn from the fit of one seed, with its numbers as a CSV file; ``alpha_vs_hmc``
reports the variation over seeds.
"""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from paper.fits import DEFAULT_INFERENCE, LABELS, Fit, load_or_fit
from paper.records import Context
from twofold import BNNLVRegressor
from twofold.core.persistence import write_text
from twofold.envs.toy import BIMODAL, HETEROSCEDASTIC, TOY_PROBLEMS
from twofold.report import figures
from twofold.uncertainty.decomposition import Decomposition

SEED = 0
POINTS = 120
SAMPLES = 25
RARE, MARGIN = 0.001, 0.05  # share of draws beyond the range of y, on each side; share of the range
FIGURES = {
    "figure_1": [(HETEROSCEDASTIC.name, "alpha_1")],
    "figure_2": [(BIMODAL.name, "alpha_1")],
    "split_default": [(problem, DEFAULT_INFERENCE) for problem in TOY_PROBLEMS],
    "appendix_a": [(problem, "hmc") for problem in TOY_PROBLEMS],
    "appendix_b": [(p, method) for p in TOY_PROBLEMS for method in ("alpha_0.5", "vb")],
}


class Toy(NamedTuple):
    """A one-dimensional data set, a split over a grid, draws of y there, and the truth."""

    data: tuple[np.ndarray, np.ndarray]
    grid: np.ndarray
    split: Decomposition
    samples: np.ndarray
    true_entropy: np.ndarray


def draw_splits(name: str, context: Context) -> list[Path]:
    """Draw one of the FIGURES, as PNG with its curves as CSV."""
    fits = [Fit(problem, method, SEED) for problem, method in FIGURES[name]]
    written = []
    for fit, model in load_or_fit(fits, context.smoke, context.work).items():
        own = name if len(fits) == 1 else f"{name}_{fit.problem}_{fit.method}"
        picture, numbers = (context.output / f"{own}.{ending}" for ending in ("png", "csv"))
        toy = evaluate_fit(fit, model)
        with figures.style():
            draw_panels(toy, f"{fit.problem}, {LABELS[fit.method]}").savefig(picture, dpi=100)
        write_text(numbers, format_csv(toy))
        written += [picture, numbers]
    return written


def evaluate_fit(fit: Fit, model: BNNLVRegressor) -> Toy:
    """The content of the six panels."""
    problem = TOY_PROBLEMS[fit.problem]
    x, y = problem.training_data(fit.seed)
    grid = np.linspace(problem.low, problem.high, POINTS)
    draws = model.sample(grid[:, None], SAMPLES)
    split = model.decompose(grid[:, None])
    return Toy((x[:, 0], y), grid, split, draws, problem.entropy(grid))


def format_csv(toy: Toy) -> str:
    """The curves as CSV, one row per x."""
    columns = {"x": toy.grid}
    for name in ("total", "epistemic", "aleatoric"):
        columns[name] = getattr(toy.split, name)
        columns[f"{name}_standard_error"] = getattr(toy.split.standard_errors, name)
    columns["true_aleatoric"] = toy.true_entropy
    lines = [",".join(columns)]
    lines += [",".join(f"{v:.6g}" for v in row) for row in zip(*columns.values(), strict=True)]
    return "\n".join(lines) + "\n"


def draw_panels(toy: Toy, title: str) -> Figure:
    """Data, density of x, predictive draws; total, aleatoric and epistemic entropy."""
    figure = Figure(figsize=(11, 6.2), layout="constrained")
    axes = figure.subplots(2, 3, sharex=True)
    figure.suptitle(title)
    _draw_data(axes[0, 0], toy)
    _draw_density(axes[0, 1], toy)
    _draw_predictive(axes[0, 2], toy)
    _draw_curve(axes[1, 0], toy, "total", "(d) total  H[y|x]", figures.TOTAL)
    _draw_curve(axes[1, 1], toy, "aleatoric", "(e) aleatoric  E[H[y|x,W]]", figures.ALEATORIC)
    _draw_truth(axes[1, 1], toy)
    _draw_curve(axes[1, 2], toy, "epistemic", "(f) epistemic  I(y; W)", figures.EPISTEMIC)
    axes[1, 2].set_ylim(bottom=min(0.0, float(np.nanmin(toy.split.epistemic))))
    for panel in (axes[0, 0], axes[0, 2]):
        panel.set_ylim(_range(toy))
    for panel in axes[1]:
        panel.set_xlabel("x")
    axes[0, 0].set_xlim(toy.grid[0], toy.grid[-1])
    return figure


def _range(toy: Toy) -> tuple[float, float]:
    """A range of y for all measurements and nearly all draws, with a margin."""
    drawn = np.quantile(toy.samples, [RARE, 1.0 - RARE])
    low, high = np.min([toy.data[1].min(), drawn[0]]), np.max([toy.data[1].max(), drawn[1]])
    return low - MARGIN * (high - low), high + MARGIN * (high - low)


def _draw_truth(axes: Axes, toy: Toy) -> Axes:
    """The true entropy, limited to the range of the fitted one: where noise vanishes, the entropy
    is unbounded."""
    axes.plot(toy.grid, toy.true_entropy, "--", color=figures.TRUTH, label="true process")
    low = np.nanmin(toy.split.aleatoric) - 1.0
    axes.set_ylim(bottom=max(low, axes.get_ylim()[0]))
    axes.legend()
    return axes


def _draw_data(axes: Axes, toy: Toy) -> Axes:
    """The measurements."""
    axes.scatter(*toy.data, s=5, color=figures.POINTS, alpha=0.6, linewidths=0, rasterized=True)
    axes.set(ylabel="y", title=f"(a) {len(toy.data[0])} measurements")
    return axes


def _draw_density(axes: Axes, toy: Toy) -> Axes:
    """The density of the measured inputs."""
    bounds = toy.grid[0], toy.grid[-1]
    axes.hist(toy.data[0], bins=40, range=bounds, density=True, color=figures.DATA)
    axes.set(ylabel="density", title="(b) density of x in the data")
    return axes


def _draw_predictive(axes: Axes, toy: Toy) -> Axes:
    """Draws of y over the grid."""
    x = np.broadcast_to(toy.grid, toy.samples.shape)
    axes.scatter(
        x, toy.samples, s=3, color=figures.CHOSEN, alpha=0.35, linewidths=0, rasterized=True
    )
    axes.set(ylabel="y", title="(c) draws from p(y|x)")
    return axes


def _draw_curve(axes: Axes, toy: Toy, part: str, title: str, color: str) -> Axes:
    """One part over x, with a band of two Monte Carlo errors."""
    values = getattr(toy.split, part)
    error = 2.0 * getattr(toy.split.standard_errors, part)
    axes.fill_between(toy.grid, values - error, values + error, color=color, alpha=0.2, linewidth=0)
    axes.plot(toy.grid, values, color=color)
    axes.set(ylabel="nats", title=title)
    return axes
