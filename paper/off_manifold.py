"""Sixty inputs and data on a thin sheet: does the predicted error match the true one away from it?

The log of a plant is similar: many sensors, few degrees of freedom, and a policy that leaves the
sheet. At growing distances from the sheet (``off``) and beyond its edge (``beyond``): share of the
points whose true mean lies in the central 90 % interval of ``E[y|x,W]`` (normal, from mean and
deviation over W), rank correlation of that deviation with the true error over all points, and
*fooled*: a cautious optimiser takes the 2 % of the far points with the lowest upper bound (mean
plus two deviations), and is fooled if the truth is above that bound.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from paper.fits import LABELS, fit_seeds, found_methods, length
from paper.fits import METHODS as SETTINGS
from paper.markdown import markdown, mean_and_error, metrics
from paper.records import Context, Record
from twofold import BNNLVRegressor

SEEDS = [0, 1, 2]
METHODS = ("langevin", "ensemble", "alpha_1", "vb")
HIDDEN = (40, 40)
DISTANCES = {"off": (0.0, 0.25, 0.5, 1.0, 2.0), "beyond": (1.0, 1.25, 1.5, 2.0, 3.0)}
LEVEL_90 = 1.645
CAREFUL = 2.0
TAKEN = 0.02
INPUTS, SHEET, WAVES = 60, 3, 6
REACH = 1.7
THICKNESS = 0.05
NOISE = 0.2


@dataclass(frozen=True)
class Manifold:
    """A known function of sixty inputs on a curved, three-dimensional sheet.

    Inputs on the sheet are ``x = (A u + sin(B u)) / 2`` plus a little noise, with ``u`` uniform in
    ``[-1.7, 1.7]³``; the output is a linear function of all inputs plus six waves and noise.
    ``seed`` determines the sheet, the function and the data.
    """

    seed: int

    def _draw(self, what: int, shape: tuple[int, ...]) -> np.ndarray:
        return np.random.default_rng([self.seed, what]).normal(size=shape)

    def place(self, u: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Inputs ``[N, 60]`` at coordinates ``u [N, 3]`` of the sheet."""
        straight, curved = self._draw(0, (INPUTS, SHEET)), self._draw(1, (INPUTS, SHEET))
        noise = THICKNESS * rng.normal(size=(len(u), INPUTS))
        return 0.5 * (u @ straight.T + np.sin(u @ curved.T)) + noise

    def function(self, x: np.ndarray) -> np.ndarray:
        """The true mean of y at any inputs ``[N, 60]``."""
        slope, directions = self._draw(2, (INPUTS,)), self._draw(3, (WAVES, INPUTS))
        phases, heights = np.pi * self._draw(4, (WAVES,)), self._draw(5, (WAVES,))
        scaled = x / np.sqrt(INPUTS)
        waves = np.sin(1.5 * scaled @ directions.T + phases) @ heights
        return 1.5 * scaled @ slope + 0.7 * waves

    def training_data(self, size: int = 2000) -> tuple[np.ndarray, np.ndarray]:
        """Inputs on the sheet, ``[size, 60]``, and noisy outputs, ``[size]``."""
        rng = np.random.default_rng([self.seed, 6])
        x = self.place(rng.uniform(-REACH, REACH, (size, SHEET)), rng)
        return x, self.function(x) + NOISE * rng.normal(size=size)

    def off(self, distance: float, size: int = 500) -> np.ndarray:
        """Inputs on the sheet, each then moved by ``distance`` deviations."""
        rng = np.random.default_rng([self.seed, 7])
        x = self.place(rng.uniform(-REACH, REACH, (size, SHEET)), rng)
        return x + distance * rng.normal(size=x.shape)

    def beyond(self, factor: float, size: int = 500) -> np.ndarray:
        """Inputs on the continuation of the sheet, with u on the surface of a ``factor`` times
        larger box."""
        rng = np.random.default_rng([self.seed, 8])
        u = rng.uniform(-1.0, 1.0, (size, SHEET))
        surface = u / np.abs(u).max(axis=1, keepdims=True)
        return self.place(factor * REACH * surface, rng)


def compare_defaults_away(context: Context) -> Record:
    """Only the default posterior and the quick ensemble, which need no GPU."""
    return compare_away(context, METHODS[:2])


def compare_away(context: Context, methods: Sequence[str] = METHODS) -> Record:
    """Fit all methods for all seeds, and evaluate them away from the data."""
    seeds, rows = (SEEDS[:2], 100) if context.smoke else (SEEDS, 2000)
    chosen = {
        "methods": {method: SETTINGS[method] | length(method, context.smoke) for method in methods},
        "hidden_layer_sizes": HIDDEN,
        "rows": rows,
        "distances": DISTANCES,
    }
    record = Record("off_manifold", chosen, seeds)
    problems = [Manifold(seed) for seed in seeds]
    data = [problem.training_data(rows) for problem in problems]
    for method in methods:
        arguments = {"hidden_layer_sizes": HIDDEN, **chosen["methods"][method]}
        checkpoint = context.work / f"off_manifold-{method}.checkpoint"
        models = fit_seeds(arguments, seeds, data, checkpoint)
        for way in DISTANCES:
            metrics = [
                evaluate_away(p, model, way) for p, model in zip(problems, models, strict=True)
            ]
            record.add_means(f"{way}/{method}", metrics)
    return record


def evaluate_away(problem: Manifold, model: BNNLVRegressor, way: str) -> dict[str, float]:
    """Predictions of one fit along one way out of the data, in deviations of the training
    outputs."""
    numbers: dict[str, float] = {}
    deviations, errors, bounds, truths = [], [], [], []
    scale = model.y_standardizer_.scale[0]
    for index, distance in enumerate(DISTANCES[way]):
        x = getattr(problem, way)(distance)
        mean, truth = model.predict(x) / scale, problem.function(x) / scale
        variance = np.maximum(model.decompose(x, by="variance").epistemic, 0.0)
        deviation, error = np.sqrt(variance) / scale, np.abs(mean - truth)
        numbers[f"coverage_90/{distance}"] = np.mean(error <= LEVEL_90 * deviation)
        numbers[f"deviation/{distance}"] = deviation.mean()
        numbers[f"error/{distance}"] = error.mean()
        deviations.append(deviation)
        errors.append(error)
        if index:
            bounds.append(mean + CAREFUL * deviation)
            truths.append(truth)
    pooled = np.concatenate(deviations), np.concatenate(errors)
    numbers["rank_correlation"] = spearmanr(*pooled).statistic
    numbers["fooled"] = share_fooled(np.concatenate(bounds), np.concatenate(truths))
    return numbers


def share_fooled(bounds: np.ndarray, truths: np.ndarray) -> float:
    """Share of the points with the lowest bounds whose true value lies above the bound."""
    taken = np.argsort(bounds)[: max(1, int(TAKEN * len(bounds)))]
    return float(np.mean(truths[taken] > bounds[taken]))


def tabulate_coverage(results: Path) -> str:
    """Coverage of the true function away from the data."""
    values = metrics("off_manifold", results)
    rows = []
    for way, distances in DISTANCES.items():
        for method in found_methods(METHODS, values):
            place = f"{way}/{method}"
            cells = [f"{values[f'{place}/coverage_90/{d}/mean']:.2f}" for d in distances]
            ends = [
                f"{values[f'{place}/deviation/{d}/mean']:.2f} / "
                f"{values[f'{place}/error/{d}/mean']:.2f}"
                for d in (distances[0], distances[-1])
            ]
            others = [
                mean_and_error(values, f"{place}/{n}") for n in ("rank_correlation", "fooled")
            ]
            rows.append([f"{way}, {LABELS[method]}", *cells, *ends, *others])
    headings = [f"coverage, {place}" for place in ("nearest", "2nd", "3rd", "4th", "farthest")]
    ends = ["deviation / error, nearest", "deviation / error, farthest"]
    return markdown(["", *headings, *ends, "rank correlation", "fooled"], rows)
