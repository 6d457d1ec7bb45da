"""The main job, end to end: noisy data → fit → split the uncertainty → where to measure next."""

from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from twofold import BNNLVRegressor, Decomposition
from twofold.active.acquisition import best, epistemic_score
from twofold.envs.toy import HETEROSCEDASTIC
from twofold.persistence import write_text
from twofold.report import figures
from twofold.report.page import page, table
from twofold.report.style import style

CANDIDATES = 50
CHOSEN = 5
HEADINGS = ("x", "epistemic", "aleatoric", "total", "data within ±0.25")


class Demo(NamedTuple):
    """Everything the figure and the table show."""

    data: tuple[np.ndarray, np.ndarray]
    grid: np.ndarray
    mean: np.ndarray
    variances: Decomposition
    entropies: Decomposition
    candidates: np.ndarray
    candidate_entropies: Decomposition
    chosen: np.ndarray
    test_log_likelihood: float
    oracle: float


def run(smoke: bool, output: Path) -> None:
    """Fit, print a short table, and write ``figure.png`` and ``index.html`` to ``output``."""
    console = Console()
    console.print("Fitting 750 noisy measurements of y = 7 sin x + 3 |cos(x/2)| ε …")
    demo = compute(epochs=20 if smoke else None)
    console.print(rich_table(demo))
    console.print(
        f"test log-likelihood {demo.test_log_likelihood:.3f}; "
        f"the true process itself reaches {demo.oracle:.3f}"
    )
    figure_path, page_path = write(demo, output)
    console.print(f"figure: {figure_path}\npage:   {page_path}")


def compute(epochs: int | None = None, seed: int = 0) -> Demo:
    """The main job itself, in five lines of library use."""
    problem = HETEROSCEDASTIC
    x, y = problem.training_data(seed)
    model = BNNLVRegressor(epochs=epochs, random_state=seed).fit(x, y)
    candidates = np.random.default_rng(seed).uniform(problem.low, problem.high, (CANDIDATES, 1))
    split = model.decompose(candidates)
    chosen = best(epistemic_score(split), CHOSEN)

    grid = np.linspace(problem.low, problem.high, 200)[:, None]
    test_x, test_y = problem.test_data(seed)
    return Demo(
        data=(x[:, 0], y),
        grid=grid[:, 0],
        mean=model.predict(grid),
        variances=model.decompose(grid, by="variance"),
        entropies=model.decompose(grid),
        candidates=candidates[:, 0],
        candidate_entropies=split,
        chosen=chosen,
        test_log_likelihood=model.log_likelihood(test_x, test_y).mean(),
        oracle=problem.log_density(test_x[:, 0], test_y).mean(),
    )


def rows(demo: Demo) -> list[list[str]]:
    """One row for each point to measure, best first; entropies in nats."""
    split = demo.candidate_entropies
    near = np.abs(demo.candidates[:, None] - demo.data[0]) < 0.25
    return [
        [
            f"{demo.candidates[i]:.2f}",
            *(f"{part[i]:.2f}" for part in (split.epistemic, split.aleatoric, split.total)),
            str(near[i].sum()),
        ]
        for i in demo.chosen
    ]


def rich_table(demo: Demo) -> Table:
    """The table for the terminal."""
    shown = Table(title=f"Measure here next (best {CHOSEN} of {CANDIDATES} candidates, nats)")
    for heading in HEADINGS:
        shown.add_column(heading, justify="right")
    for row in rows(demo):
        shown.add_row(*row)
    return shown


def draw(demo: Demo) -> Figure:
    """Three panels: prediction, split, choice."""
    figure, axes = plt.subplots(3, 1, figsize=(8, 10), layout="constrained")
    truth = 0.5 * np.log(2 * np.pi * np.e * np.square(3 * np.cos(demo.grid / 2)))
    figures.predictive_bands(axes[0], demo.grid, demo.mean, demo.variances, demo.data)
    figures.entropy_curves(axes[1], demo.grid, demo.entropies, truth)
    choices = demo.candidates[demo.chosen], demo.candidate_entropies.epistemic[demo.chosen]
    figures.epistemic_and_choices(
        axes[2], demo.grid, demo.entropies.epistemic, demo.data[0], choices
    )
    for panel in axes:
        panel.set_xlim(demo.grid[0], demo.grid[-1])
    return figure


def write(demo: Demo, output: Path) -> tuple[Path, Path]:
    """Write the figure and the page."""
    output.mkdir(parents=True, exist_ok=True)
    with style():
        figure = draw(demo)
        figure.savefig(output / "figure.png")
        text = page(
            "twofold: where to measure next",
            "An ensemble of networks with a latent input was fitted to 750 noisy measurements. "
            "Its uncertainty is split into noise, which more data cannot remove (aleatoric), and "
            "ignorance, which it can (epistemic). The next measurements go where ignorance is "
            "largest, not where noise is.",
            figure,
            "Predictive bands, the entropy split over x, and the chosen points",
            f"<h2>Measure here next (entropies in nats)</h2>{table(HEADINGS, rows(demo))}",
        )
        plt.close(figure)
    write_text(output / "index.html", text)
    return output / "figure.png", output / "index.html"
