"""Time an update of the policy search at the paper's sizes, compared with PyTorch.

    python benchmarks/search.py         on a CPU: twofold and PyTorch, alternating, in one run
    python benchmarks/search.py --gpu   on a GPU: one policy, and thirty at once

Both write ``results/bench_search.json`` and keep each other's measurements. On a GPU the times of
whole searches (75,000 updates) are extrapolated. Nothing is recorded unless value and gradient of
both implementations agree.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks.train import call
from paper.control_problems import STEERINGS, industrial
from paper.records import Record
from twofold.core.numerics import Standardizer
from twofold.envs.industrial import dynamics
from twofold.inference import loop
from twofold.inference.loop import Schedule
from twofold.model.spec import BNNLV, Draws, SampledPosterior
from twofold.plant import descent, policy
from twofold.plant.columns import EDGE
from twofold.plant.cost import cost_of
from twofold.plant.descent import Config, Plant, RiskWeights
from twofold.plant.log import Window
from twofold.plant.policy import PolicyNetwork
from twofold.plant.rollout import Noise, Scales, Task, particles, values_and_gradients
from twofold.plant.search import PAPER

HORIZON, WEIGHT_DRAWS, NOISE_DRAWS = PAPER.horizon, PAPER.weight_draws, PAPER.noise_draws
PAPER_UPDATES = PAPER.epochs * PAPER.updates
POLICIES = 30
BETA = 4.0
AGREEMENT = 1e-3


class Setting:
    """The industrial benchmark with a model of random weights: only its speed matters."""

    def __init__(self, units: int = 75) -> None:
        problem = industrial()
        log = problem.batch(0, 3000)
        self.embedding = problem.embed(log)
        x, y = self.embedding.design(log)
        self.model = BNNLV(x.shape[1], 1, (units, units), 1, 1.0, float(x.shape[1]))
        steps = self.embedding.steps(log)
        self.windows = Window(*(jnp.asarray(leaf, jnp.float32) for leaf in steps.windows))
        features = np.asarray(jax.jit(jax.vmap(self.embedding.features))(self.windows), float)
        self.shape = PolicyNetwork(features.shape[1], (20, 20), (-1.0,) * 3, (1.0,) * 3)
        self.task = Task(self.model, self.embedding, cost_of(problem.cost, log), self.shape)
        units = [jax.tree.map(jnp.float32, Standardizer.fit(part)) for part in (x, y, features)]
        self.scales = Scales(*units, jnp.float32(1.0))
        keys = jax.random.split(jax.random.key(0), 3)
        weights = 0.1 * jax.random.normal(keys[0], (WEIGHT_DRAWS, self.model.num_weights))
        self.draws = Draws(weights, jnp.full((WEIGHT_DRAWS, 1), -3.0))
        self.policy = policy.init(keys[1], self.shape)
        drawn = jax.random.normal(keys[2], (HORIZON, WEIGHT_DRAWS, NOISE_DRAWS, 2))
        self.noise = Noise(drawn[..., :1], drawn[..., 1:])

    def plant(self) -> Plant:
        """The arguments of an update: posterior draws, start windows and schedule."""
        rate = jnp.asarray(1e-4, jnp.float32)
        schedule = Schedule(jnp.int32(PAPER_UPDATES), jnp.int32(1), rate, jnp.zeros(()))
        none = jnp.zeros((0, self.shape.features))
        posterior = SampledPosterior(*self.draws)
        return Plant(jax.random.key(1), posterior, self.scales, self.windows, schedule, none)

    def config(self) -> Config:
        """The paper's sizes: one start, 50 weight draws, 25 roll-outs each, 100 steps."""
        return Config(self.task, HORIZON, WEIGHT_DRAWS, NOISE_DRAWS, starts=1, updates=1)


def first_update(setting: Setting) -> tuple[float, np.ndarray]:
    """The criterion and its gradient, for the first window and the given noise."""
    wanted = RiskWeights(jnp.full(1, BETA), jnp.zeros(1))
    config, plant = setting.config(), setting.plant()
    window = particles(Window(*(leaf[:1] for leaf in setting.windows)), NOISE_DRAWS)
    values, gradients = values_and_gradients(
        lambda trace: descent.objective(config, wanted, plant, trace),
        setting.task,
        setting.scales,
        setting.policy[None],
        setting.draws,
        setting.noise,
        window,
    )
    return float(values[0]), np.asarray(gradients[0])


def write_for_peer(setting: Setting, path: Path) -> None:
    """Write the input of the other implementation, in standardised units."""
    observations = setting.windows.observations[0]
    names = setting.embedding.observations
    columns = np.stack(
        [t.forward(observations[:, i]) for i, t in enumerate(setting.embedding.transforms)]
    )
    order = [names.index(name) for name in (*STEERINGS, "cost")]
    shape = (WEIGHT_DRAWS, NOISE_DRAWS)
    transform = setting.embedding.transforms[names.index("cost")]
    units = {"x": setting.scales.x, "y": setting.scales.y, "feature": setting.scales.features}
    scales = {f"{a}_{b}": part for a, own in units.items() for b, part in own._asdict().items()}
    deviation = float(np.exp(0.5 * np.asarray(setting.draws.log_noise)[0, 0]))
    arrays: dict[str, Any] = {
        "columns": np.broadcast_to(columns[np.array(order)], (*shape, 4, 15)),
        "setpoint": np.broadcast_to(columns[names.index("setpoint"), -1:], (*shape, 1)),
        "steering": np.broadcast_to(observations[-1, np.array(order[:3])], (*shape, 3)),
        "rates": dynamics.RATES,
        "model": setting.draws.weights,
        "policy": setting.policy,
        "latent": setting.model.latent_variance**0.5 * setting.noise.latent,
        "additive": deviation * setting.noise.additive[..., 0],
        "low": transform.low,
        "high": transform.high,
        "edge": np.log1p(-EDGE) - np.log(EDGE),
        "beta": BETA,
        **scales,
    }
    floats = {name: np.asarray(value, np.float32).copy() for name, value in arrays.items()}
    np.savez(path, model_sizes=setting.model.sizes, policy_sizes=setting.shape.sizes, **floats)


def seconds_of_update(setting: Setting, policies: int, updates: int) -> float:
    """Median over three runs, after compilation."""
    algorithm, plant = descent.build(setting.config()), setting.plant()
    keys = jax.random.split(jax.random.key(2), policies)
    wanted = RiskWeights(jnp.linspace(0.0, BETA, policies), jnp.zeros(policies))
    states = loop.init(algorithm, keys, wanted)
    times = []
    for stretch in range(4):
        started = time.perf_counter()
        states, energies, _ = loop.advance(
            algorithm, keys, states, wanted, plant, jnp.int32(stretch * updates), jnp.int32(updates)
        )
        jax.block_until_ready(energies)
        times.append((time.perf_counter() - started) / updates)
    return statistics.median(times[1:])


def measure_cpu(record: Record, setting: Setting, python: str, repeats: int, updates: int) -> None:
    """twofold and both versions in PyTorch, alternately; medians, and ratios to twofold's time."""
    expected = first_update(setting)
    times: dict[str, list[float]] = {"twofold": [], "torch": [], "torch_compiled": []}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "setting.npz"
        write_for_peer(setting, path)
        for _ in range(repeats):
            times["twofold"].append(seconds_of_update(setting, 1, updates))
            for name, more in (("torch", []), ("torch_compiled", ["--compiled"])):
                gradient = Path(folder) / "gradient.npy"
                words = [str(path), str(gradient), "--updates", str(updates), *more]
                found = call(python, "peers/torch_search.py", words, 2)
                times[name].append(found["seconds"])
                check_agreement(name, expected, (found["value"], np.load(gradient)))
    for name, own in times.items():
        record.add(f"milliseconds/{name}", 1e3 * statistics.median(own))
    ours = statistics.median(times["twofold"])
    record.add("ratio/torch", statistics.median(times["torch"]) / ours)
    record.add("ratio/torch_compiled", statistics.median(times["torch_compiled"]) / ours)


def check_agreement(
    name: str, expected: tuple[float, np.ndarray], found: tuple[float, np.ndarray]
) -> None:
    """Compare values and gradients, to a relative error of 0.001: roll-outs of 100 steps are in
    single precision."""
    for what, own, other in zip(("value", "gradient"), expected, found, strict=True):
        off = np.linalg.norm(np.subtract(own, other)) / np.linalg.norm(own)
        if not off < AGREEMENT:
            raise SystemExit(f"{name}: its {what} is off by {off:.1e} of ours")


def measure_gpu(record: Record, setting: Setting) -> None:
    """Measure one policy, and thirty at once."""
    for name, policies, updates in (("one_policy", 1, 200), ("frontier", POLICIES, 50)):
        seconds = seconds_of_update(setting, policies, updates)
        record.add(f"milliseconds/{name}_gpu", 1e3 * seconds)
        record.add(f"seconds/{name}_gpu", PAPER_UPDATES * seconds)


def main() -> None:
    """Measure on this machine and write the record."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpu", action="store_true")
    parser.add_argument("--peer-python", default=".bench-venv/bin/python")
    parser.add_argument("--repeats", type=int, default=3)
    parser.add_argument("--updates", type=int, default=5)
    parser.add_argument("--output", type=Path, default=Path("results"))
    arguments = parser.parse_args()
    sizes = {"horizon": HORIZON, "weight_draws": WEIGHT_DRAWS, "noise_draws": NOISE_DRAWS}
    record = Record("bench_search", {**sizes, "policies": POLICIES, "beta": BETA}, [0])
    setting = Setting()
    if arguments.gpu:
        measure_gpu(record, setting)
    else:
        python = arguments.peer_python
        measure_cpu(record, setting, python, arguments.repeats, arguments.updates)
    record.merge(arguments.output, lambda name: name.endswith("_gpu") != arguments.gpu)
    for name, value in record.metrics.items():
        print(f"{name:40s} {value:.4g}")


if __name__ == "__main__":
    sys.exit(main())
