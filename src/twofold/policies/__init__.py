"""Policies for a user's system: from a log, a cost and a fitted model to files and a frontier."""

from twofold.policies.dynamics import DynamicsModel
from twofold.policies.learned import LearnedPolicy, load_policy
from twofold.policies.search import SearchSettings, search

__all__ = ["DynamicsModel", "LearnedPolicy", "SearchSettings", "load_policy", "search"]
