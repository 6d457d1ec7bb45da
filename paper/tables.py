"""Tables in README and docs, made from the records in ``results/``.

A file marks the place of a table with ``<!-- table: NAME -->`` and ``<!-- end table -->``; what
stands between is replaced.
"""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks import bench_tables, cost_tables, fault_tables, scaling_tables
from paper import (
    alpha_vs_hmc,
    batch_choice,
    calibration,
    claims,
    entropy_estimators,
    figure_3,
    frontier_tables,
    off_manifold,
    posteriors_report,
    systems,
    table_1_report,
    toy_fit,
    uci,
)
from paper.markdown import markdown, metrics
from twofold.core.persistence import write_text

MARKED = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end table -->)", re.DOTALL)


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
    "toy_fit": toy_fit.tabulate_scores,
    "uci": uci.tabulate_scores,
    "bench_train": bench_train,
    "entropy_targets": entropy_estimators.tabulate_targets,
    "linear_gaussian": entropy_estimators.tabulate_linear_gaussian,
    "alpha_vs_hmc": alpha_vs_hmc.tabulate_splits,
    "chains": alpha_vs_hmc.tabulate_chains,
    "calibration": calibration.tabulate_scores,
    "wet_chicken_map": figure_3.tabulate_corners,
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
    "posteriors": posteriors_report.tabulate_posteriors,
    "contest_chains": posteriors_report.tabulate_chains,
    "off_manifold": off_manifold.tabulate_coverage,
    "scaling": scaling_tables.scaling,
    "scaling_bytes": scaling_tables.scaling_bytes,
    "scaling_row_groups": scaling_tables.row_groups,
    "amortised": scaling_tables.amortised,
    "systems_costs": systems.tabulate_costs,
    "systems_speed": systems.tabulate_speed,
    "systems_wind": systems.tabulate_wind,
    "table1": table_1_report.tabulate_scores,
    "table1_river": table_1_report.tabulate_wet_chicken,
    "table1_gains": table_1_report.tabulate_gains,
    "table1_times": table_1_report.tabulate_times,
    "faults": fault_tables.faults,
    "batch_choice": batch_choice.tabulate_choices,
    "industrial_random_batch": frontier_tables.random_batch,
    "industrial_quick": partial(frontier_tables.policies, "industrial_quick"),
    "bench_search": frontier_tables.speed,
    "claims_summary": claims.tabulate_summary,
    **{f"claims_{group}": partial(claims.tabulate_group, group) for group in claims.GROUPS},
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


def fill_tables(text: str, results: Path) -> str:
    """The text with every marked table made anew."""
    return MARKED.sub(lambda match: match[1] + TABLES[match[2]](results) + match[3], text)


def renew_tables(root: Path) -> list[Path]:
    """Renew the tables of README and docs; returns the files that changed."""
    changed = []
    for path in [root / "README.md", *sorted((root / "docs").glob("**/*.md"))]:
        text = path.read_text()
        new = fill_tables(text, root / "results")
        if new != text:
            write_text(path, new)
            changed.append(path)
    return changed
