"""Where the points between policies of a model and those tuned on the simulator are lost.

On the industrial benchmark's random batch. Every row is a search of policies by itself, from the
same beginnings: on the simulator by evolution and by slopes; on one model with the budget of
``industrial_random_batch``; with more of one thing at a time; and on other models. All are tried
under the protocol there. What the models say of the policies that were tuned on the simulator shows
whether a model does not know of them, or a search does not find them.
"""

import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

from paper.control_problems import ControlProblem, industrial_random
from paper.direct_search import Strategy, direct_search
from paper.frontier import LUCK_STREAM, START_STREAM, Method, build_model, fit_model, group_folder
from paper.industrial_random_batch import METHOD, NAME, TRIALS
from paper.markdown import markdown, mean_and_error, metrics
from paper.records import Context, Record, commit, device
from paper.simulator_search import search_by_slope
from paper.truth import true_costs
from twofold.core import persistence
from twofold.core.numerics import Standardizer
from twofold.estimators.training import Checkpoint
from twofold.plant.forecast import forecast
from twofold.plant.policy import LearnedPolicy, PolicyNetwork, load_policy
from twofold.plant.rollout import DynamicsModel
from twofold.plant.search import SearchSettings, search_policies
from twofold.plant.tuned import Tuning, tune_all
from twofold.plant.tuning import TuningSettings

SEEDS, BETA = (0, 1), 1.0
SIMULATOR_SEEDS = (0,)
OPINION_STARTS = 500
TUNED_STEPS, COST_WEIGHT = 30, 1.0
EVOLUTION = "simulator_evolution"
# Smaller than that of ``industrial_direct``, whose policies the record has too.
STRATEGY = Strategy(1000, pairs=64, starts=32)


class Row(NamedTuple):
    """A search: its model's options and number of fits (none on the simulator), and its sizes."""

    regressor: dict[str, Any]
    settings: SearchSettings
    fits: int = 1
    tuning: TuningSettings | None = None
    beta: float = BETA


BASE = METHOD.settings
MEAN_FIELD = METHOD.regressor
# Fewer roll-outs and updates, for the simulator is slow.
SLOPES = replace(BASE, weight_draws=2, epochs=15, learning_rate=3e-3)
ROWS = {
    "model": Row(MEAN_FIELD, BASE),
    "beta_0": Row(MEAN_FIELD, BASE, beta=0.0),
    "starts_4": Row(MEAN_FIELD, replace(BASE, starts=4 * BASE.starts)),
    "updates_4": Row(MEAN_FIELD, replace(BASE, epochs=4 * BASE.epochs)),
    "rate_4": Row(MEAN_FIELD, replace(BASE, learning_rate=4 * BASE.learning_rate)),
    "horizon_100": Row(MEAN_FIELD, replace(BASE, horizon=100)),
    "epochs_5": Row({**MEAN_FIELD, "epochs": 5 * MEAN_FIELD["epochs"]}, BASE),
    "fits_3": Row(MEAN_FIELD, BASE, fits=3),
    "tuned": Row(MEAN_FIELD, BASE, tuning=TuningSettings()),
    "langevin": Row({"inference": "langevin"}, BASE),
}


def locate_gap(context: Context) -> Record:
    """Every row that is not there yet, and the record of all."""
    problem = industrial_random()
    rows, strategy, settings = ROWS, STRATEGY, SLOPES
    if context.smoke:
        problem = replace(problem, transitions=2000, length=200, horizon=5)
        strategy = Strategy(2, pairs=3, starts=2)
        settings = replace(BASE, horizon=5, epochs=1, updates=2, starts=2, weight_draws=2)
        quick = {**MEAN_FIELD, "epochs": 2, "hidden_layer_sizes": (8,)}
        rows = {"model": Row(quick, settings)}
    work = context.work / "gap"
    found = {name: finish_row(problem, row, work / name, work) for name, row in rows.items()}
    on_simulator = {
        EVOLUTION: partial(evolve, problem, strategy),
        "simulator_slopes": partial(follow_slopes, problem, settings),
    }
    for name, make in on_simulator.items():
        found[name] = finish(problem, work / name, partial(one_by_one, make))
    tuned = [load_policy(work / EVOLUTION / f"{seed}.policy") for seed in SIMULATOR_SEEDS]
    for name, row in rows.items():
        found[name] |= say(problem, row, work / name, work, tuned)
    return compose(found)


def finish(
    problem: ControlProblem, folder: Path, make: Callable[[Path], Sequence[LearnedPolicy]]
) -> dict[str, Any]:
    """Policies and their true costs, from files where they are."""
    path = folder / "costs.json"
    if not path.exists():
        folder.mkdir(parents=True, exist_ok=True)
        policies = make(folder)
        for seed, own in enumerate(policies):
            own.save(folder / f"{seed}.policy")
        costs = [try_policy(problem, own) for own in policies]
        content = {"cost": costs, "device": device(), "commit": commit()}
        persistence.write_text(path, json.dumps(content, indent=1))
    return json.loads(path.read_text())


def one_by_one(make: Callable[[int], LearnedPolicy], folder: Path) -> list[LearnedPolicy]:
    """A policy for each seed, kept as soon as it is there."""
    paths = [folder / f"{seed}.policy" for seed in SIMULATOR_SEEDS]
    for seed, path in zip(SIMULATOR_SEEDS, paths, strict=True):
        if not path.exists():
            make(seed).save(path)
    return [load_policy(path) for path in paths]


def try_policy(problem: ControlProblem, policy: LearnedPolicy) -> float:
    """The true cost, from the same starts and with the same luck for all."""
    starts = problem.starts(jax.random.key(START_STREAM), TRIALS.starts)
    luck = jax.random.key(LUCK_STREAM)
    true = true_costs(luck, problem.system, policy, starts, problem.horizon, TRIALS.repeats)
    return float(true.mean())


def network_of(problem: ControlProblem) -> tuple[Any, PolicyNetwork, Standardizer]:
    """What a policy sees, its network and its units, from a part of the log."""
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
    """A policy by the slopes of the simulator."""
    return search_by_slope(jax.random.key(seed), problem, *network_of(problem), settings)


def finish_row(problem: ControlProblem, row: Row, folder: Path, work: Path) -> dict[str, Any]:
    """A model's policies."""

    def make(folder: Path) -> list[LearnedPolicy]:
        model, pair = fit_row(problem, row, work), [(row.beta, 0.0)]
        return search_policies(model, pair, folder / "search", settings=row.settings, seeds=SEEDS)

    return finish(problem, folder, make)


def say(
    problem: ControlProblem, row: Row, folder: Path, work: Path, tuned: Sequence[LearnedPolicy]
) -> dict[str, Any]:
    """What a model says of its policies, and of those tuned on the simulator."""
    path = folder / "opinions.json"
    if not path.exists():
        starts = problem.starts(jax.random.key(START_STREAM), OPINION_STARTS)
        own = [load_policy(folder / f"{seed}.policy") for seed in SEEDS]
        ask = partial(forecast, fit_row(problem, row, work), weight_draws=10, noise_draws=2)
        said = {
            name: [ask(one, starts.windows, problem.horizon).cost for one in policies]
            for name, policies in (("own", own), ("tuned", tuned))
        }
        persistence.write_text(path, json.dumps(said, indent=1))
    return json.loads(path.read_text())


def fit_row(problem: ControlProblem, row: Row, work: Path) -> DynamicsModel:
    """The model of a row; rows with the same options share it."""
    name = persistence.fingerprint(
        np.frombuffer(repr((row.regressor, row.fits)).encode(), np.uint8)
    )
    method = Method(name[:12], row.regressor, [(BETA, 0.0)], row.settings, fits=row.fits)
    log = problem.batch(0)
    folder = group_folder(problem, method, 0, work)
    folder.mkdir(parents=True, exist_ok=True)
    model = build_model(problem, method, fit_model(problem, method, 0, log, folder), log)
    if row.tuning is None:
        return model

    def checkpoint(name: int | str) -> Checkpoint:
        return Checkpoint(folder / f"tuning.{name}", 30.0, {"tuning": repr(row.tuning)})

    # Kept whether or not it helps replays: the row says what it does to policies.
    pair = Tuning(row.settings.horizon, TUNED_STEPS, COST_WEIGHT, True)
    return tune_all(model, pair, row.tuning, 0, checkpoint("all"), False)


def compose(found: dict[str, dict[str, Any]]) -> Record:
    """The record: ``gap/<row>/cost``, and of models ``own`` and ``tuned``, their opinions."""
    made_by = {name: {k: own[k] for k in ("device", "commit")} for name, own in found.items()}
    record = Record(NAME, {"gap": {"beta": BETA, "made_by": made_by}}, list(SEEDS))
    for name, own in found.items():
        for field in ("cost", "own", "tuned"):
            if field in own:
                record.add_mean(f"gap/{name}/{field}", own[field])
    return record


TITLES = {
    "simulator_evolution": "the simulator itself, by evolution strategies",
    "simulator_slopes": "the simulator itself, by its slopes",
    "model": "one model, α = 1, β = 1, with the budget above",
    "beta_0": "the same without weight on the epistemic risk (β = 0)",
    "starts_4": "four times the starts",
    "updates_4": "four times the updates",
    "rate_4": "four times the learning rate",
    "horizon_100": "a horizon of 100 instead of 75",
    "epochs_5": "a model trained five times as long",
    "fits_3": "a mixture of three models",
    "tuned": "the model tuned on roll-outs",
    "langevin": "a model by Langevin chains",
}


def tabulate_gap(results: Path) -> str:
    """True costs, and what the models say of their own policies and of the simulator's."""
    values = metrics(NAME, results)
    rows = []
    for name, title in TITLES.items():
        if f"gap/{name}/cost/mean" in values:
            said = [f"gap/{name}/{field}" for field in ("own", "tuned")]
            cells = [mean_and_error(values, f"gap/{name}/cost", 1)]
            cells += [
                f"{values[f'{one}/mean']:.1f}" if f"{one}/mean" in values else "" for one in said
            ]
            rows.append([title, *cells])
    return markdown(["policies of", "true cost", "the model says", "and of the simulator's"], rows)
