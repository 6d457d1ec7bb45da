"""Tables of large data: time and memory against rows, and three ways to treat z."""

import re
from pathlib import Path

from paper.markdown import markdown, mean_and_error, metrics

WAYS = {
    "per_datum": "a q(z) for each datum",
    "encoder": "one encoder, q(z given x, y)",
    "nodes": "z integrated out",
}


def scaling(results: Path) -> str:
    """Seconds of each stage and peak memory, for each number of rows."""
    values = metrics("scaling", results)
    found = {re.match(r"rows_(\d+)/", name) for name in values}
    sizes = sorted({int(one[1]) for one in found if one})
    stages = ("read", "fit", "variance", "entropy")
    rows = [
        [
            f"{size:,}",
            *(f"{values[f'rows_{size}/seconds/{stage}']:.1f}" for stage in stages),
            f"{max(values[f'rows_{size}/peak_bytes/{stage}'] for stage in stages) / 2**20:,.0f}",
        ]
        for size in sizes
    ]
    slopes = [f"{values[f'slope/{stage}']:.2f}" for stage in (*stages, "peak_bytes")]
    headings = ["rows", "read, s", "one pass, s", "by variance, s", "by entropy, s", "peak, MiB"]
    return markdown(headings, [*rows, ["slope of the logarithms", *slopes]])


def scaling_bytes(results: Path) -> str:
    """What grows with the rows."""
    values = metrics("scaling", results)
    kept = {
        "the table, in memory or on the scratch disk": values["bytes_per_row/scratch"],
        "the table as Parquet": values["bytes_per_row/table"],
        **{
            f"a q(z) for each datum, {latents} latent input{'s' if latents > 1 else ''}": values[
                f"bytes_per_row/q_z/latents_{latents}"
            ]
            for latents in (1, 2, 3)
        },
    }
    rows = [[name, f"{each:.0f}", f"{each * 1e7 / 2**20:,.0f}"] for name, each in kept.items()]
    return markdown(["", "bytes a row", "MiB for 10 million rows"], rows)


def row_groups(results: Path) -> str:
    """What a process has in memory at most while it reads, for each size of row groups."""
    values = metrics("scaling", results)
    found = {re.match(r"row_group/(\d+)/", name) for name in values}
    groups = sorted({int(one[1]) for one in found if one})
    names = ("peak_bytes/before", "peak_bytes/read")
    rows = [
        [f"{g:,}", *(f"{values[f'row_group/{g}/{name}'] / 2**20:,.0f}" for name in names)]
        for g in groups
    ]
    return markdown(["rows per row group", "peak before, MiB", "peak after reading, MiB"], rows)


def amortised(results: Path) -> str:
    """Quality, time and memory of three ways to treat z."""
    values = metrics("amortised", results)
    rows = [
        [
            f"{problem}, {label}",
            mean_and_error(values, f"{problem}/{way}/test_log_likelihood"),
            mean_and_error(values, f"{problem}/{way}/mean_epistemic", 3),
            f"{values[f'{problem}/{way}/ms_per_update']:#.3g}",
            f"{values[f'{way}/state_bytes/rows_750'] / 2**10:,.0f}",
            f"{values[f'{way}/state_bytes/rows_10000000'] / 2**10:,.0f}",
        ]
        for problem in ("heteroscedastic", "bimodal")
        for way, label in WAYS.items()
    ]
    quality = ["test log-likelihood", "mean epistemic, nats", "ms per update"]
    return markdown(["", *quality, "state, KiB, 750 rows", "10 million rows"], rows)
