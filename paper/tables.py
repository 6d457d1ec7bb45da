"""Tables in README and docs, made from the records in ``results/``.

A file marks the place of a table with ``<!-- table: NAME -->`` and ``<!-- end table -->``; what
stands between is replaced.
"""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks import bench_tables, cost_tables, fault_tables, scaling_tables
from paper import claims, contest_tables, frontier_tables, systems_tables, table1_tables
from paper.jobs import LABELS, PAPER_METHODS
from paper.markdown import markdown, mean_and_error, metrics
from twofold.core.persistence import write_text

PUBLISHED_UCI = {
    "concrete": (-3.16, -3.04, -2.94, -3.06),
    "energy": (-2.04, -1.99, -1.21, -1.38),
    "kin8nm": (0.90, 0.95, 1.14, 1.20),
    "power-plant": (-2.84, -2.80, -2.81, -2.79),
    "wine-quality-red": (-0.97, -0.93, -0.93, -0.94),
}
PARTS = ("total", "aleatoric", "epistemic")
MARKED = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end table -->)", re.DOTALL)


def toy_fit(results: Path) -> str:
    """Test log-likelihood on the toy problems beside the oracle."""
    values = metrics("toy_fit", results)
    rows = [
        [
            problem,
            mean_and_error(values, f"{problem}/test_log_likelihood"),
            f"{values[f'{problem}/oracle/test_log_likelihood']:.2f}",
        ]
        for problem in ("heteroscedastic", "bimodal")
    ]
    return markdown(["problem", "test log-likelihood", "true process"], rows)


def uci(results: Path) -> str:
    """Test log-likelihood and RMSE on the UCI sets beside published numbers."""
    values = metrics("uci", results)
    rows = [
        [
            name,
            mean_and_error(values, f"{name}/default/test_log_likelihood"),
            mean_and_error(values, f"{name}/test_log_likelihood"),
            *(f"{number:.2f}" for number in published),
            mean_and_error(values, f"{name}/default/rmse", 3),
            mean_and_error(values, f"{name}/rmse", 3),
        ]
        for name, published in PUBLISHED_UCI.items()
    ]
    peers = ["PBP", "MC-dropout", "MC-dropout ×100", "Deep Ensembles"]
    own = ["twofold, ensemble", "twofold, α = 1"]
    return markdown(["set", *own, *peers, "RMSE, ensemble", "RMSE, α = 1"], rows)


def bench_train(results: Path) -> str:
    """Time of a training update beside PyTorch's and lightning-uq-box's."""
    values = metrics("bench_train", results)
    peers = {
        "torch_eager": "PyTorch, eager",
        "torch_compile": "PyTorch, torch.compile",
        "torch_tuned": "PyTorch, torch.compile, tuned by hand",
        "lightning_uq_box": "lightning-uq-box, sequential BNN+LV",
    }
    rows = [
        [label, f"{values[f'{peer}/ms_per_update']:.2f}", f"{values[f'ratio/{peer}']:.1f}"]
        for peer, label in peers.items()
    ]
    own = ["twofold", f"{values['ms_per_update']:.2f}", "1.0"]
    matched = ["twofold, matched", f"{values['twofold_matched/ms_per_update']:.2f}", "1.0"]
    rows = [own, *rows[:-1], matched, rows[-1]]
    return markdown(["", "ms per update", "its time over ours"], rows)


def entropy_targets(results: Path) -> str:
    """Bias ± spread of each estimator on samples of known entropy, and its time."""
    values = metrics("entropy_estimators", results)
    targets = ("gaussian", "two_modes", "skewed", "gaussian_2d")
    names = ("nearest_neighbour", "nearest_neighbour_k3", "adaptive", "kernel_density", "histogram")
    rows = []
    for name in names:
        for size in (500, 10_000):
            places = [f"{target}/{size}/{name}" for target in targets]
            cells = [f"{values[f'{p}/bias']:+.3f} ± {values[f'{p}/spread']:.3f}" for p in places]
            times = (values[f"{place}/milliseconds"] for place in (places[0], places[-1]))
            rows.append([f"`{name}`", f"{size:,}", *cells, *(f"{time:.1f}" for time in times)])
    headings = ["estimator", "samples", "Gaussian", "two modes", "skewed", "2-D Gaussian"]
    return markdown([*headings, "ms, 1-D", "ms, 2-D"], rows)


def linear_gaussian(results: Path) -> str:
    """Error of the epistemic entropy of a linear-Gaussian model, for each estimator."""
    values = metrics("entropy_estimators", results)
    ratios = ("0", "0.01", "0.1", "1", "10")
    names = (
        "quadrature",
        "mixture",
        "nearest_neighbour",
        "adaptive",
        "kernel_density",
        "histogram",
    )
    rows = [
        [
            f"`{name}`",
            *(f"{values[f'linear_gaussian/{name}/bias_at_ratio_{r}']:+.4f}" for r in ratios),
            f"{values[f'linear_gaussian/{name}/max_abs_error']:.4f}",
            f"{values[f'milliseconds_per_point/{name}']:.0f}",
        ]
        for name in names
    ]
    headings = ["estimator", *(f"ratio {r}" for r in ratios)]
    return markdown([*headings, "largest error", "ms per point"], rows)


def alpha_vs_hmc(results: Path) -> str:
    """The paper's claims about the split on the toy problems."""
    values = metrics("alpha_vs_hmc", results)
    names = (
        "rank_correlation",
        "mean_epistemic",
        "scarcity_correlation_epistemic",
        "scarcity_correlation_total",
        "aleatoric_abs_error",
        "aleatoric_abs_error_where_plentiful",
        "test_log_likelihood",
    )
    rows = [
        [
            f"{problem}, {LABELS[method]}",
            *(mean_and_error(values, f"{problem}/{method}/{name}") for name in names),
        ]
        for problem in ("heteroscedastic", "bimodal")
        for method in PAPER_METHODS
    ]
    headings = [
        "",
        "rank correlation with HMC's epistemic",
        "mean epistemic",
        "epistemic with scarcity",
        "total with scarcity",
        "aleatoric error",
        "aleatoric error, plentiful data",
        "test log-likelihood",
    ]
    return markdown(headings, rows)


def chains(results: Path) -> str:
    """How far the reference chains can be trusted."""
    values = metrics("alpha_vs_hmc", results)
    rows = [
        [
            problem,
            f"{values[f'{problem}/hmc/r_hat_max']:.2f}",
            f"{values[f'{problem}/hmc/ess_min']:.0f}",
            f"{values[f'{problem}/hmc/divergences']:.0f}",
            mean_and_error(values, f"{problem}/hmc/rank_correlation"),
            mean_and_error(values, f"{problem}/hmc/epistemic_abs_error", 3),
        ]
        for problem in ("heteroscedastic", "bimodal")
    ]
    headings = ["", "largest R-hat", "smallest effective sample size", "divergences"]
    halves = ["rank correlation of two halves", "difference of two halves (nats)"]
    return markdown([*headings, *halves], rows)


def calibration(results: Path) -> str:
    """Quality of the predictive distributions on the toy problems."""
    values = metrics("calibration", results)
    names = ("calibration_error", "crps", "rmse", "test_log_likelihood")
    rows = [
        [
            f"{problem}, {LABELS[method]}",
            *(mean_and_error(values, f"{problem}/{method}/{name}", 3) for name in names),
        ]
        for problem in ("heteroscedastic", "bimodal")
        for method in PAPER_METHODS
    ]
    return markdown(["", "calibration error", "CRPS", "RMSE", "log-likelihood"], rows)


def wet_chicken_map(results: Path) -> str:
    """Means over the corners of the river."""
    values = metrics("wet_chicken_map", results)
    rows = [
        [
            corner.replace("_", " "),
            mean_and_error(values, f"{corner}/transitions_per_cell", 1),
            *(mean_and_error(values, f"{corner}/{part}") for part in PARTS),
        ]
        for corner in ("top_right", "bottom_right", "top_left", "bottom_left")
    ]
    return markdown(["corner", "transitions per cell", *PARTS], rows)


def bench_entropy(results: Path) -> str:
    """Seconds for 1,000 points with 500 × 500 draws."""
    values = metrics("bench_entropy", results)
    names = {
        "default": "quadrature (default)",
        "nearest_neighbour": "nearest neighbours, k = 25",
        "scipy": "the same with scipy's k-d tree",
    }
    rows = []
    for name, label in names.items():
        found = (values.get(f"{device}/{name}/seconds") for device in ("cpu", "gpu"))
        rows.append([label, *("–" if time is None else f"{time:.1f}" for time in found)])
    return markdown(["", "two CPU cores, s", "GPU, s"], rows)


TABLES: dict[str, Callable[[Path], str]] = {
    "toy_fit": toy_fit,
    "uci": uci,
    "bench_train": bench_train,
    "entropy_targets": entropy_targets,
    "linear_gaussian": linear_gaussian,
    "alpha_vs_hmc": alpha_vs_hmc,
    "chains": chains,
    "calibration": calibration,
    "wet_chicken_map": wet_chicken_map,
    "bench_entropy": bench_entropy,
    "bench_ratios": bench_tables.ratios,
    "bench_floors": bench_tables.floors,
    "bench_gains": bench_tables.gains,
    "bench_peaks": bench_tables.peaks,
    "cost_errors": cost_tables.errors_table,
    "cost_times": cost_tables.time_constants,
    "cost_memory": cost_tables.memory_constants,
    "cost_calculations": cost_tables.calculations,
    **{f"cost_{job}": partial(cost_tables.measured_table, job) for job in cost_tables.TERMS},
    "posteriors": contest_tables.posteriors,
    "contest_chains": contest_tables.contest_chains,
    "off_manifold": contest_tables.off_manifold,
    "scaling": scaling_tables.scaling,
    "scaling_bytes": scaling_tables.scaling_bytes,
    "scaling_row_groups": scaling_tables.row_groups,
    "amortised": scaling_tables.amortised,
    "systems_costs": systems_tables.systems_costs,
    "systems_speed": systems_tables.systems_speed,
    "systems_wind": systems_tables.systems_wind,
    "table1": table1_tables.table1,
    "table1_river": table1_tables.table1_river,
    "table1_gains": table1_tables.table1_gains,
    "table1_times": table1_tables.table1_times,
    "faults": fault_tables.faults,
    "batch_choice": table1_tables.batch_choice,
    "industrial_random_batch": frontier_tables.random_batch,
    "industrial_quick": partial(frontier_tables.policies, "industrial_quick"),
    "bench_search": frontier_tables.speed,
    "claims_summary": claims.summary,
    **{f"claims_{group}": partial(claims.table, group) for group in claims.GROUPS},
    **{
        f"{system}_{table.__name__}": partial(table, f"{system}_frontier")
        for system in ("industrial", "wet_chicken", "wind")
        for table in (
            frontier_tables.policies,
            frontier_tables.claims,
            frontier_tables.scores,
            frontier_tables.models,
        )
    },
}


def fill(text: str, results: Path) -> str:
    """The text with every marked table made anew."""
    return MARKED.sub(lambda match: match[1] + TABLES[match[2]](results) + match[3], text)


def run(root: Path) -> list[Path]:
    """Renew the tables of README and docs; returns the files that changed."""
    changed = []
    for path in [root / "README.md", *sorted((root / "docs").glob("**/*.md"))]:
        text = path.read_text()
        new = fill(text, root / "results")
        if new != text:
            write_text(path, new)
            changed.append(path)
    return changed
