"""Campaigns: ask where to measure, tell the results."""

from twofold.campaign.campaign import Campaign, Status
from twofold.campaign.choosing import Proposal
from twofold.campaign.inputs import CampaignError, Categorical, Continuous, Integer
from twofold.campaign.recording import Result
from twofold.campaign.refitting import Refit, refit
from twofold.campaign.space import Space

__all__ = [
    "Campaign", "CampaignError", "Categorical", "Continuous", "Integer", "Proposal", "Refit",
    "Result", "Space", "Status", "refit",
]  # fmt: skip
