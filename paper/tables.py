"""Tables in README and docs, generated from the records in ``results/``.

The text between ``<!-- table: NAME -->`` and ``<!-- end table -->`` is replaced.
"""

import re
from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.tables import TABLES as BENCHMARK_TABLES
from paper import (
    alpha_vs_hmc,
    batch_choice,
    calibration,
    claims,
    dynamics,
    entropy_estimators,
    figure_3,
    frontier_tables,
    off_manifold,
    out_of_bag,
    posteriors_report,
    search_gap,
    selection,
    small_tables,
    split_truth,
    systems,
    table_1_report,
    toy_fit,
    uci,
    wind_product,
)
from twofold.core.persistence import write_text

MARKED = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end table -->)", re.DOTALL)


TABLES: dict[str, Callable[[Path], str]] = {
    **BENCHMARK_TABLES,
    "toy_fit": toy_fit.tabulate_scores,
    "uci": uci.tabulate_scores,
    "uci_worst": uci.tabulate_worst,
    "entropy_targets": entropy_estimators.tabulate_targets,
    "linear_gaussian": entropy_estimators.tabulate_linear_gaussian,
    "alpha_vs_hmc": alpha_vs_hmc.tabulate_splits,
    "calibration": calibration.tabulate_scores,
    "wet_chicken_map": figure_3.tabulate_corners,
    "posteriors": posteriors_report.tabulate_posteriors,
    "contest_chains": posteriors_report.tabulate_chains,
    "off_manifold": off_manifold.tabulate_coverage,
    "small_tables": small_tables.tabulate_small_tables,
    "out_of_bag": out_of_bag.tabulate_gaps,
    "split_truth": split_truth.tabulate_splits,
    "systems_costs": systems.tabulate_costs,
    "systems_speed": systems.tabulate_speed,
    "systems_wind": systems.tabulate_wind,
    "table1": table_1_report.tabulate_scores,
    "table1_river": table_1_report.tabulate_wet_chicken,
    "table1_gains": table_1_report.tabulate_gains,
    "table1_times": table_1_report.tabulate_times,
    "batch_choice": batch_choice.tabulate_choices,
    "industrial_random_batch": frontier_tables.random_batch,
    "industrial_gap": search_gap.tabulate_gap,
    "dynamics": dynamics.tabulate_dynamics,
    "wind_product": wind_product.tabulate_product,
    "selection": selection.tabulate_regrets,
    "industrial_quick": partial(frontier_tables.policies, "industrial_quick"),
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
    """The text with every marked table regenerated."""
    return MARKED.sub(lambda match: match[1] + TABLES[match[2]](results) + match[3], text)


def renew_tables(root: Path) -> list[Path]:
    """Update the tables in README and docs; returns the changed files."""
    changed = []
    for path in [root / "README.md", *sorted((root / "docs").glob("**/*.md"))]:
        text = path.read_text()
        new = fill_tables(text, root / "results")
        if new != text:
            write_text(path, new)
            changed.append(path)
    return changed
