"""Systems to learn from: pure ``reset`` and ``step``, toy problems, and Gymnasium."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twofold.envs.catalogue import SYSTEMS, make
    from twofold.envs.system import Episodes, Policy, System, constant, episode, episodes, uniform
    from twofold.envs.toy import TOY_PROBLEMS, ToyProblem

__all__ = [
    "SYSTEMS",
    "TOY_PROBLEMS",
    "Episodes",
    "Policy",
    "System",
    "ToyProblem",
    "constant",
    "episode",
    "episodes",
    "make",
    "uniform",
]


def __getattr__(name: str) -> Any:
    # Imported when first asked for: the toy problems need no JAX.
    if name not in __all__:
        raise AttributeError(f"module 'twofold.envs' has no attribute {name!r}")
    home = "toy" if "toy" in name.lower() else "system"
    home = "catalogue" if name in ("SYSTEMS", "make") else home
    return getattr(import_module(f"twofold.envs.{home}"), name)
