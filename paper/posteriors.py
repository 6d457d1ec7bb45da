"""The contest of posteriors: who splits as Hamiltonian Monte Carlo does, who as the truth does?

Five problems of known truth (``paper.problems``), several seeds, each with its own data that
all methods share. Inside the range of the data: the epistemic entropy against HMC's, the aleatoric
one against the truth where data are plentiful, test log-likelihood, calibration. Outside: whether
the epistemic part grows with the distance, and whether there is a place to hide, where it is no
larger than among the data.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from scipy.stats import spearmanr

from paper.alpha_vs_hmc import compare_epistemic, split_chains
from paper.fits import Fit, count_stored, load_or_fit, settings, split_jointly
from paper.problems import PROBLEMS, Problem
from paper.records import Context, Record
from twofold import BNNLVRegressor
from twofold.uncertainty.metrics import calibration_error, pit

SEEDS = {
    "heteroscedastic": [0, 1, 2, 3, 4],
    "bimodal": [0, 1, 2, 3, 4],
    "skewed": [0, 1, 2],
    "merging": [0, 1, 2],
    "wet_chicken": [0, 1, 2],
}
METHODS = ("alpha_1", "alpha_1_integrated", "vb_integrated", "langevin", "ensemble", "hmc")
DEFAULT = "langevin"
STAGED = ("langevin", "ensemble")
DISTANCES = (0.0, 0.25, 0.5, 1.0, 2.0)
FAR = 0.5
SAMPLES = 500
SMOKE_SAMPLES = 20


def compare_posteriors(context: Context, methods: Sequence[str] = METHODS) -> Record:
    """Fit methods on all problems and compare; with Hamiltonian Monte Carlo if it is among them."""
    seeds = {"merging": SEEDS["merging"][:2]} if context.smoke else SEEDS
    fits = [Fit(p, method, seed) for p in seeds for method in methods for seed in seeds[p]]
    chosen = {
        "methods": {method: settings(method, context.smoke) for method in methods},
        "default": DEFAULT,
        "distances": DISTANCES,
        "seeds": seeds,
        "fits_found_in_work_folder": count_stored(fits, context.smoke, context.work),
    }
    record = Record("posteriors", chosen, sorted({s for every in seeds.values() for s in every}))
    models = load_or_fit(fits, context.smoke, context.work)
    for name, own in seeds.items():
        samples = SMOKE_SAMPLES if context.smoke else SAMPLES
        measure(PROBLEMS[name], own, models, methods, samples, record)
    return record


def compare_staged(context: Context) -> Record:
    """The default and its quick start alone, which need no GPU."""
    return compare_posteriors(context, STAGED)


def measure(
    problem: Problem,
    seeds: list[int],
    models: Mapping[Fit, BNNLVRegressor],
    methods: Sequence[str],
    samples: int,
    record: Record,
) -> None:
    """Add one problem's metrics to the record, the default's under its second name too."""
    found: dict[str, list[dict[str, float]]] = {method: [] for method in methods}
    oracle = []
    for seed in seeds:
        own = {method: models[Fit(problem.name, method, seed)] for method in methods}
        oracle.append(problem.log_density(*problem.test(seed)).mean())
        for method, numbers in compare(problem, seed, own, samples).items():
            numbers["oracle_gap"] = oracle[-1] - numbers["test_log_likelihood"]
            found[method].append(numbers)
    record.add_mean(f"{problem.name}/oracle/test_log_likelihood", oracle)
    for method, every in {**found, "default": found[DEFAULT]}.items():
        record.add_means(f"{problem.name}/{method}", every)
    for seed in seeds if "hmc" in methods else []:
        report = models[Fit(problem.name, "hmc", seed)].diagnostics_
        if report.r_hat_max is not None:
            record.add(f"{problem.name}/hmc/r_hat_max/{seed}", report.r_hat_max)
            record.add(f"{problem.name}/hmc/ess_min/{seed}", report.ess_min)
        record.add(f"{problem.name}/hmc/divergences/{seed}", report.divergences)


def compare(
    problem: Problem, seed: int, models: Mapping[str, BNNLVRegressor], samples: int
) -> dict[str, dict[str, float]]:
    """The metrics of each method on one seed's data."""
    inside = problem.inside(seed)
    splits = {method: split_jointly(model, inside) for method, model in models.items()}
    plentiful, truth = problem.plentiful(seed), problem.entropy(inside)
    found = {}
    for method, model in models.items():
        close = {}
        if method == "hmc":
            close = compare_epistemic(
                *(split_jointly(half, inside) for half in split_chains(model))
            )
        elif "hmc" in models and method not in STAGED:  # whose model is another one
            close = compare_epistemic(splits[method], splits["hmc"])
        if close:
            close["epistemic_rank_correlation"] = close.pop("rank_correlation")
        errors = np.abs(splits[method].aleatoric - truth)
        found[method] = {
            **close,
            "mean_epistemic": splits[method].epistemic.mean(),
            "aleatoric_abs_error": errors[plentiful].mean(),
            **score_predictions(problem, seed, model, samples),
            **look_outside(problem, seed, model),
        }
    return found


def score_predictions(
    problem: Problem, seed: int, model: BNNLVRegressor, samples: int
) -> dict[str, float]:
    """Log-likelihood and calibration on test data."""
    x, y = problem.test(seed)
    return {
        "test_log_likelihood": model.log_likelihood(x, y).mean(),
        "calibration_error": calibration_error(pit(model.sample(x, samples), y)),
    }


def epistemic_deviation(model: BNNLVRegressor, x: np.ndarray) -> np.ndarray:
    """Deviation of ``E[y|x,W]`` over the weights, in deviations of the training outputs."""
    variance = np.maximum(model.decompose(x, by="variance").epistemic, 0.0)
    return np.sqrt(variance) / model.y_standardizer_.scale[0]


def look_outside(problem: Problem, seed: int, model: BNNLVRegressor) -> dict[str, float]:
    """How the epistemic deviation goes with the distance from the data's range.

    ``growth``: its rank correlation with the distance; ``hiding_places``: the share of far points
    where it is no larger than at nine tenths of the points inside; ``deviation_1``: its mean at
    distance 1.
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
