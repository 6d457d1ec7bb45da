"""Run a policy found from a log in a Gymnasium environment.

python examples/interop/gymnasium_loop.py [--smoke] [--output FOLDER]
"""

import argparse
import tempfile
import warnings
from collections import deque
from pathlib import Path

import gymnasium
import jax
import numpy as np

import twofold.envs.gym  # noqa: F401  (registers the environments)
from twofold import Alpha, BNNLVRegressor
from twofold.envs.system import episodes, uniform
from twofold.envs.wet_chicken import wet_chicken
from twofold.plant import LearnedPolicy, SearchSettings, embed, find_policies, from_episodes

ENVIRONMENT = "twofold/WetChicken-v0"


def learn_policy(transitions: int, smoke: bool) -> LearnedPolicy:
    """The policy with the lowest risk-adjusted cost, from a log of random actions."""
    river = wet_chicken()
    log = from_episodes(
        river, episodes(jax.random.key(0), river, uniform(river), 50, transitions // 50)
    )
    settings = SearchSettings(horizon=5, starts=1, epochs=8)
    regressor = BNNLVRegressor(inference=Alpha(epochs=200), random_state=0)
    if smoke:
        settings = SearchSettings(horizon=3, epochs=1, updates=2, weight_draws=4, noise_draws=2)
        regressor.set_params(inference__epochs=2, inference__draws=5, n_weight_draws=10)
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the fit is short
        project = find_policies(
            log, lambda row: 5.0 - row["y"], Path(folder) / "river", embedding=embed(log),
            regressor=regressor, risk_weights=[(1.0, 0.0)], settings=settings, tuning=None,
        )  # fmt: skip
        return project.policies[0]


def run(environment: gymnasium.Env, policy: LearnedPolicy | None, episodes: int) -> float:
    """Mean reward per step; without a policy, actions are random."""
    environment.action_space.seed(0)
    rewards = []
    for number in range(episodes):
        observation, _ = environment.reset(seed=number)
        length = policy.history if policy else 1
        seen, done = deque([observation] * length, length), False
        while not done:
            action = environment.action_space.sample()
            if policy is not None:
                action = policy.act(np.stack(seen)).astype(np.float32)
            observation, reward, terminated, truncated, _ = environment.step(action)
            seen.append(observation)
            rewards.append(float(reward))
            done = terminated or truncated
    return float(np.mean(rewards))


def main() -> None:
    """Learn a policy offline, then compare it with random actions in the environment."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    parser.add_argument("--smoke", action="store_true", help="a short run of a few seconds")
    arguments = parser.parse_args()
    policy = learn_policy(200 if arguments.smoke else 2_500, arguments.smoke)
    environment = gymnasium.make(ENVIRONMENT)
    number = 1 if arguments.smoke else 10
    random, learned = run(environment, None, number), run(environment, policy, number)
    print(f"mean reward per step: random {random:.2f}, policy {learned:.2f}")


if __name__ == "__main__":
    main()
