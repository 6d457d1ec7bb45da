"""The paper's claims about policies (§5), decided by the trials, and scores for offline selection.

Policies are compared within a seed, which determines data and model; a difference counts if it
exceeds two standard errors over seeds. Trade-offs between true cost and model bias are compared by
the area that a curve dominates: the share of a rectangle of costs and root biases above and to the
right of at least one of its policies.
"""

from collections.abc import Callable, Iterable, Sequence
from functools import partial

import numpy as np
from scipy.stats import spearmanr

from paper.frontier import Trial

CAREFUL = 4.0  # the β of the paper's Figure 5
ERRORS = 2.0
BASELINE = "nearest_neighbour"


def mean_of(trials: Iterable[Trial], field: str) -> float:
    """Mean of a quantity over seeds."""
    return float(np.mean([getattr(trial, field) for trial in trials]))


def at(trials: Iterable[Trial], method: str, beta: float, gamma: float) -> list[Trial]:
    """The trials of a method with these weights, for all seeds."""
    return [t for t in trials if (t.method, t.beta, t.gamma) == (method, beta, gamma)]


def common_seeds(trials: Sequence[Trial], methods: Iterable[str]) -> list[int]:
    """The seeds for which all of these methods have policies."""
    found = [{t.seed for t in trials if t.method == method} for method in methods]
    return sorted(set.intersection(*found))


def pairs(trials: Iterable[Trial], method: str) -> list[tuple[float, float]]:
    """The risk weights of a method, in order."""
    return sorted({(t.beta, t.gamma) for t in trials if t.method == method})


def points(
    trials: Sequence[Trial], method: str, weights: Iterable[tuple[float, float]]
) -> np.ndarray:
    """Mean true cost and mean model bias of each pair of weights; pairs without a bias, because
    roll-outs of the model were not finite, are omitted."""
    chosen = [at(trials, method, *pair) for pair in weights]
    means = [[mean_of(t, "true_cost"), mean_of(t, "model_bias")] for t in chosen]
    return np.array([row for row in means if np.isfinite(row).all()]).reshape(-1, 2)


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
    """The dominated share of each named curve, in a rectangle from the best to the worst policy.
    The baseline does not count for the worst, because it may be arbitrarily bad."""
    by_name = {name: _with_roots(points(trials, *curve)) for name, curve in curves.items()}
    low = np.concatenate(list(by_name.values())).min(axis=0)
    high = np.concatenate(
        [points_of for name, points_of in by_name.items() if name != BASELINE]
    ).max(axis=0)
    high = np.where(high > low, high, low + 1.0)
    return {name: dominated_share(curve, low, high) for name, curve in by_name.items()}


def _with_roots(curve: np.ndarray) -> np.ndarray:
    """Root biases, in units of cost; negative estimates count as 0."""
    return np.stack([curve[:, 0], np.sqrt(np.maximum(curve[:, 1], 0.0))], axis=1)


def curves_of(trials: Sequence[Trial], method: str) -> dict[str, tuple[str, list]]:
    """A curve over β for each γ, and the curve β = γ."""
    all_pairs = pairs(trials, method)
    gammas = sorted({gamma for _, gamma in all_pairs})
    curves = {}
    for gamma in gammas:
        along = [pair for pair in all_pairs if pair[1] == gamma]
        if len(along) > 2:
            curves[f"gamma_{gamma:g}"] = (method, along)
    curves["beta_is_gamma"] = (method, [pair for pair in all_pairs if pair[0] == pair[1]])
    return curves


def margins(
    trials: Sequence[Trial], method: str, field: str, first: tuple, second: tuple
) -> np.ndarray:
    """Difference of a quantity between two pairs of weights, per seed."""
    one, other = at(trials, method, *first), at(trials, method, *second)
    seconds = {trial.seed: getattr(trial, field) for trial in other}
    return np.array([getattr(trial, field) - seconds[trial.seed] for trial in one])


def clearly_positive(values: np.ndarray) -> bool:
    """Whether the mean is positive by more than two standard errors; False for a single value."""
    if len(values) < 2:
        return False
    return bool(values.mean() > ERRORS * values.std(ddof=1) / len(values) ** 0.5)


def falls(trials: Sequence[Trial], method: str) -> np.ndarray:
    """Minus the rank correlation of β and bias along γ = 0, per seed."""
    correlations = []
    for seed in sorted({trial.seed for trial in trials if trial.method == method}):
        along = [t for t in trials if (t.method, t.seed, t.gamma) == (method, seed, 0.0)]
        correlations.append(-_correlation([t.beta for t in along], [t.model_bias for t in along]))
    return np.array(correlations)


def claims(
    trials: Sequence[Trial], method: str, neighbour: str, best_gamma: float
) -> dict[str, float]:
    """1 if a claim of the paper holds here, otherwise 0, and the deciding numbers."""
    ignoring, careful = (0.0, 0.0), (CAREFUL, 0.0)
    others = {p: mean_of(at(trials, method, *p), "model_bias") for p in pairs(trials, method)}
    worst = max((p for p in others if p != ignoring), key=lambda p: np.nan_to_num(others[p]))
    largest = margins(trials, method, "model_bias", ignoring, worst)
    more = margins(trials, method, "model_bias", ignoring, careful)
    costs = margins(trials, method, "true_cost", ignoring, careful)
    falling = falls(trials, method)
    curves = curves_of(trials, method)
    if any(t.method == neighbour for t in trials):
        curves[BASELINE] = (neighbour, pairs(trials, neighbour))
    seeds = common_seeds(trials, {name for name, _ in curves.values()})
    shares = trade_offs([trial for trial in trials if trial.seed in seeds], curves)
    best = f"gamma_{best_gamma:g}"
    rival = max((name for name in curves if name not in (best, BASELINE)), key=shares.__getitem__)
    ahead = {name: _ahead(trials, curves, best, name) for name in {rival, BASELINE} & {*curves}}
    measured = {
        "risk_ignoring_has_more_bias": more,
        "risk_ignoring_has_the_largest_bias": largest,
        "risk_ignoring_costs_more": costs,
        "bias_falls_with_beta": falling,
        f"{best}_has_the_best_trade_off": ahead[rival],
    }
    if BASELINE in curves:
        measured["nearest_neighbour_is_worse"] = ahead[BASELINE]
    metrics = {
        f"claims/{name}": float(clearly_positive(differences))
        for name, differences in measured.items()
    }
    for name, values in measured.items():
        metrics[f"margin/{name}/mean"] = float(values.mean())
        if len(values) > 1:
            metrics[f"margin/{name}/se"] = float(values.std(ddof=1) / len(values) ** 0.5)
    return metrics | {f"dominated_share/{name}": value for name, value in shares.items()}


def _ahead(trials: Sequence[Trial], curves: dict, first: str, second: str) -> np.ndarray:
    """Difference of the dominated shares of two curves, per seed, among curves of their methods."""
    leads, methods = [], {curves[first][0], curves[second][0]}
    curves = {name: curve for name, curve in curves.items() if curve[0] in methods}
    for seed in common_seeds(trials, methods):
        shares = trade_offs([trial for trial in trials if trial.seed == seed], curves)
        leads.append(shares[first] - shares[second])
    return np.array(leads)


def rank_correlations(trials: Sequence[Trial]) -> dict[str, float]:
    """Rank correlations between predictions of the model and the truth, over all policies.

    Computed within each seed, where policies share data and model, and then averaged.
    """
    wanted = {
        "epistemic_risk_vs_bias": ("epistemic_risk", "model_bias"),
        "expected_cost_vs_cost": ("predicted_cost", "true_cost"),
        "criterion_vs_cost": ("criterion_1", "true_cost"),
        "criterion_beta_2_vs_cost": ("criterion_2", "true_cost"),
        "criterion_beta_4_vs_cost": ("criterion_4", "true_cost"),
    }
    metrics: dict[str, float] = {}
    for name, fields in wanted.items():
        metrics |= _over_seeds(
            f"rank_correlation/{name}",
            trials,
            partial(_agreement, fields=fields),
        )
    return metrics


def _over_seeds(
    name: str, trials: Sequence[Trial], value: Callable[[Sequence[Trial]], float]
) -> dict[str, float]:
    """A quantity of the policies of one model: mean over the models of a seed, which share data,
    then mean and standard error over the seeds of all models; and the mean of each kind of model
    over its own seeds."""
    methods = sorted({t.method for t in trials})
    found = {
        method: {
            seed: value([t for t in trials if (t.method, t.seed) == (method, seed)])
            for seed in common_seeds(trials, [method])
        }
        for method in methods
    }
    seeds = common_seeds(trials, methods)
    of_seeds = np.array([np.mean([found[method][seed] for method in methods]) for seed in seeds])
    metrics = {name: float(of_seeds.mean())}
    if len(of_seeds) > 1:
        metrics[f"{name}/se"] = float(of_seeds.std(ddof=1) / len(of_seeds) ** 0.5)
    means = {method: np.mean(list(own.values())) for method, own in found.items()}
    return metrics | {f"{method}/{name}": float(mean) for method, mean in means.items()}


def regrets(trials: Sequence[Trial]) -> dict[str, float]:
    """Regret: true cost of the policy chosen by the model's predictions, above that of the best
    policy.

    Chosen among all policies of a model, and averaged like rank correlations.
    """
    metrics: dict[str, float] = {}
    for score in ("predicted_cost", "criterion_1", "criterion_2", "criterion_4"):
        metrics |= _over_seeds(f"regret/{score}", trials, partial(_regret, score=score))
    return metrics


def _regret(trials: Sequence[Trial], score: str) -> float:
    known = [trial for trial in trials if np.isfinite(getattr(trial, score))]
    if not known:
        return float("nan")
    chosen = min(known, key=lambda trial: getattr(trial, score))
    return chosen.true_cost - min(trial.true_cost for trial in trials)


def _agreement(trials: Sequence[Trial], fields: tuple[str, str]) -> float:
    said, came = ([getattr(trial, field) for trial in trials] for field in fields)
    return _correlation(said, came)


def _correlation(first: Sequence[float], second: Sequence[float]) -> float:
    """Spearman's rank correlation; 0 if all policies are equal or not finite."""
    known = np.isfinite(first) & np.isfinite(second)
    one, other = np.asarray(first)[known], np.asarray(second)[known]
    if len(one) < 3 or np.ptp(one) == 0.0 or np.ptp(other) == 0.0:
        return 0.0
    return float(spearmanr(one, other)[0])
