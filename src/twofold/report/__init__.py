"""Reports: one self-contained HTML page for a model, a campaign or a search, and their figures."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from twofold.report.calibration import Scores, draw_calibration
    from twofold.report.campaign_figures import plot_remaining_share
    from twofold.report.campaign_page import write_campaign_page
    from twofold.report.course import Course, make_course, make_course_of_rounds
    from twofold.report.figures import plot_choices, plot_entropies, plot_predictive_bands
    from twofold.report.model_page import write_model_page
    from twofold.report.policy_page import write_policy_page, write_policy_report

__all__ = [
    "Course",
    "Scores",
    "draw_calibration",
    "make_course",
    "make_course_of_rounds",
    "plot_choices",
    "plot_entropies",
    "plot_predictive_bands",
    "plot_remaining_share",
    "write_campaign_page",
    "write_model_page",
    "write_policy_page",
    "write_policy_report",
]

# Imported when they are first asked for: a page of policies needs no database.
_HOMES = {
    "Course": "course",
    "Scores": "calibration",
    "draw_calibration": "calibration",
    "make_course": "course",
    "make_course_of_rounds": "course",
    "plot_choices": "figures",
    "plot_entropies": "figures",
    "plot_predictive_bands": "figures",
    "plot_remaining_share": "campaign_figures",
    "write_campaign_page": "campaign_page",
    "write_model_page": "model_page",
    "write_policy_page": "policy_page",
    "write_policy_report": "policy_page",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'twofold.report' has no attribute {name!r}")
    globals()[name] = value = getattr(import_module(f"twofold.report.{_HOMES[name]}"), name)
    return value
