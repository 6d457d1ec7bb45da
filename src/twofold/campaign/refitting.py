"""Update the models of several campaigns."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from twofold.campaign.campaign import Campaign
from twofold.campaign.inputs import require
from twofold.core.jobs import Job, run_jobs


class Refit(NamedTuple):
    """A campaign, the number of measurements of its current model, and the name of the model."""

    place: str
    measurements: int
    model: str


def refit(places: Sequence[Any], executor: str = "local") -> list[Refit]:
    """Fit the models of all campaigns whose measurements or settings have changed. A model is
    stored beside its campaign, where ``Campaign.ask`` uses it; up-to-date models are unchanged.
    ``executor`` is ``"local"`` or ``"ray"``, whose workers must see the same files."""
    # Workers may run in another folder, where relative paths are wrong.
    named = [(p, p if "://" in p else str(Path(p).resolve())) for p in map(str, places)]
    jobs = [Job(place, update_model, (where,), {}) for place, where in named]
    try:
        results = run_jobs(jobs, executor=executor)
    except KeyboardInterrupt as stopped:
        kept = "models that were fitted are kept, and the same call fits the others"
        raise KeyboardInterrupt(f"stopped by Ctrl-C; {kept}") from stopped
    return [Refit(str(place), *result) for place, result in zip(places, results, strict=True)]


def update_model(place: str) -> tuple[int, str]:
    """Update a model; returns its number of measurements and its name."""
    campaign = Campaign.open(place)
    kept = "models are stored beside campaigns in SQLite files"
    require(campaign.model_file, f"the model of {place} cannot be stored: {kept}")
    fit = campaign.fit_model()
    require(fit.stored, f"the model of {place} could not be written beside it")
    return campaign.status().complete, fit.name
