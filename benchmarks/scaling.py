"""Time and memory of a fit and of splits against the number of rows, from Parquet.

    python benchmarks/scaling.py                # 10^4 to 10^7 rows of 20 columns
    python benchmarks/scaling.py --smoke

Every size is made, fitted and split in a process of its own, whose largest memory is noted.
Programs are compiled beforehand, on one block. Writes ``results/scaling.json`` and its figure.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pyarrow
import pyarrow.parquet
from sklearn.base import clone

from twofold import BNNLVRegressor, decompose_table
from twofold.compilation import enable_compile_cache
from twofold.estimators.pools import POOL_ROWS
from twofold.estimators.scratch import BLOCK_ROWS, Scratch, write_scratch
from twofold.estimators.streaming import fit_scratch, values_of
from twofold.experiments.records import Record
from twofold.inference.alpha import bytes_per_datum
from twofold.logs.blocks import open_source
from twofold.report.scaling import draw_memory, draw_times
from twofold.report.style import style

COLUMNS, SEED = 20, 0
SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
SMOKE_SIZES = (2_000, 4_000)
INPUTS = [f"x{index}" for index in range(COLUMNS)]
SETTINGS: dict[str, Any] = {
    "hidden_layer_sizes": (20,),
    "inference_options": {"members": 4, "nodes": 8},
    "epochs": 1,
    "batch_size": 1_000,
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


def write_table(path: Path, rows: int) -> None:
    """A smooth function of two of the columns, with noise that depends on a third."""
    writer = None
    for first in range(0, rows, BLOCK_ROWS):
        rng = np.random.default_rng([SEED, first])
        x = rng.normal(size=(min(BLOCK_ROWS, rows - first), COLUMNS))
        noise = 0.1 + 0.3 * np.abs(x[:, 2])
        y = np.sin(2 * x[:, 0]) + 0.5 * x[:, 1] + noise * rng.normal(size=len(x))
        table = pyarrow.table(dict(zip([*INPUTS, "y"], [*x.T, y], strict=True)))
        writer = writer or pyarrow.parquet.ParquetWriter(path, table.schema)
        writer.write_table(table)
    if writer is not None:
        writer.close()


def peak_bytes() -> int:
    """The largest memory that this process has had."""
    largest = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return largest if sys.platform == "darwin" else 1024 * largest


def timed(found: dict[str, float], name: str, work: Callable[[], Any]) -> Any:
    """Do the work; note its seconds and the peak memory behind it."""
    begun = time.perf_counter()
    result = work()
    found[f"seconds/{name}"] = time.perf_counter() - begun
    found[f"peak_bytes/{name}"] = peak_bytes()
    return result


def one_block(scratch: Scratch) -> Scratch:
    """As many of the rows as a block has: training on them is the program of all blocks."""
    return scratch._replace(running=scratch.running._replace(rows=scratch.block_rows))


def measure(rows: int, folder: Path) -> dict[str, float]:
    """All stages of one size."""
    warnings.simplefilter("ignore")
    enable_compile_cache()
    table, found = folder / "table.parquet", dict[str, float]()
    write_table(table, rows)
    found["table_bytes"] = table.stat().st_size
    model = BNNLVRegressor(**SETTINGS)
    values = values_of(open_source(table), [*INPUTS, "y"], False)
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


def measured_apart(rows: int) -> dict[str, float]:
    """``measure`` in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        words = [sys.executable, __file__, "--one", str(rows), "--folder", folder]
        done = subprocess.run(words, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    print(rows, {name: round(value, 1) for name, value in found.items()}, flush=True)
    return found


def slope(rows: list[int], values: list[float]) -> float:
    """Of the straight line through the logarithms."""
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
    """Measure all sizes and write the record and the figure."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", type=int, nargs="+", help="numbers of rows")
    parser.add_argument("--smoke", action="store_true", help="small sizes")
    parser.add_argument("--output", type=Path, default=Path("results"))
    parser.add_argument("--one", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.one:
        print(json.dumps(measure(arguments.one, arguments.folder)))
        return
    rows = list(arguments.sizes or (SMOKE_SIZES if arguments.smoke else SIZES))
    record = Record("scaling", SETTINGS | {"columns": COLUMNS, "block_rows": BLOCK_ROWS}, [SEED])
    found = [measured_apart(size) for size in rows]
    for size, numbers in zip(rows, found, strict=True):
        for name, value in numbers.items():
            record.add(f"rows_{size}/{name}", value)
    for name in STAGES:
        record.add(f"slope/{name}", slope(rows, [f[f"seconds/{name}"] for f in found]))
    record.add("slope/peak_bytes", slope(rows, [max(_peaks(f)) for f in found]))
    for latents in (1, 2, 3):
        record.add(f"bytes_per_row/q_z/latents_{latents}", bytes_per_datum(latents, 4))
    record.add("bytes_per_row/scratch", found[-1]["scratch_bytes"] / rows[-1])
    record.add("bytes_per_row/table", found[-1]["table_bytes"] / rows[-1])
    arguments.output.mkdir(parents=True, exist_ok=True)
    draw(rows, found, record, arguments.output / "scaling.png")
    print(f"wrote {record.write(arguments.output)}")


if __name__ == "__main__":
    main()
