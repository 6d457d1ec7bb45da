"""Draw ``docs/images/split_real.png``: the split on real data by twofold and two other libraries.

    make peers && python scripts/split_figure.py             # a minute on two cores

Acceleration of a dummy's head after a motorcycle crashes (133 rows; Silverman, 1985): the noise
grows and falls again. The rows of one range of time are withheld from all libraries, so that the
epistemic part should be large there.
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
WITHHELD = 24.5, 31.5
GRID = np.linspace(0.0, 62.0, 249)
GAUSSIAN = 0.5 * np.log(2.0 * np.pi * np.e)


class Prediction(NamedTuple):
    """A library's predictions over the grid: mean, central 90 % interval, and both parts of the
    uncertainty as standard deviations, all in g."""

    mean: np.ndarray
    low: np.ndarray
    high: np.ndarray
    aleatoric: np.ndarray
    epistemic: np.ndarray


def predict_twofold(x: np.ndarray, y: np.ndarray) -> Prediction:
    """The default settings."""
    model = BNNLVRegressor(random_state=0, verbose=False).fit(x, y)
    low, high = model.predict_interval(GRID[:, None])
    widths = model.decompose(GRID[:, None]).equivalent_deviations()
    return Prediction(model.predict(GRID[:, None]), low, high, widths.aleatoric, widths.epistemic)


def predict_gp(x: np.ndarray, y: np.ndarray) -> Prediction:
    """A Gaussian process, with constant noise."""
    model = GPRegressor(random_state=0).fit(x, y)
    mean, deviation = model.predict(GRID[:, None], return_std=True)
    noise = np.exp(model.hyperparameters_.noise) * model.y_standardizer_.scale
    epistemic = np.sqrt(np.maximum(deviation**2 - noise**2, 0.0))
    half = 1.645 * deviation
    return Prediction(mean, mean - half, mean + half, np.full(len(GRID), noise.item()), epistemic)


def predict_catboost(x: np.ndarray, y: np.ndarray) -> Prediction:
    """A virtual ensemble, whose entropies are converted to widths like twofold's."""
    library = LIBRARIES["catboost"]
    table = {"X": x, "y": y, "X_test": GRID[:, None], "y_test": np.zeros(len(GRID)), "parts": 1}
    found, _ = predict_apart(library.adapter, {}, library.environment, table, "motorcycle")
    noise = np.exp(found["aleatoric"] - GAUSSIAN)
    epistemic = noise * np.sqrt(np.expm1(2.0 * np.maximum(found["epistemic"], 0.0)))
    low, high = np.quantile(found["draws"], LEVELS, axis=0)
    return Prediction(found["mean"], low, high, noise, epistemic)


def plot_predictions(axes: Axes, found: Prediction, times: np.ndarray, values: np.ndarray) -> None:
    """Band, mean, training rows and withheld rows."""
    withheld = is_withheld(times)
    axes.fill_between(
        GRID, found.low, found.high, color=BAND, alpha=0.4, lw=0, label="90 % interval"
    )
    axes.plot(GRID, found.mean, color=TOTAL, lw=1.2, label="mean")
    axes.scatter(
        times[~withheld], values[~withheld], s=8, color=POINTS, lw=0, label="training rows"
    )
    look = {"facecolors": "none", "edgecolors": POINTS, "lw": 0.8}
    axes.scatter(times[withheld], values[withheld], s=12, label="withheld rows", **look)
    axes.set(ylim=(-190.0, 140.0))


def plot_widths(axes: Axes, found: Prediction) -> None:
    """The two parts, as standard deviations."""
    axes.axvspan(*WITHHELD, color="#eeeeee", lw=0, label="withheld range")
    axes.plot(GRID, found.aleatoric, color=ALEATORIC, lw=1.8, label="aleatoric part")
    axes.plot(GRID, found.epistemic, "--", color=EPISTEMIC, lw=1.8, label="epistemic part")
    axes.set(xlabel="time after the impact (ms)", ylim=(0.0, 50.0))


def is_withheld(times: np.ndarray) -> np.ndarray:
    """Mask of the rows that no library is fitted to."""
    return (WITHHELD[0] <= times) & (times <= WITHHELD[1])


def main() -> None:
    """Fit all three, and draw."""
    times, values = np.loadtxt(DATA, delimiter=",", skiprows=1).T
    training = ~is_withheld(times)
    x, y = times[training, None], values[training]
    predictions = {
        "twofold": predict_twofold(x, y),
        "Gaussian process": predict_gp(x, y),
        "CatBoost, virtual ensemble": predict_catboost(x, y),
    }
    with style():
        figure, axes = plt.subplots(
            2, 3, figsize=(10.5, 5.2), sharex=True, sharey="row", layout="constrained",
            height_ratios=(1.5, 1.0),
        )  # fmt: skip
        for column, (name, found) in enumerate(predictions.items()):
            plot_predictions(axes[0, column], found, times, values)
            plot_widths(axes[1, column], found)
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
