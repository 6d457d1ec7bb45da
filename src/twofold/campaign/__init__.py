"""Campaigns: ask where to measure, tell what was measured."""

from twofold.campaign.campaign import Campaign, Proposal, Refit, Status, refit
from twofold.campaign.recording import Result
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
