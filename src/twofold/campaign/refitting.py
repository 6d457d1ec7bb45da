"""Models of several campaigns, brought up to date together."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from twofold.campaign.campaign import Campaign
from twofold.campaign.inputs import require
from twofold.core.jobs import Job, run_jobs


class Refit(NamedTuple):
    """A campaign whose model is up to date: how many measurements it knows, and which it is."""

    place: str
    measurements: int
    model: str


def refit(places: Sequence[Any], executor: str = "local") -> list[Refit]:
    """Fit the models of all campaigns whose measurements or settings are newer than their models.

    A model is kept in the file beside its campaign, where ``Campaign.ask`` finds it; one that is up
    to date is left as it is. ``executor`` is ``"local"`` or ``"ray"``; Ray's workers on other
    machines must see the same files.
    """
    # Workers may be in another folder, where a relative path leads nowhere.
    named = [(p, p if "://" in p else str(Path(p).resolve())) for p in map(str, places)]
    jobs = [Job(place, update_model, (where,), {}) for place, where in named]
    try:
        results = run_jobs(jobs, executor=executor)
    except KeyboardInterrupt as stopped:
        kept = "models that were fitted are kept, and the same call fits the others"
        raise KeyboardInterrupt(f"stopped by Ctrl-C; {kept}") from stopped
    return [Refit(str(place), *result) for place, result in zip(places, results, strict=True)]


def update_model(place: str) -> tuple[int, str]:
    """Bring one model up to date; returns its number of measurements and its name."""
    campaign = Campaign.open(place)
    kept = "models are stored beside campaigns in SQLite files"
    require(campaign.model_file, f"the model of {place} cannot be stored: {kept}")
    fit = campaign.fit_model()
    require(fit.stored, f"the model of {place} could not be written beside it")
    return campaign.status().complete, fit.name
