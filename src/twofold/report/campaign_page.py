"""The page of a campaign or of active learning: go on or stop, where to measure, what came."""

from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from matplotlib.figure import Figure

from twofold.campaign import Campaign
from twofold.campaign.campaign import Proposal
from twofold.campaign.definition import PARTS
from twofold.campaign.space import Categorical, Point
from twofold.report import campaign as figures
from twofold.report import page, places, style
from twofold.report.course import Course, course_of_campaign
from twofold.report.model_data import shown
from twofold.report.places import Map

SIZE = (4.6, 3.4)
MAP_SIZE = (4.8, 3.9)
MOST_INPUTS = 6
NATS = "epistemic_nats", "mean epistemic part (nats)"
MOST_OPEN, LATEST = 50, 20
INTRODUCTION = (
    "What the measurements so far have taught, whether more of them pay, and where they would "
    "teach most. The epistemic part of the uncertainty (blue) is what more data would remove; the "
    "aleatoric part (orange) is noise, which stays."
)


def campaign_page(campaign: Campaign, title: str = "Measurement campaign") -> str:
    """The page of a campaign as it stands, as HTML that needs nothing else.

    Nothing is fitted or written: the map is that of the model which chose the last proposals.
    """
    return learning_page(course_of_campaign(campaign, title))


def learning_page(course: Course) -> str:
    """The page of any course of measurements, as HTML that needs nothing else."""
    return page.page(
        course.title,
        INTRODUCTION,
        [
            ("Go on or stop?", _signal(course)),
            ("What is left to learn", _curves(course)),
            ("Where to measure", _maps(course)),
            ("Open proposals", _proposals(course)),
            ("Results so far", _results(course)),
        ],
    )


def _signal(course: Course) -> str:
    last = course.curve[-1] if course.curve else None
    cards = {
        "measurements": f"{len(course.points):,}",
        "complete": f"{course.complete:,}",
        "open proposals": f"{len(course.proposals):,}",
        "left to learn": f"{last['epistemic_share']:.0%} of the variance" if last else "not known",
        "stopping signal": "consider stopping" if course.consider_stopping else "go on",
    }
    sentence = course.advice[:1].upper() + course.advice[1:] + "."
    return page.paragraphs(sentence) + page.numbers(cards)


def _curves(course: Course) -> str:
    if not course.curve:
        return page.paragraphs("There has been no model yet, and so there is no curve.")
    parts = [
        page.picture(
            _drawn(figures.remaining_share, course.curve),
            f"Share of the predictive variance that more data could remove, "
            f"{course.curve[-1]['epistemic_share']:.0%} at the end.",
        ),
        page.picture(
            _drawn(figures.over_measurements, course.curve, *NATS, style.EPISTEMIC),
            "Mean of what one more measurement would teach, in nats.",
        ),
    ]
    if course.score_name:
        score = "score", course.score_name
        figure = _drawn(figures.over_measurements, course.curve, *score, style.TOTAL)
        parts.append(page.picture(figure, f"{course.score_name} after each round."))
    return page.pictures(*parts)


def _maps(course: Course) -> str:
    names = course.space.names[:MOST_INPUTS]
    pairs: list[tuple[str, ...]] = list(combinations(names, 2)) or [(names[0],)]
    if not course.points and not course.proposals:
        return page.paragraphs("Nothing has been measured or proposed yet.")
    maps: list[Map | None] = [None] * len(pairs)
    at, words = None, ["There is no model at hand, so that the map shows the points alone."]
    if course.model is not None:
        at = places.typical(course)
        maps = list(places.epistemic_maps(course.model, course.space, at, pairs))
        words = [_about_maps(course)]
    if len(course.space.names) > MOST_INPUTS:
        words.append(f"The first {MOST_INPUTS} of {len(course.space.names)} inputs are shown.")
    most = max((float(one.nats.max()) for one in maps if one is not None), default=0.0)
    blocks: dict[tuple[str, ...], str] = {
        (" and ".join(pair),): _map_picture(course, pair, one, at, max(most, 1e-9))
        for pair, one in zip(pairs, maps, strict=True)
    }
    options = {"inputs": [" and ".join(pair) for pair in pairs]}
    return page.paragraphs(*words) + page.chooser("maps", options, blocks)


def _about_maps(course: Course) -> str:
    where = "Where the line is high" if len(course.space.names) == 1 else "Where the map is bright"
    words = f"{where}, a measurement would teach much."
    seen = int(course.curve[-1]["measurements"]) if course.curve else course.complete
    if course.complete > seen:
        words += (
            f" The model knows {seen} measurements; {course.complete - seen} have come since, and "
            "are counted in when the campaign is asked again."
        )
    return words


def _map_picture(
    course: Course, pair: tuple[str, ...], known: Map | None, at: Point | None, most: float
) -> str:
    what = f"Measured points and open proposals over {' and '.join(pair)}."
    if len(pair) == 1:
        return page.pictures(page.picture(_drawn(places.measured_line, course, known), what))
    figure = _drawn(places.measured_map, course, pair, known, at, most, size=MAP_SIZE)
    return page.pictures(page.picture(figure, what, _held(course, pair, at)))


def _held(course: Course, pair: tuple[str, ...], at: Point | None) -> str:
    """Where a map holds the inputs that it does not show."""
    hidden = [one for one in course.space.inputs if one.name not in pair]
    if at is None or not hidden:
        return ""
    values = ", ".join(f"{one.name} = {one.format(at[one.name])}" for one in hidden)
    origin = (
        f"as in proposal {course.proposals[0].number}" if course.proposals else "typical values"
    )
    words = [one.name for one in hidden if isinstance(one, Categorical)]
    pale = f" Pale points have another {' or '.join(words)}." if words else ""
    return f"Map at {values} ({origin}).{pale}"


def _proposals(course: Course) -> str:
    if not course.proposals:
        return page.paragraphs("No proposal is open.")
    explained = any(proposal.split for proposal in course.proposals)
    parts = [(output, part) for output in course.outputs for part in PARTS] if explained else []
    several = len(course.outputs) > 1
    headings = [f"{part} σ of {name}" if several else f"{part} σ" for name, part in parts]
    rows = [
        [
            str(proposal.number),
            *_place(course, proposal.point),
            *(_deviation(proposal, output, part) for output, part in parts),
            proposal.reason,
        ]
        for proposal in course.proposals[:MOST_OPEN]
    ]
    return page.table(["proposal", *course.space.names, *headings, "why"], rows) + _first_of(
        len(course.proposals), MOST_OPEN
    )


def _results(course: Course) -> str:
    if not course.points:
        return page.paragraphs("Nothing has been measured yet.")
    drawn = [
        page.picture(
            _drawn(figures.results, course.values[:, i], name),
            f"Values of {name} in the order they came, highest and lowest so far.",
        )
        for i, name in enumerate(course.outputs)
        if np.isfinite(course.values[:, i]).any()
    ]
    latest = list(range(len(course.points)))[::-1][:LATEST]
    rows = [
        [str(i + 1), *_place(course, course.points[i]), *map(shown, course.values[i])]
        for i in latest
    ]
    headings = ["measurement", *course.space.names, *course.outputs]
    caption = f"The latest {len(latest)} measurements, newest first"
    return page.pictures(*drawn) + page.table(headings, rows, caption)


def _place(course: Course, point: Point) -> list[str]:
    return [one.format(point[one.name]) for one in course.space.inputs]


def _deviation(proposal: Proposal, output: str, part: str) -> str:
    value = proposal.split.get("standard_deviation", {}).get(part, {}).get(output)
    return "—" if value is None else shown(float(value))


def _first_of(number: int, most: int) -> str:
    return page.paragraphs(f"The first {most} of {number}.") if number > most else ""


def _drawn(draw: Callable[..., Any], *arguments: Any, size: tuple[float, float] = SIZE) -> Figure:
    """A figure with one panel, in the house style."""
    with style.style():
        figure = Figure(figsize=size, layout="constrained")
        draw(figure.subplots(), *arguments)
    return figure
