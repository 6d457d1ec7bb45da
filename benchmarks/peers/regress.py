"""Fit one library to one table and write what it predicts; runs in that library's environment.

    python regress.py LIBRARY table.npz predictions.npz '{"option": value}'

The table holds X, y, X_test, y_test; the predictions are a mean for each test row and, where the
library has a predictive density, the density's deviation, its logarithm at y_test and draws of it,
all in units of y. A table with an entry ``parts`` also gets the two parts of the predictive entropy
of each test row, in nats, and the deviation of the members' means, of libraries that have several
members. Prints the seconds of fitting and
predicting as JSON, and those of the processor, all threads together.
"""

import json
import os
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np

DRAWS = 500
CORES = 2
# The settings that bde's own description shows for its airfoil example.
BDE = {
    "hidden_layers": [16, 16],
    "n_members": 8,
    "epochs": 200,
    "validation_split": 0.15,
    "lr": 1e-3,
    "weight_decay": 1e-4,
    "warmup_steps": 5000,
    "n_samples": 2000,
    "n_thinning": 2,
    "patience": 10,
}
VIRTUAL_ENSEMBLES = 10
PART_COMPONENTS, NODES = 200, 40

Predicted = dict[str, np.ndarray]
Predict = Callable[[np.ndarray, np.ndarray, bool], Predicted]
Fit = Callable[[np.ndarray, np.ndarray], Predict]


def split_mixture(means: np.ndarray, deviations: np.ndarray) -> Predicted:
    """Aleatoric entropy, the mean of those of the components, and epistemic, what that of the
    mixture has beyond it, with the deviation of the means; nothing of a single component.

    The mixture's entropy is the mean over its components of ``E[−log p(y)]``, by Gauss-Hermite
    quadrature around each, so that a component far from the others does no harm.
    """
    count = len(means)
    if count == 1:
        return {}
    chosen = np.linspace(0, count - 1, min(count, PART_COMPONENTS)).astype(int)
    means, deviations = means[chosen], deviations[chosen]
    nodes, weights = np.polynomial.hermite_e.hermegauss(NODES)
    weights = weights / weights.sum()
    total = np.empty(means.shape[1])
    for row in range(len(total)):
        centre, width = means[:, row], deviations[:, row]
        y = (centre[:, None] + width[:, None] * nodes)[..., None]
        terms = -0.5 * ((y - centre) / width) ** 2 - np.log(width)
        largest = terms.max(axis=-1)
        log_density = largest + np.log(np.mean(np.exp(terms - largest[..., None]), axis=-1))
        total[row] = 0.5 * np.log(2.0 * np.pi) - np.mean(log_density @ weights)
    aleatoric = np.mean(np.log(deviations), axis=0) + 0.5 * np.log(2.0 * np.pi * np.e)
    apart = means.std(axis=0)
    return {"epistemic": total - aleatoric, "aleatoric": aleatoric, "epistemic_deviation": apart}


def describe_mixture(
    means: np.ndarray, deviations: np.ndarray, y: np.ndarray, with_parts: bool
) -> Predicted:
    """Of equally probable normal distributions, ``[components, rows]``."""
    distance = (y - means) / deviations
    terms = -0.5 * distance**2 - np.log(deviations) - 0.5 * np.log(2.0 * np.pi)
    largest = terms.max(axis=0)
    rng = np.random.default_rng(0)
    chosen = rng.integers(0, len(means), (DRAWS, len(y)))
    rows = np.arange(len(y))
    draws = means[chosen, rows] + deviations[chosen, rows] * rng.standard_normal(chosen.shape)
    variance = np.mean(deviations**2, axis=0) + np.var(means, axis=0)
    return {
        "mean": means.mean(axis=0),
        "deviation": np.sqrt(variance),
        "log_density": largest + np.log(np.mean(np.exp(terms - largest), axis=0)),
        "draws": draws,
        **(split_mixture(means, deviations) if with_parts else {}),
    }


def fit_twofold(options: dict[str, Any]) -> Fit:
    """This library: ``{"inference": ...}``, or the default."""
    from twofold import BNNLVRegressor

    return lambda x, y: describe_fit(BNNLVRegressor(random_state=0, **options).fit(x, y))


def describe_fit(model: Any) -> Predict:
    """What a fitted model of this library predicts."""

    def predict(x: np.ndarray, y: np.ndarray, with_parts: bool) -> Predicted:
        mean, deviation = model.predict(x, return_std=True)
        predicted = {
            "mean": mean,
            "deviation": deviation,
            "log_density": model.log_likelihood(x, y),
            "draws": model.sample(x, DRAWS),
        }
        if not with_parts:
            return predicted
        parts, by_variance = model.decompose(x), model.decompose(x, by="variance")
        apart = np.sqrt(np.maximum(by_variance.epistemic, 0.0))
        split = {"epistemic": parts.epistemic, "aleatoric": parts.aleatoric}
        return predicted | split | {"epistemic_deviation": apart}

    return predict


def fit_bde(options: dict[str, Any]) -> Fit:
    """Microcanonical Langevin ensembles with Gaussian outputs, on standardised data."""
    os.environ["XLA_FLAGS"] = "--xla_force_host_platform_device_count=2"
    from bde import BdeRegressor
    from bde.loss import GaussianNLL

    def fit(x: np.ndarray, y: np.ndarray) -> Any:
        centre, scale = x.mean(axis=0), x.std(axis=0) + 1e-8
        level, spread = y.mean(), y.std()
        model = BdeRegressor(seed=0, loss=GaussianNLL(), **(BDE | options))
        model.fit(x=(x - centre) / scale, y=((y - level) / spread)[:, None])

        def predict(x: np.ndarray, y: np.ndarray, with_parts: bool) -> Predicted:
            raw = np.asarray(model.predict((x - centre) / scale, raw=True), np.float64)
            means, scales = raw.reshape(-1, len(x), 2).transpose(2, 0, 1)
            deviations = np.logaddexp(0.0, scales) + 1e-6  # as bde itself does
            return describe_mixture(level + spread * means, spread * deviations, y, with_parts)

        return predict

    return fit


def fit_catboost(options: dict[str, Any]) -> Fit:
    """Boosted trees with a normal output and Langevin boosting; virtual ensembles of one model."""
    from catboost import CatBoostRegressor

    def fit(x: np.ndarray, y: np.ndarray) -> Any:
        model = CatBoostRegressor(
            loss_function="RMSEWithUncertainty",
            posterior_sampling=True,
            random_seed=0,
            verbose=False,
            allow_writing_files=False,
            **options,
        ).fit(x, y)

        def predict(x: np.ndarray, y: np.ndarray, with_parts: bool) -> Predicted:
            found = model.virtual_ensembles_predict(
                x, prediction_type="VirtEnsembles", virtual_ensembles_count=VIRTUAL_ENSEMBLES
            )
            means, variances = np.asarray(found).transpose(2, 1, 0)
            mixture = describe_mixture(means, np.sqrt(variances), y, with_parts)
            # The whole model's mean is better than that of its virtual members.
            return mixture | {"mean": np.asarray(model.predict(x))[:, 0]}

        return predict

    return fit


def fit_ngboost(options: dict[str, Any]) -> Fit:
    """Natural-gradient boosting of a normal distribution."""
    from ngboost import NGBRegressor

    def fit(x: np.ndarray, y: np.ndarray) -> Any:
        model = NGBRegressor(random_state=0, verbose=False, **options).fit(x, y)

        def predict(x: np.ndarray, y: np.ndarray, with_parts: bool) -> Predicted:
            found = model.pred_dist(x).params
            return describe_mixture(found["loc"][None], found["scale"][None], y, with_parts)

        return predict

    return fit


def fit_gp(options: dict[str, Any]) -> Fit:
    """A Gaussian process with a length scale for each input."""
    from paper.gp import GPRegressor

    def fit(x: np.ndarray, y: np.ndarray) -> Any:
        model = GPRegressor(random_state=0, **options).fit(x, y)

        def predict(x: np.ndarray, y: np.ndarray, with_parts: bool) -> Predicted:
            mean, deviation = model.predict(x, return_std=True)
            return describe_mixture(mean[None], deviation[None], y, with_parts)

        return predict

    return fit


def fit_linear(options: dict[str, Any]) -> Fit:
    """Bayesian ridge regression."""
    from sklearn.linear_model import BayesianRidge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    def fit(x: np.ndarray, y: np.ndarray) -> Any:
        model = make_pipeline(StandardScaler(), BayesianRidge(**options)).fit(x, y)

        def predict(x: np.ndarray, y: np.ndarray, with_parts: bool) -> Predicted:
            mean, deviation = model.predict(x, return_std=True)
            return describe_mixture(mean[None], deviation[None], y, with_parts)

        return predict

    return fit


def fit_forest(options: dict[str, Any]) -> Fit:
    """A random forest; it predicts means only."""
    from sklearn.ensemble import RandomForestRegressor

    def fit(x: np.ndarray, y: np.ndarray) -> Any:
        model = RandomForestRegressor(n_estimators=500, n_jobs=2, random_state=0, **options)
        model.fit(x, y)
        return lambda x, y, with_parts: {"mean": model.predict(x)}

    return fit


ADAPTERS = {
    "twofold": fit_twofold,
    "bde": fit_bde,
    "catboost": fit_catboost,
    "ngboost": fit_ngboost,
    "gp": fit_gp,
    "linear": fit_linear,
    "forest": fit_forest,
}


def main() -> None:
    """Fit, predict, write."""
    library, table, target, options = sys.argv[1:]
    with np.load(table) as file:
        x, y, x_test, y_test = (file[name] for name in ("X", "y", "X_test", "y_test"))
        with_parts = "parts" in file
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:CORES])
    fit = ADAPTERS[library](json.loads(options))
    clock, begun = time.perf_counter(), time.process_time()
    predict = fit(x, y)
    fitted, used = time.perf_counter(), time.process_time() - begun
    predicted = predict(x_test, y_test, with_parts)
    done = time.perf_counter()
    np.savez(target, **predicted)
    seconds = {"seconds_fit": fitted - clock, "seconds_predict": done - fitted}
    print(json.dumps(seconds | {"cpu_seconds_fit": used}))


if __name__ == "__main__":
    main()
