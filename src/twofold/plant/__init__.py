"""From a plant's log to policies: read, check and embed a log, plan with a model, export."""

from twofold.plant.checks import check
from twofold.plant.cost import Cost, cost_of, with_costs
from twofold.plant.dynamics import DynamicsModel
from twofold.plant.embed import embed
from twofold.plant.embedding import Embedding
from twofold.plant.errors import LogError, LogWarning
from twofold.plant.finding import Finding
from twofold.plant.identity import ProjectError
from twofold.plant.log import Episode, Log, from_episodes
from twofold.plant.log_files import read_log, read_raw_log, write_log
from twofold.plant.minari import read_minari, write_minari
from twofold.plant.policy import LearnedPolicy, load_policy
from twofold.plant.project import Project, find_policies, open_project
from twofold.plant.quality import PlanningWarning, assess
from twofold.plant.raw_log import RawLog
from twofold.plant.search import PAPER, SearchSettings, best_of, search
from twofold.plant.transforms import Transform
from twofold.plant.windows import Window

__all__ = [
    "PAPER",
    "Cost",
    "DynamicsModel",
    "Embedding",
    "Episode",
    "Finding",
    "LearnedPolicy",
    "Log",
    "LogError",
    "LogWarning",
    "PlanningWarning",
    "Project",
    "ProjectError",
    "RawLog",
    "SearchSettings",
    "Transform",
    "Window",
    "assess",
    "best_of",
    "check",
    "cost_of",
    "embed",
    "find_policies",
    "from_episodes",
    "load_policy",
    "open_project",
    "read_log",
    "read_minari",
    "read_raw_log",
    "search",
    "with_costs",
    "write_log",
    "write_minari",
]
