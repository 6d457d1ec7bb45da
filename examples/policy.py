"""Which policy for a plant can be trusted, given its log and a cost?

    python examples/policy.py [--smoke] [--output FOLDER]

A tank of water is heated and drawn from, and should be at 55 °C. Its thermometer lags by
three minutes, and the heater follows its set-point slowly. With the valve all but closed,
which saves heat, the water stands still and boils at the heater; the operators know that, and the
log does not show it. As the plant is simulated, every policy can be evaluated on it afterwards.
"""

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from sklearn.exceptions import ConvergenceWarning

from twofold import Alpha, BNNLVRegressor
from twofold.core.sharding import enable_compile_cache
from twofold.plant.embedding import embed
from twofold.plant.log_files import read_log
from twofold.plant.policy import LearnedPolicy
from twofold.plant.project import Project, find_policies
from twofold.plant.recommendation import advice, frontier_rows
from twofold.plant.search import SearchSettings
from twofold.report import figures, write_policy_report

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
SMOKE_MODEL = BNNLVRegressor((5,), inference=Alpha(epochs=2, draws=5), n_weight_draws=10)


def run(
    num: int, minutes: int, seed: int, warm_up: int = 0, choose: Callable | None = None
) -> tuple[np.ndarray, np.ndarray]:
    """Observations ``[T + 1, R, 2]`` and actions ``[T, R, 2]`` of parallel tanks: under operators,
    who act every ten minutes and never close the valve, and after a warm-up under ``choose(seen,
    done)``. Equal seeds give equal random numbers."""
    luck, whim = np.random.default_rng(seed), np.random.default_rng(seed + 1)
    tank, heater = [luck.uniform(30.0, 50.0, num)] * 4, np.full(num, 3.0)
    seen, done = [], []
    for minute in range(minutes + 1):
        seen.append(np.stack([tank[-4] + 0.05 * luck.normal(size=num), heater], axis=1))
        if minute % 10 == 0:
            power = 4.0 + 0.1 * (50.0 - seen[-1][:, 0]) + 0.8 * whim.normal(size=num)
            action = np.stack([np.clip(power, 0.5, 6.0), whim.uniform(0.2, 0.8, num)], axis=1)
        if choose is not None and minute >= warm_up:
            action = choose(np.array(seen), np.array(done))
        power, valve = action.T
        done.append(action)
        heater = heater + np.clip(power - heater, -0.5, 0.5)
        lost = (0.012 + 0.08 * valve) * (tank[-1] - 15.0)
        boiling = 1.0 / (1.0 + np.exp((valve - 0.1) / 0.02))
        restless = (0.1 + boiling) * luck.normal(size=num)
        tank.append(tank[-1] + 0.4 * heater - lost + restless - 1.5 * boiling)
    return np.array(seen), np.array(done[:-1])


def write(path: Path, runs: int, minutes: int) -> None:
    """Write the log of the operators; the last row of a run has no actions."""
    seen, done = run(runs, minutes, seed=0)
    done = np.concatenate([done, np.full((1, runs, 2), np.nan)])
    places = np.stack(np.meshgrid(range(minutes + 1), range(runs), indexing="ij")[::-1], axis=2)
    table = np.concatenate([places, seen, done], axis=2).swapaxes(0, 1).reshape(-1, 6)
    names = "run,minute,temperature,heater,power,valve"
    np.savetxt(path, table, ["%d"] * 2 + ["%.4f"] * 4, ",", header=names, comments="")


def known(now: Any, action: Any) -> dict[str, Any]:
    """The heater follows the power that is set, by at most half a kilowatt a minute."""
    return {"heater": now["heater"] + jnp.clip(action["power"] - now["heater"], -0.5, 0.5)}


def cost(row: Any) -> Any:
    """Away from 55 °C, and heating."""
    return jnp.square(row["temperature"] - 55.0) + 3.0 * row["power"]


def true_costs(num: int, horizon: int, policy: LearnedPolicy | None = None) -> np.ndarray:
    """Costs per step of each run after its warm-up; without a policy, those of the operators."""

    def follow(seen: np.ndarray, done: np.ndarray) -> np.ndarray:
        return np.array([policy.act(seen[:, i], done[:, i]) for i in range(seen.shape[1])])

    found, choose = [], None if policy is None else follow
    for warm_up in WARM_UPS:
        seen, done = run(num // len(WARM_UPS), warm_up + horizon, warm_up, warm_up, choose)
        row = {"temperature": seen[warm_up + 1 :, :, 0], "power": done[warm_up:, :, 0]}
        found.append(np.asarray(cost(row)).mean(axis=0))
    return np.concatenate(found)


def compare(project: Project, num: int, horizon: int) -> np.ndarray:
    """Means and standard errors of the true costs of the operators and of each policy."""
    costs = [true_costs(num, horizon, policy) for policy in (None, *project.policies)]
    found = np.array([(one.mean(), one.std(ddof=1) / np.sqrt(num)) for one in costs])
    print(f"true cost per step, {num} runs of {horizon} minutes:")
    print(f"  the operators  {found[0, 0]:6.1f} ± {found[0, 1]:.1f}")
    for trial, policy, (mean, error) in zip(
        project.trials, project.policies, found[1:], strict=True
    ):
        mark = ", recommended" if policy is project.recommended else ""
        said = f"(the model expected {trial.cost:.1f}{mark})"
        print(f"  β = {trial.epistemic_weight:<11g}{mean:6.1f} ± {error:.1f} {said}")
    return found


def draw(path: Path, project: Project, found: np.ndarray) -> None:
    """Expected and true costs, and how far each policy leaves the data."""
    trials, places = project.trials, np.arange(len(project.trials))
    with figures.style():
        figure, (left, right) = plt.subplots(1, 2, figsize=(12, 4.4), layout="constrained")
        expected = [one.cost for one in trials], [2.0 * one.epistemic_risk for one in trials]
        for shift, (mean, spread), marker, colour, label in (
            (-0.06, expected, "o", figures.EPISTEMIC, "expected by the model, ± 2 epistemic risk"),
            (0.06, (found[1:, 0], 2.0 * found[1:, 1]), "s", figures.CHOSEN, "true, ± 2 s.e."),
        ):
            look = {"fmt": marker, "color": colour, "capsize": 3, "label": label}
            left.errorbar(places + shift, mean, spread, **look)
        left.axhline(found[0, 0], color=figures.DATA, linestyle="--", label="operators, true")
        left.set_xticks(places, [f"β = {one.epistemic_weight:g}" for one in trials])
        left.set(ylabel="cost per step", title="What policies cost", ylim=(0, None))
        left.legend()
        for one, colour in zip(trials, figures.PALETTE, strict=False):
            look = {"color": colour, "label": f"β = {one.epistemic_weight:g}"}
            right.plot(1 + np.arange(len(one.beyond)), 100.0 * one.beyond, **look)
        right.set(title="Visited states beyond the data, as the model sees it", xlabel="minute")
        right.set(ylabel="share (%)", ylim=(0, None))
        right.legend()
        figure.savefig(path, dpi=100)
    plt.close(figure)


def main() -> None:
    """Write the log, read it, find policies, and evaluate them on the plant."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    parser.add_argument("--smoke", action="store_true", help="a short run of a few seconds")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    enable_compile_cache()
    warnings.simplefilter("ignore", ConvergenceWarning)  # short fits warn
    name, num, settings, model = "tank", 200, SEARCH, None
    if arguments.smoke:
        name, num, settings, model = "tank_smoke", 10, SMOKE_SEARCH, SMOKE_MODEL
    table, folder = arguments.output / f"{name}.csv", arguments.output / f"{name}_policies"
    write(table, runs=10 if arguments.smoke else 30, minutes=100)
    log = read_log(table, **COLUMNS, history=HISTORY)
    print(log)
    seen = embed(log, history=HISTORY, known=known)
    project = find_policies(
        log, cost, folder, embedding=seen, regressor=model, risk_weights=WEIGHTS, settings=settings,
        tuning=None,
    )  # fmt: skip
    write_policy_report(project)
    for row in frontier_rows(project.trials):
        print("".join(f"{cell:>19}" for cell in row[:-1]))
    print(*advice(project.doubts, project.trials, project.logged_cost), sep="\n")
    found = compare(project, num, settings.horizon)
    draw(folder.with_suffix(".png"), project, found)
    print(f"wrote {folder.with_suffix('.png')} and {project.folder}")


if __name__ == "__main__":
    main()
