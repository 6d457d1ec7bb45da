"""Policies for many risk weights, evaluated on the model and on the true system (paper, Figure 4).

A *group* is one data set, one model fitted to it and one search with all risk weights. Its model,
policies and trials are stored in files, so that an interrupted run resumes with what is missing.
"""

import json
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from paper.control_problems import ControlProblem
from paper.records import commit, device
from paper.truth import bias_by_start, model_bias, true_costs
from twofold import BNNLVRegressor
from twofold.core import persistence
from twofold.core.persistence import OtherRunError, claim_folder, differences, to_plain
from twofold.inference.method import nest_options
from twofold.model.spec import SampledPosterior
from twofold.plant.cost import cost_of
from twofold.plant.forecast import forecast
from twofold.plant.log import Log
from twofold.plant.policy import LearnedPolicy, load_policy
from twofold.plant.rollout import DynamicsModel, fit_regressors
from twofold.plant.search import SearchSettings, best_of, search_policies

MAIN, NEIGHBOUR = "alpha", "nearest_neighbour"
CLAIM, TRIALS = "group.json", "trials.json"
START_STREAM, LUCK_STREAM, TEST_STREAM = 10_000, 20_000, 30_000
# Learning rate of the recorded searches, larger than the paper's and smaller than the library's
# default.
CAREFUL: dict[str, Any] = {"learning_rate": 1e-3, "rounds": 1}
MIXED_DRAWS = 50
SILENT = -40.0  # log-variance of deterministic models: practically zero noise


class Trials(NamedTuple):
    """Sizes of the evaluation of policies: number of true states, repetitions from each, and sizes
    on the model."""

    starts: int = 200
    repeats: int = 25
    weight_draws: int = 50
    noise_draws: int = 25


class Method(NamedTuple):
    """A model, and the settings of the policy search. Each pair (β, γ) in ``weights`` is searched
    from several ``beginnings``; the policy with the lowest final criterion is kept.

    With several ``fits``, the model is fitted from that many starting points, and its posterior is
    the mixture of the fits. ``seeds`` are its own, or None for those of the experiment.
    """

    name: str
    regressor: dict[str, Any]
    weights: Sequence[tuple[float, float]]
    settings: SearchSettings
    distance: bool = False
    beginnings: int = 1
    fits: int = 1
    seeds: tuple[int, ...] | None = None


class Trial(NamedTuple):
    """One policy: its risk weights, the model's forecast, and the true costs, per step."""

    method: str
    seed: int
    beta: float
    gamma: float
    predicted_cost: float
    epistemic_risk: float
    aleatoric_risk: float
    true_cost: float
    true_deviation: float
    model_bias: float
    bias_by_start: float
    criterion_1: float
    criterion_2: float
    criterion_4: float


class Group(NamedTuple):
    """The results of a method and a seed; ``seconds`` are those of the run that finished it."""

    trials: list[Trial]
    policies: list[LearnedPolicy]
    log_likelihood: float
    seconds: float
    made_by: dict[str, str]


def recorded_trials(values: Mapping[str, float]) -> list[Trial]:
    """The policies in a record."""
    by_policy: dict[tuple[str, str], dict[str, float]] = {}
    for name, value in values.items():
        if name.startswith("policies/"):
            _, method, policy, field = name.split("/")
            by_policy.setdefault((method, policy), {})[field] = value
    unknown = dict.fromkeys(Trial._fields, float("nan"))  # what is not finite is not recorded
    return [
        Trial(**unknown | fields | {"method": method})  # type: ignore[arg-type]
        for (method, _), fields in by_policy.items()
    ]


def finish_group(
    problem: ControlProblem, method: Method, seed: int, trials: Trials, work: Path
) -> Group:
    """Complete a group: fit, search, evaluate."""
    folder = group_folder(problem, method, seed, work)
    done = folder / TRIALS
    identity = {**describe(problem, method, trials), **describe_view(problem, seed)}
    if done.exists():
        # The log may come from another machine, where simulations differ in the last digits.
        claim_folder(folder, CLAIM, identity, {})
        return read_group(folder)
    log = problem.batch(seed)
    data = fingerprint_data(problem, log)
    changed = differences(claim_folder(folder, CLAIM, identity, data)["about"], data)
    if changed:
        raise OtherRunError(
            f"{folder} was begun with other data: {'; '.join(changed)}. Delete it to start again"
        )
    started = time.perf_counter()
    regressor = fit_model(problem, method, seed, log, folder)
    score = score_held_out(problem, regressor, log, seed)
    model = build_model(problem, method, regressor, log)
    policies = find_policies(model, method, seed, folder)
    rows = try_policies(problem, method, model, policies, seed, trials)
    content = {
        "log_likelihood": score,
        "seconds": time.perf_counter() - started,
        "device": device(),
        "commit": commit(),
        "trials": [row._asdict() for row in rows],
    }
    persistence.write_text(done, json.dumps(content, indent=1))
    return read_group(folder)


def group_folder(problem: ControlProblem, method: Method, seed: int, work: Path) -> Path:
    """The folder of a group."""
    return work / f"{problem.name}-{method.name}-{seed}"


def describe(problem: ControlProblem, method: Method, trials: Trials) -> dict[str, Any]:
    """The identity of a group besides its seed, as JSON values."""
    data = {name: getattr(problem, name) for name in ("transitions", "length", "horizon")}
    described = {**method._asdict(), "settings": asdict(method.settings)}
    del described["seeds"]
    return to_plain({"data": data, "method": described, "trials": trials._asdict()})


def describe_view(problem: ControlProblem, seed: int) -> dict[str, Any]:
    """Text description of a model's inputs and targets, identical on every machine."""
    embedding = problem.embed(problem.batch(seed, problem.length))
    kinds = [transform.kind for transform in embedding.transforms]
    names = {"inputs": embedding.input_names, "targets": embedding.target_names}
    return {"sees": {**{key: list(listed) for key, listed in names.items()}, "transforms": kinds}}


def fingerprint_data(problem: ControlProblem, log: Log) -> dict[str, str]:
    """Fingerprints of the batch, of its embedding and of its costs."""
    parts = [part for one in log.episodes for part in (one.observations, one.actions)]
    return {
        "log": persistence.fingerprint(*parts),
        "embedding": problem.embed(log).fingerprint(log),
        "cost": cost_of(problem.cost, log).fingerprint(log),
    }


def read_group(folder: Path) -> Group:
    """Read a finished group."""
    content = json.loads((folder / TRIALS).read_text())
    rows = [Trial(**row) for row in content["trials"]]
    policies = [load_policy(folder / f"{number}.policy") for number in range(len(rows))]
    made_by = {"device": content["device"], "commit": content["commit"]}
    return Group(rows, policies, content["log_likelihood"], content["seconds"], made_by)


def fit_model(
    problem: ControlProblem, method: Method, seed: int, log: Log, folder: Path
) -> BNNLVRegressor:
    """The fitted regressor, read from files if they exist."""
    seeds = range(seed * method.fits, (seed + 1) * method.fits)
    settings = nest_options(method.regressor)
    regressors = [BNNLVRegressor(random_state=fit_seed, **settings) for fit_seed in seeds]
    fits = fit_regressors(regressors, problem.embed(log), log, folder)
    return mix_posteriors(fits) if method.fits > 1 else fits[0]


def score_held_out(
    problem: ControlProblem, regressor: BNNLVRegressor, log: Log, seed: int
) -> float:
    """The test log-likelihood per step, in units of the outputs' deviations."""
    test = problem.batch(seed + TEST_STREAM, log.transitions // 4)
    x, y = problem.embed(log).design(test)
    score = regressor.log_likelihood(x, y).mean() + np.log(regressor.y_standardizer_.scale).sum()
    return float(score)


def build_model(
    problem: ControlProblem, method: Method, regressor: BNNLVRegressor, log: Log
) -> DynamicsModel:
    """The dynamics model for the policy search."""
    regressor = drop_noise(regressor) if method.distance else regressor
    return DynamicsModel(regressor, problem.embed(log), problem.cost, log)


def mix_posteriors(regressors: Sequence[BNNLVRegressor]) -> BNNLVRegressor:
    """The first regressor, with equally many draws of all posteriors."""
    draws = [
        regressor.posterior_.sample(jax.random.key(number), MIXED_DRAWS)
        for number, regressor in enumerate(regressors)
    ]
    weights, log_noise = (jnp.concatenate(part) for part in zip(*draws, strict=True))
    regressors[0].posterior_ = SampledPosterior(weights, log_noise)
    return regressors[0]


def drop_noise(regressor: BNNLVRegressor) -> BNNLVRegressor:
    """A deterministic model: only the first network, without noise."""
    weights, log_noise = regressor.posterior_.weights[:1], regressor.posterior_.log_noise[:1]
    regressor.posterior_ = SampledPosterior(weights, np.full_like(log_noise, SILENT))
    return regressor


def find_policies(
    model: DynamicsModel, method: Method, seed: int, folder: Path
) -> list[LearnedPolicy]:
    """The best policy of each pair of risk weights, read from its file if it exists."""
    paths = [folder / f"{number}.policy" for number in range(len(method.weights))]
    if all(path.exists() for path in paths):
        return [load_policy(path) for path in paths]
    policies = best_of(
        search_policies(
            model,
            method.weights,
            folder / "search",
            settings=method.settings,
            seeds=[seed * method.beginnings + number for number in range(method.beginnings)],
            random_state=seed,
            distance=method.distance,
        )
    )
    for policy, path in zip(policies, paths, strict=True):
        policy.save(path)
    return policies


def try_policies(
    problem: ControlProblem,
    method: Method,
    model: DynamicsModel,
    policies: Sequence[LearnedPolicy],
    seed: int,
    trials: Trials,
) -> list[Trial]:
    """Evaluate all policies from the same states with the same random numbers, on the model and on
    the system."""
    starts = problem.starts(jax.random.key(seed + START_STREAM), trials.starts)
    luck = jax.random.key(seed + LUCK_STREAM)
    draws = 2 if method.distance else trials.weight_draws
    rows = []
    for policy in policies:
        expected = forecast(
            model,
            policy,
            starts.windows,
            problem.horizon,
            weight_draws=draws,
            noise_draws=trials.noise_draws,
        )
        true = true_costs(luck, problem.system, policy, starts, problem.horizon, trials.repeats)
        rows.append(
            Trial(
                method.name,
                seed,
                policy.epistemic_weight,
                policy.aleatoric_weight,
                expected.cost,
                expected.epistemic_risk,
                expected.aleatoric_risk,
                float(true.mean()),
                float(true.std(axis=1, ddof=1).mean()),
                model_bias(true, expected) / problem.horizon,
                float(bias_by_start(true, expected).mean()) / problem.horizon,
                *(expected.criterion(beta, 0.0) for beta in (1.0, 2.0, 4.0)),
            )
        )
    return rows


def grid(betas: Sequence[float], gammas: Sequence[float]) -> list[tuple[float, float]]:
    """Curves over β, one per γ, and the curve β = γ."""
    pairs = [(beta, gamma) for gamma in gammas for beta in betas]
    return pairs + [(beta, beta) for beta in betas if beta not in gammas]
