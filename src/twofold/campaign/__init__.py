"""Campaigns: ask where to measure, tell what was found."""

from twofold.campaign.campaign import Campaign, Proposal, Status, Told
from twofold.campaign.errors import CampaignError
from twofold.campaign.space import Categorical, Continuous, Integer, Space

__all__ = [
    "Campaign",
    "CampaignError",
    "Categorical",
    "Continuous",
    "Integer",
    "Proposal",
    "Space",
    "Status",
    "Told",
]
