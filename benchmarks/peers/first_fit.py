"""Time the first fit of a fresh process, and the import before it; prints JSON like the peers.

The data are a smooth function with normal noise that varies with the first input.
"""

import argparse
import json
import time
from collections.abc import Mapping
from typing import Any

PREDICTED = 100


def time_first_fit(rows: int, inputs: int, inference: Mapping[str, Any]) -> dict[str, float]:
    """Seconds of the import, and from calling ``fit`` to having predictions for 100 rows."""
    clock = time.perf_counter()
    from twofold import BNNLVRegressor

    imported = time.perf_counter() - clock
    import numpy as np

    rng = np.random.default_rng(0)
    x = rng.uniform(-2.0, 2.0, (rows, inputs))
    y = np.sin(2.0 * x[:, 0]) + 0.5 * np.tanh(x).sum(axis=1)
    y += (0.1 + 0.1 * np.abs(x[:, 0])) * rng.standard_normal(rows)
    points = rng.uniform(-2.0, 2.0, (PREDICTED, inputs))
    clock = time.perf_counter()
    BNNLVRegressor(inference=inference, random_state=0).fit(x, y).predict(points, return_std=True)
    return {"import_seconds": imported, "seconds": time.perf_counter() - clock}


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, required=True)
    parser.add_argument("--inputs", type=int, required=True)
    parser.add_argument("--inference", type=json.loads, required=True)
    options = parser.parse_args()
    print(json.dumps(time_first_fit(options.rows, options.inputs, options.inference)))


if __name__ == "__main__":
    main()
