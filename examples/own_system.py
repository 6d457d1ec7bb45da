"""What can a model learn from a plant's faulty log?

    python examples/own_system.py [--smoke] [--output FOLDER]

Water is heated in a tank and drawn from it. The thermometer sits down the pipe and shows the
temperature of three minutes ago; hot water makes it noisy. The log has rows out of order, duplicate
and missing rows, a stuck sensor, and text among numbers.
"""

import argparse
import csv
import warnings
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from scipy.stats import norm
from sklearn.linear_model import LinearRegression

from twofold import Alpha, BNNLVRegressor
from twofold.core.sharding import enable_compile_cache
from twofold.plant.embedding import embed
from twofold.plant.log import LogError
from twofold.plant.log_files import read_log
from twofold.plant.replay import Passages, replay_costs
from twofold.plant.rollout import DynamicsModel
from twofold.report import figures, plot_predictive_bands
from twofold.uncertainty.decomposition import Parts

COLUMNS = {
    "observations": ["temperature", "heater"],
    "actions": {"power": (0.0, 6.0), "valve": (0.0, 1.0)},
    "episode": "run",
    "time": "time",
}
HISTORY = 6
SETTINGS = {"inference": Alpha(epochs=600, draws=20)}
SMOKE_SETTINGS = {
    "hidden_layer_sizes": (5,),
    "inference": Alpha(epochs=2, draws=20),
    "n_weight_draws": 10,
}
DRAWS = 50  # weight draws, and roll-outs per draw


def simulate(runs: int, minutes: int) -> list[dict[str, Any]]:
    """Rows of a log: the observations of each minute, and the actions then set."""
    rng, rows = np.random.default_rng(0), []
    for run in range(runs):
        start = datetime(2024, 3, 1, 6) + timedelta(days=run)
        tank, heater = [rng.uniform(25.0, 70.0)] * 4, 3.0
        for minute in range(minutes):
            if minute % 12 == 0:  # the operators change actions occasionally
                power, valve = rng.uniform(0.5, 6.0), rng.uniform(0.1, 1.0)
            seen = {"temperature": tank[-4] + 0.05 * rng.normal(), "heater": heater}
            values = seen | {"power": power, "valve": valve}
            time = (start + timedelta(minutes=minute)).isoformat()
            digits = {name: round(value, 3) for name, value in values.items()}
            rows.append({"run": run, "time": time} | digits)
            heater = round(heater + np.clip(round(power, 3) - heater, -0.5, 0.5), 3)
            lost = (0.012 + 0.08 * valve) * (tank[-1] - 15.0)
            restless = 0.05 + 0.8 / (1.0 + np.exp((60.0 - tank[-1]) / 3.0))
            tank.append(tank[-1] + 0.4 * heater - lost + restless * rng.normal())
    return rows


def write(path: Path, runs: int, minutes: int) -> None:
    """Write a log of the plant with typical faults."""
    rows = simulate(runs, minutes)
    for minute in range(40, 70):
        rows[2 * minutes + minute]["temperature"] = rows[2 * minutes + 40]["temperature"]
    for minute in (15, 16, 17):
        rows[3 * minutes + minute]["temperature"] = "Bad"
    rows[4 * minutes + 30]["power"] = ""
    late = 5 * minutes + 20
    rows[late], rows[late + 1] = rows[late + 1], rows[late]
    rows.insert(6 * minutes, dict(rows[6 * minutes - 1]))
    del rows[minutes + 50 : minutes + 58]
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def read(path: Path) -> Any:
    """Check the log for faults, then read it with repairs."""
    try:
        read_log(path, **COLUMNS, history=HISTORY)
    except LogError as error:
        print(error)
    log = read_log(
        path, **COLUMNS, history=HISTORY, missing=["Bad"], sort=True, drop_duplicates=True,
        drop_missing=True, drop_stuck=True, split_at_gaps=True,
    )  # fmt: skip
    print(f"mended: {log}")
    return log


def known(now: Any, action: Any) -> dict[str, Any]:
    """The heater follows the power that is set, by at most half a kilowatt a minute."""
    return {"heater": now["heater"] + jnp.clip(action["power"] - now["heater"], -0.5, 0.5)}


def compare(model: Any, embedding: Any, train: Any, test: Any) -> None:
    """Test log-likelihoods; steps of a run are correlated, so the standard error is over runs."""
    runs: dict[str, list[int]] = {}
    for i, one in enumerate(test.episodes):
        if len(one) >= embedding.history:
            runs.setdefault(one.origin, []).append(i)
    designs = [embedding.design(test.pick(run)) for run in runs.values()]
    learnt = embedding.design(train)
    own = np.array([model.log_likelihood(*one).mean() for one in designs])
    fit = LinearRegression().fit(*learnt)
    spread = np.std(learnt[1] - fit.predict(learnt[0]))
    linear = np.array([norm.logpdf(y, fit.predict(x), spread).mean() for x, y in designs])
    error = (own - linear).std(ddof=1) / np.sqrt(len(own))
    print(
        f"test log-likelihood per step, {len(own)} held-out runs: {own.mean():.2f}; linear "
        f"regression: {linear.mean():.2f}; difference {(own - linear).mean():.2f} ± {error:.2f}"
    )


def draw_steps(axes: Axes, model: Any, run: Any) -> None:
    """One-step predictions of a run."""
    x, y = model.embedding.design(run)
    minutes = HISTORY - 1 + np.arange(len(y))
    split = model.regressor.decompose(x, by="variance")
    parts = Parts(*(part[:, 0] for part in split.parts))
    plot_predictive_bands(
        axes, minutes, model.regressor.predict(x)[:, 0], parts, (minutes, y[:, 0])
    )
    axes.set(title="One step ahead, held-out run", xlabel="minute")
    axes.set(ylabel="change of temperature (°C per minute)")


def draw_roll_out(axes: Axes, model: Any, run: Any, start: int, ahead: int) -> None:
    """A roll-out of a run from one moment on, given only its actions."""
    steps = model.embedding.steps(run)
    windows = jax.tree.map(lambda leaf: leaf[None, start], steps.windows)
    rows = slice(start, start + ahead)
    passages = Passages(windows, steps.actions[None, rows], steps.next_observations[None, rows])
    weights = model.posterior.sample(jax.random.key(0), DRAWS)
    found = replay_costs(model, DRAWS, jax.random.key(1), weights, passages)
    rolled = found[:, :, 0]  # by weights, noise and minute
    epistemic, aleatoric = rolled.mean(axis=1).var(axis=0), rolled.var(axis=1).mean(axis=0)
    now = HISTORY - 1 + start
    minutes = now + 1 + np.arange(rolled.shape[2])
    measured = run.episodes[0].observations[:, 0]
    shown = np.arange(max(now - 20, 0), minutes[-1] + 1)
    parts = Parts(epistemic + aleatoric, epistemic, aleatoric)
    plot_predictive_bands(axes, minutes, rolled.mean(axis=(0, 1)), parts, (shown, measured[shown]))
    axes.axvline(now, ymax=0.75, color=figures.DATA, linestyle=":", linewidth=1.0)
    axes.set(title=f"{len(minutes)} steps ahead from the dotted line", xlabel="minute")
    axes.set(ylabel="temperature (°C)")


def draw(path: Path, model: DynamicsModel, test: Any) -> None:
    """One-step predictions of the hottest complete held-out run, and a roll-out of it."""
    longest = max(map(len, test.episodes))
    whole = [i for i, one in enumerate(test.episodes) if len(one) == longest]
    run = test.pick([max(whole, key=lambda i: test.episodes[i].observations[:, 0].mean())])
    with figures.style():
        figure, axes = plt.subplots(1, 2, figsize=(13, 4.6), layout="constrained")
        draw_steps(axes[0], model, run)
        draw_roll_out(axes[1], model, run, start=longest // 4, ahead=longest // 2)
        figure.savefig(path, dpi=100)
    plt.close(figure)


def main() -> None:
    """Write the log, read it, embed it, fit, compare, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    parser.add_argument("--smoke", action="store_true", help="a short run of a few seconds")
    arguments = parser.parse_args()
    arguments.output.mkdir(parents=True, exist_ok=True)
    enable_compile_cache()
    path = arguments.output / "tank.csv"
    write(path, runs=10 if arguments.smoke else 60, minutes=100)
    log = read(path)
    train, test = log.split(held_out=0.25)
    embedding = embed(train, history=HISTORY, action_history={"valve": HISTORY}, known=known)
    print(f"the model predicts {', '.join(embedding.target_names)}")
    print(f"        from       {', '.join(embedding.input_names)}")
    warnings.simplefilter("ignore")  # short fits warn
    settings = SMOKE_SETTINGS if arguments.smoke else SETTINGS
    regressor = BNNLVRegressor(**settings, random_state=0).fit(*embedding.design(train))
    compare(regressor, embedding, train, test)
    # The "cost" of a roll-out is the quantity to plot.
    model = DynamicsModel(regressor, embedding, lambda row: row["temperature"], train)
    draw(arguments.output / "own_system.png", model, test)
    print(f"wrote {arguments.output / 'own_system.png'}")


if __name__ == "__main__":
    main()
