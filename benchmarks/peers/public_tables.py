"""Public tables with their train/test splits, and how predictions of them are scored."""

from typing import Any, NamedTuple

import numpy as np

from paper.uci import data_folder, load_splits

TEST_SHARE = 0.2
LEVELS = 0.05, 0.95


class Table(NamedTuple):
    """How many splits of a table are taken, whether its target is standardised, and the distance
    of the values of a target that has few."""

    splits: int
    standardised: bool = False
    step: float | None = None


TABLES = {
    "airfoil": Table(5, standardised=True),
    "diabetes": Table(5),
    "concrete": Table(20),
    "energy": Table(20),
    "wine-quality-red": Table(20, step=1.0),
    "kin8nm": Table(2),
    "power-plant": Table(2),
}


def load_table(name: str, splits: int) -> list[tuple[np.ndarray, ...]]:
    """X, y, X_test, y_test of each split: the published ones, or random fifths."""
    if name in ("airfoil", "diabetes"):
        x, y = load_whole(name)
        return [split_at_random(x, y, number) for number in range(splits)]
    return list(load_splits(data_folder() / f"{name}.npz", range(splits)))


def load_whole(name: str) -> tuple[np.ndarray, np.ndarray]:
    """All rows of a table that has no published splits."""
    if name == "diabetes":
        from sklearn.datasets import load_diabetes

        return load_diabetes(return_X_y=True)
    values = np.genfromtxt(data_folder().parent / f"{name}.csv", delimiter=",", skip_header=1)
    return values[:, :-1], values[:, -1]


def split_at_random(x: np.ndarray, y: np.ndarray, seed: int) -> tuple[np.ndarray, ...]:
    """Training and test rows."""
    order = np.random.default_rng(seed).permutation(len(y))
    tests = int(TEST_SHARE * len(y))
    test, train = order[:tests], order[tests:]
    return x[train], y[train], x[test], y[test]


def crps(draws: np.ndarray, y: np.ndarray) -> np.ndarray:
    """``E|Y − y| − ½ E|Y − Y'|`` of each row, from draws ``[S, N]``."""
    ordered, size = np.sort(draws, axis=0), len(draws)
    weights = 2.0 * np.arange(1, size + 1) - size - 1.0
    apart = 2.0 * np.tensordot(weights, ordered, 1) / (size * (size - 1))
    return np.abs(draws - y).mean(axis=0) - 0.5 * apart


def log_probability(draws: np.ndarray, y: np.ndarray, step: float) -> np.ndarray:
    """Log-probability that a prediction, rounded to multiples of ``step``, is y: of draws
    ``[S, N]``, with half a draw more on each side so that none is zero."""
    hits = np.sum(np.abs(draws - y) <= 0.5 * step, axis=0)
    return np.log((hits + 0.5) / (len(draws) + 1.0))


def score(
    predicted: Any, y: np.ndarray, scale: float, step: float | None = None
) -> dict[str, float]:
    """Scores of one split, y in units of ``scale``."""
    error = (y - predicted["mean"]) / scale
    scores = {"rmse": float(np.sqrt(np.mean(error**2)))}
    if "draws" in predicted:
        deviation, draws = predicted["deviation"] / scale, predicted["draws"]
        gaussian = 0.5 * np.log(2.0 * np.pi * deviation**2) + 0.5 * (error / deviation) ** 2
        low, high = np.quantile(draws, LEVELS, axis=0)
        scores |= {
            "test_log_likelihood": float(np.mean(predicted["log_density"]) + np.log(scale)),
            "nll_gaussian": float(gaussian.mean()),
            "crps": float(crps(draws, y).mean() / scale),
            "coverage_90": float(np.mean((low <= y) & (y <= high))),
        }
        if step is not None:
            scores["log_probability"] = float(log_probability(draws, y, step).mean())
    return scores
