"""The authors' other setting: a model of 68,600 random transitions, and one policy without risk.

Their five policies cost 170.1 on average, the best 164.4; their two models with this alignment have
test log-likelihoods of −0.15 and −0.31.
"""

from dataclasses import replace
from pathlib import Path

import numpy as np

from twofold.experiments.control_problems import industrial_random
from twofold.experiments.frontier import Method, Trials, advance
from twofold.experiments.records import Record
from twofold.policies import SearchSettings

SEEDS: tuple[int, ...] = (0, 1, 2, 3, 4)
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
    [(0.0, 0.0)],
    SearchSettings(horizon=100, weight_draws=25, noise_draws=2, starts=25, epochs=40),
)


def run(smoke: bool, work: Path, output: Path) -> Record:
    """Five models and policies, each from its own seed; the policies as ONNX beside the record."""
    problem, method, trials, seeds = industrial_random(), METHOD, TRIALS, SEEDS
    if smoke:
        problem = replace(problem, transitions=2000, length=200, horizon=5)
        quick = {**method.regressor, "epochs": 2, "hidden_layer_sizes": (8,)}
        brief = replace(method.settings, horizon=5, epochs=1, updates=2, starts=2)
        method = method._replace(regressor=quick, settings=brief)
        trials, seeds = Trials(starts=4, repeats=2, weight_draws=2, noise_draws=2), SEEDS[:2]
    settings = {"regressor": method.regressor, "search": dict(vars(method.settings))}
    record = Record("industrial_random_batch", settings, list(seeds))
    groups = [advance(problem, method, seed, trials, work) for seed in seeds]
    costs = [group.trials[0].true_cost for group in groups]
    record.add_mean("cost", costs)
    record.add("cost/best", np.min(costs))
    record.add_mean("model/test_log_likelihood", [group.log_likelihood for group in groups])
    for seed, group in zip(seeds, groups, strict=True):
        record.add(f"cost/seed_{seed}", group.trials[0].true_cost)
        record.add(f"predicted_cost/seed_{seed}", group.trials[0].predicted_cost)
        group.policies[0].export_onnx(output / f"industrial_random_batch_{seed}.onnx")
    return record
