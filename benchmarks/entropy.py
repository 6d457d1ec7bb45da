"""Time the split of 1,000 points with 500 × 500 nested draws, against scipy's k-d tree.

    python benchmarks/entropy.py          on a CPU, with scipy for comparison
    python benchmarks/entropy.py --gpu    on a GPU

Both write ``results/bench_entropy.json`` and keep each other's measurements. The whole split
is timed, network evaluations included, for the default estimator and for nearest neighbours (k =
25); scipy gets draws from the same mixtures at a few of the points, without the network's time, and
its time is scaled up to all.
"""

import argparse
import time
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
from scipy.spatial import cKDTree
from scipy.special import digamma

from paper.records import Record
from twofold.inference.meanfield import MeanFieldPosterior
from twofold.model.spec import BNNLV
from twofold.uncertainty import decompose_rows
from twofold.uncertainty.predictive import components, nest

POINTS, DRAWS, HIDDEN, NEIGHBOURS = 1000, 500, (20, 20), 25
SCIPY_POINTS = 4


def setting() -> tuple[BNNLV, MeanFieldPosterior, np.ndarray]:
    """A network of the toy problems' size with moderately uncertain weights."""
    model = BNNLV(1, 1, HIDDEN, 1, 1.0, 1.0)
    key = jax.random.key(0)
    mean = 0.5 * jax.random.normal(key, (model.num_weights,))
    posterior = MeanFieldPosterior(mean, jnp.full_like(mean, 0.01), jnp.full(1, -4.0))
    return model, posterior, np.linspace(-2, 2, POINTS)[:, None]


def time_split(estimator: str, points: int) -> tuple[float, np.ndarray]:
    """Seconds of a second call, and the epistemic entropies."""
    model, posterior, x = setting()
    x = x[:: POINTS // points]

    def split() -> np.ndarray:
        return decompose_rows(
            jax.random.key(1), model, posterior, x,
            estimator=estimator, weights=DRAWS, latents=DRAWS,
        ).epistemic[:, 0]  # fmt: skip

    split()
    started = time.perf_counter()
    found = split()
    return time.perf_counter() - started, found


def scipy_entropy(samples: np.ndarray) -> float:
    """Kozachenko and Leonenko with a k-d tree, on all cores."""
    distances = cKDTree(samples[:, None]).query(samples[:, None], NEIGHBOURS + 1, workers=-1)[0]
    return digamma(len(samples)) - digamma(NEIGHBOURS) + np.log(2 * distances[:, -1]).mean()


def time_scipy() -> tuple[float, np.ndarray]:
    """Seconds for the same split with scipy, scaled up from SCIPY_POINTS points."""
    model, posterior, x = setting()
    nested = nest(jax.random.key(1), model, posterior, DRAWS, DRAWS)
    chosen = jnp.asarray(x[:: POINTS // SCIPY_POINTS], jnp.float32)
    centres = np.asarray(components(model, nested, chosen).mean)[:, :, 0]
    rng = np.random.default_rng(0)
    noise = np.exp(0.5 * np.asarray(nested.log_noise))[:, 0]
    y = (centres + noise[:, None] * rng.normal(size=centres.shape)).astype(np.float64)
    started = time.perf_counter()
    found = [
        scipy_entropy(y[..., i].ravel())
        - np.mean([scipy_entropy(y[:, m, i]) for m in range(DRAWS)])
        for i in range(SCIPY_POINTS)
    ]
    return (time.perf_counter() - started) * POINTS / SCIPY_POINTS, np.array(found)


def main() -> None:
    """Parse the command line, measure, write the record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("results"))
    options = parser.parse_args()
    settings = {"points": POINTS, "draws": DRAWS, "hidden": HIDDEN, "scipy_points": SCIPY_POINTS}
    record = Record("bench_entropy", settings, seeds=[0])
    device = "gpu" if options.gpu else "cpu"
    default, quadrature = time_split("auto", POINTS)
    neighbours, nearest = time_split("nearest_neighbour", POINTS)
    record.add(f"{device}/default/seconds", default)
    record.add(f"{device}/nearest_neighbour/seconds", neighbours)
    record.add(f"{device}/ratio/nearest_neighbour_over_default", neighbours / default)
    record.add(f"{device}/nearest_neighbour/mean_difference", (nearest - quadrature).mean())
    if not options.gpu:
        seconds, found = time_scipy()
        record.add("cpu/scipy/seconds", seconds)
        record.add("cpu/ratio/scipy_over_default", seconds / default)
        record.add("cpu/ratio/scipy_over_nearest_neighbour", seconds / neighbours)
        same = nearest[:: POINTS // SCIPY_POINTS]
        record.add("cpu/scipy/largest_difference_to_ours", np.abs(found - same).max())
    written = record.merge(options.output, lambda name: not name.startswith(f"{device}/"))
    print(f"wrote {written}")
    for name, value in record.metrics.items():
        print(f"{name:50s} {value:.4g}")


if __name__ == "__main__":
    main()
