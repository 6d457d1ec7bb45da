"""The page of a campaign: whether to stop, where to measure, and the results."""

from collections.abc import Sequence
from itertools import combinations, product
from pathlib import Path
from typing import Any

import numpy as np

from twofold.campaign import Campaign, Proposal
from twofold.campaign.definition import NATS, PARTS
from twofold.campaign.inputs import Point
from twofold.report import campaign_figures as figures
from twofold.report.course import Course, make_course
from twofold.report.figures import MOST_VECTORS
from twofold.report.page import Chooser, Picture, Rows, format_number, make_picture, write_page

MOST_OPEN, MOST_SHOWN, MOST_SLICES, LATEST, MOST_REASONS = 50, 6, 12, 20, 3


def write_campaign_page(
    path: str | Path, campaign: Campaign | Course, title: str = "Measurement campaign"
) -> Path:
    """Write the page of a campaign, or of any course of measurements (then with its own title), one
    self-contained HTML file. Nothing is fitted and the campaign is not changed: the map is from the
    model that chose the last proposals."""
    course = campaign if isinstance(campaign, Course) else make_course(campaign, title)
    content = describe_figures(course) | describe_tables(course)
    return write_page(path, "campaign.html", course.title, **content)


def describe_figures(course: Course) -> dict[str, Any]:
    """The figures of the page; maps are computed here, but drawn when the page is rendered."""
    words = "Values of {} over time, highest and lowest so far."
    results = [
        make_picture(words.format(name), "", figures.plot_results, values, name)
        for name, values in zip(course.outputs, course.values.T, strict=True)
        if np.isfinite(values).any()
    ]
    begun = course.points or course.proposals
    at = figures.choose_anchor(course) if begun and course.model is not None else None
    return {
        "curves": _draw_curves(course.curve),
        "maps": _map_inputs(course, at) if begun else None,
        "slices": at and _slice(course, course.model, at),
        "results": results,
    }


def describe_tables(course: Course) -> dict[str, Any]:
    """The content of the page without figures."""
    return {
        "course": course,
        "reasons": _list_reasons(course),
        "tips": _list_tips(course),
        "proposals": _list_proposals(course, course.proposals[:MOST_OPEN]),
        "latest": _list_latest(course),
        "most_inputs": figures.MOST_INPUTS,
        "most_shown": MOST_SHOWN,
    }


def _draw_curves(curve: list[dict[str, float]]) -> list[Picture]:
    """The remaining uncertainty over the number of measurements, after at least two model fits."""
    if len(curve) < 2:
        return []
    share = f"{curve[-1]['epistemic_share']:.0%} at the end"
    left = f"Share of the predictive variance that more data could remove, {share}."
    nats = "Mean expected information gain of one more measurement, in nats."
    return [
        make_picture(left, "", figures.plot_remaining_share, curve, title=""),
        make_picture(nats, "", figures.plot_remaining_nats, curve),
    ]


def _map_inputs(course: Course, at: Point | None) -> Chooser:
    """A map for each pair of inputs (a line for a single one); other inputs are held at a point."""
    space, names = course.space, course.space.names[: figures.MOST_INPUTS]
    pairs: list[tuple[str, ...]] = list(combinations(names, 2)) or [(names[0],)]
    maps: Sequence[figures.Map | None] = [None] * len(pairs)
    if course.model is not None and at is not None:
        maps = figures.compute_maps(course.model, space, at, pairs)
    most = max((float(np.nan_to_num(one.nats).max()) for one in maps if one), default=0.0)
    blocks = {}
    for pair, known in zip(pairs, maps, strict=True):
        both = " and ".join(pair)
        words = f"Measured points and open proposals over {both}."
        panel: tuple[Any, ...] = figures.plot_line, course, known
        if len(pair) > 1:
            panel = figures.plot_map, course, pair, known, at, max(most, 1e-9)
        caption = _describe_anchor(course, pair, at)
        blocks[both,] = [make_picture(words, caption, *panel, wide=True)]
    return Chooser("maps", {"inputs": [option for (option,) in blocks]}, blocks)


def _slice(course: Course, model: Any, at: Point) -> Chooser:
    """Predictions along each input, with the others held at a point."""
    every = figures.compute_slices(model, course.space, at)
    names = list(every)[: max(1, MOST_SLICES // len(course.outputs))]
    blocks, alone = {}, len(course.space.names) == 1
    for name, (i, output) in product(names, enumerate(course.outputs[:MOST_SLICES])):
        words = f"Prediction of {output} along {name} with bands of 50 % and 90 %."
        panel = figures.plot_slice, course, name, every[name][:, i], i
        caption = _describe_anchor(course, (name,), at)
        blocks[name, output] = [make_picture(words, caption, *panel, wide=alone)]
    selects = {"input": names, "output": course.outputs[:MOST_SLICES]}
    return Chooser("slices", selects, blocks)


def _describe_anchor(course: Course, pair: tuple[str, ...], at: Point | None) -> str:
    """Caption with the values at which a map holds the other inputs."""
    hidden = [one for one in course.space.inputs if one.name not in pair]
    if at is None or not hidden:
        return ""
    held = ", ".join(f"{one.name} = {one.format(at[one.name])}" for one in hidden)
    where = "typical values" if course.next is None else f"as in proposal {course.next.number}"
    words = " or ".join(figures.list_hidden_words(course.space, pair))
    pale = words and f" Pale points have another {words}."
    blank = " Blank areas violate the constraints." if course.space.constraints else ""
    return f"At {held} ({where}).{blank}{pale if len(pair) > 1 else ''}"


def _list_proposals(course: Course, proposals: Sequence[Proposal]) -> Rows:
    """Points with expected information and uncertainty, or, without a model, with the reason."""
    is_split = any(proposal.split for proposal in proposals)
    parts = [(output, part) for output in course.outputs for part in PARTS[1:]] if is_split else []
    several = len(course.outputs) > 1
    headings = [f"{name}: {part} sd" if several else f"{part} sd" for name, part in parts]
    rows = []
    for one in proposals:
        known = one.split.get("standard_deviation", {})
        deviations = [known.get(part, {}).get(output, np.nan) for output, part in parts]
        nats = [format_number(one.split.get(NATS, np.nan))] if is_split else [one.reason]
        cells = *_list_values(course, one.point), *nats, *map(format_number, deviations)
        rows.append([str(one.number), *cells])
    why = "expected information (nats)" if is_split else "reason"
    return ["proposal", *course.space.names, why, *headings], rows


def _list_reasons(course: Course) -> list[tuple[str, ...]]:
    """Outputs with both standard deviations at the most informative proposal, if known."""
    known = course.next.split.get("standard_deviation") if course.next else None
    if not known:
        return []
    names = course.outputs[:MOST_REASONS]
    return [(name, *(format_number(known[part][name]) for part in PARTS[1:])) for name in names]


def _list_tips(course: Course) -> dict[str, str]:
    """Texts that the page shows beside points, by the names of the points in figures."""
    if len(course.points) > MOST_VECTORS:
        return {}
    titles = [f"proposal {one.number}: {one.reason}" for one in course.proposals]
    rows = [(title, one.point, ()) for title, one in zip(titles, course.proposals, strict=True)]
    measured = figures.name_measured(course)
    titles = [f"measurement {name[1:]}" for name in measured]
    rows += zip(titles, course.points, course.values, strict=True)
    texts = []
    for title, point, values in rows:
        cells = [*zip(course.space.names, _list_values(course, point), strict=True)]
        cells += zip(course.outputs, map(format_number, values), strict=False)
        texts.append("\n".join([title, *(f"{name}: {value}" for name, value in cells)]))
    return dict(zip([*figures.name_proposed(course), *measured], texts, strict=True))


def _list_latest(course: Course) -> Rows:
    """The latest measurements, newest first."""
    numbers = course.numbers or range(1, len(course.points) + 1)
    rows = [
        [str(number), *_list_values(course, point), *map(format_number, values)]
        for number, point, values in zip(numbers, course.points, course.values, strict=True)
    ]
    return ["measurement", *course.space.names, *course.outputs], rows[::-1][:LATEST]


def _list_values(course: Course, point: Point) -> list[str]:
    return [one.format(point[one.name]) for one in course.space.inputs]
