"""Learn a policy from a log with one method and write it; runs in that method's environment.

    python offline.py METHOD transitions.npz policy.npz '{"option": value}'

The transitions are observations, actions in [−1, 1], rewards and next observations; none ends an
episode, for a log's episodes end by the clock alone. The policy is a ReLU network of standardised
observations with tanh outputs: ``mean``, ``scale``, and ``kernel_0``, ``bias_0`` … of its layers.
Options are ``steps`` and ``seconds``, both of which must have passed, and ``seed``. Prints wall and
CPU seconds of the process and the steps as JSON.

Hyperparameters are d3rlpy's, which are those of the methods' papers, and for CQL those of its
reproduction of the published scores. Observations and rewards are standardised for all of them.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

START = time.perf_counter()

import numpy as np  # noqa: E402

Data = dict[str, np.ndarray]
Network = dict[str, np.ndarray]


class Budget:
    """Steps and seconds that must both have passed before training ends."""

    def __init__(self, steps: int, seconds: float):
        self.steps, self.seconds, self.made = steps, seconds, 0

    def left(self) -> bool:
        """Whether to make, and then count, another step."""
        more = self.made < self.steps or time.perf_counter() - START < self.seconds
        self.made += more
        return more


def standardise(data: Data) -> tuple[Data, Network]:
    """Observations and rewards in deviations from their mean, and what observations were."""
    mean, scale = data["observations"].mean(axis=0), data["observations"].std(axis=0) + 1e-3
    seen = {
        name: ((data[name] - mean) / scale).astype(np.float32)
        for name in ("observations", "next_observations")
    }
    rewards = data["rewards"].astype(np.float64)
    centred = ((rewards - rewards.mean()) / (rewards.std() + 1e-8)).astype(np.float32)
    return data | seen | {"rewards": centred}, {"mean": mean, "scale": scale}


def mini_batch(data: Data, rows: np.ndarray) -> Any:
    """Some transitions as d3rlpy has them; none is terminal. No method here uses next actions."""
    from d3rlpy.dataset import TransitionMiniBatch

    of_rows = {name: data[name][rows] for name in ("observations", "actions", "next_observations")}
    zeros = np.zeros((len(rows), 1), np.float32)
    return TransitionMiniBatch(
        **of_rows,
        rewards=data["rewards"][rows, None],
        next_actions=of_rows["actions"],
        terminals=zeros,
        intervals=zeros + 1.0,
        transitions=[],
    )


def create(config: Any, data: Data, seed: int) -> Any:
    """An algorithm of d3rlpy for this data, on the GPU if there is one."""
    import d3rlpy
    import torch

    d3rlpy.seed(seed)
    algorithm = config.create(device="cuda:0" if torch.cuda.is_available() else False)
    algorithm.create_impl(data["observations"].shape[1:], data["actions"].shape[1])
    return algorithm


def layers_of(policy: Any) -> Network:
    """The policy's network up to the mean of its action, before tanh."""
    last = policy._mu if hasattr(policy, "_mu") else policy._fc
    linear = [*(one for one in policy._encoder._layers if hasattr(one, "weight")), last]
    parts = [(one.weight, one.bias) for one in linear]
    return {
        f"{kind}_{number}": part.detach().cpu().numpy()
        for number, pair in enumerate(parts)
        for kind, part in zip(("kernel", "bias"), pair, strict=True)
    }


def graphs() -> dict[str, Any]:
    """d3rlpy's option of CUDA graphs, and an optimiser that may be part of one."""
    import torch
    from d3rlpy.optimizers.optimizers import AdamFactory

    class Capturable(AdamFactory):
        def create_optimizer(self, named_modules: Any, lr: float) -> Any:
            made = super().create_optimizer(named_modules, lr)
            for group in made.param_groups:
                group["capturable"] = torch.cuda.is_available()
            return made

    return {"compile_graph": True, "temp_optim_factory": Capturable()}


def train_bc(data: Data, budget: Budget, seed: int) -> Network:
    """Behaviour cloning."""
    from d3rlpy.algos import BCConfig

    return train(BCConfig(compile_graph=True), data, budget, seed)


def train_td3_bc(data: Data, budget: Budget, seed: int) -> Network:
    """TD3+BC (Fujimoto and Gu 2021)."""
    from d3rlpy.algos import TD3PlusBCConfig

    return train(TD3PlusBCConfig(alpha=2.5, compile_graph=True), data, budget, seed)


def train_cql(data: Data, budget: Budget, seed: int) -> Network:
    """Conservative Q-learning (Kumar et al. 2020), with a fixed conservative weight."""
    from d3rlpy.algos import CQLConfig
    from d3rlpy.models.encoders import VectorEncoderFactory

    encoder = VectorEncoderFactory([256, 256, 256])
    config = CQLConfig(
        actor_encoder_factory=encoder,
        critic_encoder_factory=encoder,
        alpha_learning_rate=0.0,
        conservative_weight=5.0,
        **graphs(),
    )
    return train(config, data, budget, seed)


def train_iql(data: Data, budget: Budget, seed: int) -> Network:
    """Implicit Q-learning (Kostrikov et al. 2022)."""
    from d3rlpy.algos import IQLConfig

    config = IQLConfig(expectile=0.7, weight_temp=3.0, max_weight=100.0, compile_graph=True)
    return train(config, data, budget, seed)


def train(config: Any, data: Data, budget: Budget, seed: int) -> Network:
    """Updates with random transitions."""
    algorithm, rng = create(config, data, seed), np.random.default_rng(seed)
    while budget.left():
        rows = rng.integers(len(data["rewards"]), size=config.batch_size)
        algorithm.update(mini_batch(data, rows))
    return layers_of(algorithm.impl.policy)


def train_mopo(data: Data, budget: Budget, seed: int) -> Network:
    """Model-based offline policy optimisation (Yu et al. 2020), with d3rlpy's SAC."""
    from d3rlpy.algos import SACConfig
    from mopo import Dynamics, Pool

    sac = create(SACConfig(**graphs()), data, seed)
    rng = np.random.default_rng(seed)
    dynamics, pool = Dynamics(data, seed), Pool()
    while budget.left():
        if pool.is_due(budget.made):
            pool.add(dynamics.roll_out(data, sac.sample_action, rng))
        sac.update(mini_batch(*pool.mix(data, rng, sac.batch_size)))
    return layers_of(sac.impl.policy)


METHODS: dict[str, Callable[[Data, Budget, int], Network]] = {
    "bc": train_bc,
    "td3_bc": train_td3_bc,
    "cql": train_cql,
    "iql": train_iql,
    "mopo": train_mopo,
}


def search_twofold(task: str, folder: str, seed: int, smoke: bool) -> None:
    """This library's own pipeline with its defaults, on the same log."""
    from benchmarks.offline_tasks import TASKS, shrink
    from twofold import BNNLVRegressor
    from twofold.inference.alpha import Alpha
    from twofold.plant.project import find_policies
    from twofold.plant.search import SearchSettings

    problem, quick = TASKS[task](), {}
    if smoke:
        problem = shrink(problem)
        settings = SearchSettings(horizon=5, epochs=1, updates=2)
        regressor = BNNLVRegressor(inference=Alpha(draws=2, epochs=2), hidden_layer_sizes=(8,))
        quick = {"settings": settings, "regressor": regressor}
    log = problem.batch(seed)
    embedding = problem.embed(log)
    find_policies(log, problem.cost, folder, embedding=embedding, random_state=seed, **quick)


def main() -> None:
    """Learn, write, say how long it took."""
    method, given, target, words = sys.argv[1:]
    options = json.loads(words)
    steps = 0
    if method == "twofold":
        search_twofold(given, target, options["seed"], options.get("smoke", False))
    else:
        os.environ.setdefault("TORCHDYNAMO_DISABLE", "1")  # graphs without a compiler
        with np.load(given) as file:
            data, units = standardise(dict(file))
        budget = Budget(options["steps"], options["seconds"])
        network = METHODS[method](data, budget, options["seed"])
        np.savez(target, **units, **network)
        steps = budget.made
    wall, cpu = time.perf_counter() - START, time.process_time()
    print(json.dumps({"wall_seconds": wall, "cpu_seconds": cpu, "steps": steps}))


if __name__ == "__main__":
    main()
