"""Logs that policies are learnt from, how other libraries are given them, and what policies cost.

Other libraries are given what our own policies see, the window through its transforms, as plain
arrays: those of the log's Minari data set (``write_minari``), one transition for each step that has
all of its history. Rewards are negative costs. No transition is terminal: a log's episodes end by
the clock, and a value cut there would be wrong.
"""

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paper import control_problems, outside_tasks
from paper.control_problems import ControlProblem
from paper.truth import Starts, true_costs, warm_up
from twofold.core.arrays import Array, Key
from twofold.core.numerics import Standardizer
from twofold.envs.system import Policy, System, uniform
from twofold.plant.embedding import Embedding
from twofold.plant.log import Log, Window
from twofold.plant.policy import LearnedPolicy, PolicyNetwork

START_STREAM, LUCK_STREAM = 10_000, 20_000
STARTS = 2_000


def pendulum_random() -> ControlProblem:
    """Gymnasium's pendulum from its own starts, logged under random torques: what MOPO's
    implementation is checked on."""
    plant = outside_tasks.PENDULUM
    system = outside_tasks.system_of(plant, 200)
    behaviour = uniform(system)
    return replace(
        outside_tasks.OUTSIDE["pendulum"],
        system=system,
        behaviour=behaviour,
        transitions=20_000,
        starts=lambda key, num: warm_up(key, system, behaviour, 0, 1, num),
        horizon=200,
    )


TASKS: dict[str, Callable[[], ControlProblem]] = {
    "industrial_random": control_problems.industrial_random,
    "industrial_behaviour": control_problems.industrial,
    "wet_chicken": control_problems.river,
    "pendulum": lambda: outside_tasks.OUTSIDE["pendulum"],
    "reactor": lambda: outside_tasks.OUTSIDE["reactor"],
    "pendulum_random": pendulum_random,
}


def shrink(problem: ControlProblem) -> ControlProblem:
    """The same at the size of a smoke run."""
    return replace(problem, transitions=200, length=50, horizon=5)


def list_transitions(log: Log, embedding: Embedding) -> dict[str, np.ndarray]:
    """Observations, actions in [−1, 1], rewards and next observations, in single precision."""
    features = jax.jit(jax.vmap(embedding.features))
    middle = 0.5 * (log.action_high + log.action_low)
    half = 0.5 * (log.action_high - log.action_low)
    history, parts = embedding.history, []
    for one in (episode for episode in log.episodes if len(episode) >= history):
        rows = np.arange(len(one) - history + 2)[:, None] + np.arange(history)
        seen = features(Window(one.observations[rows], one.actions[rows[:, :-1]]))
        seen, first = np.asarray(seen), history - 1
        actions, rewards = (one.actions[first:] - middle) / half, -one.costs[first:]
        parts.append((seen[:-1], actions, rewards, seen[1:]))
    joined = (np.concatenate(part).astype(np.float32) for part in zip(*parts, strict=True))
    names = "observations", "actions", "rewards", "next_observations"
    return dict(zip(names, joined, strict=True))


def read_policy(network: Mapping[str, np.ndarray], embedding: Embedding, log: Log) -> LearnedPolicy:
    """A network that ``peers/offline.py`` has written, as a policy of this library."""
    count = sum(name.startswith("kernel") for name in network)
    pairs = [(network[f"kernel_{i}"], network[f"bias_{i}"]) for i in range(count)]
    shape = PolicyNetwork(
        pairs[0][0].shape[1],
        tuple(len(bias) for _, bias in pairs[:-1]),
        tuple(log.action_low.tolist()),
        tuple(log.action_high.tolist()),
    )
    weights = np.concatenate([part.ravel() for pair in pairs for part in pair])
    return LearnedPolicy(embedding, shape, Standardizer(network["mean"], network["scale"]), weights)


def draw_starts(problem: ControlProblem, seed: int) -> Starts:
    """Where all policies of a seed are tried from."""
    return problem.starts(jax.random.key(seed + START_STREAM), STARTS)


def try_policy(problem: ControlProblem, policy: LearnedPolicy, seed: int) -> float:
    """What a step truly costs under a policy, from the starts and with the luck of the seed."""
    starts, luck = draw_starts(problem, seed), jax.random.key(seed + LUCK_STREAM)
    return float(true_costs(luck, problem.system, policy, starts, problem.horizon, 1).mean())


def try_logged(problem: ControlProblem, seed: int) -> float:
    """The same of the controller that the log is of."""
    starts = draw_starts(problem, seed).states
    keys = jax.random.split(jax.random.key(seed + LUCK_STREAM), STARTS)
    parts = problem.system, problem.behaviour, problem.horizon
    return float(np.mean(jax.jit(jax.vmap(partial(_follow, *parts)))(starts, keys)))


def _follow(system: System, policy: Policy, horizon: int, state: Any, key: Key) -> Array:
    """Costs of one episode from a state on."""

    def step(carry: Any, own: Key) -> tuple[Any, Array]:
        state, memory = carry
        act_key, step_key = jax.random.split(own)
        memory, action = policy.act(act_key, memory, system.observe(state))
        state = system.step(step_key, state, action)
        return (state, memory), jnp.asarray(system.cost(state))

    memory_key, run_key = jax.random.split(key)
    keys = jax.random.split(run_key, horizon)
    return jax.lax.scan(step, (state, policy.init(memory_key)), keys)[1]
