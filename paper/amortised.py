"""Is one encoder network as good as a q(z) for every datum, and as integrating z out?

The paper's mean field on its two toy problems, with three treatments of z. Each seed has its own
training points, test set and start of the fit.
"""

import time
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paper.fits import fit_seeds
from paper.records import Context, Record
from twofold.core.numerics import Padded
from twofold.envs.toy import TOY_PROBLEMS, ToyProblem
from twofold.inference import alpha
from twofold.inference.alpha import Alpha
from twofold.model.spec import BNNLV

TEST_SIZE, TRAINING_SIZE = 500, 750
SEEDS = [2000, 2001, 2002, 2003, 2004]
EPOCHS = 3_000
# With z integrated out, a draw consists of the weights only, and needs one pass of the network per
# node.
METHODS: dict[str, dict[str, Any]] = {
    "per_datum": {},
    "encoder": {"encoder": [20]},
    "nodes": {"nodes": 24, "draws": 10},
}
LARGE = 10_000_000


def compare_latents(context: Context) -> Record:
    """Fit both problems with the three treatments."""
    seeds, epochs = (SEEDS[:2], 3) if context.smoke else (SEEDS, EPOCHS)
    settings = {"epochs": epochs, "test_size": TEST_SIZE, "methods": METHODS}
    record = Record("amortised", settings, seeds)
    for method in METHODS:
        for rows in (TRAINING_SIZE, LARGE):
            record.add(f"{method}/state_bytes/rows_{rows}", state_bytes(method, rows))
        for problem in TOY_PROBLEMS.values():
            measure(problem, method, seeds, epochs, record)
    return record


def measure(
    problem: ToyProblem, method: str, seeds: list[int], epochs: int, record: Record
) -> None:
    """Add the metrics of one method on one problem to the record."""
    settings = {"inference": "alpha", **METHODS[method]}
    data = [problem.training_data(seed, TRAINING_SIZE) for seed in seeds]
    # A warm-up fit compiles the program, which does not depend on the number of epochs.
    fit_seeds({**settings, "epochs": 1}, seeds, data)
    begun = time.perf_counter()
    models = fit_seeds({**settings, "epochs": epochs}, seeds, data)
    updates = epochs * -(-TRAINING_SIZE // Alpha().batch_size) * len(seeds)
    place = f"{problem.name}/{method}"
    record.add(f"{place}/ms_per_update", 1e3 * (time.perf_counter() - begun) / updates)
    scores, epistemic = [], []
    for seed, model in zip(seeds, models, strict=True):
        test_x, test_y = problem.test_data(seed, TEST_SIZE)
        scores.append(model.log_likelihood(test_x, test_y).mean())
        epistemic.append(model.decompose(test_x).epistemic.mean())
    record.add_mean(f"{place}/test_log_likelihood", scores)
    record.add_mean(f"{place}/mean_epistemic", epistemic)
    record.add_mean(f"{place}/late_drop", [model.convergence_.late_drop for model in models])


def state_bytes(method: str, rows: int) -> int:
    """Bytes of the state of a fit (parameters and moments), for data with one input and one
    output."""
    config = Alpha(**METHODS[method]).config(BNNLV(1, 1, (20, 20), 1, 1.0, 1.0), 75)

    def started(key: jax.Array) -> alpha.State:
        columns = jnp.zeros((rows, 1), jnp.float32)
        data = Padded(columns, columns, jnp.int32(rows))
        return alpha.init(config, key, alpha.Problem(data, jnp.float32(1.0)))

    # Shapes only: nothing of this size is allocated.
    state = jax.eval_shape(started, jax.random.key(0))
    return sum(int(np.prod(leaf.shape)) * leaf.dtype.itemsize for leaf in jax.tree.leaves(state))
