"""Policies of this library beside those of offline reinforcement learning, from the same logs.

    python benchmarks/offline_rl.py                              everything, resumable
    python benchmarks/offline_rl.py --tasks wet_chicken          some tasks
    python benchmarks/offline_rl.py --methods twofold cql        some methods
    python benchmarks/offline_rl.py --seeds 0 1                  some seeds
    python benchmarks/offline_rl.py --together                   all tasks of a method side by side
    python benchmarks/offline_rl.py --smoke --output FOLDER      tiny, no environments

Every method learns in a process of its own, d3rlpy's and MOPO in the environment that ``make
peers`` makes, from the logs of all seeds side by side (and of all tasks, for which a GPU has room),
with at least 20,000 updates and a minute and a half. A seed is a log, a policy learnt from it, and
2,000 starts from which all methods are tried on the true system. ``twofold`` is the recommended
policy of ``policy search --quick`` (the logged controller, where that is recommended),
``twofold_best`` the best of the same search in hindsight, ``logged`` the controller that the log is
of. A run that is stopped keeps what it has; writes ``results/offline_rl.json``, where runs of some
tasks or methods join what others have.

MOPO is a reference implementation, checked on Gymnasium's pendulum: ``pendulum_random/mopo/return``
after 20,000 random transitions, beside −157 ± 89 that is published for SAC with the plant itself
(RL Baselines3 Zoo).
"""

import argparse
import hashlib
import json
import os
import platform
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.offline_tasks import (
    TASKS,
    list_transitions,
    read_policy,
    shrink,
    try_logged,
    try_policy,
)
from benchmarks.peers.processes import child_environment, interpreter
from paper.control_problems import ControlProblem
from paper.records import Record
from twofold.core.jobs import Job, run_jobs
from twofold.plant.project import Project, open_project

SCRIPTS = Path(__file__).parent / "peers"
WORK = Path(".cache/bench/unfinished/offline_rl")
ENVIRONMENT = "d3rlpy"
PEERS = ("bc", "td3_bc", "cql", "iql", "mopo")
METHODS = ("twofold", *PEERS, "logged")
CHECK = "pendulum_random"
SEEDS = (0, 1, 2)
STEPS = 20_000
SECONDS = 90.0
# What is given as a mean alone.
PLAIN = "wall_seconds", "cpu_seconds", "steps", "recommends"
EPISODE = 200  # steps of Gymnasium's pendulum
Numbers = dict[str, float]
Found = dict[str, list[Numbers]]  # of each task, by seed
# What decides a result, beside the tasks.
SHARED = tuple(
    f"paper/{name}.py" for name in ("control_problems", "outside_plants", "outside_tasks")
)
SOURCES = {
    "twofold": ("benchmarks/peers/offline_twofold.py", "paper/selection*.py", "src/twofold/*/*.py"),
    "peer": tuple(f"benchmarks/peers/{name}.py" for name in ("graphs", "mopo", "offline")),
    "logged": (),
}


def learn_apart(
    method: str, folder: Path, options: Mapping[str, Any], environment: str | None
) -> Numbers:
    """What a process of its own says of its time; its errors are this one's."""
    script = SCRIPTS.resolve() / ("offline.py" if environment else "offline_twofold.py")
    command = [interpreter(environment), str(script), method, str(folder), json.dumps(options)]
    done = subprocess.run(
        command, env=child_environment(environment), capture_output=True, text=True
    )
    if done.returncode:
        *before, last = done.stderr.strip().splitlines() or ["no message"]
        raise RuntimeError("\n".join([f"{method} failed: {last}", *before[-20:]]))
    return json.loads(done.stdout.strip().splitlines()[-1])


def measure_peer(tasks: Sequence[str], method: str, seeds: Sequence[int], smoke: bool) -> Found:
    """True costs of policies that another library has learnt, and its times."""
    problems = {task: shrink(TASKS[task]()) if smoke else TASKS[task]() for task in tasks}
    logs = {(task, seed): problems[task].batch(seed) for task in tasks for seed in seeds}
    views = {place: problems[place[0]].embed(log) for place, log in logs.items()}
    names = {place: f"{place[0]}-{place[1]}" for place in logs}
    found: Found = {task: [] for task in tasks}
    with tempfile.TemporaryDirectory(prefix="twofold-offline-") as name:
        folder = Path(name)
        for place, log in logs.items():
            np.savez(folder / f"{names[place]}.npz", **list_transitions(log, views[place]))
        seeded = {names[place]: place[1] for place in logs}
        options = {"logs": seeded, "steps": STEPS, "seconds": SECONDS}
        times = learn_apart(method, folder, options, ENVIRONMENT)
        for (task, seed), log in logs.items():
            with np.load(folder / f"{names[task, seed]}.policy.npz") as file:
                policy = read_policy(dict(file), views[task, seed], log)
            cost = try_policy(problems[task], policy, seed)
            score = {"return": -EPISODE * cost} if task == CHECK else {}
            found[task].append({"cost": cost, **score, **times})
    return found


def measure_twofold(tasks: Sequence[str], method: str, seeds: Sequence[int], smoke: bool) -> Found:
    """True costs of this library's policies: of the recommended one, of the best, and of each."""
    (task,), (seed,) = tasks, seeds
    problem = shrink(TASKS[task]()) if smoke else TASKS[task]()
    options = {"task": task, "seed": seed, "smoke": smoke}
    with tempfile.TemporaryDirectory(prefix="twofold-offline-") as folder:
        times = learn_apart(method, Path(folder), options, None)
        project = open_project(folder)
        return {task: [try_project(problem, project, seed) | times]}


def try_project(problem: ControlProblem, project: Project, seed: int) -> Numbers:
    """The recommended policy, or the logged controller; the best in hindsight; and each."""
    costs = {f"beta_{p.epistemic_weight:g}": try_policy(problem, p, seed) for p in project.policies}
    chosen = project.recommended
    cost = try_logged(problem, seed) if chosen is None else try_policy(problem, chosen, seed)
    return {
        "cost": cost,
        "recommends": float(chosen is not None),
        "best": min(costs.values()),
    } | costs


def measure_logged(tasks: Sequence[str], method: str, seeds: Sequence[int], smoke: bool) -> Found:
    """True cost of the controller that the log is of."""
    (task,), (seed,) = tasks, seeds
    problem = shrink(TASKS[task]()) if smoke else TASKS[task]()
    return {task: [{"cost": try_logged(problem, seed)}]}


def describe_machine() -> str:
    """Processor, cores, and graphics card if there is one."""
    try:
        words = ["nvidia-smi", "--query-gpu=name", "--format=csv,noheader"]
        card = subprocess.check_output(words, text=True).strip()
    except OSError:
        card = "no GPU"
    return f"{platform.machine()}, {os.cpu_count()} cores, {card}"


def measure_job(
    tasks: Sequence[str], method: str, seeds: Sequence[int], smoke: bool
) -> dict[str, Any]:
    """What is measured of a method on tasks with some seeds, and where."""
    kinds = {"twofold": measure_twofold, "logged": measure_logged}
    found = kinds.get(method, measure_peer)(tasks, method, seeds, smoke)
    return {"machine": describe_machine(), "numbers": found}


def digest(patterns: Sequence[str]) -> str:
    """Of files of this project."""
    root = SCRIPTS.parents[1]
    found = [path for pattern in patterns for path in sorted(root.glob(pattern))]
    return hashlib.sha256(b"".join(path.read_bytes() for path in found)).hexdigest()


def plan_job(tasks: Sequence[str], method: str, seeds: Sequence[int], smoke: bool) -> Job:
    """A job, known by the source that decides it."""
    kind = method if method in SOURCES else "peer"
    source = digest(["benchmarks/offline_tasks.py", *SHARED, *SOURCES[kind]])
    identity: dict[str, Any] = {"method": method, "tasks": list(tasks), "source": source}
    identity |= {"seeds": list(seeds), "smoke": smoke}
    if kind == "peer":
        installed = Path(interpreter(ENVIRONMENT)).parents[1] / ".installed"
        packages = installed.read_text().strip()
        identity |= {"steps": STEPS, "seconds": SECONDS, "packages": packages}
    return Job(
        f"{method} on {', '.join(tasks)}", measure_job, (tasks, method, seeds, smoke), identity
    )


def add_results(record: Record, task: str, method: str, every: Sequence[Numbers]) -> None:
    """Means over seeds; the best policy of a search in hindsight is a method of its own."""
    place = f"{task}/{method}"
    for name in every[0]:
        values = [one[name] for one in every]
        if name in PLAIN:
            record.add(f"{place}/{name}", np.mean(values))
        elif name != "best":
            record.add_mean(f"{place}/{name}", values)
    if "best" in every[0]:
        record.add_mean(f"{place}_best/cost", [one["best"] for one in every])
    record.add(f"{place}/seeds", len(every))


def is_kept(name: str, measured: Mapping[str, float]) -> bool:
    """Whether a recorded metric is of a task and method that were not measured."""
    renewed = (one.removesuffix("cost/mean") for one in measured if one.endswith("/cost/mean"))
    return not name.startswith(tuple(renewed))


def measure(
    tasks: Sequence[str],
    methods: Sequence[str],
    seeds: Sequence[int],
    together: bool,
    smoke: bool,
    work: Path | None,
) -> Record:
    """The record of some tasks, methods and seeds."""
    groups: list[tuple[Sequence[str], str, Sequence[int]]] = []
    for method in methods:
        own = [task for task in tasks if task != CHECK or method == "mopo"]
        if method not in PEERS:
            groups += [([task], method, [seed]) for task in own for seed in seeds]
        else:
            groups += [(own, method, seeds)] if together else [([t], method, seeds) for t in own]
    settings: dict[str, Any] = {"steps": STEPS, "seconds": SECONDS}
    record = Record("offline_rl", settings, list(seeds))
    found = run_jobs([plan_job(*group, smoke) for group in groups], work)
    settings["machines"] = sorted({one["machine"] for one in found})
    numbers: dict[tuple[str, str], list[Numbers]] = {}
    for (_, method, _), one in zip(groups, found, strict=True):
        for task, every in one["numbers"].items():
            numbers.setdefault((task, method), []).extend(every)
    for place, every in numbers.items():
        add_results(record, *place, every)
    return record


def main() -> None:
    """Parse the command line, measure, write the record."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", nargs="+", choices=list(TASKS), default=list(TASKS))
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=list(METHODS))
    parser.add_argument("--seeds", nargs="+", type=int, default=list(SEEDS))
    parser.add_argument("--together", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--output", type=Path, default=Path("results"))
    options = parser.parse_args()
    if options.smoke and options.output == Path("results"):
        parser.error("--smoke must not join the record of full runs; give --output another folder")
    tasks, methods, work = options.tasks, options.methods, WORK
    if options.smoke:
        tasks, methods, work = ["wet_chicken"], ["twofold", "logged"], None
    chosen = tasks, methods, options.seeds, options.together
    record = measure(*chosen, options.smoke, work)
    path = record.merge(options.output, lambda name: is_kept(name, record.metrics))
    for name, value in record.metrics.items():
        print(f"{name:50s} {value:9.3f}")
    print(f"wrote {path}")


if __name__ == "__main__":
    main()
