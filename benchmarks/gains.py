"""Speed-ups of optimised jobs over plain versions of them.

    python benchmarks/gains.py            the optimised jobs
    python benchmarks/gains.py --smoke    a small run of seconds

Both versions of a job (the plain ones are in ``plain_versions.py``) run alternately in one process;
times are medians without compilation. Writes ``gain/<job>/<device>`` and the largest difference of
their results to ``results/bench.json``.
"""

import argparse
import statistics
import sys
from collections.abc import Callable
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import plain_versions
from benchmarks.peak_rates import seconds
from benchmarks.timed_jobs import MODEL, toy_posterior
from paper.records import Record
from twofold.envs.wind import dynamics, turbulence
from twofold.envs.wind.task import wind_turbine
from twofold.uncertainty import ESTIMATORS, entropies, neighbours, predictive

REPEATS = 7
DECISIONS = 10


class Way(NamedTuple):
    """A function with its arguments, and the plain functions that replace the library's."""

    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    replaced: tuple[tuple[Any, str, Any], ...]


def compiled(way: Way, plainly: bool) -> Callable[[], Any]:
    """The compiled program of one version."""
    with ExitStack() as stack:
        for one in way.replaced if plainly else ():
            stack.enter_context(mock.patch.object(*one))
        # Wrapped again for each version, because JAX caches traced functions.
        program = jax.jit(lambda *given: way.function(*given)).lower(*way.arguments).compile()
    return lambda: program(*way.arguments)


def draws(points: int, nested: int) -> Way:
    """Moments of nested draws."""
    drawn = predictive.nest(jax.random.key(1), MODEL, toy_posterior(), nested, nested)
    x = jnp.linspace(-2, 2, points)[:, None]
    replaced = ((predictive, "moments", plain_versions.moments),)
    return Way(lambda drawn, x: predictive.moments(MODEL, drawn, x), (drawn, x), replaced)


def entropy(estimator: str, points: int, nested: int) -> Way:
    """Entropies, network evaluations included."""
    drawn = predictive.nest(jax.random.key(1), MODEL, toy_posterior(), nested, nested)
    x = jnp.linspace(-2, 2, points)[:, None]
    chosen = ESTIMATORS[estimator]

    def function(drawn: Any, x: Any) -> Any:
        return entropies.entropies(chosen, False, jax.random.key(2), MODEL, drawn, x)

    replaced = (
        (entropies, "components", plain_versions.components),
        (neighbours, "rank", plain_versions.ranked),
        (neighbours, "ranked_distances", plain_versions.ranked_distances),
    )
    return Way(function, (drawn, x), replaced)


def wind(turbines: int) -> Way:
    """Decisions of many turbines."""
    system = wind_turbine()
    states = jax.jit(jax.vmap(system.reset))(jax.random.split(jax.random.key(0), turbines))

    def one(key: jax.Array, state: Any) -> Any:
        def step(state: Any, key: jax.Array) -> Any:
            state = system.step(key, state, jnp.zeros(2))
            return state, system.cost(state)

        return jax.lax.scan(step, state, jax.random.split(key, DECISIONS))[1]

    keys = jax.random.split(jax.random.key(1), turbines)
    replaced = (turbulence, "winds", plain_versions.winds), (dynamics, "step", plain_versions.step)
    return Way(jax.vmap(one), (keys, states), replaced)


def ways(gpu: bool, smoke: bool) -> dict[str, Callable[[], Way]]:
    """All optimised jobs; a GPU gets enough turbines to be busy."""
    nested = 40 if smoke else 500
    return {
        "draws": partial(draws, 8 if smoke else 1000, 10 if smoke else 100),
        "entropy/quadrature": partial(entropy, "quadrature", 2 if smoke else 26, nested),
        "entropy/nearest_neighbour": partial(
            entropy, "nearest_neighbour", 2 if smoke else 8, nested
        ),
        "simulator/wind_turbine": partial(wind, 2 if smoke else 20_000 if gpu else 200),
    }


def largest_difference(one: Any, other: Any) -> float:
    """The largest difference of two results, relative to the largest number of each array."""
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    found = [np.abs(np.subtract(a, b)).max() / np.abs(np.asarray(b)).max() for a, b in pairs]
    return float(max(found))


def main() -> None:
    """Measure both versions of all jobs and write the record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    device = jax.default_backend()
    record = Record("bench", {"repeats": REPEATS}, [0])
    for name, build in ways(device == "gpu", arguments.smoke).items():
        way = build()
        own, before = (compiled(way, plainly) for plainly in (False, True))
        record.add(f"difference/{name}/{device}", largest_difference(own(), before()))
        pairs = [(seconds(before), seconds(own)) for _ in range(2 if arguments.smoke else REPEATS)]
        plainly, now = (statistics.median(times) for times in zip(*pairs, strict=True))
        record.add(f"gain/{name}/{device}", plainly / now)
        record.add(f"gain_milliseconds/{name}/plain/{device}", 1e3 * plainly)
        record.add(f"gain_milliseconds/{name}/own/{device}", 1e3 * now)
        print(f"{name:30s} {plainly / now:6.2f} times as fast", file=sys.stderr, flush=True)
    print(f"wrote {record.merge(arguments.output, lambda name: name not in record.metrics)}")
    for name, value in record.metrics.items():
        print(f"{name:60s} {value:.4g}")


if __name__ == "__main__":
    main()
