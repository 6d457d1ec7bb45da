"""Reports: one self-contained HTML page for a model, a campaign or a search, and their figures."""

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
