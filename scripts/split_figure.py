"""Draw ``docs/images/split_real.png``: the split on real data, beside two other libraries.

    make peers && python scripts/split_figure.py             # a minute on two cores

Acceleration of a dummy's head after a motorcycle crashes (133 rows; Silverman, 1985): the noise
grows and falls again. The rows of a stretch of time are hidden from all libraries, so that there is
something to be ignorant of.
"""

from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from benchmarks.peers.processes import predict_apart
from benchmarks.peers.public_tables import LEVELS
from benchmarks.regression import LIBRARIES
from paper.gp import GPRegressor
from twofold import BNNLVRegressor
from twofold.report.figures import ALEATORIC, BAND, EPISTEMIC, POINTS, TOTAL, style

ROOT = Path(__file__).resolve().parents[1]
DATA, IMAGE = ROOT / "scripts/motorcycle.csv", ROOT / "docs/images/split_real.png"
HIDDEN = 24.5, 31.5
GRID = np.linspace(0.0, 62.0, 249)
GAUSSIAN = 0.5 * np.log(2.0 * np.pi * np.e)


class Seen(NamedTuple):
    """What a library says along the grid: mean, central 90 % interval, and the widths of noise and
    ignorance, all in g."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    noise: np.ndarray
    ignorance: np.ndarray


def ask_twofold(x: np.ndarray, y: np.ndarray) -> Seen:
    """With all settings as they are."""
    model = BNNLVRegressor(random_state=0, verbose=False).fit(x, y)
    low, high = model.predict_interval(GRID[:, None])
    widths = model.decompose(GRID[:, None]).equivalent_deviations()
    return Seen(model.predict(GRID[:, None]), low, high, widths.aleatoric, widths.epistemic)


def ask_gp(x: np.ndarray, y: np.ndarray) -> Seen:
    """Its noise is the same everywhere."""
    model = GPRegressor(random_state=0).fit(x, y)
    mean, deviation = model.predict(GRID[:, None], return_std=True)
    noise = np.exp(model.hyperparameters_.noise) * model.y_standardizer_.scale
    ignorance = np.sqrt(np.maximum(deviation**2 - noise**2, 0.0))
    half = 1.645 * deviation
    return Seen(mean, mean - half, mean + half, np.full(len(GRID), noise.item()), ignorance)


def ask_catboost(x: np.ndarray, y: np.ndarray) -> Seen:
    """A virtual ensemble, whose entropies become widths as twofold's do."""
    library = LIBRARIES["catboost"]
    table = {"X": x, "y": y, "X_test": GRID[:, None], "y_test": np.zeros(len(GRID)), "parts": 1}
    found, _ = predict_apart(library.adapter, {}, library.environment, table, "motorcycle")
    noise = np.exp(found["aleatoric"] - GAUSSIAN)
    ignorance = noise * np.sqrt(np.expm1(2.0 * np.maximum(found["epistemic"], 0.0)))
    low, high = np.quantile(found["draws"], LEVELS, axis=0)
    return Seen(found["mean"], low, high, noise, ignorance)


def plot_predictions(axes: Axes, seen: Seen, times: np.ndarray, values: np.ndarray) -> None:
    """Band, mean, and the rows that were fitted and hidden."""
    hidden = is_hidden(times)
    axes.fill_between(GRID, seen.low, seen.high, color=BAND, alpha=0.4, lw=0, label="90 % interval")
    axes.plot(GRID, seen.mean, color=TOTAL, lw=1.2, label="mean")
    axes.scatter(times[~hidden], values[~hidden], s=8, color=POINTS, lw=0, label="fitted rows")
    axes.scatter(times[hidden], values[hidden], s=12, facecolors="none", edgecolors=POINTS, lw=0.8,
                 label="hidden rows")  # fmt: skip
    axes.set(ylim=(-190.0, 140.0))


def plot_widths(axes: Axes, seen: Seen) -> None:
    """The two parts, as standard deviations."""
    axes.axvspan(*HIDDEN, color="#eeeeee", lw=0, label="no fitted rows")
    axes.plot(GRID, seen.noise, color=ALEATORIC, lw=1.8, label="aleatoric: noise")
    axes.plot(GRID, seen.ignorance, "--", color=EPISTEMIC, lw=1.8, label="epistemic: ignorance")
    axes.set(xlabel="time after the impact (ms)", ylim=(0.0, 50.0))


def is_hidden(times: np.ndarray) -> np.ndarray:
    """Which rows no library sees."""
    return (HIDDEN[0] <= times) & (times <= HIDDEN[1])


def main() -> None:
    """Ask all three, and draw."""
    times, values = np.loadtxt(DATA, delimiter=",", skiprows=1).T
    fitted = ~is_hidden(times)
    x, y = times[fitted, None], values[fitted]
    asked = {
        "twofold": ask_twofold(x, y),
        "Gaussian process": ask_gp(x, y),
        "CatBoost, virtual ensemble": ask_catboost(x, y),
    }
    with style():
        figure, axes = plt.subplots(
            2, 3, figsize=(10.5, 5.2), sharex=True, sharey="row", layout="constrained",
            height_ratios=(1.5, 1.0),
        )  # fmt: skip
        for column, (name, seen) in enumerate(asked.items()):
            plot_predictions(axes[0, column], seen, times, values)
            plot_widths(axes[1, column], seen)
            axes[0, column].set_title(name)
        axes[0, 0].set_ylabel("head's acceleration (g)")
        axes[1, 0].set_ylabel("standard deviation (g)")
        above, below = (row[0].get_legend_handles_labels() for row in axes)
        entries = [a + b for a, b in zip(above, below, strict=True)]
        figure.legend(*entries, loc="outside lower center", ncols=len(entries[0]))
        figure.savefig(IMAGE, dpi=110)
    print(f"wrote {IMAGE.relative_to(ROOT)}, {IMAGE.stat().st_size / 1000:.0f} KB")


if __name__ == "__main__":
    main()
