"""The main jobs of the library, each as a compiled call, with a count of its work."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple
from unittest import mock

import jax
import jax.numpy as jnp
import numpy as np

from benchmarks import work_counts
from benchmarks.search import BETA, Setting
from benchmarks.work_counts import Rollouts, Work
from twofold.core import numerics
from twofold.core.numerics import Standardizer, pad, padded_size
from twofold.envs.catalogue import SYSTEMS
from twofold.envs.system import System
from twofold.envs.toy import HETEROSCEDASTIC
from twofold.inference import alpha, ensemble, loop
from twofold.inference.ensemble import Problem
from twofold.inference.loop import Algorithm, Schedule, Setup
from twofold.inference.meanfield import MeanFieldPosterior
from twofold.model.spec import BNNLV
from twofold.plant import descent
from twofold.plant.descent import RiskWeights
from twofold.uncertainty import decompose_rows, entropies, predictive

MODEL = BNNLV(1, 1, (20, 20), 1, 1.0, 1.0)
ROWS, BATCH, DRAWS = 750, 250, 50
MEMBERS, NODES = 32, 24
NEIGHBOURS = 25
STEPS = 100


class Job(NamedTuple):
    """A call, how many units (updates, steps) it does, and the work of all of them."""

    call: Callable[[], Any]
    units: int
    work: Work


def schedule(epochs: int, batches: int) -> Schedule:
    """A constant learning rate."""
    return Schedule(jnp.int32(epochs), jnp.int32(batches), jnp.float32(1e-3), jnp.float32(0.0))


def toy_data(members: int) -> Any:
    """The heteroscedastic problem, once for each member."""
    x, y = HETEROSCEDASTIC.training_data(0, ROWS)
    x, y = (Standardizer.fit(part).transform(part) for part in (x, y[:, None]))
    data = pad(x, y, padded_size(ROWS), "float32")
    return jax.tree.map(lambda leaf: jnp.stack([leaf] * members), data)


def epochs_job(
    algorithm: Algorithm, problems: Any, members: int, plan: Any, epochs: int, updates: int,
    work: Work,
) -> Job:  # fmt: skip
    """Some epochs of so many updates of a training loop, always from the same start."""
    keys = jax.random.split(jax.random.key(0), members)

    def call() -> Any:
        states = loop.init(algorithm, keys, problems)
        count = jnp.int32(epochs)
        return loop.advance(algorithm, keys, states, problems, plan, jnp.int32(0), count)

    return Job(call, epochs * updates, work.times(epochs * updates))


def train_alpha(seeds: int, epochs: int) -> Job:
    """Updates of the α-energy: N = 750, batches of 250, 50 draws, 2 × 20 units."""
    algorithm = alpha.build(alpha.Alpha(draws=DRAWS).config(MODEL, BATCH))
    problems = alpha.Problem(toy_data(seeds), jnp.ones(seeds))
    work = work_counts.training_update(MODEL.sizes, 1, BATCH, DRAWS).times(seeds)
    batches = -(-ROWS // BATCH)
    plan = schedule(epochs, batches)
    return epochs_job(algorithm, problems, seeds, plan, epochs, batches, work)


def ensemble_setup(
    model: BNNLV, data: Any, members: int, batch: int, epochs: int
) -> tuple[Setup, Problem]:
    """An ensemble's run of so many epochs, and its members' problems; ``data`` has an axis of
    members."""
    rows, room = int(data.size[0]), data.x.shape[1]
    method = ensemble.Ensemble(
        members=members, nodes=NODES, batch_size=batch, updates=epochs * ensemble.UPDATES
    )
    roles = ensemble.assign_roles(0, members, method.folds, rows, room)
    order = np.argsort(roles, axis=1, kind="stable").astype(np.int32)
    start = ensemble.draw_starts(model, "float32", jax.random.split(jax.random.key(0), members))
    problem = Problem(data, roles, order, start)
    return method.set_up(model, np.array([rows]), "float32"), jax.tree.map(jnp.asarray, problem)


def train_ensemble(epochs: int) -> Job:
    """Updates of an ensemble of 32 members, and the scores that stop them."""
    setup, problem = ensemble_setup(MODEL, toy_data(MEMBERS), MEMBERS, BATCH, epochs)
    work = work_counts.ensemble_update(MODEL.sizes, BATCH, NODES, MEMBERS)
    plan = setup.schedule, epochs, ensemble.UPDATES
    return epochs_job(setup.algorithm, problem, MEMBERS, *plan, work)


def toy_posterior() -> MeanFieldPosterior:
    """Moderately uncertain weights."""
    mean = 0.5 * jax.random.normal(jax.random.key(0), (MODEL.num_weights,))
    return MeanFieldPosterior(mean, jnp.full_like(mean, 0.01), jnp.full(1, -4.0))


def draws(points: int, nested: int) -> Job:
    """Mean and variance of y given each weight draw, from nested draws."""
    drawn = predictive.nest(jax.random.key(1), MODEL, toy_posterior(), nested, nested)
    x = jnp.linspace(-2, 2, points)[:, None]
    moments = jax.jit(partial(predictive.moments, MODEL))
    work = work_counts.predictive_draws(MODEL.sizes, 1, points, nested, nested)
    return Job(lambda: moments(drawn, x), points, work)


def entropy(estimator: str, points: int, nested: int) -> Job:
    """The split by entropy, network evaluations included."""
    x = np.linspace(-2, 2, points)[:, None]

    def call() -> Any:
        return decompose_rows(
            jax.random.key(1), MODEL, toy_posterior(), x,
            estimator=estimator, weights=nested, latents=nested,
        ).epistemic  # fmt: skip

    work = work_counts.predictive_draws(MODEL.sizes, 1, points, nested, nested)
    if estimator == "quadrature":
        work = work + work_counts.quadrature(points, nested, nested, mean_grid(x, nested))
    else:
        work = work + work_counts.neighbours(points, nested, nested, NEIGHBOURS)
    return Job(call, points, work)


def mean_grid(x: np.ndarray, nested: int) -> int:
    """The grid that the quadrature takes, the mean over some of the points."""
    some = jnp.asarray(x[:: max(1, len(x) // 10)], jnp.float32)
    drawn = predictive.nest(jax.random.key(1), MODEL, toy_posterior(), nested, nested)
    centres = jnp.moveaxis(predictive.components(MODEL, drawn, some).mean[:, :, 0], -1, 0)
    sizes = jnp.asarray(entropies.SIZES)
    needed = jax.vmap(lambda one: entropies.size_needed(one, drawn.log_noise[:, 0]))(centres)
    return round(float(sizes[jax.vmap(entropies.grid_index)(needed)].mean()))


def rollout(setting: Setting, policies: int, updates: int) -> Job:
    """Updates of the policy search at the paper's setting of the industrial benchmark."""
    config, plant = setting.config(), setting.plant()
    algorithm = descent.build(config)
    keys = jax.random.split(jax.random.key(2), policies)
    wanted = RiskWeights(jnp.linspace(0.0, BETA, policies), jnp.zeros(policies))

    def call() -> Any:
        states = loop.init(algorithm, keys, wanted)
        count = jnp.int32(updates)
        return loop.advance(algorithm, keys, states, wanted, plant, jnp.int32(0), count)

    sizes = Rollouts(config.horizon, config.weight_draws, config.noise_draws, policies)
    work = work_counts.rollout_gradient(setting.model.sizes, setting.shape.sizes, sizes)
    return Job(call, updates, work.times(updates))


def simulator(name: str, plants: int) -> Job:
    """Steps of many systems side by side, with noise and random actions."""
    system: System = SYSTEMS[name]()
    states = jax.jit(jax.vmap(system.reset))(jax.random.split(jax.random.key(0), plants))
    low, high = (
        jnp.asarray(bound, jnp.float32) for bound in (system.action_low, system.action_high)
    )

    def one(key: jax.Array, state: Any) -> Any:
        def step(state: Any, key: jax.Array) -> Any:
            action_key, step_key = jax.random.split(key)
            action = jax.random.uniform(action_key, low.shape, minval=low, maxval=high)
            state = system.step(step_key, state, action)
            return state, system.cost(state)

        return jax.lax.scan(step, state, jax.random.split(key, STEPS))

    run = jax.jit(jax.vmap(one))
    keys = jax.random.split(jax.random.key(1), plants)
    first = jax.tree.map(lambda leaf: leaf[0], states)
    # As a CPU does it, which is less work: a GPU rather computes a cosine than remembers one.
    with mock.patch.object(numerics, "on_cpu", lambda: True):
        work = work_counts.traced(lambda *given: one(*given), keys[0], first)
    return Job(lambda: run(keys, states), plants * STEPS, work.times(plants))


def jobs(gpu: bool, smoke: bool) -> dict[str, Callable[[], Job]]:
    """Every job by its name; a GPU gets more of the same at once, as it needs to be filled."""
    nested = 10 if smoke else 500
    points = 4 if smoke else 1000 if gpu else 100
    few = 4 if smoke else 1000 if gpu else 16
    plants = 8 if smoke else 20_000
    setting = Setting()
    return {
        "train/alpha": partial(train_alpha, 1, 2 if smoke else 50),
        "train/alpha_100_seeds": partial(train_alpha, 2 if smoke else 100, 1),
        "train/ensemble": partial(train_ensemble, 1 if smoke else 5),
        "draws": partial(draws, 8 if smoke else 1000, 10 if smoke else 100),
        "entropy/quadrature": partial(entropy, "quadrature", points, nested),
        "entropy/nearest_neighbour": partial(entropy, "nearest_neighbour", few, max(30, nested)),
        "rollout/one": partial(rollout, setting, 1, 1 if smoke else 20 if gpu else 2),
        "rollout/thirty": partial(rollout, setting, 2 if smoke else 30, 5 if gpu else 1),
        "simulator/wet_chicken": partial(simulator, "wet_chicken", plants),
        "simulator/industrial_benchmark": partial(simulator, "industrial_benchmark", plants),
        "simulator/wind_turbine": partial(
            simulator, "wind_turbine", plants if gpu else plants // 100 or 2
        ),
    }
