"""Fits of experiments: incomplete ones are discarded, and posteriors shared by several experiments
are fitted once.

A ``Fit`` is a problem, a method and a seed. Its model is stored in the work folder under a name
that ends in a fingerprint of its settings, where the next experiment, or the same one after a kill,
finds it; missing ones are fitted in parallel as far as possible.
"""

import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from paper.problems import PROBLEMS
from paper.reference.models import reference_models
from paper.reference.populations import Case, Size
from twofold import BNNLVRegressor, Decomposition, fit_many, load
from twofold.core.persistence import hash_identity
from twofold.estimators.training import remove_checkpoint, whole_fits
from twofold.inference.method import nest_options

CONTINUED = "the same command continues from here"

# The default posterior, and the one that it starts from.
DEFAULT_INFERENCE, QUICK_INFERENCE = "langevin", "ensemble"
# Their names in records.
JUDGED = {"twofold": DEFAULT_INFERENCE, "quick": QUICK_INFERENCE}
SMOKE_JUDGED: dict[str, dict[str, Any]] = {
    "twofold": dict(chains=2, samples=2, nodes=4, updates=20, steps=50),
    "quick": dict(members=2, nodes=4, updates=20),
}

STAGED = {"langevin": "twofold", "ensemble": "quick"}
INTEGRATED = {"inference": "alpha", "nodes": 24}
METHODS: dict[str, dict[str, Any]] = {
    "alpha_1": {"inference": "alpha", "alpha": 1.0},
    "alpha_0.5": {"inference": "alpha", "alpha": 0.5},
    "vb": {"inference": "alpha", "alpha": 1e-6},
    "alpha_1_integrated": INTEGRATED | {"alpha": 1.0},
    "vb_integrated": INTEGRATED | {"alpha": 1e-6},
    "langevin": {"inference": {"method": DEFAULT_INFERENCE}},
    "ensemble": {"inference": {"method": QUICK_INFERENCE}},
}
# Annealed populations (paper/reference), one per form of the model.
REFERENCES = ("hmc", "reference", "reference_plain")
POPULATIONS = {
    False: Size(),
    True: Size(populations=2, particles=4, steps=1, work=1, stages=1, kept=1, end=2),
}
LABELS = {
    "alpha_1": "α = 1",
    "alpha_0.5": "α = 0.5",
    "vb": "variational Bayes",
    "alpha_1_integrated": "α = 1, z integrated",
    "vb_integrated": "VB, z integrated",
    "langevin": "Langevin chains",
    "ensemble": "ensemble",
    "hmc": "reference of the paper's model",
    "reference": "reference of the default's model, with z",
    "reference_plain": "reference of the default's model, without z",
}
FITTED_METHODS = ("alpha_1", "alpha_0.5", "vb", "langevin", "ensemble")
PAPER_METHODS = (*FITTED_METHODS, "hmc")
DRAWS = {"n_weight_draws": 500, "n_latent_draws": 200}
SMOKE_DRAWS = {"n_weight_draws": 8, "n_latent_draws": 10}


class Fit(NamedTuple):
    """One fit."""

    problem: str
    method: str
    seed: int

    def path(self, smoke: bool, work: Path) -> Path:
        """Path of the fitted model."""
        made_of = hash_identity({"fit": self, "settings": settings(self.method, smoke)})
        return work / f"{self.problem}-{self.method}-{self.seed}-{made_of[:12]}.model"


def settings(method: str, smoke: bool) -> dict[str, Any]:
    """Arguments of the estimator, except for the seed; for a reference, the size of its run."""
    if method in REFERENCES:
        return POPULATIONS[smoke]._asdict()
    chosen = METHODS[method] | (SMOKE_DRAWS if smoke else DRAWS)
    return nest_options(chosen | length(method, smoke))


def length(method: str, smoke: bool) -> dict[str, Any]:
    """Options of a method that determine the length of its run (minimal in a smoke run)."""
    if method in STAGED:
        return SMOKE_JUDGED[STAGED[method]] if smoke else {}
    return {"epochs": 3 if smoke else None}


def found_methods(methods: Sequence[str], values: Mapping[str, float]) -> list[str]:
    """The methods for which a record has numbers."""
    parts = {part for name in values for part in name.split("/")}
    return [method for method in methods if method in parts]


def judged_settings(name: str, smoke: bool) -> dict[str, Any]:
    """Arguments of the estimator for a name of ``JUDGED``, all with the library's defaults."""
    chosen: dict[str, Any] = {"inference": {"method": JUDGED[name]}}
    if smoke:
        chosen["inference"] |= SMOKE_JUDGED[name]
        chosen |= SMOKE_DRAWS
    return chosen


def fit_seeds(
    settings: dict[str, Any],
    seeds: Sequence[int],
    data: Sequence[tuple[np.ndarray, np.ndarray]],
    checkpoint: Path | None = None,
    capacity: int | None = None,
) -> list[BNNLVRegressor]:
    """Fit a model per seed, with its own data, all in one program."""
    nested = nest_options(settings)
    models = [BNNLVRegressor(**nested, random_state=s, checkpoint=checkpoint) for s in seeds]
    fit_complete(models, data, capacity)
    return models


def fit_job(
    settings: dict[str, Any],
    seeds: Sequence[int],
    data: Sequence[tuple[np.ndarray, np.ndarray]],
    checkpoint: Path,
) -> list[BNNLVRegressor]:
    """``fit_seeds`` as a job; the checkpoint is deleted at the end, because the job's result is
    stored."""
    models = fit_seeds(settings, seeds, data, checkpoint)
    remove_checkpoint(checkpoint)
    return models


def fit_complete(
    models: Sequence[BNNLVRegressor],
    data: Sequence[tuple[np.ndarray, np.ndarray]],
    capacity: int | None = None,
) -> None:
    """``fit_many``, but a fit stopped by Ctrl-C ends the experiment, and incomplete fits are
    discarded.

    Their state is kept in the checkpoint, and the same command resumes from there.
    """
    with whole_fits(CONTINUED):
        fit_many(models, [x for x, _ in data], [y for _, y in data], capacity=capacity)


def load_or_fit(fits: Sequence[Fit], smoke: bool, work: Path) -> dict[Fit, BNNLVRegressor]:
    """The models of some fits, loaded from ``work`` if stored there."""
    groups: dict[str, list[Fit]] = {}
    for fit in fits:
        if not fit.path(smoke, work).exists():
            groups.setdefault(_group(fit, smoke), []).append(fit)
    for group in groups.values():
        (_anneal if group[0].method in REFERENCES else _fit)(group, smoke, work)
    return {fit: load(fit.path(smoke, work)) for fit in fits}


def count_stored(fits: Sequence[Fit], smoke: bool, work: Path) -> int:
    """Number of fits already stored."""
    return sum(fit.path(smoke, work).exists() for fit in fits)


def _group(fit: Fit, smoke: bool) -> str:
    """Group key of fits that run in parallel: they differ in α, seed and data only. All chains
    fitted together are as long as the longest, so those of different problems are fitted apart."""
    if fit.method in REFERENCES:
        return fit.method
    if fit.method in STAGED:
        return f"{fit.method} {fit.problem}"
    inference = settings(fit.method, smoke)["inference"]
    shared = {name: value for name, value in inference.items() if name != "alpha"}
    columns = PROBLEMS[fit.problem].training(fit.seed)[0].shape[1]
    return f"{columns} {sorted(shared.items(), key=str)}"


def _fit(fits: Sequence[Fit], smoke: bool, work: Path) -> None:
    made_of = hash_identity({"fits": [(fit, settings(fit.method, smoke)) for fit in fits]})
    checkpoint = work / f"{fits[0].method}-{made_of[:12]}.checkpoint"
    models = [
        BNNLVRegressor(random_state=fit.seed, checkpoint=checkpoint, **settings(fit.method, smoke))
        for fit in fits
    ]
    fit_complete(models, [PROBLEMS[fit.problem].training(fit.seed) for fit in fits])
    for fit, model in zip(fits, models, strict=True):
        model.save(fit.path(smoke, work))
    remove_checkpoint(checkpoint)


def _anneal(fits: Sequence[Fit], smoke: bool, work: Path) -> None:
    cases = [Case(fit.problem, fit.seed) for fit in fits]
    path = populations_path(fits, smoke, work)
    draws = SMOKE_DRAWS if smoke else DRAWS
    models = reference_models(fits[0].method, cases, POPULATIONS[smoke], path, draws)
    for fit, model in zip(fits, models, strict=True):
        model.save(fit.path(smoke, work))


def populations_path(fits: Sequence[Fit], smoke: bool, work: Path) -> Path:
    """Path of the populations of fits that run in parallel."""
    made_of = hash_identity({"fits": list(fits), "settings": POPULATIONS[smoke]})
    return work / f"{fits[0].method}-{made_of[:12]}.populations.npz"


def reference_of(method: str, model: BNNLVRegressor) -> str:
    """The reference of the same model as this one's."""
    if method not in STAGED:
        return "hmc"
    return "reference" if model.model_.latents else "reference_plain"


def split_jointly(model: BNNLVRegressor, x: np.ndarray) -> Decomposition:
    """The split by joint entropy of the outputs; by Monte Carlo if the noise is too narrow for a
    grid."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        split = model.decompose(x, joint=True)
        if not np.isfinite(split.total).all():
            split = model.decompose(x, joint=True, estimator="mixture")
    return split
