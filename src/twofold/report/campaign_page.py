"""The page of a campaign or of active learning: whether to stop, where to measure, the results."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure

from twofold.campaign import Campaign, Proposal
from twofold.campaign.definition import PARTS
from twofold.campaign.space import Point
from twofold.report import campaign_figures as figures
from twofold.report.course import Course, make_course
from twofold.report.figures import EPISTEMIC, TOTAL, draw_panel
from twofold.report.page import Chooser, Rows, format_number, write_page

MAP_SIZE = 4.8, 3.9
MOST_INPUTS, MOST_OPEN, LATEST = 6, 50, 20


def write_campaign_page(
    path: str | Path, campaign: Campaign | Course, title: str = "Measurement campaign"
) -> Path:
    """Write the page of a campaign, or of any course of measurements (then with its own title),
    one HTML file that needs nothing else.

    Nothing is fitted, and the campaign is not changed: the map is that of the model which chose
    the last proposals.
    """
    course = campaign if isinstance(campaign, Course) else make_course(campaign, title)
    every = zip(course.outputs, course.values.T, strict=True)
    content = {
        "course": course,
        "curves": _draw_curves(course),
        "maps": _map_inputs(course) if course.points or course.proposals else None,
        "proposals": _list_proposals(course, course.proposals[:MOST_OPEN]),
        "results": {name: values for name, values in every if np.isfinite(values).any()},
        "draw_results": partial(draw_panel, figures.plot_results),
        "latest": _list_latest(course),
        "most_inputs": MOST_INPUTS,
    }
    return write_page(path, "campaign.html", course.title, **content)


@dataclass(frozen=True)
class Panel:
    """A map over a pair of inputs, or a line along a single one, the others held at a point."""

    course: Course
    pair: tuple[str, ...]
    known: figures.Map | None
    at: Point | None
    most: float

    @property
    def hidden(self) -> list[str]:
        """Inputs that the map does not show, with the values they are held at."""
        hidden = [one for one in self.course.space.inputs if one.name not in self.pair]
        return [f"{one.name} = {one.format(self.at[one.name])}" for one in hidden if self.at]

    @property
    def hidden_words(self) -> list[str]:
        """Those of them whose values are words."""
        return figures.list_hidden_words(self.course.space, self.pair)

    def draw(self) -> Figure:
        if len(self.pair) == 1:
            return draw_panel(figures.plot_line, self.course, self.known)
        arguments = self.course, self.pair, self.known, self.at, self.most
        return draw_panel(figures.plot_map, *arguments, size=MAP_SIZE)


def _draw_curves(course: Course) -> list[tuple[Figure, str]]:
    """Over the number of measurements, with descriptions: what was left to learn, and the score."""
    if not course.curve:
        return []
    curve, name = course.curve, course.score_name
    share = f"{curve[-1]['epistemic_share']:.0%} at the end"
    left = draw_panel(figures.plot_remaining_share, curve)
    curves = [(left, f"Share of the predictive variance that more data could remove, {share}.")]
    nats = "Mean of what one more measurement would teach, in nats."
    for key, label, color, words in (
        ("epistemic_nats", "mean epistemic part (nats)", EPISTEMIC, nats),
        ("score", name, TOTAL, f"{name} after each round."),
    ):
        if label:
            figure = draw_panel(figures.plot_curve, curve, key, label, color)
            curves.append((figure, words))
    return curves


def _map_inputs(course: Course) -> Chooser:
    """A panel for each pair of inputs."""
    names = course.space.names[:MOST_INPUTS]
    pairs: list[tuple[str, ...]] = list(combinations(names, 2)) or [(names[0],)]
    maps: Sequence[figures.Map | None] = [None] * len(pairs)
    at = None
    if course.model is not None:
        at = figures.choose_anchor(course)
        maps = figures.compute_maps(course.model, course.space, at, pairs)
    most = max((float(one.nats.max()) for one in maps if one is not None), default=0.0)
    blocks = {
        (" and ".join(pair),): Panel(course, pair, known, at, max(most, 1e-9))
        for pair, known in zip(pairs, maps, strict=True)
    }
    return Chooser("maps", {"inputs": [option for (option,) in blocks]}, blocks)


def _list_proposals(course: Course, proposals: Sequence[Proposal]) -> Rows:
    is_split = any(proposal.split for proposal in proposals)
    parts = [(output, part) for output in course.outputs for part in PARTS] if is_split else []
    several = len(course.outputs) > 1
    headings = [f"{part} σ of {name}" if several else f"{part} σ" for name, part in parts]
    rows = []
    for one in proposals:
        known = one.split.get("standard_deviation", {})
        deviations = [known.get(part, {}).get(output, np.nan) for output, part in parts]
        cells = *_list_values(course, one.point), *map(format_number, deviations)
        rows.append([str(one.number), *cells, one.reason])
    return ["proposal", *course.space.names, *headings, "why"], rows


def _list_latest(course: Course) -> Rows:
    """The latest measurements, newest first."""
    rows = [
        [str(i + 1), *_list_values(course, course.points[i]), *map(format_number, course.values[i])]
        for i in range(len(course.points))[::-1][:LATEST]
    ]
    return ["measurement", *course.space.names, *course.outputs], rows


def _list_values(course: Course, point: Point) -> list[str]:
    return [one.format(point[one.name]) for one in course.space.inputs]
