"""From a plant's log to policies: read, check and embed a log, plan with a model, export."""

from twofold.plant.columns import Transform
from twofold.plant.cost import Cost, cost_of, keep_within, with_costs
from twofold.plant.embedding import Embedding, embed
from twofold.plant.forecast import Forecast, Trial, evaluate_policy, forecast
from twofold.plant.log import Episode, Log, LogError, LogWarning, Window, from_episodes
from twofold.plant.log_files import Finding, check, read_log, read_raw_log, write_log
from twofold.plant.minari import read_minari, write_minari
from twofold.plant.policy import LearnedPolicy, load_policy
from twofold.plant.project import Project, ProjectError, find_policies, open_project
from twofold.plant.quality import Doubt, PlanningWarning, Quality, assess
from twofold.plant.raw_log import RawLog
from twofold.plant.rollout import DynamicsModel, fit_regressors
from twofold.plant.search import PAPER, SearchSettings, best_of, search_policies
from twofold.plant.tuned import Tuning
from twofold.plant.tuning import TuningSettings

__all__ = [
    "PAPER", "Cost", "Doubt", "DynamicsModel", "Embedding", "Episode", "Finding", "Forecast",
    "LearnedPolicy", "Log", "LogError", "LogWarning", "PlanningWarning", "Project", "ProjectError",
    "Quality", "RawLog", "SearchSettings", "Transform", "Trial", "Tuning", "TuningSettings",
    "Window", "assess", "best_of", "check", "cost_of", "embed", "evaluate_policy", "find_policies",
    "fit_regressors", "forecast", "from_episodes", "keep_within", "load_policy", "open_project",
    "read_log", "read_minari", "read_raw_log", "search_policies", "with_costs", "write_log",
    "write_minari",
]  # fmt: skip
