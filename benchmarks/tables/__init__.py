"""Tables of the benchmarks' records, for README and docs, by the names of their places there."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

from benchmarks.tables import (
    cost_model,
    faults,
    first_fit,
    first_use,
    offline_rl,
    peers,
    regression,
    scaling,
    suite,
)

TABLES: dict[str, Callable[[Path], str]] = {
    "bench_train": peers.tabulate_train,
    "bench_entropy": peers.tabulate_entropy,
    "bench_search": peers.tabulate_search,
    "bench_ratios": suite.ratios,
    "bench_floors": suite.floors,
    "bench_gains": suite.gains,
    "bench_peaks": suite.peaks,
    "cost_errors": cost_model.errors_table,
    "cost_times": cost_model.time_constants,
    "cost_memory": cost_model.memory_constants,
    "cost_calculations": cost_model.calculations,
    **{f"cost_{job}": partial(cost_model.measured_table, job) for job in cost_model.TERMS},
    "scaling": scaling.scaling,
    "scaling_bytes": scaling.scaling_bytes,
    "scaling_row_groups": scaling.row_groups,
    "amortised": scaling.amortised,
    "faults": faults.faults,
    "first_fit": first_fit.tabulate_first_fits,
    "bench_cores": first_fit.tabulate_cores,
    "first_use": first_use.tabulate_commands,
    "campaigns": first_use.tabulate_campaigns,
    "offline_rl": offline_rl.tabulate_costs,
    "offline_rl_seconds": offline_rl.tabulate_seconds,
    "regression": regression.tabulate_regression,
    "regression_beside": regression.tabulate_beside,
    "peer_splits": regression.tabulate_peer_splits,
    "splits_beside": regression.tabulate_splits_beside,
}
