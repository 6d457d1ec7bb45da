"""From a faulty CSV log of a plant to a model of it, its uncertainty split in two.

    python examples/own_system.py

A tank of water is heated and drawn from. Its thermometer sits down the pipe and tells what the tank
was three minutes ago; hot water is restless and the temperature noisy. The log has what logs have:
rows out of order, sent twice or never, a thermometer that was stuck, words among numbers.
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
from sklearn.linear_model import LinearRegression

from twofold import BNNLVRegressor
from twofold.compilation import enable_compile_cache
from twofold.inference.base import Draws
from twofold.logs import LogError, Window, embed, read_table
from twofold.report import style
from twofold.uncertainty import predictive

COLUMNS = {
    "observations": ["temperature", "heater"],
    "actions": {"power": (0.0, 6.0), "valve": (0.0, 1.0)},
    "episode": "run",
    "time": "time",
}
HISTORY = 6
SETTINGS = {"inference": "alpha", "epochs": 600, "draws": 20}
SMOKE_SETTINGS = SETTINGS | {"hidden_layer_sizes": (5,), "epochs": 2, "n_weight_draws": 10}
DRAWS = 50  # of the weights, and roll-outs with each of them


def simulate(runs: int, minutes: int, seed: int = 0) -> list[dict[str, Any]]:
    """Rows of a log: what was seen each minute, and what was then set."""
    rng, rows = np.random.default_rng(seed), []
    for run in range(runs):
        start = datetime(2024, 3, 1, 6) + timedelta(days=run)
        tank, heater = [rng.uniform(25.0, 70.0)] * 4, 3.0
        for minute in range(minutes):
            if minute % 12 == 0:  # the operators change something now and then
                power, valve = rng.uniform(0.5, 6.0), rng.uniform(0.1, 1.0)
            time = (start + timedelta(minutes=minute)).isoformat()
            seen = {"temperature": tank[-4] + 0.05 * rng.normal(), "heater": heater}
            done = {"power": power, "valve": valve}
            digits = {name: round(value, 3) for name, value in (seen | done).items()}
            rows.append({"run": run, "time": time} | digits)
            heater = round(heater + np.clip(round(power, 3) - heater, -0.5, 0.5), 3)
            lost = (0.012 + 0.08 * valve) * (tank[-1] - 15.0)
            restless = 0.05 + 0.8 / (1.0 + np.exp((60.0 - tank[-1]) / 3.0))
            tank.append(tank[-1] + 0.4 * heater - lost + restless * rng.normal())
    return rows


def spoil(rows: list[dict[str, Any]], minutes: int) -> None:
    """What happens to logs."""
    for minute in range(40, 70):
        rows[2 * minutes + minute]["temperature"] = rows[2 * minutes + 40]["temperature"]
    for minute in (15, 16, 17):
        rows[3 * minutes + minute]["temperature"] = "Bad"
    rows[4 * minutes + 30]["power"] = ""
    rows[5 * minutes + 20], rows[5 * minutes + 21] = rows[5 * minutes + 21], rows[5 * minutes + 20]
    rows.insert(6 * minutes, dict(rows[6 * minutes - 1]))
    del rows[minutes + 50 : minutes + 58]


def write(path: Path, runs: int, minutes: int) -> None:
    """A log of the plant, faults and all."""
    rows = simulate(runs, minutes)
    spoil(rows, minutes)
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, rows[0].keys())
        writer.writeheader()
        writer.writerows(rows)


def known(now: Any, action: Any) -> dict[str, Any]:
    """The heater follows the power that is set, by at most half a kilowatt a minute."""
    return {"heater": now["heater"] + jnp.clip(action["power"] - now["heater"], -0.5, 0.5)}


def linear_log_likelihood(train: Any, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Of a linear model with Gaussian noise, at each step."""
    linear = LinearRegression().fit(*train)
    variance = np.mean((train[1] - linear.predict(train[0])) ** 2)
    errors = y - linear.predict(x)
    return (-0.5 * (errors**2 / variance + np.log(2.0 * np.pi * variance))).ravel()


def compare(model: Any, embedding: Any, train: Any, test: Any) -> None:
    """Test log-likelihoods; steps of one run resemble each other, so the error is that of runs."""
    learnt, origins = embedding.design(train), [one.origin for one in test.episodes]
    long = [i for i, one in enumerate(test.episodes) if len(one) >= embedding.history]
    runs = [[i for i in long if origins[i] == origin] for origin in dict.fromkeys(origins)]
    designs = [embedding.design(test.pick(run)) for run in runs if run]
    found = np.array([model.log_likelihood(*one).mean() for one in designs])
    linear = np.array([linear_log_likelihood(learnt, *one).mean() for one in designs])
    better, error = found - linear, (found - linear).std(ddof=1) / np.sqrt(len(found))
    print(
        f"test log-likelihood per step, {len(found)} held-out runs: {found.mean():.2f}; linear "
        f"regression: {linear.mean():.2f}; difference {better.mean():.2f} ± {error:.2f}"
    )


def roll_out(model: Any, embedding: Any, window: Window, actions: Any) -> np.ndarray:
    """Temperatures ``[M, N, T]`` under these actions: N roll-outs with each of M weight draws."""
    draws = model.posterior_.sample(jax.random.key(0), DRAWS)
    x_scale, y_scale = model.x_standardizer_, model.y_standardizer_
    rows = jnp.arange(DRAWS)[:, None]

    def follow(key, member):
        def step(windows, now):
            step_key, action = now
            x = jax.vmap(embedding.input, (0, None))(windows, action)
            y = predictive.sample(step_key, model.model_, member, x_scale.transform(x), rows)
            outputs = y_scale.inverse(y[:, 0])
            windows = jax.vmap(embedding.advance, (0, None, 0))(windows, action, outputs)
            return windows, windows.observations[:, -1, 0]

        start = jax.tree.map(lambda leaf: jnp.repeat(leaf[None], DRAWS, axis=0), window)
        return jax.lax.scan(step, start, (jax.random.split(key, len(actions)), actions))[1].T

    keys = jax.random.split(jax.random.key(1), DRAWS)
    members = Draws(draws.weights[:, None], draws.log_noise[:, None])
    return np.asarray(jax.jit(jax.vmap(follow))(keys, members))


def bands(axes: Axes, at: Any, mean: Any, epistemic: Any, aleatoric: Any) -> None:
    """The mean, two deviations of noise around it, and a rim that more data would remove."""
    inner, outer = 2.0 * np.sqrt(aleatoric), 2.0 * np.sqrt(epistemic + aleatoric)
    label: str | None = "to ± 2σ total: epistemic"
    for one, other in ((-outer, -inner), (inner, outer)):
        look = {"color": style.EPISTEMIC, "alpha": 0.45, "linewidth": 0, "label": label}
        axes.fill_between(at, mean + one, mean + other, **look)
        label = None
    look = {"color": style.ALEATORIC, "alpha": 0.45, "linewidth": 0, "label": "± 2σ aleatoric"}
    axes.fill_between(at, mean - inner, mean + inner, **look)
    axes.plot(at, mean, color=style.TOTAL, linewidth=1.0, label="predictive mean")


def draw_steps(axes: Axes, model: Any, embedding: Any, run: Any) -> None:
    """One-step predictions of a held-out run."""
    x, y = embedding.design(run)
    minutes = embedding.history - 1 + np.arange(len(y))
    split = model.decompose(x, by="variance")
    bands(axes, minutes, model.predict(x)[:, 0], split.epistemic[:, 0], split.aleatoric[:, 0])
    axes.plot(minutes, y, ".", color=style.CHOSEN, markersize=4, label="measured")
    axes.set(title="One step ahead, held-out run", xlabel="minute")
    axes.set(ylabel="change of temperature (°C per minute)")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.3 * (high - low))
    axes.legend(loc="upper center", ncols=2)


def draw_roll_out(axes: Axes, model: Any, embedding: Any, run: Any, start: int, ahead: int) -> None:
    """What the model expects of the same run from one moment on, given its actions alone."""
    steps = embedding.steps(run)
    window = jax.tree.map(lambda leaf: jnp.asarray(leaf[start]), steps.windows)
    actions = jnp.asarray(steps.actions[start : start + ahead])
    rolled = roll_out(model, embedding, window, actions)
    epistemic, aleatoric = rolled.mean(axis=1).var(axis=0), rolled.var(axis=1).mean(axis=0)
    measured = run.episodes[0].observations[:, 0]
    now = embedding.history - 1 + start
    minutes = np.arange(now + 1, now + 1 + len(actions))
    bands(axes, minutes, rolled.mean(axis=(0, 1)), epistemic, aleatoric)
    seen = slice(max(now - 20, 0), now + 1 + len(actions))
    axes.plot(
        np.arange(len(measured))[seen], measured[seen], ".", color=style.CHOSEN, markersize=4,
        label="measured",
    )  # fmt: skip
    axes.axvline(now, ymax=0.75, color=style.DATA, linestyle=":", linewidth=1.0)
    axes.set(title=f"{len(actions)} steps ahead from the dotted line", xlabel="minute")
    axes.set(ylabel="temperature (°C)")
    low, high = axes.get_ylim()
    axes.set_ylim(low, high + 0.3 * (high - low))
    axes.legend(loc="upper center", ncols=2)


def draw(path: Path, model: Any, embedding: Any, test: Any) -> None:
    """One-step predictions of the hottest whole run that was held out, and a roll-out of it."""
    longest = max(map(len, test.episodes))
    whole = [i for i, one in enumerate(test.episodes) if len(one) == longest]
    run = test.pick([max(whole, key=lambda i: test.episodes[i].observations[:, 0].mean())])
    with style.style():
        figure, axes = plt.subplots(1, 2, figsize=(13, 4.6), layout="constrained")
        draw_steps(axes[0], model, embedding, run)
        draw_roll_out(axes[1], model, embedding, run, start=longest // 4, ahead=longest // 2)
        figure.savefig(path, dpi=100)
    plt.close(figure)


def read(path: Path) -> Any:
    """The log: first as it is, to see what is wrong with it, then mended."""
    try:
        read_table(path, **COLUMNS, history=HISTORY)
    except LogError as error:
        print(error)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        log = read_table(
            path, **COLUMNS, history=HISTORY, missing=["Bad"], sort=True, drop_duplicates=True,
            drop_missing=True, drop_stuck=True, split_at_gaps=True,
        )  # fmt: skip
    print(f"mended: {log}", *(f"  - warning: {one.message}" for one in caught), sep="\n")
    return log


def main() -> None:
    """Write the log, read it, embed it, fit, compare, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"))
    parser.add_argument("--smoke", action="store_true", help="a rehearsal of a few seconds")
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
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # a short fit says that it is short
        settings = SMOKE_SETTINGS if arguments.smoke else SETTINGS
        model = BNNLVRegressor(**settings, random_state=0).fit(*embedding.design(train))
    compare(model, embedding, train, test)
    figure = arguments.output / "own_system.png"
    draw(figure, model, embedding, test)
    print(f"wrote {figure}")


if __name__ == "__main__":
    main()
