"""Posteriors by several methods, fitted once and shared by the experiments that look at them.

A job is one fit: a problem, a method and a seed. Fits are stored in a folder, so that the next
experiment, or the same one after it was killed, finds them there; those still missing are fitted
side by side as far as they can be.
"""

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from paper.fits import fit_whole
from paper.problems import PROBLEMS
from twofold import BNNLVRegressor, load

CHAINS = {
    "chains": 8,
    "warmup": 800,
    "annealing": 500,
    "samples": 125,
    "thin": 9,
    "nodes": 24,
    "leapfrog_steps": 96,
    "target_acceptance": 0.7,
}
SMOKE_CHAINS = {
    "chains": 2,
    "warmup": 4,
    "annealing": 2,
    "samples": 4,
    "nodes": 8,
    "leapfrog_steps": 4,
}
INTEGRATED = {"inference": "alpha", "inference_options": {"nodes": 24}}
METHODS: dict[str, dict[str, Any]] = {
    "alpha_1": {"inference": "alpha", "alpha": 1.0},
    "alpha_0.5": {"inference": "alpha", "alpha": 0.5},
    "vb": {"inference": "alpha", "alpha": 1e-6},
    "alpha_1_integrated": INTEGRATED | {"alpha": 1.0},
    "vb_integrated": INTEGRATED | {"alpha": 1e-6},
    "ensemble": {},
    "ensemble_planning": {"inference_options": {"start": 0.45}},
    "sghmc": {"inference": "sghmc"},
    "hmc": {"inference": "hmc"},
}
LABELS = {
    "alpha_1": "α = 1",
    "alpha_0.5": "α = 0.5",
    "vb": "variational Bayes",
    "alpha_1_integrated": "α = 1, z integrated",
    "vb_integrated": "VB, z integrated",
    "ensemble": "ensemble",
    "ensemble_planning": "ensemble, start 0.45",
    "sghmc": "SGHMC",
    "hmc": "HMC",
}
PAPER_METHODS = ("alpha_1", "alpha_0.5", "vb", "ensemble", "hmc")
DRAWS = {"n_weight_draws": 500, "n_latent_draws": 200}
SMOKE_DRAWS = {"n_weight_draws": 8, "n_latent_draws": 10}


class Job(NamedTuple):
    """One fit."""

    problem: str
    method: str
    seed: int

    def path(self, work: Path) -> Path:
        """Where the fitted model lies."""
        return work / f"{self.problem}-{self.method}-{self.seed}.model"


def settings(method: str, smoke: bool) -> dict[str, Any]:
    """Arguments of the estimator, but for the seed."""
    chosen = METHODS[method] | (SMOKE_DRAWS if smoke else DRAWS)
    if method == "hmc":
        return chosen | {"inference_options": SMOKE_CHAINS if smoke else CHAINS}
    return chosen | {"epochs": 3 if smoke else None}


def fitted(jobs: Sequence[Job], smoke: bool, work: Path) -> dict[Job, BNNLVRegressor]:
    """The jobs' models, loaded where they lie in ``work``, fitted and stored there otherwise."""
    groups: dict[str, list[Job]] = {}
    for job in jobs:
        if _stored(job, smoke, work) is None:
            groups.setdefault(_group(job, smoke), []).append(job)
    for group in groups.values():
        _fit(group, smoke, work)
    return {job: load(job.path(work)) for job in jobs}


def done_before(jobs: Sequence[Job], smoke: bool, work: Path) -> int:
    """How many of the jobs were done before."""
    return sum(_stored(job, smoke, work) is not None for job in jobs)


def _group(job: Job, smoke: bool) -> str:
    """Jobs of one group can be fitted side by side: they differ in α, seed and data only."""
    shared = {name: v for name, v in settings(job.method, smoke).items() if name != "alpha"}
    columns = PROBLEMS[job.problem].training(job.seed)[0].shape[1]
    return f"{columns} {sorted(shared.items(), key=str)}"


def _stored(job: Job, smoke: bool, work: Path) -> BNNLVRegressor | None:
    """The job's model, if there is one that was fitted with the same settings."""
    if not job.path(work).exists():
        return None
    model = load(job.path(work))
    used = model.get_params()
    wanted = BNNLVRegressor(**settings(job.method, smoke), random_state=job.seed).get_params()
    wanted |= {"checkpoint": used["checkpoint"]}
    return model if used == wanted else None


def _fit(jobs: Sequence[Job], smoke: bool, work: Path) -> None:
    made_of = repr([(job, settings(job.method, smoke)) for job in jobs])
    name = hashlib.sha256(made_of.encode()).hexdigest()[:12]
    checkpoint = work / f"{jobs[0].method}-{name}.checkpoint"
    estimators = [
        BNNLVRegressor(random_state=job.seed, checkpoint=checkpoint, **settings(job.method, smoke))
        for job in jobs
    ]
    data = [PROBLEMS[job.problem].training(job.seed) for job in jobs]
    fit_whole(estimators, [x for x, _ in data], [y for _, y in data])
    for job, estimator in zip(jobs, estimators, strict=True):
        estimator.save(job.path(work))
    checkpoint.unlink(missing_ok=True)
