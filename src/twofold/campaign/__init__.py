"""Campaigns: ask where to measure, tell what was found."""

from twofold.campaign.campaign import Campaign, Proposal, Status
from twofold.campaign.errors import CampaignError
from twofold.campaign.inputs import Categorical, Continuous, Integer
from twofold.campaign.recording import Told
from twofold.campaign.refits import Refit, refit
from twofold.campaign.space import Space

__all__ = [
    "Campaign",
    "CampaignError",
    "Categorical",
    "Continuous",
    "Integer",
    "Proposal",
    "Refit",
    "Space",
    "Status",
    "Told",
    "refit",
]
