"""Logs of a system: read, check, mend, embed."""

from twofold.logs.checks import check
from twofold.logs.cost import Cost, cost_of, with_costs
from twofold.logs.embed import embed
from twofold.logs.embedding import Embedding
from twofold.logs.errors import LogError, LogWarning
from twofold.logs.finding import Finding
from twofold.logs.frame import Frame
from twofold.logs.log import Episode, Log, from_episodes
from twofold.logs.minari import read_minari, write_minari
from twofold.logs.table import read_frame, read_table, write_table
from twofold.logs.transforms import Transform
from twofold.logs.windows import Window

__all__ = [
    "Cost",
    "Embedding",
    "Episode",
    "Finding",
    "Frame",
    "Log",
    "LogError",
    "LogWarning",
    "Transform",
    "Window",
    "check",
    "cost_of",
    "embed",
    "from_episodes",
    "read_frame",
    "read_minari",
    "read_table",
    "with_costs",
    "write_minari",
    "write_table",
]
