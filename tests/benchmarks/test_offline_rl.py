"""Offline reinforcement learning beside this library: what it is given, and how it is scored."""

import sys
from dataclasses import replace
from types import ModuleType, SimpleNamespace

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from benchmarks import offline_rl, offline_tasks
from benchmarks.peers import offline
from benchmarks.tables.offline_rl import (
    describe_cost,
    leading,
    tabulate_costs,
    tabulate_seconds,
)
from paper.control_problems import ControlProblem
from paper.outside_tasks import OUTSIDE
from paper.records import Record
from paper.truth import Starts
from twofold.envs.system import System, memoryless
from twofold.plant.embedding import embed
from twofold.plant.log import Episode, Log, Window

LOW, HIGH = np.array([-2.0, 0.0]), np.array([2.0, 10.0])


@pytest.fixture
def log(rng):
    """Two episodes of different length."""
    episodes = tuple(
        Episode(
            rng.normal(size=(steps + 1, 3)),
            rng.uniform(LOW, HIGH, (steps, 2)),
            rng.normal(size=steps),
        )
        for steps in (5, 7)
    )
    return Log(("a", "b", "c"), ("u", "v"), LOW, HIGH, episodes)


def decaying(gain: float) -> ControlProblem:
    """``x' = 0.5 x + a`` with the cost x², from 1 on; the logged controller is −``gain`` x."""
    system = System(
        "decaying", ("x",), ("a",), -np.ones(1), np.ones(1), -np.ones(1), np.ones(1), 5,
        reset=lambda key: jnp.ones(1),
        step=lambda key, state, action: 0.5 * state + action,
        observe=lambda state: state,
        cost=lambda state: state[0] ** 2,
        behaviour=memoryless(lambda key, seen: -gain * seen),
    )  # fmt: skip

    def starts(key, num):
        return Starts(jnp.ones((num, 1)), Window(jnp.ones((num, 1, 1)), jnp.zeros((num, 0, 1))))

    cost = lambda row: row["x"] ** 2  # noqa: E731
    return ControlProblem("decaying", system, system.behaviour, 20, 5, cost, embed, starts, 5)


def test_transitions_are_those_of_a_naive_loop(log):
    embedding = embed(log, history=3, action_history=2)
    found = offline_tasks.list_transitions(log, embedding)
    rows = []
    for one in log.episodes:
        for t in range(2, len(one)):
            now, then = (
                np.asarray(
                    embedding.features(
                        Window(one.observations[s - 2 : s + 1], one.actions[s - 2 : s])
                    )
                )
                for s in (t, t + 1)
            )
            scaled = 2.0 * (one.actions[t] - LOW) / (HIGH - LOW) - 1.0
            rows.append((now, scaled, -one.costs[t], then))
    for name, naive in zip(found, zip(*rows, strict=True), strict=True):
        np.testing.assert_allclose(found[name], np.stack(naive), rtol=1e-5, atol=1e-6)
    assert list(found) == ["observations", "actions", "rewards", "next_observations"]


def test_transitions_are_those_of_the_minari_data_set(log, tmp_path):
    pytest.importorskip("minari")
    from twofold.plant.minari import write_minari

    dataset = write_minari(log, "mine/offline-v0", root=tmp_path)
    found = offline_tasks.list_transitions(log, embed(log))
    episodes = list(dataset.iterate_episodes())
    ends = np.concatenate([one.terminations for one in episodes])
    assert not ends.any() and all(one.truncations[-1] for one in episodes)
    rewards = np.concatenate([one.rewards for one in episodes])
    np.testing.assert_allclose(found["rewards"], rewards, rtol=1e-6)
    after = np.concatenate([one.observations[1:] for one in episodes])
    np.testing.assert_allclose(found["next_observations"], after, rtol=1e-6)


def test_no_transition_is_terminal_for_a_learner(log, monkeypatch):
    module = ModuleType("d3rlpy.torch_utility")
    monkeypatch.setattr(module, "TorchMiniBatch", SimpleNamespace, raising=False)
    monkeypatch.setitem(sys.modules, "d3rlpy", ModuleType("d3rlpy"))
    monkeypatch.setitem(sys.modules, "d3rlpy.torch_utility", module)
    data = offline_tasks.list_transitions(log, embed(log))
    last_of_first = len(log.episodes[0]) - 1
    rows = np.array([0, last_of_first, 11])
    batch = offline.mini_batch({name: part[rows] for name, part in data.items()}, "cpu")
    assert not batch.terminals.any() and (batch.intervals == 1.0).all()
    expected = log.episodes[0].observations[-1]
    np.testing.assert_allclose(batch.next_observations[1], expected, rtol=1e-6)
    np.testing.assert_array_equal(batch.rewards[:, 0], data["rewards"][rows])
    assert batch.terminals.shape == batch.rewards.shape == (3, 1)


def test_observations_and_rewards_are_standardised_alike(log):
    data = offline_tasks.list_transitions(log, embed(log))
    found, units = offline.standardise(data)
    np.testing.assert_allclose(found["rewards"].mean(), 0.0, atol=1e-6)
    np.testing.assert_allclose(found["rewards"].std(), 1.0, rtol=1e-5)
    for name in ("observations", "next_observations"):
        raw = found[name] * units["scale"] + units["mean"]
        np.testing.assert_allclose(raw, data[name], rtol=1e-4, atol=1e-5)
    assert found["observations"].dtype == np.float32


def test_a_budget_needs_steps_and_seconds(monkeypatch):
    clock = SimpleNamespace(now=offline.START)
    monkeypatch.setattr(offline.time, "perf_counter", lambda: clock.now)
    monkeypatch.setattr(offline.signal, "signal", lambda *_: None)
    budget = offline.Budget(20, 10.0)
    budget.made = 20
    assert budget.left()
    clock.now += 11.0
    assert not budget.left()
    budget.made = 10
    assert budget.left()
    budget.stop()
    assert not budget.left()


def test_a_network_acts_as_a_policy_of_this_library(log, rng):
    embedding = embed(log)
    sizes = [(4, 3), (5, 4), (2, 5)]
    network = {"mean": rng.normal(size=3), "scale": rng.uniform(1, 2, 3)}
    for number, size in enumerate(sizes):
        network |= {
            f"kernel_{number}": rng.normal(size=size),
            f"bias_{number}": rng.normal(size=size[0]),
        }
    policy = offline_tasks.read_policy(network, embedding, log)
    seen = rng.normal(size=3)
    hidden = (seen - network["mean"]) / network["scale"]
    for number in range(3):
        hidden = network[f"kernel_{number}"] @ hidden + network[f"bias_{number}"]
        hidden = np.maximum(hidden, 0.0) if number < 2 else np.tanh(hidden)
    expected = LOW + (hidden + 1.0) / 2.0 * (HIGH - LOW)
    np.testing.assert_allclose(policy.act(seen[None]), expected, rtol=1e-4)


def test_costs_are_those_of_a_naive_loop(monkeypatch):
    monkeypatch.setattr(offline_tasks, "STARTS", 3)
    problem, x, total = decaying(0.3), 1.0, 0.0
    for _ in range(5):
        x = 0.5 * x - 0.3 * x
        total += x**2
    assert offline_tasks.try_logged(problem, 0) == pytest.approx(total / 5)
    log = problem.batch(0)
    # a policy that always does tanh(0.2)
    network = {"mean": np.zeros(1), "scale": np.ones(1), "kernel_0": np.zeros((1, 1))}
    policy = offline_tasks.read_policy(network | {"bias_0": np.array([0.2])}, embed(log), log)
    x, total = 1.0, 0.0
    for _ in range(5):
        x = 0.5 * x + np.tanh(0.2)
        total += x**2
    assert offline_tasks.try_policy(problem, policy, 0) == pytest.approx(total / 5, rel=1e-5)


def test_all_methods_of_a_seed_start_alike():
    problem = OUTSIDE["pendulum"]
    first, again, other = (offline_tasks.draw_starts(problem, seed).states for seed in (0, 0, 1))
    same = jax.tree.map(np.array_equal, first, again)
    assert all(jax.tree.leaves(same))
    assert not np.array_equal(first.values, other.values)


@pytest.mark.parametrize("chosen", [0, None])
def test_without_a_recommended_policy_the_logged_controller_runs(monkeypatch, chosen):
    policies = [SimpleNamespace(epistemic_weight=beta) for beta in (0.0, 2.0)]
    recommended = None if chosen is None else policies[chosen]
    project = SimpleNamespace(policies=policies, recommended=recommended)
    costs = {0.0: 7.0, 2.0: 5.0}
    monkeypatch.setattr(offline_rl, "try_policy", lambda _, own, seed: costs[own.epistemic_weight])
    monkeypatch.setattr(offline_rl, "try_logged", lambda *_: 9.0)
    found = offline_rl.try_project(OUTSIDE["pendulum"], project, 0)
    assert found["cost"] == (9.0 if chosen is None else 7.0)
    assert (found["best"], found["beta_2"], found["recommends"]) == (5.0, 5.0, chosen is not None)


def test_a_learner_is_given_each_seeds_log_and_its_policy_is_tried(monkeypatch):
    monkeypatch.setattr(offline_tasks, "STARTS", 3)
    monkeypatch.setattr(offline_rl, "TASKS", {"decaying": lambda: decaying(0.3)})

    def learn(method, folder, options, environment):
        assert (method, environment) == ("cql", "d3rlpy")
        assert options["logs"] == {"decaying-0": 0, "decaying-5": 5}
        for name, seed in options["logs"].items():
            with np.load(folder / f"{name}.npz") as file:
                # from 1 with the action −0.3, whatever the seed
                assert file["rewards"][0] == pytest.approx(-(0.2**2))
            layer = {"kernel_0": np.zeros((1, 1)), "bias_0": np.array([0.1 * seed])}
            np.savez(folder / f"{name}.policy.npz", mean=np.zeros(1), scale=np.ones(1), **layer)
        return {"wall_seconds": 3.0}

    monkeypatch.setattr(offline_rl, "learn_apart", learn)
    none, some = offline_rl.measure_peer(["decaying"], "cql", [0, 5], False)["decaying"]
    assert none["cost"] == pytest.approx(sum(0.25**t for t in range(1, 6)) / 5)
    assert some["cost"] > none["cost"] and some["wall_seconds"] == 3.0


def test_tasks_of_a_peer_may_share_a_process(monkeypatch):
    monkeypatch.setattr(offline_rl, "interpreter", lambda _: offline_rl.__file__ + "/a/b")
    monkeypatch.setattr(offline_rl.Path, "read_text", lambda _: "d3rlpy")
    seen = []

    def run(jobs, work):
        seen.append([(job.arguments[0], job.arguments[1]) for job in jobs])
        return [
            {"machine": "here", "numbers": {task: [{"cost": 1.0}] for task in job.arguments[0]}}
            for job in jobs
        ]

    monkeypatch.setattr(offline_rl, "run_jobs", run)
    tasks, methods = ["pendulum", "reactor", offline_rl.CHECK], ["cql", "mopo", "logged"]
    for together in (True, False):
        record = offline_rl.measure(tasks, methods, [0], together, False, None)
        assert {"pendulum/cql/cost/mean", "reactor/logged/cost/mean"} <= set(record.metrics)
        assert f"{offline_rl.CHECK}/mopo/cost/mean" in record.metrics
        assert f"{offline_rl.CHECK}/cql/cost/mean" not in record.metrics
    assert seen[0][:2] == [(tasks[:2], "cql"), (tasks, "mopo")] and len(seen[0]) == 4
    assert [one[0] for one in seen[1][:2]] == [["pendulum"], ["reactor"]] and len(seen[1]) == 7


def test_a_process_that_fails_says_why(monkeypatch, tmp_path):
    failed = SimpleNamespace(returncode=1, stderr="Traceback\nno memory\n", stdout="")
    monkeypatch.setattr(offline_rl.subprocess, "run", lambda *_, **__: failed)
    with pytest.raises(RuntimeError, match="cql failed: no memory"):
        offline_rl.learn_apart("cql", tmp_path, {}, None)


def write_record(folder):
    """Two methods on one task, by seeds."""
    record = Record("offline_rl", {}, [0, 1])
    times = {"wall_seconds": 10.0, "cpu_seconds": 20.0, "steps": 20_000}
    own = [{"cost": cost, "best": cost - 1.0} | times for cost in (1.0, 3.0)]
    offline_rl.add_results(record, "pendulum", "twofold", own)
    offline_rl.add_results(record, "pendulum", "cql", [{"cost": c} | times for c in (8.0, 10.0)])
    record.write(folder)
    return record.metrics


def test_the_record_has_means_errors_and_times(tmp_path):
    values = write_record(tmp_path)
    assert values["pendulum/twofold/cost/mean"] == 2.0
    assert values["pendulum/twofold/cost/se"] == pytest.approx(1.0)
    assert values["pendulum/twofold_best/cost/mean"] == 1.0
    assert (values["pendulum/cql/wall_seconds"], values["pendulum/cql/cpu_seconds"]) == (10.0, 20.0)
    assert "pendulum/twofold/best/mean" not in values


def test_a_record_keeps_what_was_not_measured():
    measured = {"pendulum/twofold/cost/mean": 1.0, "pendulum/twofold_best/cost/mean": 1.0}
    kept = "pendulum/cql/steps", "reactor/twofold/beta_1/mean", "pendulum/twofold_other/steps"
    assert all(offline_rl.is_kept(name, measured) for name in kept)
    stale = "pendulum/twofold/beta_1/mean", "pendulum/twofold_best/cost/se"
    assert not any(offline_rl.is_kept(name, measured) for name in stale)


def test_the_table_marks_what_is_within_two_standard_errors_of_the_best(tmp_path):
    values = write_record(tmp_path)
    assert leading(values, "pendulum") == ["twofold"]
    close = values | {"pendulum/cql/cost/mean": 4.0, "pendulum/cql/cost/se": 0.1}
    assert leading(close, "pendulum") == ["twofold", "cql"]
    assert leading(values, "reactor") == []
    assert describe_cost(values, "pendulum/none") == "–"
    assert (
        describe_cost(values | {"pendulum/cql/cost/se": 0.0}, "pendulum/cql") == "9.000 (one seed)"
    )
    (row,) = tabulate_costs(tmp_path).splitlines()[2:]
    assert row.startswith("| pendulum | **2.0") and row.count("**") == 2 and "| – |" in row
    (row,) = tabulate_seconds(tmp_path).splitlines()[2:]
    assert row == "| pendulum | 10 / 20 (20,000) | – | – | 10 / 20 (20,000) | – | – |"


def test_smoke_size_never_joins_the_record(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["offline_rl.py", "--smoke"])
    with pytest.raises(SystemExit):
        offline_rl.main()
    assert "--output" in capsys.readouterr().err


def test_a_kept_policy_is_known_by_its_sources_and_packages(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    folder = tmp_path / ".peers/d3rlpy/bin"
    folder.mkdir(parents=True)
    (folder / "python").touch()
    found = []
    for packages in ("d3rlpy==1", "d3rlpy==2"):
        (folder.parent / ".installed").write_text(packages)
        found.append(offline_rl.plan_job(["pendulum"], "cql", [0], False).identity)
    assert found[0] != found[1] and found[0]["source"] == found[1]["source"]
    own = offline_rl.plan_job(["pendulum"], "twofold", [0], False).identity
    assert own["source"] != found[0]["source"] and "packages" not in own


def test_a_smaller_problem_is_the_same_problem():
    problem = OUTSIDE["reactor"]
    small = offline_tasks.shrink(problem)
    assert replace(small, transitions=problem.transitions, length=100, horizon=95) == problem
