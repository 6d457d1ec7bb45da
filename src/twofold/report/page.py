"""Pages as single HTML files that need nothing else, from templates that escape what they show.

A page is a template (``templates/``) with its words and HTML, and Python objects with its numbers
and figures. ``page.html`` has what pages are made of: pictures, tables, cards, choosers.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from twofold.core.persistence import LIBRARY_VERSION, write_text
from twofold.report.figures import draw_panel, style
from twofold.report.svg import join_options, to_svg

NUMBER = re.compile(r"\s*[-+−±]?[\d.,]+(e[-+]?\d+)?\s*%?\s*|\s*|–|—|nan|-?inf")
# The headings and the rows of a table; a figure or what draws it, in words, and its caption.
Rows = tuple[list[str], list[list[str]]]
Picture = tuple[Callable[[], Figure] | Figure | Markup, str, str]


def make_picture(words: str, caption: str, *panel: Any, **labels: Any) -> Picture:
    """A panel, ``draw_panel(*panel, **labels)``, that is drawn when its page is rendered."""
    return partial(draw_panel, *panel, **labels), words, caption


@dataclass(frozen=True)
class Chooser:
    """Blocks of a page, one for each combination of options, of which one is shown at a time.

    ``selects`` has the options of each control by its label; controls with one option are hidden.
    ``blocks`` has the content by one option for each control; some combinations may be missing,
    then the nearest is shown. Choosers of one name must have the same blocks; they follow each
    other, and whatever can be clicked and refers to that name.
    """

    name: str
    selects: Mapping[str, Sequence[str]]
    blocks: Mapping[Any, Any]
    chosen: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if self.chosen is not None and self.chosen not in self.blocks:
            raise ValueError(f"expected a choice among {list(self.blocks)}, got {self.chosen}")

    @property
    def first(self) -> tuple[str, ...]:
        """The choice that is shown first."""
        return self.chosen or next(iter(self.blocks))

    def describe(self, choice: tuple[str, ...]) -> str:
        pairs = zip(self.selects, choice, strict=True)
        return ", ".join(f"{label}: {option}" for label, option in pairs)


class Document:
    """A page while it is rendered: its headings, and pictures with ids of their own."""

    def __init__(self) -> None:
        self.headings: list[str] = []
        self.pictures = 0

    def add_section(self, heading: str) -> str:
        """Add a heading to the table of contents; returns the id of its section."""
        self.headings.append(heading)
        return f"section-{len(self.headings)}"

    def draw(self, figure: Figure | Callable[[], Figure] | Markup, description: str) -> Markup:
        """The figure as SVG; what was drawn before stays as it is."""
        if isinstance(figure, Markup):
            return figure
        self.pictures += 1
        drawn = figure if isinstance(figure, Figure) else figure()
        return Markup(to_svg(drawn, f"picture-{self.pictures}-", description))


def write_page(path: str | Path, template: str, title: str, **content: Any) -> Path:
    """Write a page, in the house style."""
    with style():
        write_text(Path(path), render_page(template, title, **content))
    return Path(path)


def render_page(template: str, title: str, **content: Any) -> str:
    """A page as HTML; figures that are not drawn yet have the style of the moment."""
    content |= {"document": Document(), "title": title, "version": LIBRARY_VERSION}
    return _environment().get_template(template).render(content)


def format_number(value: float) -> str:
    """A number with four digits, or all those of a whole number."""
    if not np.isfinite(value):
        return "—"
    whole = value == round(value) and abs(value) < 1e7
    return f"{value:.0f}" if whole else f"{value:.4g}"


def find_text_columns(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[bool]:
    """Which columns of a table hold words, which are aligned to the left."""
    columns = list(zip(*rows, strict=True)) or [()] * len(headings)
    return [not all(NUMBER.fullmatch(str(cell)) for cell in column) for column in columns]


@cache
def _environment() -> Environment:
    loader = PackageLoader("twofold.report")
    trim: Any = {"trim_blocks": True, "lstrip_blocks": True}
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined, **trim)
    environment.filters |= {"number": format_number, "options": join_options}
    environment.globals |= {"find_text_columns": find_text_columns}
    return environment
