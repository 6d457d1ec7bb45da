"""Time this library's training update; prints JSON like the other peers.

The program runs in chunks of epochs; the first call, which compiles it, is timed apart.
"""

import argparse
import json
import os
import time

CHUNK = 50


def time_updates(
    n: int,
    batch: int,
    draws: int,
    hidden: tuple[int, ...],
    updates: int,
    seeds: int,
    chunk: int = CHUNK,
) -> dict[str, float]:
    """Milliseconds per update (all seeds together) on the heteroscedastic problem."""
    import jax
    import jax.numpy as jnp
    import numpy as np

    from twofold.core.numerics import Standardizer, pad, padded_size
    from twofold.envs.toy import HETEROSCEDASTIC
    from twofold.inference import alpha, loop
    from twofold.model.spec import BNNLV

    x, y = HETEROSCEDASTIC.training_data(0, n)
    y = y[:, None]
    data = pad(
        Standardizer.fit(x).transform(x),
        Standardizer.fit(y).transform(y),
        padded_size(n),
        "float32",
    )
    problems = alpha.Problem(
        jax.tree.map(lambda leaf: jnp.stack([leaf] * seeds), data), jnp.ones(seeds)
    )
    algorithm = alpha.build(
        alpha.Alpha(draws=draws).config(BNNLV(1, 1, hidden, 1, 1.0, 1.0), batch)
    )
    batches = -(-n // batch)
    epochs = -(-updates // batches)
    schedule = alpha.Schedule(
        jnp.int32(epochs), jnp.int32(batches), jnp.float32(1e-3), jnp.float32(0.0)
    )
    keys = jax.random.split(jax.random.key(0), seeds)
    states = loop.init(algorithm, keys, problems)
    clock = time.perf_counter()
    states, _, _ = loop.advance(
        algorithm, keys, states, problems, schedule, jnp.int32(0), jnp.int32(1)
    )
    jax.block_until_ready(states)
    compile_seconds = time.perf_counter() - clock

    times, energies = [], None
    for first in range(1, 1 + epochs, chunk):
        clock = time.perf_counter()
        states, energies, _ = loop.advance(
            algorithm, keys, states, problems, schedule, jnp.int32(first), jnp.int32(chunk)
        )
        energies = np.asarray(energies)
        times.append(time.perf_counter() - clock)
    return {
        "seconds_compile": compile_seconds,
        "seconds": sum(times),
        "updates": len(times) * chunk * batches,
        "ms_per_update": 1e3 * float(np.mean(times)) / (chunk * batches),
        "ms_median": 1e3 * float(np.median(times)) / (chunk * batches),
        "final_energy": float(energies[chunk - 1].mean()),
    }


def main() -> None:
    """Parse the command line, time, print JSON."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--n", type=int, default=750)
    parser.add_argument("--batch", type=int, default=250)
    parser.add_argument("--draws", type=int, default=50)
    parser.add_argument("--hidden", type=int, nargs="+", default=[20, 20])
    parser.add_argument("--updates", type=int, default=1000)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seeds", type=int, default=1)
    options = parser.parse_args()
    # XLA sizes its thread pool by the cores it may use, so this must come before jax is imported.
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))[: options.threads]
        os.sched_setaffinity(0, cores)
    hidden = tuple(options.hidden)
    arguments = options.n, options.batch, options.draws, hidden, options.updates, options.seeds
    print(json.dumps(time_updates(*arguments)))


if __name__ == "__main__":
    main()
