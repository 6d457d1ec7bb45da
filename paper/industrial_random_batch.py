"""The authors' other setting: a model of 68,600 random transitions, and policies searched with it.

Their five policies cost 170.1 on average, the best 164.4; their two models with this alignment have
test log-likelihoods of −0.15 and −0.31. As an upper bound, the same policy network is also
optimised on the true simulator.
"""

from dataclasses import replace

import jax
import numpy as np

from paper.control_problems import industrial_random
from paper.direct_search import Strategy, direct_search
from paper.frontier import CAREFUL, LUCK_STREAM, START_STREAM, Method, Trials, finish_group
from paper.records import Context, Record
from paper.truth import true_costs
from twofold.core.numerics import Standardizer
from twofold.plant.policy import PolicyNetwork
from twofold.plant.search import SearchSettings

NAME = "industrial_random_batch"
SEEDS: tuple[int, ...] = (0, 1, 2, 3, 4)
DIRECT_SEEDS: tuple[int, ...] = (0, 1)
BETAS = (0.0, 0.5, 1.0, 2.0)
BETA = 1.0  # β of the policies compared with the authors'
TRIALS = Trials(starts=5000, repeats=2, weight_draws=10, noise_draws=2)
METHOD = Method(
    "alpha",
    {
        "inference": "alpha",
        "hidden_layer_sizes": (75, 75),
        "epochs": 600,
        "batch_size": 2744,
        "draws": 50,
        "learning_rate": 5e-3,
    },
    [(beta, 0.0) for beta in BETAS],
    SearchSettings(75, 30, 2, 12, epochs=40, **CAREFUL),
    fits=3,
)


def search_by_model(context: Context) -> Record:
    """Search policies with five models; those for one β are stored as ONNX beside the record."""
    problem, method, trials, seeds = industrial_random(), METHOD, TRIALS, SEEDS
    if context.smoke:
        problem = replace(problem, transitions=2000, length=200, horizon=5)
        quick = {**method.regressor, "epochs": 2, "hidden_layer_sizes": (8,)}
        brief = replace(method.settings, horizon=5, epochs=1, updates=2, starts=2)
        method = method._replace(regressor=quick, settings=brief)
        trials, seeds = Trials(starts=4, repeats=2, weight_draws=2, noise_draws=2), SEEDS[:2]
    groups = [finish_group(problem, method, seed, trials, context.work) for seed in seeds]
    settings = {
        "regressor": method.regressor,
        "fits": method.fits,
        "beta": BETA,
        "search": dict(vars(method.settings)),
        "trials": trials._asdict(),
        "transitions": problem.transitions,
        "made_by": {str(seed): group.made_by for seed, group in zip(seeds, groups, strict=True)},
    }
    record = Record(NAME, settings, list(seeds))
    record.add("seconds", sum(group.seconds for group in groups))
    record.add_mean("model/test_log_likelihood", [group.log_likelihood for group in groups])
    for index, beta in enumerate(BETAS):
        start = "" if beta == BETA else f"beta_{beta:g}/"
        costs = [group.trials[index].true_cost for group in groups]
        record.add_mean(f"{start}cost", costs)
        record.add(f"{start}cost/best", np.min(costs))
        for seed, group in zip(seeds, groups, strict=True):
            record.add(f"{start}cost/seed_{seed}", group.trials[index].true_cost)
            record.add(f"{start}predicted_cost/seed_{seed}", group.trials[index].predicted_cost)
    for seed, group in zip(seeds, groups, strict=True):
        group.policies[BETAS.index(BETA)].export_onnx(context.output / f"{NAME}_{seed}.onnx")
    return record


def search_on_simulator(context: Context) -> Record:
    """Optimise the same policy network on the simulator, and evaluate it under the same
    protocol."""
    problem, strategy, seeds, trials = industrial_random(), Strategy(), DIRECT_SEEDS, TRIALS
    if context.smoke:
        problem = replace(problem, horizon=5)
        strategy, seeds = Strategy(2, pairs=3, starts=2), DIRECT_SEEDS[:1]
        trials = Trials(starts=4, repeats=2)
    log = problem.batch(0, 20 * problem.length)
    embedding = problem.embed(log)
    windows = embedding.steps(log).windows
    features = np.asarray(jax.jit(jax.vmap(embedding.features))(windows), float)
    bounds = tuple(log.action_low.tolist()), tuple(log.action_high.tolist())
    shape = PolicyNetwork(features.shape[1], METHOD.settings.hidden, *bounds)
    record = Record(NAME, {"direct": strategy._asdict()}, list(seeds))
    costs = []
    for seed in seeds:
        units = Standardizer.fit(features)
        policy = direct_search(jax.random.key(seed), problem, embedding, shape, units, strategy)
        policy.save(context.work / f"direct-{seed}.policy")
        starts = problem.starts(jax.random.key(seed + START_STREAM), trials.starts)
        luck = jax.random.key(seed + LUCK_STREAM)
        true = true_costs(luck, problem.system, policy, starts, problem.horizon, trials.repeats)
        costs.append(float(true.mean()))
        record.add(f"direct/cost/seed_{seed}", costs[-1])
    record.add("direct/cost/best", np.min(costs))
    return record
