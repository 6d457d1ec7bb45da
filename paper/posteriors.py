"""Comparison of posteriors: their splits against a reference posterior and the truth.

Five problems with known truth (``paper.problems``) and several seeds, each with its own data shared
by all methods. Inside the range of the data: epistemic entropy and test log-likelihood compared
with the reference of the same model, aleatoric entropy compared with the truth where data are
plentiful, calibration. Outside: whether the epistemic part grows with the distance, and whether
there are hiding places, where it is no larger than among the data.

The references, one per form of the model, are computed first and separately, on a GPU; the values
that others are compared with are stored beside the record (``paper.reference.answers``).
"""

import copy
from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import spearmanr

from paper.alpha_vs_hmc import compare_epistemic
from paper.fits import (
    Fit,
    count_stored,
    load_or_fit,
    reference_of,
    settings,
    split_jointly,
)
from paper.problems import ONE_DIMENSIONAL, PROBLEMS, Problem
from paper.records import Context, Record
from paper.reference.answers import Answers, References, read_references, store_answers
from paper.reference.populations import Case
from twofold import BNNLVRegressor
from twofold.uncertainty.chains import Diagnostics
from twofold.uncertainty.metrics import calibration_error, pit

SEEDS = {
    "heteroscedastic": [0, 1, 2, 3, 4],
    "bimodal": [0, 1, 2, 3, 4],
    "skewed": [0, 1, 2],
    "merging": [0, 1, 2],
    "wet_chicken": [0, 1, 2],
}
METHODS = ("alpha_1", "alpha_1_integrated", "vb_integrated", "langevin", "ensemble")
DEFAULT = "langevin"
STAGED = ("langevin", "ensemble")
DISTANCES = (0.0, 0.25, 0.5, 1.0, 2.0)
FAR = 0.5
SAMPLES = 500
SMOKE_SAMPLES = 20
Models = Mapping[Fit, BNNLVRegressor]


def compare_posteriors(
    context: Context, methods: Sequence[str] = METHODS, problems: Sequence[str] = tuple(SEEDS)
) -> Record:
    """Fit methods on some problems and compare them."""
    seeds = {name: SEEDS[name] for name in problems}
    if context.smoke:
        seeds = {"merging": SEEDS["merging"][:2]}
    record, models = _fit_all(context, seeds, methods)
    references = read_references(context.folder_with)
    samples = SMOKE_SAMPLES if context.smoke else SAMPLES
    for name, of_problem in seeds.items():
        measure(PROBLEMS[name], of_problem, models, methods, samples, record, references)
    return record


def compare_staged(context: Context) -> Record:
    """Only the default posterior and the quick ensemble, which need no GPU."""
    return compare_posteriors(context, STAGED, ONE_DIMENSIONAL)


def compare_staged_on_river(context: Context) -> Record:
    """The same on wet-chicken."""
    return compare_posteriors(context, STAGED, ["wet_chicken"])


def compare_halves(form: str, context: Context) -> Record:
    """Sample the reference of a form of the model, compare its two halves, and store the values
    that other methods are compared with."""
    seeds = {name: SEEDS[name] for name in ONE_DIMENSIONAL}
    if context.smoke:
        seeds = {"merging": SEEDS["merging"][:1]}
    record, models = _fit_all(context, seeds, [form])
    samples = SMOKE_SAMPLES if context.smoke else SAMPLES
    answers = {}
    for name, of_problem in seeds.items():
        measure(PROBLEMS[name], of_problem, models, [form], samples, record, {})
        for seed in of_problem:
            model = models[Fit(name, form, seed)]
            add_diagnostics(f"{name}/{form}", seed, model.diagnostics_, record)
            answers[Case(name, seed)] = evaluate(PROBLEMS[name], seed, model)
    store_answers(form, answers, context.output)
    return record


def add_diagnostics(place: str, seed: int, diagnostics: Diagnostics, record: Record) -> None:
    """Add convergence diagnostics of a reference."""
    if diagnostics.r_hat_max is not None and diagnostics.ess_min is not None:
        record.add(f"{place}/r_hat_max/{seed}", diagnostics.r_hat_max)
        record.add(f"{place}/ess_min/{seed}", diagnostics.ess_min)


def _fit_all(
    context: Context, seeds: Mapping[str, list[int]], methods: Sequence[str]
) -> tuple[Record, Models]:
    """The fitted models, and a record with their settings."""
    fits = [Fit(p, method, seed) for p in seeds for method in methods for seed in seeds[p]]
    chosen = {
        "methods": {method: settings(method, context.smoke) for method in methods},
        "default": DEFAULT,
        "distances": DISTANCES,
        "seeds": seeds,
        "fits_found_in_work_folder": count_stored(fits, context.smoke, context.work),
    }
    record = Record(
        "posteriors", chosen, sorted({s for of_problem in seeds.values() for s in of_problem})
    )
    return record, load_or_fit(fits, context.smoke, context.work)


def measure(
    problem: Problem,
    seeds: list[int],
    models: Models,
    methods: Sequence[str],
    samples: int,
    record: Record,
    references: References,
) -> None:
    """Add the metrics of one problem to the record, those of the default also under its second
    name."""
    by_method: dict[str, list[dict[str, float]]] = {method: [] for method in methods}
    oracle = []
    for seed in seeds:
        oracle.append(problem.log_density(*problem.test(seed)).mean())
        for method in methods:
            model = models[Fit(problem.name, method, seed)]
            reference = references.get((reference_of(method, model), Case(problem.name, seed)))
            numbers = compare(problem, seed, model, reference, samples)
            numbers["oracle_gap"] = oracle[-1] - numbers["test_log_likelihood"]
            by_method[method].append(numbers)
    record.add_mean(f"{problem.name}/oracle/test_log_likelihood", oracle)
    if DEFAULT in methods:
        by_method["default"] = by_method[DEFAULT]
    for method, of_seeds in by_method.items():
        record.add_means(f"{problem.name}/{method}", of_seeds)


def compare(
    problem: Problem, seed: int, model: BNNLVRegressor, reference: Answers | None, samples: int
) -> dict[str, float]:
    """The metrics of one method on the data of one seed; without a reference, its own halves are
    compared."""
    asked = evaluate(problem, seed, model)
    errors = np.abs(asked.aleatoric - problem.entropy(problem.inside(seed)))
    halves = asked, reference
    if reference is None and model.diagnostics_ is not None and model.out_of_bag_ is None:
        halves = tuple(evaluate(problem, seed, half) for half in split_chains(model))
    return {
        **(hold_against(*halves) if halves[1] is not None else {}),
        "mean_epistemic": asked.epistemic.mean(),
        "aleatoric_abs_error": errors[problem.plentiful(seed)].mean(),
        "test_log_likelihood": asked.log_density.mean(),
        "calibration_error": score_calibration(problem, seed, model, samples),
        **look_outside(problem, seed, model),
    }


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


def evaluate(problem: Problem, seed: int, model: BNNLVRegressor) -> Answers:
    """A model's split and log-densities."""
    split = split_jointly(model, problem.inside(seed))
    log_density = model.log_likelihood(*problem.test(seed))
    return Answers(split.total, split.epistemic, split.aleatoric, log_density)


def hold_against(asked: Answers, reference: Answers) -> dict[str, float]:
    """Compare epistemic parts and log-densities of the same test data."""
    close = compare_epistemic(asked, reference)
    close["epistemic_rank_correlation"] = close.pop("rank_correlation")
    below = reference.log_density - asked.log_density
    return close | {
        "reference_gap": below.mean(),
        "log_density_abs_difference": np.abs(below).mean(),
    }


def score_calibration(problem: Problem, seed: int, model: BNNLVRegressor, samples: int) -> float:
    """Calibration on test data."""
    x, y = problem.test(seed)
    return float(calibration_error(pit(model.sample(x, samples), y)))


def epistemic_deviation(model: BNNLVRegressor, x: np.ndarray) -> np.ndarray:
    """Deviation of ``E[y|x,W]`` over the weights, in deviations of the training outputs."""
    variance = np.maximum(model.decompose(x, by="variance").epistemic, 0.0)
    return np.sqrt(variance) / model.y_standardizer_.scale[0]


def look_outside(problem: Problem, seed: int, model: BNNLVRegressor) -> dict[str, float]:
    """How the epistemic deviation depends on the distance from the range of the data.

    ``growth``: its rank correlation with the distance; ``hiding_places``: the share of far points
    where it is below the ninth decile of the points inside; ``deviation_1``: its mean at distance
    1.
    """
    among = np.quantile(epistemic_deviation(model, problem.inside(seed)), 0.9)
    at = {d: epistemic_deviation(model, problem.outside(seed, d)) for d in DISTANCES}
    distances = np.repeat(DISTANCES, [len(values) for values in at.values()])
    far = np.concatenate([values for d, values in at.items() if d >= FAR])
    return {
        "outside/growth": spearmanr(distances, np.concatenate(list(at.values()))).statistic,
        "outside/hiding_places": np.mean(far <= among),
        "outside/deviation_1": at[1.0].mean(),
    }
