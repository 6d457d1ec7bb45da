"""Reports: one self-contained HTML page for a model, a campaign or a policy search, and figures."""

from importlib import import_module
from typing import Any

# Imported on first use: the page of a policy search needs no database.
_HOMES = {
    "calibration": "Scores draw_calibration",
    "campaign_figures": "plot_remaining_share",
    "campaign_page": "write_campaign_page",
    "course": "Course make_course",
    "figures": "plot_choices plot_entropies plot_predictive_bands",
    "model_page": "write_model_page",
    "plots": "plot_calibration plot_frontier plot_measured plot_prediction plot_split",
    "policy_page": "write_policy_page write_policy_report",
}
_MODULES = {name: module for module, names in _HOMES.items() for name in names.split()}
__all__ = list(_MODULES)


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'twofold.report' has no attribute {name!r}")
    return getattr(import_module(f"twofold.report.{_MODULES[name]}"), name)
