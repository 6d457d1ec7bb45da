"""The paper's claims about the split on the toy problems, as numbers.

For each value of α, for the library's own posteriors and for the reference of the paper's model,
sampled by Hamiltonian Monte Carlo: does the epistemic entropy rank inputs like the reference of the
same model, does it vanish towards variational Bayes, does it follow the scarcity of data, and is
the aleatoric entropy that of the true process? Five seeds, each with its own data, shared by all
methods.
"""

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

import numpy as np
from scipy.stats import spearmanr

from paper.fits import (
    LABELS,
    PAPER_METHODS,
    Fit,
    count_stored,
    found_methods,
    load_or_fit,
    reference_of,
    settings,
)
from paper.markdown import markdown, mean_and_error, metrics
from paper.problems import POINTS, PROBLEMS
from paper.records import Context, Record
from paper.reference.answers import References, read_references
from paper.reference.populations import Case
from twofold import BNNLVRegressor, Decomposition
from twofold.envs.toy import BIMODAL, TOY_PROBLEMS, ToyProblem


class Split(Protocol):
    """Any object with an epistemic part."""

    @property
    def epistemic(self) -> np.ndarray:
        """The epistemic part in nats."""
        ...


SEEDS = [0, 1, 2, 3, 4]
TEST_SIZE = 500
# sin and cos are equal here: the bimodal process is symmetric about this point.
SYMMETRY = np.pi / 4


def compare_with_hmc(context: Context) -> Record:
    """Fit all methods on both problems and compare."""
    seeds = SEEDS[:2] if context.smoke else SEEDS
    fits = [Fit(p, method, s) for p in TOY_PROBLEMS for method in PAPER_METHODS for s in seeds]
    chosen = {
        "methods": {method: settings(method, context.smoke) for method in PAPER_METHODS},
        "points": POINTS,
        "fits_found_in_work_folder": count_stored(fits, context.smoke, context.work),
    }
    record = Record("alpha_vs_hmc", chosen, seeds)
    models = load_or_fit(fits, context.smoke, context.work)
    references = read_references(context.folder_with)
    for problem in TOY_PROBLEMS.values():
        measure(problem, seeds, models, references, record)
    return record


def measure(
    problem: ToyProblem,
    seeds: list[int],
    models: Mapping[Fit, BNNLVRegressor],
    references: References,
    record: Record,
) -> None:
    """Add one problem's metrics to the record."""
    by_method: dict[str, list[dict[str, float]]] = {method: [] for method in PAPER_METHODS}
    for seed in seeds:
        x = PROBLEMS[problem.name].inside(seed)
        test = problem.test_data(seed, TEST_SIZE)
        for method in PAPER_METHODS:
            model = models[Fit(problem.name, method, seed)]
            split = model.decompose(x)
            reference = references.get((reference_of(method, model), Case(problem.name, seed)))
            pair: list[Split | None] = [split, reference]
            if method == "hmc":
                pair = [half.decompose(x) for half in split_chains(model)]
            numbers = compare_with_truth(problem, x[:, 0], split)
            if pair[0] is not None and pair[1] is not None:
                numbers |= compare_epistemic(pair[0], pair[1])
            numbers["test_log_likelihood"] = model.log_likelihood(*test).mean()
            by_method[method].append(numbers)
    for method, of_seeds in by_method.items():
        record.add_means(f"{problem.name}/{method}", of_seeds)
    reports = [models[Fit(problem.name, "hmc", seed)].diagnostics_ for seed in seeds]
    unknown = [seed for seed, r in zip(seeds, reports, strict=True) if r.r_hat_max is None]
    if unknown:
        raise SystemExit(
            f"the chains of {problem.name}, seeds {unknown}, cannot be diagnosed: their "
            "predictions are constant or not finite; delete their models in .cache and run again"
        )
    record.add(f"{problem.name}/hmc/r_hat_max", max(report.r_hat_max for report in reports))
    record.add(f"{problem.name}/hmc/ess_min", min(report.ess_min for report in reports))
    record.add(f"{problem.name}/hmc/divergences", sum(report.divergences for report in reports))


def split_chains(model: BNNLVRegressor) -> list[BNNLVRegressor]:
    """The first and the second half of the chains, as separate models.

    Their agreement is the best that can be expected of any other method.
    """
    draws = model.posterior_.weights.shape[0]
    parts = []
    for chosen in (slice(draws // 2), slice(draws // 2, None)):
        part = copy.copy(model)
        part.posterior_ = type(model.posterior_)(*(leaf[chosen] for leaf in model.posterior_))
        parts.append(part)
    return parts


def compare_epistemic(split: Split, reference: Split) -> dict[str, float]:
    """Agreement of two epistemic entropies."""
    return {
        "rank_correlation": spearmanr(split.epistemic, reference.epistemic).statistic,
        "epistemic_abs_error": np.abs(split.epistemic - reference.epistemic).mean(),
    }


def compare_with_truth(
    problem: ToyProblem, x: np.ndarray, split: Decomposition
) -> dict[str, float]:
    """The numbers of one split for each of the other claims."""
    density = problem.input_density(x)
    errors = np.abs(split.aleatoric - problem.entropy(x))
    numbers = {
        "mean_epistemic": split.epistemic.mean(),
        "scarcity_correlation_total": spearmanr(split.total, -density).statistic,
        "scarcity_correlation_epistemic": spearmanr(split.epistemic, -density).statistic,
        "aleatoric_abs_error": errors.mean(),
        "aleatoric_abs_error_where_plentiful": errors[density > np.median(density)].mean(),
    }
    if problem is BIMODAL:
        numbers["aleatoric_asymmetry"] = measure_asymmetry(x, split.aleatoric)
    return numbers


def measure_asymmetry(x: np.ndarray, aleatoric: np.ndarray) -> float:
    """Mean difference between mirrored points, divided by the mean depth of the dip at the
    centre."""
    reach = min(SYMMETRY - x[0], x[-1] - SYMMETRY)
    distance = np.linspace(0.0, reach, 50)
    left = np.interp(SYMMETRY - distance, x, aleatoric)
    right = np.interp(SYMMETRY + distance, x, aleatoric)
    depth = 0.5 * (left + right).max() - left[0]
    return float(np.abs(left - right).mean() / depth)


def tabulate_splits(results: Path) -> str:
    """The paper's claims about the split on the toy problems."""
    values = metrics("alpha_vs_hmc", results)
    columns = {
        "rank_correlation": "rank correlation with the reference's epistemic",
        "mean_epistemic": "mean epistemic",
        "scarcity_correlation_epistemic": "epistemic with scarcity",
        "scarcity_correlation_total": "total with scarcity",
        "aleatoric_abs_error": "aleatoric error",
        "aleatoric_abs_error_where_plentiful": "aleatoric error, plentiful data",
        "test_log_likelihood": "test log-likelihood",
    }
    rows = [
        [
            f"{problem}, {LABELS[method]}",
            *(mean_and_error(values, f"{problem}/{method}/{name}") for name in columns),
        ]
        for problem in TOY_PROBLEMS
        for method in found_methods(PAPER_METHODS, values)
    ]
    return markdown(["", *columns.values()], rows)


def tabulate_chains(results: Path) -> str:
    """Convergence of the reference chains."""
    values = metrics("alpha_vs_hmc", results)
    rows = [
        [
            problem,
            f"{values[f'{problem}/hmc/r_hat_max']:.2f}",
            f"{values[f'{problem}/hmc/ess_min']:.0f}",
            f"{values[f'{problem}/hmc/divergences']:.0f}",
            mean_and_error(values, f"{problem}/hmc/rank_correlation"),
            mean_and_error(values, f"{problem}/hmc/epistemic_abs_error", 3),
        ]
        for problem in TOY_PROBLEMS
    ]
    headings = ["", "largest R-hat", "smallest effective sample size", "divergences"]
    halves = ["rank correlation of two halves", "difference of two halves (nats)"]
    return markdown([*headings, *halves], rows)
