"""Where the cost difference between policies of a model and policies optimised on the simulator
arises.

On the random batch of the industrial benchmark, policies are searched on the simulator, by
evolution strategies and by gradients, and on one model with the budget of
``industrial_random_batch``, and evaluated under the protocol there. The model's forecasts for the
policies optimised on the simulator show whether the model or the search is the limit.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from paper.control_problems import ControlProblem, industrial_random
from paper.direct_search import Strategy, direct_search
from paper.frontier import LUCK_STREAM, START_STREAM, build_model, fit_model, group_folder
from paper.industrial_random_batch import METHOD, NAME, TRIALS
from paper.markdown import markdown, metrics
from paper.records import Context, Record, commit, device
from paper.simulator_search import search_by_slope
from paper.truth import true_costs
from twofold.core import persistence
from twofold.core.numerics import Standardizer
from twofold.plant.forecast import forecast
from twofold.plant.policy import LearnedPolicy, PolicyNetwork, load_policy
from twofold.plant.rollout import DynamicsModel
from twofold.plant.search import SearchSettings, search_policies

SEEDS = (0, 1)
SIMULATOR_SEEDS = (0,)
OPINION_STARTS = 300
EVOLUTION = "simulator_evolution"
# Smaller than in ``industrial_direct``, whose policies are in the record too.
STRATEGY = Strategy(1000, pairs=64, starts=32)


class Row(NamedTuple):
    """A search with one model: the weight of the epistemic risk, and sizes."""

    beta: float
    settings: SearchSettings


BASE, MEAN_FIELD = METHOD.settings, METHOD.regressor
# Fewer roll-outs and updates, because the simulator is slow.
SLOPES = replace(BASE, weight_draws=2, epochs=15, learning_rate=3e-3)
ROWS = {"beta_1": Row(1.0, BASE), "beta_0": Row(0.0, BASE)}


def locate_gap(context: Context) -> Record:
    """Compute all missing rows, and the record."""
    problem = industrial_random()
    rows, strategy, settings = ROWS, STRATEGY, SLOPES
    if context.smoke:
        problem = replace(problem, transitions=2000, length=200, horizon=5)
        strategy = Strategy(2, pairs=3, starts=2)
        settings = replace(BASE, horizon=5, epochs=1, updates=2, starts=2, weight_draws=2)
        rows = {"beta_1": Row(1.0, settings)}
    work = context.work / "gap"
    model = fit_once(problem, work, context.smoke)
    results = {name: finish_row(problem, row, work / name, model) for name, row in rows.items()}
    on_simulator = {
        EVOLUTION: partial(evolve, problem, strategy),
        "simulator_slopes": partial(follow_slopes, problem, settings),
    }
    for name, make in on_simulator.items():
        results[name] = finish(problem, work / name, partial(one_by_one, make))
    tuned = [load_policy(work / EVOLUTION / f"{seed}.policy") for seed in SIMULATOR_SEEDS]
    for name in rows:
        results[name] |= forecast_policies(problem, work / name, model(), tuned)
    return compose(results)


def finish(
    problem: ControlProblem, folder: Path, make: Callable[[Path], Sequence[LearnedPolicy]]
) -> dict[str, Any]:
    """Policies and their true costs, read from files if they exist."""
    path = folder / "costs.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        policies = make(folder)
        for seed, policy in enumerate(policies):
            policy.save(folder / f"{seed}.policy")
        costs = [try_policy(problem, policy) for policy in policies]
        content = {"cost": costs, "device": device(), "commit": commit()}
        persistence.write_text(path, json.dumps(content, indent=1))
    return json.loads(path.read_text())


def one_by_one(make: Callable[[int], LearnedPolicy], folder: Path) -> list[LearnedPolicy]:
    """A policy per seed, each stored as soon as it is finished."""
    paths = [folder / f"{seed}.policy" for seed in SIMULATOR_SEEDS]
    for seed, path in zip(SIMULATOR_SEEDS, paths, strict=True):
        if not path.exists():
            make(seed).save(path)
    return [load_policy(path) for path in paths]


def try_policy(problem: ControlProblem, policy: LearnedPolicy) -> float:
    """The true cost, with the same starts and random numbers for all policies."""
    starts = problem.starts(jax.random.key(START_STREAM), TRIALS.starts)
    luck = jax.random.key(LUCK_STREAM)
    true = true_costs(luck, problem.system, policy, starts, problem.horizon, TRIALS.repeats)
    return float(true.mean())


def network_of(problem: ControlProblem) -> tuple[Any, PolicyNetwork, Standardizer]:
    """Embedding, network and standardisation of a policy, from a part of the log."""
    log = problem.batch(0, 20 * problem.length)
    embedding = problem.embed(log)
    windows = embedding.steps(log).windows
    features = np.asarray(jax.jit(jax.vmap(embedding.features))(windows), float)
    bounds = tuple(log.action_low.tolist()), tuple(log.action_high.tolist())
    shape = PolicyNetwork(features.shape[1], BASE.hidden, *bounds)
    return embedding, shape, Standardizer.fit(features)


def evolve(problem: ControlProblem, strategy: Strategy, seed: int) -> LearnedPolicy:
    """A policy by evolution strategies on the simulator."""
    return direct_search(jax.random.key(seed), problem, *network_of(problem), strategy)


def follow_slopes(problem: ControlProblem, settings: SearchSettings, seed: int) -> LearnedPolicy:
    """A policy by gradients through the simulator."""
    return search_by_slope(jax.random.key(seed), problem, *network_of(problem), settings)


def finish_row(
    problem: ControlProblem, row: Row, folder: Path, model: Callable[[], DynamicsModel]
) -> dict[str, Any]:
    """The model's policies."""

    def make(folder: Path) -> list[LearnedPolicy]:
        pair, place = [(row.beta, 0.0)], folder / "search"
        return search_policies(model(), pair, place, settings=row.settings, seeds=SEEDS)

    return finish(problem, folder, make)


def forecast_policies(
    problem: ControlProblem, folder: Path, model: DynamicsModel, tuned: Sequence[LearnedPolicy]
) -> dict[str, Any]:
    """The model's forecasts for its own policies and for those optimised on the simulator."""
    path = folder / "opinions.json"
    if not path.exists():
        starts = problem.starts(jax.random.key(START_STREAM), OPINION_STARTS)
        own_policies = [load_policy(folder / f"{seed}.policy") for seed in SEEDS]
        predict = partial(forecast, model, weight_draws=10, noise_draws=2)
        said: dict[str, list[float]] = {}
        for name, policies in (("own", own_policies), ("tuned", tuned)):
            forecasts = [predict(one, starts.windows, problem.horizon) for one in policies]
            said |= {name: [one.cost for one in forecasts]}
            said |= {f"{name}_risk": [one.epistemic_risk for one in forecasts]}
        persistence.write_text(path, json.dumps(said, indent=1))
    return json.loads(path.read_text())


def fit_once(problem: ControlProblem, work: Path, smoke: bool) -> Callable[[], DynamicsModel]:
    """The model shared by all rows, fitted on first use."""
    brief = {"epochs": 2, "hidden_layer_sizes": (8,)} if smoke else {}
    method = METHOD._replace(regressor={**MEAN_FIELD, **brief}, fits=1)

    @cache
    def model() -> DynamicsModel:
        log, folder = problem.batch(0), group_folder(problem, method, 0, work)
        folder.mkdir(parents=True, exist_ok=True)
        return build_model(problem, method, fit_model(problem, method, 0, log, folder), log)

    return model


def compose(results: dict[str, dict[str, Any]]) -> Record:
    """The record: ``gap/<row>/cost``, and the model's forecasts for ``own`` and ``tuned``
    policies."""
    made_by = {
        name: {k: result[k] for k in ("device", "commit")} for name, result in results.items()
    }
    record = Record(NAME, {"gap": {"made_by": made_by}}, list(SEEDS))
    for name, result in results.items():
        for field in ("cost", "own", "own_risk", "tuned", "tuned_risk"):
            if field in result:
                record.add_mean(f"gap/{name}/{field}", result[field])
    return record


TITLES = {
    "simulator_evolution": "the simulator, by evolution strategies",
    "simulator_slopes": "the simulator, by gradients",
    "beta_0": "one model, β = 0",
    "beta_1": "the same model, β = 1",
}
SAID = "predicted cost / epistemic risk", "the same for policies tuned on the simulator"


def tabulate_gap(results: Path) -> str:
    """True costs, and the models' forecasts for their own policies and for the simulator's."""
    values = metrics(NAME, results)
    rows = []
    for name, title in TITLES.items():
        if f"gap/{name}/cost/mean" in values:
            cells = [f"{values[f'gap/{name}/cost/mean']:.1f}"]
            for who in ("own", "tuned"):
                said = [f"gap/{name}/{who}{part}/mean" for part in ("", "_risk")]
                known = said[0] in values
                cells.append(" / ".join(f"{values[one]:.1f}" for one in said) if known else "")
            rows.append([title, *cells])
    return markdown(["policies of", "true cost", *SAID], rows)
