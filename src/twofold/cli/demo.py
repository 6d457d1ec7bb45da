"""``twofold demo``: noisy data, a fit, the split of its uncertainty, and where to measure next."""

from pathlib import Path
from typing import Annotated, Any

from typer import Option

from twofold.cli.run import Run
from twofold.cli.terminal import check_folder, say, to_table

CANDIDATES, CHOICES, SEED = 50, 5, 0
SMOKE_UPDATES = 20
HEADINGS = ("x", "epistemic", "aleatoric", "total", "data within ±0.25")


def demo(
    run: Run,
    out: Annotated[Path, Option(help="Output folder.")] = Path("demo-output"),
    smoke: Annotated[bool, Option("--smoke", help="A quick rehearsal: few updates.")] = False,
) -> None:
    """Fit a small model to noisy data, split its uncertainty, and choose where to measure next.

    Example: twofold demo --out demo-output
    """
    import numpy as np

    from twofold import BNNLVRegressor, Ensemble
    from twofold.active import choose_best, epistemic_score
    from twofold.core.sharding import enable_compile_cache
    from twofold.envs.toy import HETEROSCEDASTIC as problem
    from twofold.report import plot_choices, plot_entropies, plot_predictive_bands
    from twofold.report.figures import draw_panel
    from twofold.report.page import write_page

    check_folder(out)
    enable_compile_cache()
    say("fitting 750 noisy measurements of y = 7 sin x + 3 |cos(x/2)| ε …")
    x, y = problem.training_data(SEED)
    method = Ensemble(updates=SMOKE_UPDATES if smoke else None)
    model = BNNLVRegressor(inference=method, random_state=SEED).fit(x, y)
    candidates = np.random.default_rng(SEED).uniform(problem.low, problem.high, (CANDIDATES, 1))
    split = model.decompose(candidates)
    places = choose_best(epistemic_score(split), CHOICES)
    near = np.sum(np.abs(candidates - x[:, 0]) < 0.25, axis=1)
    columns = candidates[:, 0], split.epistemic, split.aleatoric, split.total
    rows = [[*(f"{column[i]:.2f}" for column in columns), str(near[i])] for i in places]

    grid = np.linspace(problem.low, problem.high, 200)
    variances, entropies = (model.decompose(grid[:, None], by=by) for by in ("variance", "entropy"))
    truth = 0.5 * np.log(2 * np.pi * np.e * np.square(3 * np.cos(grid / 2)))
    choices = candidates[places, 0], split.epistemic[places]
    panels: list[Any] = [
        (plot_predictive_bands, grid, model.predict(grid[:, None]), variances, (x[:, 0], y)),
        (plot_entropies, grid, entropies, truth),
        (plot_choices, grid, entropies.epistemic, x[:, 0], choices),
    ]
    figures = [draw_panel(*panel, xlim=(problem.low, problem.high)) for panel in panels]
    out.mkdir(parents=True, exist_ok=True)
    page, title = out / "index.html", "twofold: where to measure next"
    write_page(page, "demo.html", title, figures=figures, headings=HEADINGS, rows=rows)
    test_x, test_y = problem.test_data(SEED)
    reached = model.log_likelihood(test_x, test_y).mean()
    best = problem.log_density(test_x[:, 0], test_y).mean()
    run.show(
        {"page": page, "test_log_likelihood": reached, "true_process": best},
        to_table(HEADINGS, rows, f"Measure here next (best {CHOICES} of {CANDIDATES}, nats)"),
        f"test log-likelihood {reached:.3f}; the true process itself reaches {best:.3f}",
        f"wrote {page}",
    )
