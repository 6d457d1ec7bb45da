"""The reference as fitted models, with the diagnostics of its populations."""

import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from paper.problems import PROBLEMS
from paper.reference.populations import FORMS, Case, Run, Size, anneal, tabulate
from twofold import HMC, BNNLVRegressor, Ensemble, fit_many
from twofold.core.arrays import Array, Float
from twofold.inference.ensemble import Network
from twofold.inference.langevin import from_position
from twofold.model.spec import BNNLV, SampledPosterior
from twofold.uncertainty.chains import Diagnostics, diagnose, predictive_trace

DIAGNOSED_ROWS = 50


def reference_models(
    form: str,
    cases: Sequence[Case],
    size: Size,
    path: Path,
    options: dict[str, Any],
    seconds: float = np.inf,
) -> list[BNNLVRegressor]:
    """A model per case, with the draws of all its populations."""
    run = anneal(form, cases, size, path, seconds)
    models = empty_models(form, cases, options)
    draws = draws_of_cases(run, len(cases))
    for model, positions, x in zip(models, draws, tabulate(cases).x, strict=True):
        network = to_networks(FORMS[form], positions)
        model.out_of_bag_ = None  # of the estimator's earlier networks
        posterior = SampledPosterior.of_chains(*network)
        model.posterior_ = jax.tree.map(np.asarray, posterior)
        model.diagnostics_ = compare_populations(FORMS[form], network, np.asarray(x))
    return models


def empty_models(form: str, cases: Sequence[Case], options: dict[str, Any]) -> list[BNNLVRegressor]:
    """Estimators of this form after a minimal fit, which sets up data and shapes."""
    latents = FORMS[form].latents
    quick: Any = Ensemble(members=2, updates=1, nodes=FORMS[form].latent_levels or 1)
    if form == "hmc":
        quick = HMC(chains=2, warmup=1, samples=1, leapfrog_steps=1, nodes=1)
    models = [
        BNNLVRegressor(inference=quick, latent_dim=latents, random_state=case.seed, **options)
        for case in cases
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        data = [PROBLEMS[case.problem].training(case.seed) for case in cases]
        fit_many(models, [x for x, _ in data], [y for _, y in data])
    assert all(model.model_ == FORMS[form] for model in models)
    return models


def draws_of_cases(run: Run, cases: int) -> list[Float[np.ndarray, "C R d"]]:
    """The kept positions of each case, with an axis for populations. Draws are ordered by particle,
    so the halves of a population have no particle in common."""
    kept = np.stack(run.kept or [np.asarray(run.state.positions)]).astype(np.float32)
    ordered = np.moveaxis(kept, 0, 2)  # populations, particles, stages, dimensions
    return [part.reshape(len(part), -1, part.shape[-1]) for part in np.split(ordered, cases)]


def to_networks(model: BNNLV, positions: Float[np.ndarray, "C R d"]) -> Network:
    """The network draws at some positions."""
    networks: Network = jax.vmap(jax.vmap(lambda one: from_position(model, one)))(
        jnp.asarray(positions)
    )
    return networks


def compare_populations(model: BNNLV, networks: Network, x: Float[np.ndarray, "N"]) -> Diagnostics:
    """R-hat and effective sample size of predictions; each population counts as a chain."""
    return diagnose(trace(model, networks, x), 0)


def trace(
    model: BNNLV, networks: Network, x: Float[np.ndarray, "N"]
) -> Float[Array, "C R quantities"]:
    """Predictions along each population, at evenly spaced rows."""
    places = np.linspace(0, len(x) - 1, DIAGNOSED_ROWS).astype(int)
    rows = np.sort(x)[places][:, None]
    predictions: Array = predictive_trace(model, *networks, jnp.asarray(rows))
    return predictions
