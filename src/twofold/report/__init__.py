"""Reports: one self-contained HTML page for a model, a campaign or a search, and their figures."""

from importlib import import_module
from typing import Any

# Imported when they are first asked for: a page of policies needs no database.
_HOMES = {
    "calibration": ("Scores", "draw_calibration"),
    "campaign_figures": ("plot_remaining_share",),
    "campaign_page": ("write_campaign_page",),
    "course": ("Course", "make_course"),
    "figures": ("plot_choices", "plot_entropies", "plot_predictive_bands"),
    "model_page": ("write_model_page",),
    "plots": (
        "plot_calibration",
        "plot_frontier",
        "plot_measured",
        "plot_prediction",
        "plot_split",
    ),
    "policy_page": ("write_policy_page", "write_policy_report"),
}
__all__ = [name for names in _HOMES.values() for name in names]


def __getattr__(name: str) -> Any:
    for module, names in _HOMES.items():
        if name in names:
            return getattr(import_module(f"twofold.report.{module}"), name)
    raise AttributeError(f"module 'twofold.report' has no attribute {name!r}")
