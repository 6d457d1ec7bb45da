"""The paper's claims about the split on the toy problems, as numbers.

For each value of α, for the library's own posteriors and for the reference of the paper's model,
sampled by Hamiltonian Monte Carlo: does the epistemic entropy rank inputs like the reference of the
same model, does it vanish towards variational Bayes, does it follow the scarcity of data, and is
the aleatoric entropy that of the true process? Five seeds, each with its own data, shared by all
methods. The references are those stored with the results, so no GPU is needed.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np
from scipy.stats import spearmanr

from paper.fits import (
    FITTED_METHODS,
    LABELS,
    PAPER_METHODS,
    STAGED,
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
from twofold import BNNLVRegressor
from twofold.envs.toy import BIMODAL, TOY_PROBLEMS, ToyProblem


class Split(Protocol):
    """Any object with the parts of a split."""

    @property
    def total(self) -> np.ndarray:
        """The total in nats."""
        ...

    @property
    def epistemic(self) -> np.ndarray:
        """The epistemic part in nats."""
        ...

    @property
    def aleatoric(self) -> np.ndarray:
        """The aleatoric part in nats."""
        ...


SEEDS = [0, 1, 2, 3, 4]
TEST_SIZE = 500
# sin and cos are equal here: the bimodal process is symmetric about this point.
SYMMETRY = np.pi / 4


def compare_default_with_hmc(context: Context) -> Record:
    """``compare_with_hmc`` of the library's own posteriors."""
    return compare_with_hmc(context, tuple(STAGED))


def compare_with_hmc(context: Context, methods: Sequence[str] = FITTED_METHODS) -> Record:
    """Fit the methods on both problems and compare."""
    seeds = SEEDS[:2] if context.smoke else SEEDS
    fits = [Fit(p, method, s) for p in TOY_PROBLEMS for method in methods for s in seeds]
    chosen = {
        "methods": {method: settings(method, context.smoke) for method in methods},
        "points": POINTS,
        "fits_found_in_work_folder": count_stored(fits, context.smoke, context.work),
    }
    record = Record("alpha_vs_hmc", chosen, seeds)
    models = load_or_fit(fits, context.smoke, context.work)
    references = read_references(context.folder_with)
    for problem in TOY_PROBLEMS.values():
        measure(problem, seeds, methods, models, references, record)
    return record


def measure(
    problem: ToyProblem,
    seeds: list[int],
    methods: Sequence[str],
    models: Mapping[Fit, BNNLVRegressor],
    references: References,
    record: Record,
) -> None:
    """Add one problem's metrics to the record, also those of the reference of the paper's model."""
    by_method: dict[str, list[dict[str, float]]] = {method: [] for method in (*methods, "hmc")}
    for seed in seeds:
        case, x = Case(problem.name, seed), PROBLEMS[problem.name].inside(seed)
        test = problem.test_data(seed, TEST_SIZE)
        for method in methods:
            model = models[Fit(problem.name, method, seed)]
            split = model.decompose(x)
            numbers = compare_with_truth(problem, x[:, 0], split)
            if (reference := references.get((reference_of(method, model), case))) is not None:
                numbers |= compare_epistemic(split, reference)
            numbers["test_log_likelihood"] = model.log_likelihood(*test).mean()
            by_method[method].append(numbers)
        answers = references["hmc", case]
        numbers = compare_with_truth(problem, x[:, 0], answers)
        numbers["test_log_likelihood"] = answers.log_density.mean()
        by_method["hmc"].append(numbers)
    for method, of_seeds in by_method.items():
        record.add_means(f"{problem.name}/{method}", of_seeds)


def compare_epistemic(split: Split, reference: Split) -> dict[str, float]:
    """Agreement of two epistemic entropies."""
    return {
        "rank_correlation": spearmanr(split.epistemic, reference.epistemic).statistic,
        "epistemic_abs_error": np.abs(split.epistemic - reference.epistemic).mean(),
    }


def compare_with_truth(problem: ToyProblem, x: np.ndarray, split: Split) -> dict[str, float]:
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
            *(_cell(values, f"{problem}/{method}/{name}") for name in columns),
        ]
        for problem in TOY_PROBLEMS
        for method in found_methods(PAPER_METHODS, values)
    ]
    return markdown(["", *columns.values()], rows)


def _cell(values: Mapping[str, float], name: str) -> str:
    return mean_and_error(values, name) if f"{name}/mean" in values else "–"
