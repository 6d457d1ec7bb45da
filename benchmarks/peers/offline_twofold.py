"""Find policies as ``twofold policy search --quick`` does, in a process of its own.

    python offline_twofold.py twofold folder '{"task": "pendulum", "seed": 0, "smoke": false}'

The folder becomes that of ``find_policies``. Prints wall and CPU seconds as JSON.
"""

import json
import sys
import time
from pathlib import Path

START = time.perf_counter()

from benchmarks.offline_tasks import TASKS, shrink  # noqa: E402
from paper.selection import find_quickly  # noqa: E402
from paper.selection_tasks import TASKS as PLANNED  # noqa: E402


def main() -> None:
    """Search, say how long it took."""
    _, folder, words = sys.argv[1:]
    options = json.loads(words)
    task, seed, smoke = (options[name] for name in ("task", "seed", "smoke"))
    problem = shrink(TASKS[task]()) if smoke else TASKS[task]()
    horizon = problem.horizon if smoke else PLANNED[task].horizon
    find_quickly(problem, horizon, problem.batch(seed), Path(folder), seed, smoke)
    wall, cpu = time.perf_counter() - START, time.process_time()
    print(json.dumps({"wall_seconds": wall, "cpu_seconds": cpu}))


if __name__ == "__main__":
    main()
