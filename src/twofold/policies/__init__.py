"""Policies for a user's system: from a log, a cost and a fitted model to files and a frontier."""

from twofold.policies.dynamics import DynamicsModel
from twofold.policies.identity import ProjectError
from twofold.policies.learned import LearnedPolicy, load_policy
from twofold.policies.project import Project, find_policies, open_project
from twofold.policies.quality import PlanningWarning, assess
from twofold.policies.search import PAPER, SearchSettings, best_of, search

__all__ = [
    "PAPER",
    "DynamicsModel",
    "LearnedPolicy",
    "PlanningWarning",
    "Project",
    "ProjectError",
    "SearchSettings",
    "assess",
    "best_of",
    "find_policies",
    "load_policy",
    "open_project",
    "search",
]
