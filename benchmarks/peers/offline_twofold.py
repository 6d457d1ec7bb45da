"""Find policies with this library's own pipeline and its defaults, as a process of its own.

    python offline_twofold.py twofold folder '{"task": "pendulum", "seed": 0, "smoke": false}'

The folder becomes that of ``find_policies``. Prints wall and CPU seconds as JSON.
"""

import json
import sys
import time
from pathlib import Path
from typing import Any

START = time.perf_counter()

from benchmarks.offline_tasks import TASKS, shrink  # noqa: E402
from twofold import BNNLVRegressor  # noqa: E402
from twofold.inference.alpha import Alpha  # noqa: E402
from twofold.plant.project import find_policies  # noqa: E402
from twofold.plant.search import SearchSettings  # noqa: E402


def main() -> None:
    """Search, say how long it took."""
    _, folder, words = sys.argv[1:]
    options = json.loads(words)
    problem, given = TASKS[options["task"]](), dict[str, Any]()
    if options["smoke"]:
        problem = shrink(problem)
        given["settings"] = SearchSettings(horizon=5, epochs=1, updates=2)
        given["tuning"] = None
        brief = Alpha(draws=2, epochs=2)
        given["regressor"] = BNNLVRegressor(inference=brief, hidden_layer_sizes=(8,))
    log = problem.batch(options["seed"])
    given |= {"embedding": problem.embed(log), "random_state": options["seed"]}
    find_policies(log, problem.cost, Path(folder), **given)
    wall, cpu = time.perf_counter() - START, time.process_time()
    print(json.dumps({"wall_seconds": wall, "cpu_seconds": cpu}))


if __name__ == "__main__":
    main()
