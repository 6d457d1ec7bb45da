"""Posteriors as models of dynamics: one step ahead, in roll-outs, and by the resulting policies.

Roll-outs replay fresh episodes from the true system (``twofold.plant.replay``). After h steps the
predicted costs are scored by the coverage of their central 90 % intervals and by the log-likelihood
of a Gaussian with their mean and deviation, in deviations of the logged costs. The *replay bias* is
predicted minus observed mean cost of a passage, in deviations of the observed mean costs.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np
from scipy.stats import norm

from paper import control_problems, industrial_random_batch
from paper.control_problems import ControlProblem
from paper.frontier import (
    CAREFUL,
    TEST_STREAM,
    Group,
    Method,
    Trials,
    build_model,
    finish_group,
    fit_model,
    group_folder,
)
from paper.markdown import markdown, metrics
from paper.records import Context, Record
from twofold.core import persistence
from twofold.plant.quality import LEVELS
from twofold.plant.replay import choose_passages, replay_costs
from twofold.plant.rollout import DynamicsModel
from twofold.plant.search import SearchSettings
from twofold.uncertainty.metrics import coverage, pit

NAME, REPLAY = "dynamics", "replay.json"
HORIZONS = (1, 10, 50, 100)
WEIGHT_DRAWS, NOISE_DRAWS = 20, 10
BETAS = (0.0, 1.0, 2.0, 4.0)
POSTERIORS = {
    "langevin": "Langevin chains",
    "alpha": "mean field, α = 1",
    "alpha_0.5": "mean field, α = 0.5",
}


class Contest(NamedTuple):
    """The posteriors compared on a system."""

    problem: ControlProblem
    methods: tuple[Method, ...]
    trials: Trials
    passages: int = 500


def _methods(
    sizes: dict[str, Any],
    settings: SearchSettings,
    betas: Sequence[float] = BETAS,
    names: Sequence[str] = ("langevin", "alpha"),
) -> tuple[Method, ...]:
    mean_field = {"inference": "alpha", **sizes}
    posteriors = {
        "langevin": {"inference": "langevin"},
        "alpha": mean_field,
        "alpha_0.5": {**mean_field, "alpha": 0.5},
    }
    pairs = [(beta, 0.0) for beta in betas]
    return tuple(Method(name, posteriors[name], pairs, settings) for name in names)


def contests() -> dict[str, Contest]:
    """Contests of the same sizes as the frontiers and as ``industrial_random_batch``, whose records
    have the mean field already: α = 0.5 on the behaviour batch, α = 1 on the random one."""
    plant = {
        "hidden_layer_sizes": (75, 75),
        "epochs": 600,
        "batch_size": 1200,
        "draws": 50,
        "learning_rate": 5e-3,
    }
    large = industrial_random_batch.METHOD
    return {
        "industrial_random": Contest(
            control_problems.industrial_random(),
            _methods(large.regressor, large.settings, industrial_random_batch.BETAS, ["langevin"]),
            industrial_random_batch.TRIALS,
        ),
        "industrial_behaviour": Contest(
            control_problems.industrial(),
            _methods(plant, SearchSettings(100, 25, 5, 5, epochs=30, **CAREFUL)),
            Trials(),
        ),
        "wet_chicken": Contest(
            control_problems.river(),
            _methods(
                {"hidden_layer_sizes": (20, 20), "epochs": 600, "draws": 20},
                SearchSettings(25, 16, 5, 2, rounds=1, learning_rate=3e-3),
                names=tuple(POSTERIORS),
            ),
            Trials(),
        ),
    }


# One log each: on the industrial benchmark a posterior takes about five minutes on a GPU.
SEEDS = {"industrial_random": (0,), "industrial_behaviour": (0,), "wet_chicken": (0,)}


def compare_posteriors(context: Context) -> Record:
    """Compare all posteriors on the logs of ``SEEDS``."""
    groups_of: dict[tuple[str, str], list[tuple[Group, dict[str, float]]]] = {}
    for task, contest in contests().items():
        contest = shrink(contest) if context.smoke else contest
        for seed in SEEDS[task]:
            for method in contest.methods:
                group = finish_method(contest, method, seed, context.work / NAME)
                groups_of.setdefault((task, method.name), []).append(group)
    seeds = sorted({seed for listed in SEEDS.values() for seed in listed})
    record = Record(NAME, {"seeds": SEEDS}, seeds)
    for (task, name), groups in groups_of.items():
        add_groups(record, f"{task}/{name}", groups)
    return record


def shrink(contest: Contest) -> Contest:
    """The contest at the size of a smoke run."""
    problem = replace(contest.problem, transitions=600, length=100, horizon=5)
    methods = []
    for method in contest.methods:
        brief = {"epochs": 2} if "alpha" in method.name else {"updates": 20}
        brief |= {"steps": 50} if method.name == "langevin" else {}
        regressor = {**method.regressor, **brief, "hidden_layer_sizes": (8,)}
        settings = replace(method.settings, horizon=5, epochs=1, updates=2, starts=2)
        methods.append(method._replace(regressor=regressor, settings=settings))
    trials = Trials(starts=4, repeats=3, weight_draws=3, noise_draws=2)
    return Contest(problem, tuple(methods), trials, passages=5)


def finish_method(
    contest: Contest, method: Method, seed: int, work: Path
) -> tuple[Group, dict[str, float]]:
    """A posterior's policies on the true system, and its roll-outs; read from files if they
    exist."""
    group = finish_group(contest.problem, method, seed, contest.trials, work)
    path = group_folder(contest.problem, method, seed, work) / REPLAY
    if not path.exists():
        log = contest.problem.batch(seed)
        regressor = fit_model(contest.problem, method, seed, log, path.parent)
        model = build_model(contest.problem, method, regressor, log)
        scores = score_replay(contest.problem, model, seed, contest.passages)
        persistence.write_text(path, json.dumps(scores, indent=1))
    return group, json.loads(path.read_text())


def score_replay(
    problem: ControlProblem,
    model: DynamicsModel,
    seed: int,
    passages: int,
    steps: int = max(HORIZONS),
) -> dict[str, float]:
    """Score roll-outs along the actions of one passage of each fresh episode."""
    length = steps + model.embedding.history - 1
    fresh = replace(problem, length=length).batch(seed + TEST_STREAM, passages * length)
    rng = np.random.default_rng(seed)
    chosen, costs = choose_passages(model, fresh, steps, passages, rng)
    draw_key, noise_key = jax.random.split(jax.random.key(seed))
    draws = model.posterior.sample(draw_key, model.draws_of(WEIGHT_DRAWS))
    samples = replay_costs(model, NOISE_DRAWS, noise_key, draws, chosen)
    return judge_replay(samples.reshape(-1, *costs.shape), costs, model.cost_scale)


def judge_replay(samples: np.ndarray, costs: np.ndarray, scale: float) -> dict[str, float]:
    """Scores of predicted costs ``[K, B, T]`` against observed ones ``[B, T]``."""
    scores = {}
    for steps in (horizon for horizon in HORIZONS if horizon <= costs.shape[1]):
        predicted, true = samples[:, :, steps - 1] / scale, costs[:, steps - 1] / scale
        given = norm(predicted.mean(axis=0), predicted.std(axis=0, ddof=1))
        places = pit(predicted, true)
        scores[f"{steps}/log_likelihood"] = float(given.logpdf(true).mean())
        scores[f"{steps}/coverage_90"] = float(coverage(places, LEVELS[1:])[0])
    passages = costs.mean(axis=1)
    off = samples.mean(axis=(0, 2)) - passages
    scores["bias"] = float(off.mean() / passages.std(ddof=1))
    scores["lost"] = float((~np.isfinite(samples)).mean())
    return scores


def add_groups(
    record: Record, place: str, groups: Sequence[tuple[Group, dict[str, float]]]
) -> None:
    """Means over seeds."""
    tried = [group.trials for group, _ in groups]
    likelihoods = [group.log_likelihood for group, _ in groups]
    record.add_mean(f"{place}/one_step/log_likelihood", likelihoods)
    record.add_mean(f"{place}/seconds", [group.seconds for group, _ in groups])
    for name in groups[0][1]:
        record.add_mean(f"{place}/replay/{name}", [replay[name] for _, replay in groups])
    bias = [abs(replay["bias"]) for _, replay in groups]
    record.add_mean(f"{place}/replay/absolute_bias", bias)
    for number, trial in enumerate(tried[0]):
        for field in ("true_cost", "predicted_cost", "epistemic_risk"):
            values = [getattr(trials[number], field) for trials in tried]
            record.add_mean(f"{place}/beta_{trial.beta:g}/{field}", values)


def tabulate_dynamics(results: Path) -> str:
    """One row per system and posterior."""
    values = metrics(NAME, results)
    rows = []
    for task in contests():
        for method, title in POSTERIORS.items():
            place = f"{task}/{method}"
            if f"{place}/seconds/mean" not in values:
                continue
            cells = [f"{values[f'{place}/one_step/log_likelihood/mean']:.2f}"]
            for steps in HORIZONS:
                prefix = f"{place}/replay/{steps}"
                likelihood = values[f"{prefix}/log_likelihood/mean"]
                cells.append(f"{likelihood:.2f} / {values[f'{prefix}/coverage_90/mean']:.0%}")
            cells.append(f"{values[f'{place}/replay/bias/mean']:.2f}")
            costs = [f"{place}/beta_{beta:g}/true_cost/mean" for beta in (0, 1, 2, 4)]
            cells += [f"{values[cost]:.2f}" if cost in values else "–" for cost in costs]
            rows.append([f"{task.replace('_', ' ')}, {title}", *cells])
    steps_ahead = [f"log-likelihood / coverage after {steps}" for steps in HORIZONS]
    titles = ["one step", *steps_ahead, "replay bias"]
    titles += [f"true cost, β = {beta}" for beta in (0, 1, 2, 4)]
    return markdown(["system, posterior", *titles], rows)
