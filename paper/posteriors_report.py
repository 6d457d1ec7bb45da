"""Tables and figure of the comparison of posteriors, from ``results/posteriors.json``."""

from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.figure import Figure

from paper.fits import LABELS, REFERENCES, found_methods
from paper.markdown import markdown, mean_and_error, metrics
from paper.posteriors import METHODS, SEEDS
from paper.problems import PROBLEMS
from paper.records import Context
from twofold.report.figures import PALETTE, style


def tabulate_posteriors(results: Path) -> str:
    """One row per problem and posterior."""
    values = metrics("posteriors", results)
    columns = {
        "epistemic_rank_correlation": ("epistemic, rank correlation with the reference's", 2),
        "epistemic_abs_error": ("epistemic, difference from the reference's", 3),
        "aleatoric_abs_error": ("aleatoric error, plentiful data", 3),
        "test_log_likelihood": ("test log-likelihood", 3),
        "reference_gap": ("below the reference's", 3),
        "oracle_gap": ("gap to the truth", 3),
        "calibration_error": ("calibration error", 3),
        "outside/growth": ("growth outside", 2),
        "outside/hiding_places": ("hiding places", 2),
        "outside/deviation_1": ("deviation at distance 1", 2),
    }
    rows = [
        [
            f"{problem.replace('_', '-')}, {LABELS[method]}",
            *(
                _cell(values, f"{problem}/{method}/{name}", digits)
                for name, (_, digits) in columns.items()
            ),
            *(
                "–" if method in REFERENCES else _seconds(values, f"{problem}/{method}/seconds_{d}")
                for d in ("cpu", "gpu")
            ),
        ]
        for problem in SEEDS
        for method in (*METHODS, *REFERENCES)
        if f"{problem}/{method}/test_log_likelihood/mean" in values
    ]
    headings = [heading for heading, _ in columns.values()]
    return markdown(["", *headings, "s, two cores", "s, GPU"], rows)


def _cell(values: Mapping[str, float], name: str, digits: int) -> str:
    return mean_and_error(values, name, digits) if f"{name}/mean" in values else "–"


def _seconds(values: Mapping[str, float], name: str) -> str:
    mean = f"{name}/mean"
    return f"{values[mean]:.0f}" if mean in values else "–"


def tabulate_chains(results: Path) -> str:
    """Convergence of the references."""
    values = metrics("posteriors", results)
    rows = []
    for problem, seeds in SEEDS.items():
        for method in REFERENCES:
            place = f"{problem}/{method}"
            diagnostics = {
                name: [values[n] for seed in seeds if (n := f"{place}/{name}/{seed}") in values]
                for name in ("r_hat_max", "ess_min")
            }
            if not diagnostics["r_hat_max"]:
                continue
            halves = {"epistemic_rank_correlation": 2, "epistemic_abs_error": 3}
            halves |= {"log_density_abs_difference": 3}
            rows.append(
                [
                    f"{problem.replace('_', '-')}, {LABELS[method]}",
                    f"{min(diagnostics['r_hat_max']):.2f} … {max(diagnostics['r_hat_max']):.2f}",
                    f"{min(diagnostics['ess_min']):.0f}",
                    *(_cell(values, f"{place}/{n}", d) for n, d in halves.items()),
                ]
            )
    headings = ["", "largest R-hat of each seed", "smallest effective sample size"]
    of_halves = ["rank correlation of two halves", "difference of two halves (nats)"]
    return markdown([*headings, *of_halves, "of their log-densities"], rows)


QUALITIES = {
    "epistemic_abs_error": "epistemic entropy: mean difference\nfrom the reference's (nats)",
    "aleatoric_abs_error": "aleatoric entropy: mean error\nwhere data are plentiful (nats)",
    "oracle_gap": "test log-likelihood: gap to the\ntrue process (nats)",
}


def draw_tradeoffs(context: Context) -> list[Path]:
    """Quality against seconds, as ``posteriors.png`` beside the record."""
    values = metrics("posteriors", context.folder_with("posteriors.json"))
    entries = {}
    for method in found_methods(METHODS, values):
        needed = ["seconds_cpu/mean", *(f"{quality}/mean" for quality in QUALITIES)]
        if not all(f"{p}/{method}/{name}" in values for p in PROBLEMS for name in needed):
            continue
        seconds = {p: values[f"{p}/{method}/seconds_cpu/mean"] for p in PROBLEMS}
        label = LABELS[method]
        entries[label] = {
            quality: Tradeoff(
                seconds, {p: values[f"{p}/{method}/{quality}/mean"] for p in PROBLEMS}
            )
            for quality in QUALITIES
        }
    path = context.output / "posteriors.png"
    with style():
        figure = tradeoff_figure(entries, QUALITIES, "seconds for a fit on two CPU cores")
        figure.savefig(path, dpi=100)
    return [path]


MARKERS = ("o", "s", "^", "D", "v", "P", "X")


class Tradeoff(NamedTuple):
    """Cost and quality of one method on each problem."""

    costs: Mapping[str, float]
    qualities: Mapping[str, float]


def tradeoff_figure(
    entries: Mapping[str, Mapping[str, Tradeoff]], measures: Mapping[str, str], cost: str
) -> Figure:
    """Small points are problems, large ones their mean; lower left is better."""
    figure, axes = plt.subplots(1, len(measures), figsize=(11, 4.2), layout="constrained")
    for axis, (measure, label) in zip(np.atleast_1d(axes), measures.items(), strict=True):
        for i, (method, measures_of) in enumerate(entries.items()):
            costs, qualities = (np.array(list(part.values())) for part in measures_of[measure])
            look = {"color": PALETTE[i % len(PALETTE)], "marker": MARKERS[i % len(MARKERS)]}
            axis.scatter(costs, qualities, s=14, alpha=0.5, linewidths=0, **look)
            centre = np.exp(np.log(costs).mean()), qualities.mean()
            axis.scatter(*centre, s=90, edgecolors="white", label=method, zorder=3, **look)
        axis.set(xscale="log", yscale="log", xlabel=cost, ylabel=label)
    figure.legend(
        *np.atleast_1d(axes)[0].get_legend_handles_labels(), loc="outside lower center", ncols=4
    )
    return figure
