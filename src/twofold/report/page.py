"""Pages as self-contained HTML files, from templates with autoescaping.

A page is a template (``templates/``) with its words and HTML, and Python objects with its numbers
and figures. ``page.html`` has what pages are made of: pictures, tables, cards, choosers.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from matplotlib.figure import Figure

from twofold.core.persistence import LIBRARY_VERSION, write_text
from twofold.report.figures import draw_panel, style
from twofold.report.svg import join_options, to_svg

NUMBER = re.compile(r"\s*[-+−±]?[\d.,]+(e[-+]?\d+)?\s*%?\s*|\s*|–|—|nan|-?inf")
# Sizes of a figure across the page: on a desk, and on a phone.
WIDE, NARROW = (9.5, 4.2), (4.6, 4.2)
# The headings and the rows of a table.
Rows = tuple[list[str], list[list[str]]]


class Picture(NamedTuple):
    """A figure or a function that draws it, its description as text, and its caption; a ``wide``
    one spans the page, and is drawn with ``size=`` for a desk and for a phone."""

    figure: Callable[..., Figure] | Figure | Markup
    words: str
    caption: str = ""
    wide: bool = False


def make_picture(
    words: str, caption: str, *panel: Any, wide: bool = False, **labels: Any
) -> Picture:
    """A panel, ``draw_panel(*panel, **labels)``, that is drawn when its page is rendered."""
    return Picture(partial(draw_panel, *panel, **labels), words, caption, wide)


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
    """A page while it is rendered: ids of its sections and of its pictures."""

    def __init__(self) -> None:
        self.sections: set[str] = set()
        self.pictures = 0

    def add_section(self, heading: str) -> str:
        """An id for the section with that heading, the same on every rendering."""
        name = "-".join(re.findall(r"\w+", heading.lower())) or "section"
        while name in self.sections:
            name += "-more"
        self.sections.add(name)
        return name

    def draw(self, figure: Any, description: str, wide: bool = False) -> Markup:
        """The figure as SVG, a wide one twice; what was drawn before stays as it is."""
        if isinstance(figure, Markup):
            return figure
        if not wide:
            return self._draw(figure if isinstance(figure, Figure) else figure(), description)
        both = (("wide", WIDE), ("narrow", NARROW))
        return Markup("").join(self._draw(figure(size=s), description, look) for look, s in both)

    def _draw(self, figure: Figure, description: str, look: str = "") -> Markup:
        self.pictures += 1
        return Markup(to_svg(figure, f"p{self.pictures}-", description, look))


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
    """A number with four significant digits; whole numbers in full."""
    if not np.isfinite(value):
        return "—"
    whole = value == round(value) and abs(value) < 1e7
    return f"{value:.0f}" if whole else f"{value:.4g}"


def format_change(change: float) -> str:
    """A share with its sign."""
    return f"{change:+.0%}".replace("-", "−")


def draw_bars(counts: np.ndarray, description: str) -> Markup:
    """Small bars for a cell of a table."""
    heights = 100 - 100 * counts / counts.max()
    path = "".join(f"V{height:.0f}h1" for height in heights)
    svg = '<svg class="bars" role="img" aria-label="{}" viewBox="0 0 {} 100" '
    svg += 'preserveAspectRatio="none"><path d="M0 100{}V100z"/></svg>'
    return Markup(svg).format(description, len(counts), path)


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
