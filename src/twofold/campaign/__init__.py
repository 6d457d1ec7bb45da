"""Campaigns: ask where to measure, tell what was measured."""

from twofold.campaign.campaign import Campaign, Proposal, Status
from twofold.campaign.recording import Result
from twofold.campaign.refits import Refit, refit
from twofold.campaign.space import CampaignError, Categorical, Continuous, Integer, Space

__all__ = [
    "Campaign",
    "CampaignError",
    "Categorical",
    "Continuous",
    "Integer",
    "Proposal",
    "Refit",
    "Result",
    "Space",
    "Status",
    "refit",
]
