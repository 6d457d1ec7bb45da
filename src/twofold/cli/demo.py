"""The main job, end to end: noisy data → fit → split the uncertainty → where to measure next."""

from pathlib import Path
from typing import NamedTuple

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table

from twofold import BNNLVRegressor, Decomposition
from twofold.active import choose_best, epistemic_score
from twofold.core.persistence import write_text
from twofold.envs.toy import HETEROSCEDASTIC
from twofold.report import figures
from twofold.report.page import page, picture, pictures, table
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
    entropies = model.decompose(candidates)
    chosen = choose_best(epistemic_score(entropies), CHOSEN)

    grid = np.linspace(problem.low, problem.high, 200)[:, None]
    test_x, test_y = problem.test_data(seed)
    return Demo(
        data=(x[:, 0], y),
        grid=grid[:, 0],
        mean=model.predict(grid),
        variances=model.decompose(grid, by="variance"),
        entropies=model.decompose(grid),
        candidates=candidates[:, 0],
        candidate_entropies=entropies,
        chosen=chosen,
        test_log_likelihood=model.log_likelihood(test_x, test_y).mean(),
        oracle=problem.log_density(test_x[:, 0], test_y).mean(),
    )


def rows(demo: Demo) -> list[list[str]]:
    """One row for each point to measure, best first; entropies in nats."""
    parts = demo.candidate_entropies
    near = np.abs(demo.candidates[:, None] - demo.data[0]) < 0.25
    return [
        [
            f"{demo.candidates[i]:.2f}",
            *(f"{part[i]:.2f}" for part in (parts.epistemic, parts.aleatoric, parts.total)),
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
    figure = Figure(figsize=(8, 10), layout="constrained")
    for axes, panel in zip(figure.subplots(3, 1), (prediction, split, choice), strict=True):
        panel(axes, demo)
    return figure


def prediction(axes: Axes, demo: Demo) -> None:
    """Data, mean and bands."""
    figures.predictive_bands(axes, demo.grid, demo.mean, demo.variances, demo.data)
    axes.set_xlim(demo.grid[0], demo.grid[-1])


def split(axes: Axes, demo: Demo) -> None:
    """The parts of the entropy, and the true noise's."""
    truth = 0.5 * np.log(2 * np.pi * np.e * np.square(3 * np.cos(demo.grid / 2)))
    figures.entropy_curves(axes, demo.grid, demo.entropies, truth)
    axes.set_xlim(demo.grid[0], demo.grid[-1])


def choice(axes: Axes, demo: Demo) -> None:
    """The epistemic part, and where to measure next."""
    choices = demo.candidates[demo.chosen], demo.candidate_entropies.epistemic[demo.chosen]
    figures.epistemic_and_choices(axes, demo.grid, demo.entropies.epistemic, demo.data[0], choices)
    axes.set_xlim(demo.grid[0], demo.grid[-1])


PANELS = {
    prediction: "Measurements, the predicted mean, and bands of both parts of its uncertainty",
    split: "Total, aleatoric and epistemic entropy over x, and the entropy of the true noise",
    choice: "The epistemic part over x, and the points that are chosen where it is largest",
}


def panels(demo: Demo) -> str:
    """The same panels as pictures of a page."""
    found = []
    for panel, description in PANELS.items():
        figure = Figure(figsize=(4.6, 3.4), layout="constrained")
        panel(figure.subplots(), demo)
        found.append(picture(figure, description))
    return pictures(*found)


def write(demo: Demo, output: Path) -> tuple[Path, Path]:
    """Write the figure and the page."""
    output.mkdir(parents=True, exist_ok=True)
    with style():
        draw(demo).savefig(output / "figure.png")
        text = page(
            "twofold: where to measure next",
            "An ensemble of networks with a latent input was fitted to 750 noisy measurements. "
            "Its uncertainty is split into noise, which more data cannot remove (aleatoric), and "
            "ignorance, which it can (epistemic). The next measurements go where ignorance is "
            "largest, not where noise is.",
            [
                ("What the model says", panels(demo)),
                ("Measure here next (entropies in nats)", table(HEADINGS, rows(demo))),
            ],
        )
    write_text(output / "index.html", text)
    return output / "figure.png", output / "index.html"
