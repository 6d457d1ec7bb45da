"""From a CSV log of a plant and a cost to policies with known risks, and how they truly do.

    python examples/policy.py

A tank of water is heated and drawn from, and shall be at 55 °C. Its thermometer tells what the tank
was three minutes ago, and the heater follows its set-point slowly. With the valve all but closed,
which saves heat, the water stands still and boils at the heater; the operators know that, and the
log does not show it. As the plant is simulated, every policy can be tried on it afterwards.
"""

import argparse
import csv
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from twofold import BNNLVRegressor
from twofold.compilation import enable_compile_cache
from twofold.logs import embed, read_table
from twofold.policies import LearnedPolicy, Project, SearchSettings, find_policies
from twofold.policies.summary import advice, rows
from twofold.report import style

COLUMNS = {
    "observations": ["temperature", "heater"],
    "actions": {"power": (0.0, 6.0), "valve": (0.0, 1.0)},
    "episode": "run",
    "time": "minute",
}
HISTORY = 6
WARM_UPS = (10, 30, 50, 70, 90)  # minutes of operators before a policy, as in the log
WEIGHTS = [(0.0, 0.0), (1.0, 0.0), (3.0, 0.0), (10.0, 0.0)]
SEARCH = SearchSettings(horizon=30, epochs=10)
SMOKE_SEARCH = SearchSettings(horizon=5, epochs=1, updates=2, weight_draws=4, noise_draws=2)
SMOKE_MODEL = BNNLVRegressor((5,), inference="alpha", epochs=2, draws=5, n_weight_draws=10)


class Tanks:
    """Some tanks side by side, each with its own luck."""

    def __init__(self, num: int, seed: int):
        self.rng = np.random.default_rng(seed)
        self.tank = np.repeat(self.rng.uniform(30.0, 50.0, (1, num)), 4, axis=0)
        self.heater = np.full(num, 3.0)

    def observe(self) -> np.ndarray:
        """Temperatures of three minutes ago, and what the heaters give."""
        late = self.tank[0] + 0.05 * self.rng.normal(size=self.heater.shape)
        return np.stack([late, self.heater], axis=1)

    def step(self, actions: np.ndarray) -> None:
        """A minute under these powers and valves."""
        power, valve = actions.T
        self.heater = self.heater + np.clip(power - self.heater, -0.5, 0.5)
        now, luck = self.tank[-1], self.rng.normal(size=self.heater.shape)
        lost = (0.012 + 0.08 * valve) * (now - 15.0)
        boiling = 1.0 / (1.0 + np.exp((valve - 0.1) / 0.02))
        after = now + 0.4 * self.heater - lost + (0.1 + boiling) * luck - 1.5 * boiling
        self.tank = np.concatenate([self.tank[1:], after[None]])


def operators(minute: int, seen: np.ndarray, past: np.ndarray, rng: Any) -> np.ndarray:
    """They look every ten minutes, and never close the valve."""
    if minute % 10:
        return past
    power = 4.0 + 0.1 * (50.0 - seen[:, 0]) + 0.8 * rng.normal(size=len(seen))
    return np.stack([np.clip(power, 0.5, 6.0), rng.uniform(0.2, 0.8, len(seen))], axis=1)


def run(
    num: int, minutes: int, seed: int, warm_up: int, choose: Callable[..., np.ndarray] | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Observations ``[T + 1, R, 2]`` and actions ``[T, R, 2]``: of operators, and after a warm-up
    of ``choose(seen, done)``. The same seed gives everybody the same luck."""
    tanks, rng = Tanks(num, seed), np.random.default_rng(seed + 1)
    seen, done = [tanks.observe()], []
    action = np.zeros((num, 2))
    for minute in range(minutes):
        action = operators(minute, seen[-1], action, rng)
        if choose is not None and minute >= warm_up:
            action = choose(np.array(seen), np.array(done))
        done.append(action)
        tanks.step(action)
        seen.append(tanks.observe())
    return np.array(seen), np.array(done)


def write(path: Path, runs: int, minutes: int) -> None:
    """The log of the operators."""
    seen, done = run(runs, minutes, seed=0, warm_up=minutes)
    blank = np.full((1, runs, 2), np.nan)
    table = np.concatenate([seen, np.concatenate([done, blank])], axis=2)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["run", "minute", "temperature", "heater", "power", "valve"])
        for number in range(runs):
            for minute, row in enumerate(table[:, number]):
                writer.writerow([number, minute, *("" if np.isnan(v) else f"{v:.4f}" for v in row)])


def known(now: Any, action: Any) -> dict[str, Any]:
    """The heater follows the power that is set, by at most half a kilowatt a minute."""
    return {"heater": now["heater"] + jnp.clip(action["power"] - now["heater"], -0.5, 0.5)}


def cost(row: Any) -> Any:
    """Away from 55 °C, and heating."""
    return jnp.square(row["temperature"] - 55.0) + 3.0 * row["power"]


def true_costs(num: int, horizon: int, policy: LearnedPolicy | None = None) -> np.ndarray:
    """Costs per step of each run after its warm-up; those of operators, without a policy."""

    def choose(seen: np.ndarray, done: np.ndarray) -> np.ndarray:
        assert policy is not None
        return np.array([policy.act(seen[:, i], done[:, i]) for i in range(seen.shape[1])])

    found = []
    for warm_up in WARM_UPS:
        follow = None if policy is None else choose
        seen, done = run(num // len(WARM_UPS), warm_up + horizon, warm_up, warm_up, follow)
        row = {"temperature": seen[warm_up + 1 :, :, 0], "power": done[warm_up:, :, 0]}
        found.append(np.asarray(cost(row)).mean(axis=0))
    return np.concatenate(found)


def compare(project: Project, num: int, horizon: int) -> list[np.ndarray]:
    """What is true beside what the model expected: costs of the operators, then of each policy."""
    found = [true_costs(num, horizon)]
    print(f"true cost per step, {num} runs of {horizon} minutes:")
    print(f"  the operators  {shown(found[0])}")
    for policy, trial in zip(project.policies, project.trials, strict=True):
        found.append(true_costs(num, horizon, policy))
        mark = ", recommended" if policy is project.recommended else ""
        print(
            f"  β = {trial.epistemic_weight:<11g}{shown(found[-1])} (the model expected "
            f"{trial.cost:.1f}{mark})"
        )
    return found


def shown(costs: np.ndarray) -> str:
    """A mean over runs with its standard error."""
    return f"{costs.mean():6.1f} ± {costs.std(ddof=1) / np.sqrt(len(costs)):.1f}"


def draw(path: Path, project: Project, found: list[np.ndarray]) -> None:
    """Costs that were expected and that came, and how far each policy leaves the data."""
    with style.style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.4), layout="constrained")
        places = np.arange(len(project.trials))
        careful = [2.0 * one.epistemic_risk for one in project.trials]
        left.errorbar(
            places - 0.06, [one.cost for one in project.trials], careful, fmt="o",
            color=style.EPISTEMIC, capsize=3, label="expected by the model, ± 2 epistemic risk",
        )  # fmt: skip
        errors = [2.0 * one.std(ddof=1) / np.sqrt(len(one)) for one in found[1:]]
        left.errorbar(
            places + 0.06, [one.mean() for one in found[1:]], errors, fmt="s", capsize=3,
            color=style.CHOSEN, label="true, ± 2 standard errors",
        )  # fmt: skip
        left.axhline(found[0].mean(), color=style.DATA, linestyle="--", label="operators, true")
        names = [f"β = {one.epistemic_weight:g}" for one in project.trials]
        best = project.policies.index(project.recommended)
        names[best] += "\nrecommended"
        left.set_xticks(places, names)
        left.set(ylabel="cost per step", title="What policies cost", ylim=(0, None))
        left.legend()
        for name, one, colour in zip(names, project.trials, style.PALETTE, strict=False):
            label = name.replace("\n", ", ")
            right.plot(
                1 + np.arange(len(one.beyond)), 100.0 * one.beyond, color=colour, label=label
            )
        right.set(title="Visited states beyond the data, as the model sees it", xlabel="minute")
        right.set(ylabel="share (%)", ylim=(0, None))
        right.legend()
        figure.savefig(path, dpi=100)
    plt.close(figure)


def main() -> None:
    """Write the log, read it, find policies, and try them on the plant."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    parser.add_argument("--smoke", action="store_true", help="a rehearsal of a few seconds")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    enable_compile_cache()
    name = "tank_smoke" if arguments.smoke else "tank"
    table = arguments.output / f"{name}.csv"
    write(table, runs=10 if arguments.smoke else 30, minutes=100)
    log = read_table(table, **COLUMNS, history=HISTORY)
    print(log)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # a short fit says that it is short
        project = find_policies(
            log,
            cost,
            arguments.output / f"{name}_policies",
            embedding=embed(log, history=HISTORY, known=known),
            regressor=SMOKE_MODEL if arguments.smoke else None,
            weights=WEIGHTS,
            settings=SMOKE_SEARCH if arguments.smoke else SEARCH,
        )
    for row in rows(project.trials):
        print("".join(f"{cell:>16}" for cell in row[:-1]))
    print(*advice(project.quality, project.trials, project.logged_cost), sep="\n")
    horizon = SMOKE_SEARCH.horizon if arguments.smoke else SEARCH.horizon
    found = compare(project, 10 if arguments.smoke else 200, horizon)
    figure = arguments.output / f"{name}_policies.png"
    draw(figure, project, found)
    print(f"wrote {figure} and {project.folder}")


if __name__ == "__main__":
    main()
