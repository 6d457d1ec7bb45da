"""The paper's claims about policies (§5), each decided by the trials, and offline selection scores.

Trade-offs between true cost and model bias are compared by the area that a curve dominates: the
share of a rectangle, of costs and logarithms of biases, that lies above and to the right of at
least one of its policies.
"""

from collections.abc import Iterable, Sequence

import numpy as np
from scipy.stats import spearmanr

from twofold.experiments.frontier import Trial

SMALLEST_BIAS = 1e-6


def mean_of(trials: Iterable[Trial], field: str) -> float:
    """A quantity averaged over seeds."""
    return float(np.mean([getattr(trial, field) for trial in trials]))


def at(trials: Iterable[Trial], method: str, beta: float, gamma: float) -> list[Trial]:
    """The trials of a method with these weights, all seeds."""
    return [t for t in trials if (t.method, t.beta, t.gamma) == (method, beta, gamma)]


def pairs(trials: Iterable[Trial], method: str) -> list[tuple[float, float]]:
    """The weights that a method was tried with, in order."""
    return sorted({(t.beta, t.gamma) for t in trials if t.method == method})


def points(
    trials: Sequence[Trial], method: str, weights: Iterable[tuple[float, float]]
) -> np.ndarray:
    """Mean true cost and mean model bias of each pair of weights, ``[len(weights), 2]``."""
    chosen = [at(trials, method, *pair) for pair in weights]
    return np.array([[mean_of(t, "true_cost"), mean_of(t, "model_bias")] for t in chosen])


def dominated_share(curve: np.ndarray, low: np.ndarray, high: np.ndarray) -> float:
    """Share of the rectangle ``low … high`` that is dominated by at least one point of a curve."""
    corners = np.clip((curve - low) / (high - low), 0.0, 1.0)
    share, best = 0.0, 1.0
    for x, y in corners[np.lexsort((corners[:, 1], corners[:, 0]))]:
        if y < best:
            share += (1.0 - x) * (best - y)
            best = y
    return float(share)


def trade_offs(
    trials: Sequence[Trial], curves: dict[str, tuple[str, list[tuple[float, float]]]]
) -> dict[str, float]:
    """The dominated share of each named curve, in a rectangle that holds all of them."""
    every = {name: points(trials, *curve) for name, curve in curves.items()}
    scaled = {name: _logarithmic(curve) for name, curve in every.items()}
    together = np.concatenate(list(scaled.values()))
    low, high = together.min(axis=0), together.max(axis=0)
    high = np.where(high > low, high, low + 1.0)
    return {name: dominated_share(curve, low, high) for name, curve in scaled.items()}


def _logarithmic(curve: np.ndarray) -> np.ndarray:
    return np.stack([curve[:, 0], np.log(np.maximum(curve[:, 1], SMALLEST_BIAS))], axis=1)


def curves_of(trials: Sequence[Trial], method: str) -> dict[str, tuple[str, list]]:
    """A curve over β for each γ, and that of β = γ."""
    every = pairs(trials, method)
    gammas = sorted({gamma for _, gamma in every})
    found = {}
    for gamma in gammas:
        along = [pair for pair in every if pair[1] == gamma]
        if len(along) > 2:
            found[f"gamma_{gamma:g}"] = (method, along)
    found["beta_is_gamma"] = (method, [pair for pair in every if pair[0] == pair[1]])
    return found


def claims(
    trials: Sequence[Trial], method: str, neighbour: str, best_gamma: float
) -> dict[str, float]:
    """1 where a claim of the paper holds here, 0 where not, and what decided it."""
    ignoring = at(trials, method, 0.0, 0.0)
    careful = [(beta, gamma) for beta, gamma in pairs(trials, method) if gamma == 0.0]
    along = points(trials, method, careful)
    others = points(trials, method, [p for p in pairs(trials, method) if p != (0.0, 0.0)])
    curves = curves_of(trials, method)
    if any(t.method == neighbour for t in trials):
        curves["nearest_neighbour"] = (neighbour, pairs(trials, neighbour))
    shares = trade_offs(trials, curves)
    best = max((name for name in shares if name.startswith("gamma_")), key=shares.__getitem__)
    decided = {
        "risk_ignoring_has_the_largest_bias": mean_of(ignoring, "model_bias") > others[:, 1].max(),
        "risk_ignoring_costs_more": mean_of(ignoring, "true_cost") > along[1:, 0].min(),
        "bias_falls_with_beta": spearmanr([beta for beta, _ in careful], along[:, 1])[0] < -0.9,
        f"gamma_{best_gamma:g}_has_the_best_trade_off": best == f"gamma_{best_gamma:g}",
    }
    if "nearest_neighbour" in shares:
        paper = shares.get(f"gamma_{best_gamma:g}", 0.0)
        decided["nearest_neighbour_is_worse"] = shares["nearest_neighbour"] < paper
    found = {f"claims/{name}": float(value) for name, value in decided.items()}
    return found | {f"dominated_share/{name}": value for name, value in shares.items()}


def rank_correlations(trials: Sequence[Trial]) -> dict[str, float]:
    """Whether what the model says ranks policies as the truth does, over all of them.

    Within a seed, as policies are compared that share a data set and a model, and then averaged.
    """
    wanted = {
        "epistemic_risk_vs_bias": ("epistemic_risk", "model_bias"),
        "expected_cost_vs_cost": ("predicted_cost", "true_cost"),
        "criterion_vs_cost": ("criterion_1", "true_cost"),
        "criterion_beta_2_vs_cost": ("criterion_2", "true_cost"),
        "criterion_beta_4_vs_cost": ("criterion_4", "true_cost"),
    }
    groups = sorted({(t.method, t.seed) for t in trials})
    found = {}
    for name, fields in wanted.items():
        values = []
        for group in groups:
            own = [t for t in trials if (t.method, t.seed) == group]
            values.append(spearmanr(*([getattr(t, f) for t in own] for f in fields))[0])
        found[f"rank_correlation/{name}"] = float(np.mean(values))
    return found
