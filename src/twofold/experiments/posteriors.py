"""Fitted models of the toy problems, shared by the experiments that look at them.

A job is one fit: a problem, a method and a seed. Fits are stored in a folder, so that the next
experiment, or the same one after it was killed, finds them there; those still missing are fitted
side by side.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from twofold import BNNLVRegressor, load
from twofold.envs.toy import TOY_PROBLEMS
from twofold.experiments.fits import fit_whole

CHAINS = {
    "chains": 8,
    "warmup": 1200,
    "samples": 125,
    "thin": 14,
    "nodes": 40,
    "leapfrog_steps": 128,
    "target_acceptance": 0.65,
}
SMOKE_CHAINS = {"chains": 2, "warmup": 4, "samples": 4, "nodes": 8, "leapfrog_steps": 4}
METHODS: dict[str, dict[str, Any]] = {
    "alpha_1": {"alpha": 1.0},
    "alpha_0.5": {"alpha": 0.5},
    "vb": {"alpha": 1e-6},
    "ensemble": {"inference": "ensemble"},
    "hmc": {"inference": "hmc"},
}
LABELS = {
    "alpha_1": "α = 1",
    "alpha_0.5": "α = 0.5",
    "vb": "variational Bayes",
    "ensemble": "ensemble",
    "hmc": "HMC",
}
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


def inference(method: str) -> str:
    """What fits it; methods with the same one can be fitted side by side."""
    return METHODS[method].get("inference", "alpha")


def settings(method: str, smoke: bool) -> dict[str, Any]:
    """Arguments of the estimator, but for the seed."""
    chosen = METHODS[method] | (SMOKE_DRAWS if smoke else DRAWS)
    if method == "hmc":
        return chosen | {"inference_options": SMOKE_CHAINS if smoke else CHAINS}
    return chosen | {"epochs": 3 if smoke else None}


def fitted(jobs: Sequence[Job], smoke: bool, work: Path) -> dict[Job, BNNLVRegressor]:
    """The jobs' models, loaded where they lie in ``work``, fitted and stored there otherwise."""
    missing = [job for job in jobs if _stored(job, smoke, work) is None]
    for kind in ("alpha", "ensemble", "hmc"):
        _fit(kind, [job for job in missing if inference(job.method) == kind], smoke, work)
    return {job: load(job.path(work)) for job in jobs}


def found(jobs: Sequence[Job], smoke: bool, work: Path) -> int:
    """How many of the jobs were done before."""
    return sum(_stored(job, smoke, work) is not None for job in jobs)


def _stored(job: Job, smoke: bool, work: Path) -> BNNLVRegressor | None:
    """The job's model, if there is one that was fitted with the same settings."""
    if not job.path(work).exists():
        return None
    model = load(job.path(work))
    used = model.get_params()
    wanted = settings(job.method, smoke) | {"random_state": job.seed}
    return model if all(used[name] == value for name, value in wanted.items()) else None


def _fit(kind: str, jobs: Sequence[Job], smoke: bool, work: Path) -> None:
    if not jobs:
        return
    checkpoint = work / f"{kind}-{len(jobs)}-{jobs[0].problem}-{jobs[-1].problem}.checkpoint"
    estimators = [
        BNNLVRegressor(random_state=job.seed, checkpoint=checkpoint, **settings(job.method, smoke))
        for job in jobs
    ]
    data = [TOY_PROBLEMS[job.problem].training_data(job.seed) for job in jobs]
    fit_whole(estimators, [x for x, _ in data], [y for _, y in data])
    for job, estimator in zip(jobs, estimators, strict=True):
        estimator.save(job.path(work))
    checkpoint.unlink(missing_ok=True)
