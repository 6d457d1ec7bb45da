"""Time and memory of a fit and of splits against the number of rows, from Parquet.

    python benchmarks/scaling.py                      # 10^4 to 10^7 rows of 20 columns
    python benchmarks/scaling.py --only row_groups    # reading alone, row groups of several sizes
    python benchmarks/scaling.py --smoke

Every size is generated, fitted and split in a process of its own, whose peak memory is recorded.
Programs are compiled beforehand, on one block. Writes ``results/scaling.json`` and the figure of
the sizes; with ``--only``, the numbers of the other part are kept.
"""

import argparse
import multiprocessing
import re
import resource
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pyarrow
import pyarrow.parquet
from sklearn.base import clone

from benchmarks.scaling_figure import draw_memory, draw_times
from paper.records import Record
from twofold import Alpha, BNNLVRegressor, decompose_table
from twofold.core.sharding import enable_compile_cache
from twofold.estimators.streaming import (
    BLOCK_ROWS,
    POOL_ROWS,
    Scratch,
    fit_scratch,
    write_scratch,
)
from twofold.inference.alpha import bytes_per_datum
from twofold.report.figures import style
from twofold.tables import open_table

COLUMNS, SEED = 20, 0
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
SMOKE_SIZES = (2_000, 4_000)
# Rows per group: those of a block, Arrow's default, and all rows.
GROUPED_ROWS, ROW_GROUPS = 2_000_000, (BLOCK_ROWS, 2**20, 2_000_000)
SMOKE_ROWS, SMOKE_GROUPS = 4_000, (1_000, 4_000)
PARTS = ("sizes", "row_groups")
STATUS = Path("/proc/self/status")
INPUTS = [f"x{index}" for index in range(COLUMNS)]
SETTINGS: dict[str, Any] = {
    "hidden_layer_sizes": (20,),
    "inference": Alpha(nodes=8, draws=4, epochs=1, batch_size=1_000),
    "n_weight_draws": 4,
    "n_latent_draws": 8,
    "random_state": SEED,
    "verbose": False,
}
STAGES = {
    "read": "reading and standardising",
    "fit": "one pass of training",
    "variance": "splitting by variance",
    "entropy": "splitting by entropy",
}


def write_table(path: Path, rows: int, group: int = BLOCK_ROWS) -> None:
    """A smooth function of two of the columns, with noise that depends on a third, written one row
    group at a time."""
    writer = None
    for first in range(0, rows, group):
        rng = np.random.default_rng([SEED, first])
        x = rng.normal(size=(min(group, rows - first), COLUMNS))
        noise = 0.1 + 0.3 * np.abs(x[:, 2])
        y = np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] + noise * rng.normal(size=len(x))
        table = pyarrow.table(dict(zip([*INPUTS, "y"], [*x.T, y], strict=True)))
        writer = writer or pyarrow.parquet.ParquetWriter(path, table.schema)
        writer.write_table(table, group)
    if writer is not None:
        writer.close()


def peak_bytes() -> int:
    """Peak memory of this process."""
    if STATUS.exists():
        # The count of ``getrusage`` is inherited from the parent process.
        return 1024 * int(next(re.finditer(r"VmHWM:\s+(\d+)", STATUS.read_text()))[1])
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else 1024 * largest


def timed(found: dict[str, float], name: str, work: Callable[[], Any]) -> Any:
    """Run the work; record its seconds and the peak memory after it."""
    begun = time.perf_counter()
    result = work()
    found[f"seconds/{name}"] = time.perf_counter() - begun
    found[f"peak_bytes/{name}"] = peak_bytes()
    return result


def one_block(scratch: Scratch) -> Scratch:
    """The rows of one block; all blocks are trained by the same program."""
    return scratch._replace(running=scratch.running._replace(rows=scratch.block_rows))


def blocks_of(table: Path) -> Iterator[np.ndarray]:
    """The numbers of a table, block by block, as a fit reads them."""
    names = [*INPUTS, "y"]
    return (block.values(names, False)[0] for block in open_table(table).blocks(BLOCK_ROWS, names))


def measure(rows: int, folder: Path) -> dict[str, float]:
    """All stages of one size."""
    warnings.simplefilter("ignore")
    enable_compile_cache()
    table, found = folder / "table.parquet", dict[str, float]()
    write_table(table, rows)
    found["table_bytes"] = table.stat().st_size
    model = BNNLVRegressor(**SETTINGS)
    values = blocks_of(table)
    scratch = timed(found, "read", lambda: write_scratch(folder / "rows", values))
    found["scratch_bytes"] = scratch.path.stat().st_size
    fit_scratch(clone(model), one_block(scratch), COLUMNS, 1)
    timed(found, "fit", lambda: fit_scratch(model, scratch, COLUMNS, 1))
    some = scratch.read(np.arange(min(rows, POOL_ROWS)))[:, :COLUMNS]
    for by in ("variance", "entropy"):
        model.predict(some)
        model.decompose(some, by=by)
        split = lambda by=by: decompose_table(  # noqa: E731
            model, table, folder / "split.parquet", by, inputs=INPUTS
        )
        timed(found, by, split)
    return found


def read(table: Path, folder: Path) -> dict[str, float]:
    """Read only."""
    found = {"peak_bytes/before": float(peak_bytes())}
    values = blocks_of(table)
    timed(found, "read", lambda: write_scratch(folder / "rows", values))
    return found


def apart(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of a function in a process of its own."""
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return pool.submit(function, *arguments).result()


def show(name: str, found: dict[str, float]) -> None:
    """Print a line of progress."""
    print(name, {key: round(value, 1) for key, value in found.items()}, flush=True)


def measure_sizes(record: Record, sizes: list[int], place: Path) -> None:
    """Measure all stages of all sizes, and draw the figure."""
    found = []
    for size in sizes:
        with tempfile.TemporaryDirectory() as folder:
            found.append(apart(measure, size, Path(folder)))
        show(f"{size} rows", found[-1])
    for size, numbers in zip(sizes, found, strict=True):
        for name, value in numbers.items():
            record.add(f"rows_{size}/{name}", value)
    for name in STAGES:
        record.add(f"slope/{name}", slope(sizes, [f[f"seconds/{name}"] for f in found]))
    record.add("slope/peak_bytes", slope(sizes, [max(_peaks(f)) for f in found]))
    for latents in (1, 2, 3):
        record.add(f"bytes_per_row/q_z/latents_{latents}", bytes_per_datum(latents, 4))
    record.add("bytes_per_row/scratch", found[-1]["scratch_bytes"] / sizes[-1])
    record.add("bytes_per_row/table", found[-1]["table_bytes"] / sizes[-1])
    draw(sizes, found, record, place)


def measure_row_groups(record: Record, rows: int, groups: list[int]) -> None:
    """Measure reading the same number of rows from row groups of several sizes."""
    record.add("row_group/rows", rows)
    for group in groups:
        with tempfile.TemporaryDirectory() as folder:
            table = Path(folder) / "table.parquet"
            # Writing a row group holds all of it in memory, so it is done in another process.
            apart(write_table, table, rows, group)
            found = apart(read, table, Path(folder))
        show(f"row groups of {group}", found)
        for name, value in found.items():
            record.add(f"row_group/{group}/{name}", value)


def part_of(name: str) -> str:
    """The part of the benchmark that a metric belongs to."""
    return "row_groups" if name.startswith("row_group/") else "sizes"


def slope(rows: list[int], values: list[float]) -> float:
    """Slope of a straight line through the logarithms."""
    return float(np.polyfit(np.log(rows), np.log(values), 1)[0])


def draw(rows: list[int], found: list[dict[str, float]], record: Record, place: Path) -> None:
    """Time and memory side by side."""
    with style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(9.5, 3.8), layout="constrained")
        seconds = {label: [f[f"seconds/{name}"] for f in found] for name, label in STAGES.items()}
        slopes = {label: record.metrics[f"slope/{name}"] for name, label in STAGES.items()}
        draw_times(left, rows, seconds, slopes)
        would = {
            "the table in memory": 8 * (COLUMNS + 1),
            "a q(z) for each datum": bytes_per_datum(1, 4),
        }
        draw_memory(right, rows, [max(_peaks(f)) for f in found], would)
        figure.savefig(place, dpi=150)


def _peaks(found: dict[str, float]) -> list[float]:
    return [value for name, value in found.items() if name.startswith("peak_bytes/")]


def main() -> None:
    """Measure the requested part and write the record and the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of rows")
    parser.add_argument("--row-groups", type=int, nargs="+", help="rows of a row group")
    parser.add_argument("--smoke", action="store_true", help="small sizes")
    parser.add_argument("--output", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    smoke = arguments.smoke
    arguments.output.mkdir(parents=True, exist_ok=True)
    record = Record("scaling", SETTINGS | {"columns": COLUMNS, "block_rows": BLOCK_ROWS}, [SEED])
    if "sizes" in arguments.only:
        sizes = list(arguments.sizes or (SMOKE_SIZES if smoke else SIZES))
        measure_sizes(record, sizes, arguments.output / "scaling.png")
    if "row_groups" in arguments.only:
        groups = list(arguments.row_groups or (SMOKE_GROUPS if smoke else ROW_GROUPS))
        measure_row_groups(record, SMOKE_ROWS if smoke else GROUPED_ROWS, groups)
    written = record.merge(arguments.output, lambda name: part_of(name) not in arguments.only)
    print(f"wrote {written}")


if __name__ == "__main__":
    main()
