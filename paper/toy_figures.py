"""Figures 1 and 2 of the paper, its appendices A (HMC) and B (other values of α), and the same
six panels for the anchored ensemble.

Each figure is drawn from one seed's fit and comes with its numbers as a CSV file; how much seeds
differ is what ``alpha_vs_hmc`` reports.
"""

from pathlib import Path

import numpy as np

from paper.figures.panels import Toy, six_panels
from paper.jobs import LABELS, Job, fitted
from twofold import BNNLVRegressor
from twofold.core.persistence import write_text
from twofold.envs.toy import BIMODAL, HETEROSCEDASTIC, TOY_PROBLEMS
from twofold.report.style import style

SEED = 0
POINTS = 120
SAMPLES = 25
FIGURES = {
    "figure_1": [(HETEROSCEDASTIC.name, "alpha_1")],
    "figure_2": [(BIMODAL.name, "alpha_1")],
    "ensemble": [(problem, "ensemble") for problem in TOY_PROBLEMS],
    "appendix_a": [(problem, "hmc") for problem in TOY_PROBLEMS],
    "appendix_b": [(p, method) for p in TOY_PROBLEMS for method in ("alpha_0.5", "vb")],
}


def run(name: str, smoke: bool, work: Path, output: Path) -> list[Path]:
    """Draw one of the FIGURES; returns the files written."""
    jobs = [Job(problem, method, SEED) for problem, method in FIGURES[name]]
    models = fitted(jobs, smoke, work)
    output.mkdir(parents=True, exist_ok=True)
    written = []
    for job, model in models.items():
        stem = name if len(jobs) == 1 else f"{name}_{job.problem}_{job.method}"
        written += write(job, model, output / stem)
    return written


def write(job: Job, model: BNNLVRegressor, stem: Path) -> list[Path]:
    """One figure as PNG and its curves as CSV."""
    toy = look(job, model)
    picture, numbers = Path(f"{stem}.png"), Path(f"{stem}.csv")
    with style():
        figure = six_panels(toy, f"{job.problem}, {LABELS[job.method]}")
        figure.savefig(picture, dpi=100)
    write_text(numbers, csv(toy))
    return [picture, numbers]


def look(job: Job, model: BNNLVRegressor) -> Toy:
    """What the six panels show."""
    problem = TOY_PROBLEMS[job.problem]
    x, y = problem.training_data(job.seed)
    grid = np.linspace(problem.low, problem.high, POINTS)
    return Toy(
        (x[:, 0], y),
        grid,
        model.decompose(grid[:, None]),
        model.sample(grid[:, None], SAMPLES),
        problem.entropy(grid),
    )


def csv(toy: Toy) -> str:
    """The curves, one row for each x."""
    names = ("total", "epistemic", "aleatoric")
    columns = {"x": toy.grid}
    for name in names:
        columns[name] = getattr(toy.split, name)
        columns[f"{name}_standard_error"] = getattr(toy.split.standard_errors, name)
    columns["true_aleatoric"] = toy.true_entropy
    lines = [",".join(columns)]
    lines += [",".join(f"{v:.6g}" for v in row) for row in zip(*columns.values(), strict=True)]
    return "\n".join(lines) + "\n"
