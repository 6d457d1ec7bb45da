"""Learn policies from logs with one method and write them; runs in that method's environment.

    python offline.py METHOD folder '{"option": value}'

Of each log the folder has ``NAME.npz``: observations, actions in [−1, 1], rewards and next
observations; none ends an episode, for a log's episodes end by the clock alone. The policy that is
written to ``NAME.policy.npz`` is a ReLU network of standardised observations with tanh outputs:
``mean``, ``scale``, and ``kernel_0``, ``bias_0`` … of its layers. Options are ``logs``, names with
seeds, which are learnt from side by side, and ``steps`` and ``seconds``, both of which must have
passed. Prints the wall seconds of all, the CPU seconds of each, and its steps, as JSON.

Hyperparameters are d3rlpy's, which are those of the methods' papers, and for CQL those of its
reproduction of the published scores. Observations and rewards are standardised for all of them.
"""

import json
import signal
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

START = time.perf_counter()

import numpy as np  # noqa: E402

Data = dict[str, Any]
Network = dict[str, np.ndarray]


class Budget:
    """Steps and seconds that must both have passed before training ends."""

    def __init__(self, steps: int, seconds: float):
        self.steps, self.seconds, self.made, self.stopped = steps, seconds, 0, False
        signal.signal(signal.SIGTERM, self.stop)

    def stop(self, *_: Any) -> None:
        """End now: what is asked to terminate writes what it has."""
        self.stopped = True

    def left(self) -> bool:
        """Whether to go on."""
        short = self.made < self.steps or time.perf_counter() - START < self.seconds
        return short and not self.stopped


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


def mini_batch(data: Data, device: str) -> Any:
    """Transitions as d3rlpy has them; none is terminal. No method here uses next actions."""
    from d3rlpy.torch_utility import TorchMiniBatch

    rewards = data["rewards"][:, None]
    zeros = 0.0 * rewards
    return TorchMiniBatch(
        observations=data["observations"],
        actions=data["actions"],
        rewards=rewards,
        next_observations=data["next_observations"],
        next_actions=data["actions"],
        returns_to_go=zeros,
        terminals=zeros,
        intervals=zeros + 1.0,
        device=device,
        numpy_batch=None,
    )


class Learner:
    """An algorithm of d3rlpy that learns from random transitions."""

    def __init__(self, config: Any, data: Data, seed: int):
        import d3rlpy
        import graphs
        import torch

        d3rlpy.seed(seed)
        self.device, self.size = graphs.device(), config.batch_size
        self.data = {name: torch.as_tensor(part).to(self.device) for name, part in data.items()}
        self.algorithm = config.create(device=self.device if "cuda" in self.device else False)
        shapes = data["observations"].shape[1:], data["actions"].shape[1]
        self.algorithm.create_impl(*shapes)
        modules = vars(self.algorithm.impl.modules).values()
        graphs.prepare([one.optim for one in modules if hasattr(one, "optim")])

    def pick(self, data: Data, size: int, rows: Any) -> Data:
        """Transitions at random places below a number of rows."""
        import torch

        shares = torch.rand(size, device=self.device, dtype=torch.float64)
        places = (shares * rows).long()
        return {name: part[places] for name, part in data.items()}

    def draw(self) -> Data:
        """A batch of transitions."""
        return self.pick(self.data, self.size, len(self.data["rewards"]))

    @classmethod
    def prepare(cls, learners: Sequence[Any]) -> None:
        """What is done with all of them before the first update."""

    def refresh(self, made: int) -> None:
        """What is done between updates, after so many of them."""

    def update(self, number: int) -> None:
        """One update of d3rlpy's."""
        self.algorithm.impl.update(mini_batch(self.draw(), self.device), number)

    def network(self) -> Network:
        """The policy's layers up to the mean of its action, before tanh."""
        policy = self.algorithm.impl.policy
        last = policy._mu if hasattr(policy, "_mu") else policy._fc
        linear = [*(one for one in policy._encoder._layers if hasattr(one, "weight")), last]
        parts = [(one.weight, one.bias) for one in linear]
        return {
            f"{kind}_{number}": part.detach().cpu().numpy()
            for number, pair in enumerate(parts)
            for kind, part in zip(("kernel", "bias"), pair, strict=True)
        }


def learn_bc(data: Data, seed: int) -> Learner:
    """Behaviour cloning."""
    from d3rlpy.algos import BCConfig

    return Learner(BCConfig(), data, seed)


def learn_td3_bc(data: Data, seed: int) -> Learner:
    """TD3+BC (Fujimoto and Gu 2021)."""
    from d3rlpy.algos import TD3PlusBCConfig

    return Learner(TD3PlusBCConfig(alpha=2.5), data, seed)


def learn_cql(data: Data, seed: int) -> Learner:
    """Conservative Q-learning (Kumar et al. 2020), with a fixed conservative weight."""
    from d3rlpy.algos import CQLConfig
    from d3rlpy.models.encoders import VectorEncoderFactory

    encoder = VectorEncoderFactory([256, 256, 256])
    config = CQLConfig(
        actor_encoder_factory=encoder,
        critic_encoder_factory=encoder,
        alpha_learning_rate=0.0,
        conservative_weight=5.0,
    )
    return Learner(config, data, seed)


def learn_iql(data: Data, seed: int) -> Learner:
    """Implicit Q-learning (Kostrikov et al. 2022)."""
    from d3rlpy.algos import IQLConfig

    return Learner(IQLConfig(expectile=0.7, weight_temp=3.0, max_weight=100.0), data, seed)


def learn_mopo(data: Data, seed: int) -> Any:
    """Model-based offline policy optimisation (Yu et al. 2020), with d3rlpy's SAC."""
    from mopo import Mopo

    return Mopo(data, seed)


METHODS: dict[str, Callable[[Data, int], Any]] = {
    "bc": learn_bc,
    "td3_bc": learn_td3_bc,
    "cql": learn_cql,
    "iql": learn_iql,
    "mopo": learn_mopo,
}


def lighten() -> None:
    """Leave out of d3rlpy what a graph cannot hold (losses for its log, checks of distributions),
    and make its targets follow in one kernel and its gradients anew."""
    import torch
    from d3rlpy.algos.qlearning.torch import bc_impl, ddpg_impl
    from d3rlpy.optimizers import OptimizerWrapper

    def follow(target: Any, source: Any, tau: float) -> None:
        with torch.no_grad():
            torch._foreach_lerp_(list(target.parameters()), list(source.parameters()), tau)

    torch.distributions.Distribution.set_default_validate_args(False)
    for module in (bc_impl, ddpg_impl):
        module.asdict_as_float = lambda losses: {}
    ddpg_impl.soft_sync = follow
    OptimizerWrapper.zero_grad = lambda self: self.optim.zero_grad()


def train(learners: Sequence[Any], budget: Budget) -> None:
    """Updates of all learners side by side."""
    from graphs import UNROLLED, unroll

    type(learners[0]).prepare(learners)
    advance = unroll([one.update for one in learners])
    while budget.left():
        for one in learners:
            one.refresh(budget.made)
        advance()
        budget.made += UNROLLED


def learn(method: str, folder: Path, logs: dict[str, int], budget: Budget) -> None:
    """Policies from logs in a folder."""
    lighten()
    learners, every = [], []
    for name, seed in logs.items():
        with np.load(folder / f"{name}.npz") as file:
            data, units = standardise(dict(file))
        learners.append(METHODS[method](data, seed))
        every.append(units)
    train(learners, budget)
    for name, learner, units in zip(logs, learners, every, strict=True):
        np.savez(folder / f"{name}.policy.npz", **units, **learner.network())


def main() -> None:
    """Learn, write, say how long it took."""
    method, folder, words = sys.argv[1:]
    options = json.loads(words)
    logs = options["logs"]
    budget = Budget(options["steps"], options["seconds"])
    learn(method, Path(folder), logs, budget)
    wall, cpu = time.perf_counter() - START, time.process_time() / len(logs)
    print(json.dumps({"wall_seconds": wall, "cpu_seconds": cpu, "steps": budget.made}))


if __name__ == "__main__":
    main()
