"""Time a training update: this library, PyTorch (eager, compiled, tuned), lightning-uq-box.

    python benchmarks/train.py          on a CPU: all peers, in one run, alternating
    python benchmarks/train.py --gpu    on a GPU: 100 seeds at once

Both write ``results/bench_train.json`` and keep each other's measurements. The peers run in
``.bench-venv`` (created by ``make bench``) or with the interpreter ``--peer-python``.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from itertools import pairwise
from pathlib import Path

from paper.records import Record

HERE = Path(__file__).parent
SETTING = {"n": 750, "batch": 250, "draws": 50, "hidden": [20, 20]}
LIGHTNING_SETTING = {"n": 560, "batch": 50, "draws": 10, "hidden": [50, 50, 50]}
GPU_SEEDS, GPU_UPDATES = 100, 15_000
GPU_CHUNK = 250  # half a second, as the library itself chooses
LIGHTNING_REPEATS = 2  # 3,000 of its updates take minutes


def arguments(setting: dict) -> list[str]:
    """Command-line arguments for a setting."""
    words = []
    for name, value in setting.items():
        values = value if isinstance(value, list) else [value]
        words += [f"--{name}", *map(str, values)]
    return words


def call(python: str, script: str, words: list[str], threads: int) -> dict[str, float]:
    """Run one peer in its own process and read the JSON it prints."""
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    command = [python, str(HERE / script), *words]
    with subprocess.Popen(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as peer:
        try:
            output, errors = peer.communicate()
        finally:
            peer.kill()  # an interrupted benchmark leaves no process behind
    if peer.returncode:
        raise SystemExit(f"{' '.join(command)} failed:\n{errors[-2000:]}")
    return json.loads(output.strip().splitlines()[-1])


def measure_cpu(record: Record, peer_python: str, repeats: int, updates: int) -> None:
    """All peers alternately, ``repeats`` times; medians of the medians, and ratios to twofold's
    time."""
    words = [*arguments(SETTING), "--threads", "2", "--updates", str(updates)]
    matched = [*arguments(LIGHTNING_SETTING), "--threads", "1", "--updates", "3000"]
    jobs = {
        "twofold": (sys.executable, "peers/library.py", words, 2),
        "torch_eager": (peer_python, "peers/torch_plain.py", words, 2),
        "torch_compile": (peer_python, "peers/torch_plain.py", [*words, "--compiled"], 2),
        "torch_tuned": (peer_python, "peers/torch_tuned.py", [*words, "--compiled"], 2),
        "twofold_matched": (sys.executable, "peers/library.py", matched, 1),
        "lightning_uq_box": (peer_python, "peers/lightning.py", ["--updates", "3000"], 1),
    }
    found: dict[str, list[dict[str, float]]] = {name: [] for name in jobs}
    for repeat in range(repeats):
        for name, job in jobs.items():
            if name == "lightning_uq_box" and repeat >= LIGHTNING_REPEATS:
                continue
            found[name].append(call(*job))
            print(repeat, name, found[name][-1], file=sys.stderr, flush=True)
    times = {
        name: statistics.median(run["ms_median"] for run in runs) for name, runs in found.items()
    }
    for name, milliseconds in times.items():
        record.add(f"{name}/ms_per_update", milliseconds)
        spread = [run["ms_median"] for run in found[name]]
        record.add(f"{name}/ms_per_update/min", min(spread))
        record.add(f"{name}/ms_per_update/max", max(spread))
    for name in ("twofold", "torch_compile"):
        seconds = [run["seconds_compile"] for run in found[name]]
        record.add(f"{name}/seconds_compile", statistics.median(seconds))
    record.add("ms_per_update", times["twofold"])
    record.add("ratio/torch_eager", times["torch_eager"] / times["twofold"])
    record.add("ratio/torch_compile", times["torch_compile"] / times["twofold"])
    record.add("ratio/torch_tuned", times["torch_tuned"] / times["twofold"])
    record.add("ratio/lightning_uq_box", times["lightning_uq_box"] / times["twofold_matched"])
    record.add("cpu/fraction_of_floor", floor_seconds(1) * 1e3 / times["twofold"])


def measure_gpu(record: Record) -> None:
    """100 seeds at once, without compilation, compared with the arithmetic floor."""
    from library_peer import time_updates

    setting = (SETTING["n"], SETTING["batch"], SETTING["draws"], tuple(SETTING["hidden"]))
    found = time_updates(*setting, GPU_UPDATES, GPU_SEEDS, GPU_CHUNK)
    record.add("gpu/seconds_100_seeds_15000_updates", found["seconds"])
    record.add("gpu/seconds_compile", found["seconds_compile"])
    floor = floor_seconds(GPU_SEEDS) * GPU_UPDATES
    record.add("gpu/fraction_of_floor", floor / found["seconds"])


def floor_seconds(seeds: int) -> float:
    """Seconds of one update's arithmetic at the rate of a large product.

    Six operations for each weight, point and draw: two forward, four backward.
    """
    sizes = [2, *SETTING["hidden"], 1]
    weights = sum(a * b for a, b in pairwise(sizes))
    operations = 6 * weights * SETTING["batch"] * SETTING["draws"] * seeds
    return operations / product_rate()


def product_rate(size: int = 4096) -> float:
    """Operations per second of one large float32 matrix product on this device."""
    import jax
    import jax.numpy as jnp

    matrix = jax.random.normal(jax.random.key(0), (size, size))
    product = jax.jit(lambda a: jnp.matmul(a, a, precision="float32"))
    product(matrix).block_until_ready()
    times = []
    for _ in range(5):
        started = time.perf_counter()
        product(matrix).block_until_ready()
        times.append(time.perf_counter() - started)
    return 2 * size**3 / min(times)


def main() -> None:
    """Parse the command line, measure, write the record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--updates", type=int, default=3000)
    parser.add_argument("--peer-python", default=".bench-venv/bin/python")
    parser.add_argument("--output", type=Path, default=Path("results"))
    options = parser.parse_args()
    settings = {"setting": SETTING, "lightning_setting": LIGHTNING_SETTING}
    record = Record("bench_train", settings, seeds=[0])
    if options.gpu:
        measure_gpu(record)
    else:
        measure_cpu(record, options.peer_python, options.repeats, options.updates)
    written = record.merge(options.output, lambda name: name.startswith("gpu/") != options.gpu)
    print(f"wrote {written}")
    for name, value in record.metrics.items():
        print(f"{name:50s} {value:.4g}")


if __name__ == "__main__":
    main()
