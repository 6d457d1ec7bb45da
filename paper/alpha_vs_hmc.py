"""The paper's claims about the split on the toy problems, as numbers.

For each value of α, and for Hamiltonian Monte Carlo as the reference: does the epistemic entropy
rank inputs as the reference's does, does it vanish towards variational Bayes, does it follow the
scarcity of data, and is the aleatoric entropy that of the true process? Five seeds, each with its
own data, shared by all methods.
"""

import copy
from collections.abc import Mapping
from pathlib import Path

import numpy as np
from scipy.stats import spearmanr

from paper.jobs import PAPER_METHODS, Job, done_before, fitted, settings
from paper.records import Record
from twofold import BNNLVRegressor, Decomposition
from twofold.envs.toy import BIMODAL, TOY_PROBLEMS, ToyProblem

SEEDS = [0, 1, 2, 3, 4]
POINTS = 100
TEST_SIZE = 500
# sin and cos meet here, so the bimodal process looks the same to both sides.
SYMMETRY = np.pi / 4


def run(smoke: bool, work: Path) -> Record:
    """Fit all methods on both problems and compare; ``smoke`` is a quick rehearsal."""
    seeds = SEEDS[:2] if smoke else SEEDS
    wanted = [
        Job(p, method, seed) for p in TOY_PROBLEMS for method in PAPER_METHODS for seed in seeds
    ]
    record = Record(
        "alpha_vs_hmc",
        {
            "methods": {method: settings(method, smoke) for method in PAPER_METHODS},
            "points": POINTS,
            "fits_found_in_work_folder": done_before(wanted, smoke, work),
        },
        seeds,
    )
    models = fitted(wanted, smoke, work)
    for problem in TOY_PROBLEMS.values():
        measure(problem, seeds, models, record)
    return record


def grid(problem: ToyProblem, seed: int, points: int = POINTS) -> np.ndarray:
    """Even points inside the range of the seed's data, no further than the problem's."""
    x, _ = problem.training_data(seed)
    return np.linspace(max(problem.low, x.min()), min(problem.high, x.max()), points)


def measure(
    problem: ToyProblem,
    seeds: list[int],
    models: Mapping[Job, BNNLVRegressor],
    record: Record,
) -> None:
    """Add one problem's metrics to the record."""
    found: dict[str, list[dict[str, float]]] = {method: [] for method in PAPER_METHODS}
    for seed in seeds:
        x = grid(problem, seed)
        splits = {
            m: models[Job(problem.name, m, seed)].decompose(x[:, None]) for m in PAPER_METHODS
        }
        test_x, test_y = problem.test_data(seed, TEST_SIZE)
        for method, split in splits.items():
            model = models[Job(problem.name, method, seed)]
            if method == "hmc":
                one, other = (half.decompose(x[:, None]) for half in halves(model))
            else:
                one, other = split, splits["hmc"]
            numbers = agreement(one, other) | claims(problem, x, split)
            numbers["test_log_likelihood"] = model.log_likelihood(test_x, test_y).mean()
            found[method].append(numbers)
    for method, every in found.items():
        for name in every[0]:
            record.add_mean(f"{problem.name}/{method}/{name}", [one[name] for one in every])
    reports = [models[Job(problem.name, "hmc", seed)].diagnostics_ for seed in seeds]
    unknown = [seed for seed, r in zip(seeds, reports, strict=True) if r.r_hat_max is None]
    if unknown:
        raise SystemExit(
            f"the chains of {problem.name}, seeds {unknown}, cannot be diagnosed: their "
            "predictions are constant or not finite; delete their models in .cache and run again"
        )
    record.add(f"{problem.name}/hmc/r_hat_max", max(report.r_hat_max for report in reports))
    record.add(f"{problem.name}/hmc/ess_min", min(report.ess_min for report in reports))
    record.add(f"{problem.name}/hmc/divergences", sum(report.divergences for report in reports))


def halves(model: BNNLVRegressor) -> list[BNNLVRegressor]:
    """The first and the last half of the chains, as models of their own.

    How well they agree is the best that any other method can be expected to.
    """
    draws = model.posterior_.weights.shape[0]
    parts = []
    for chosen in (slice(draws // 2), slice(draws // 2, None)):
        part = copy.copy(model)
        part.posterior_ = type(model.posterior_)(*(leaf[chosen] for leaf in model.posterior_))
        parts.append(part)
    return parts


def agreement(split: Decomposition, reference: Decomposition) -> dict[str, float]:
    """Of two epistemic entropies."""
    return {
        "rank_correlation": spearmanr(split.epistemic, reference.epistemic).statistic,
        "epistemic_abs_error": np.abs(split.epistemic - reference.epistemic).mean(),
    }


def claims(problem: ToyProblem, x: np.ndarray, split: Decomposition) -> dict[str, float]:
    """What one split says about each of the other claims."""
    scarcity = -problem.input_density(x)
    errors = np.abs(split.aleatoric - problem.entropy(x))
    plentiful = problem.input_density(x) > np.median(problem.input_density(x))
    numbers = {
        "mean_epistemic": split.epistemic.mean(),
        "scarcity_correlation_total": spearmanr(split.total, scarcity).statistic,
        "scarcity_correlation_epistemic": spearmanr(split.epistemic, scarcity).statistic,
        "aleatoric_abs_error": errors.mean(),
        "aleatoric_abs_error_where_plentiful": errors[plentiful].mean(),
    }
    if problem is BIMODAL:
        numbers["aleatoric_asymmetry"] = asymmetry(x, split.aleatoric)
    return numbers


def asymmetry(x: np.ndarray, aleatoric: np.ndarray) -> float:
    """Mean difference between mirrored points, over the mean depth of the dip at the centre."""
    reach = min(SYMMETRY - x[0], x[-1] - SYMMETRY)
    distance = np.linspace(0.0, reach, 50)
    left = np.interp(SYMMETRY - distance, x, aleatoric)
    right = np.interp(SYMMETRY + distance, x, aleatoric)
    depth = 0.5 * (left + right).max() - left[0]
    return float(np.abs(left - right).mean() / depth)
