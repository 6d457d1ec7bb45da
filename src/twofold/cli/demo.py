"""``twofold demo``: noisy data, a fit, the split of its uncertainty, and where to measure next."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import numpy as np
from typer import Option

from twofold.cli.terminal import CommandError, show_table

if TYPE_CHECKING:
    from twofold import Decomposition

CANDIDATES, CHOICES = 50, 5
SMOKE_EPOCHS = 20
HEADINGS = ("x", "epistemic", "aleatoric", "total", "data within ±0.25")


class Demo(NamedTuple):
    """Everything that the figure and the table show."""

    data: tuple[np.ndarray, np.ndarray]
    grid: np.ndarray
    mean: np.ndarray
    variances: "Decomposition"
    entropies: "Decomposition"
    candidates: np.ndarray
    candidate_entropies: "Decomposition"
    places: np.ndarray
    test_log_likelihood: float
    oracle: float


def demo(
    out: Annotated[Path, Option(help="Output folder.")] = Path("demo-output"),
    smoke: Annotated[bool, Option("--smoke", help="A quick rehearsal: few epochs.")] = False,
) -> None:
    """Fit a small model to noisy data, split its uncertainty, and choose where to measure next.

    Example: twofold demo --out demo-output
    """
    from twofold.core.sharding import enable_compile_cache

    if out.exists() and not out.is_dir():
        raise CommandError(f"--out must be a folder, got the file {out}")
    enable_compile_cache()
    print("Fitting 750 noisy measurements of y = 7 sin x + 3 |cos(x/2)| ε …")
    results = compute_demo(epochs=SMOKE_EPOCHS if smoke else None)
    title = f"Measure here next (best {CHOICES} of {CANDIDATES} candidates, nats)"
    show_table(HEADINGS, list_choices(results), title)
    print(
        f"test log-likelihood {results.test_log_likelihood:.3f}; "
        f"the true process itself reaches {results.oracle:.3f}"
    )
    figure, page = write_demo(results, out)
    print(f"figure: {figure}\npage:   {page}")


def compute_demo(epochs: int | None = None, seed: int = 0) -> Demo:
    """The main job itself, in five lines of library use, and what its figures need."""
    from twofold import BNNLVRegressor, Ensemble
    from twofold.active import choose_best, epistemic_score
    from twofold.envs.toy import HETEROSCEDASTIC as problem

    x, y = problem.training_data(seed)
    model = BNNLVRegressor(inference=Ensemble(epochs=epochs), random_state=seed).fit(x, y)
    candidates = np.random.default_rng(seed).uniform(problem.low, problem.high, (CANDIDATES, 1))
    entropies = model.decompose(candidates)
    places = choose_best(epistemic_score(entropies), CHOICES)

    grid = np.linspace(problem.low, problem.high, 200)[:, None]
    test_x, test_y = problem.test_data(seed)
    return Demo(
        (x[:, 0], y), grid[:, 0], model.predict(grid), model.decompose(grid, by="variance"),
        model.decompose(grid), candidates[:, 0], entropies, places,
        model.log_likelihood(test_x, test_y).mean(),
        problem.log_density(test_x[:, 0], test_y).mean(),
    )  # fmt: skip


def list_choices(demo: Demo) -> list[list[str]]:
    """One row for each point to measure, best first; entropies in nats."""
    parts = demo.candidate_entropies
    near = np.abs(demo.candidates[:, None] - demo.data[0]) < 0.25
    columns = demo.candidates, parts.epistemic, parts.aleatoric, parts.total
    return [[*(f"{column[i]:.2f}" for column in columns), str(near[i].sum())] for i in demo.places]


def write_demo(demo: Demo, folder: Path) -> tuple[Path, Path]:
    """Write the three panels as ``figure.png``, and the page ``index.html``."""
    from matplotlib.figure import Figure

    from twofold.core.persistence import write_text
    from twofold.report import figures
    from twofold.report.figures import draw_panel, style
    from twofold.report.page import render_page

    truth = 0.5 * np.log(2 * np.pi * np.e * np.square(3 * np.cos(demo.grid / 2)))
    choices = demo.candidates[demo.places], demo.candidate_entropies.epistemic[demo.places]
    grid, limits = demo.grid, (demo.grid[0], demo.grid[-1])
    panels: list[Any] = [
        (figures.plot_predictive_bands, grid, demo.mean, demo.variances, demo.data),
        (figures.plot_entropies, grid, demo.entropies, truth),
        (figures.plot_choices, grid, demo.entropies.epistemic, demo.data[0], choices),
    ]
    folder.mkdir(parents=True, exist_ok=True)
    with style():
        figure = Figure(figsize=(8, 10), layout="constrained")
        for axes, (plot, *arguments) in zip(figure.subplots(3, 1), panels, strict=True):
            plot(axes, *arguments)
            axes.set(xlim=limits)
        figure.savefig(folder / "figure.png")
    drawn = [draw_panel(*panel, xlim=limits) for panel in panels]
    content = {"figures": drawn, "headings": HEADINGS, "rows": list_choices(demo)}
    page = render_page("demo.html", "twofold: where to measure next", **content)
    write_text(folder / "index.html", page)
    return folder / "figure.png", folder / "index.html"
