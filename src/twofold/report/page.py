"""Pages as self-contained HTML files, from templates with autoescaping. A page combines a template
(``templates/``), which has its text and HTML, with Python objects, which have its numbers and
figures. ``page.html`` has the macros for pictures, tables and choosers."""

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
# Sizes of a figure that spans the page, on wide and narrow screens.
WIDE, NARROW = (9.5, 4.2), (4.6, 4.2)
Rows = tuple[list[str], list[list[str]]]  # headings and rows of a table


class Picture(NamedTuple):
    """A figure or a function that draws it, its text description, and its caption; a ``wide`` one
    spans the page, and is drawn with ``size=`` for wide and for narrow screens."""

    figure: Callable[..., Figure] | Figure | Markup
    words: str
    caption: str = ""
    wide: bool = False


def make_picture(
    words: str, caption: str, *panel: Any, wide: bool = False, **labels: Any
) -> Picture:
    """A picture of ``draw_panel(*panel, **labels)``, drawn when its page is rendered."""
    return Picture(partial(draw_panel, *panel, **labels), words, caption, wide)


@dataclass(frozen=True)
class Chooser:
    """Blocks of a page, one for each combination of options; one block is shown at a time.

    ``selects`` maps the label of each control to its options; controls with one option are hidden.
    ``blocks`` maps combinations of options to content; for a missing combination, the nearest one
    is shown. Choosers of the same name must have the same blocks; they follow each other and any
    clickable element that refers to that name.
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
        return self.chosen or next(iter(self.blocks))

    def describe(self, choice: tuple[str, ...]) -> str:
        pairs = zip(self.selects, choice, strict=True)
        return ", ".join(f"{label}: {option}" for label, option in pairs)


class Document:
    """Ids of the sections and pictures of a page that is being rendered."""

    def __init__(self) -> None:
        self.sections: set[str] = set()
        self.pictures = 0

    def add_section(self, heading: str) -> str:
        """An id for the section with that heading, stable across renderings."""
        name = "-".join(re.findall(r"\w+", heading.lower())) or "section"
        while name in self.sections:
            name += "-more"
        self.sections.add(name)
        return name

    def draw(self, figure: Any, description: str, wide: bool = False) -> Markup:
        """The figure as SVG, twice if wide; SVG is returned unchanged."""
        if isinstance(figure, Markup):
            return figure
        looks: dict[str, Any] = {"": {}}
        if wide:
            looks = {"wide": {"size": WIDE}, "narrow": {"size": NARROW}}
        parts = []
        for look, size in looks.items():
            self.pictures += 1
            drawn = figure if isinstance(figure, Figure) else figure(**size)
            parts.append(to_svg(drawn, f"p{self.pictures}-", description, look))
        return Markup("".join(parts))


def write_page(path: str | Path, template: str, title: str, **content: Any) -> Path:
    """Write a page, in the house style."""
    with style():
        write_text(Path(path), render_page(template, title, **content))
    return Path(path)


def render_page(template: str, title: str, **content: Any) -> str:
    """A page as HTML; figures not drawn before get the current style."""
    content |= {"document": Document(), "title": title, "version": LIBRARY_VERSION}
    return _environment().get_template(template).render(content)


def format_number(value: float) -> str:
    """A number with four significant digits; whole numbers in full."""
    if not np.isfinite(value):
        return "—"
    whole = value == round(value) and abs(value) < 1e7
    return f"{value:.0f}" if whole else f"{value:.4g}"


def format_change(change: float) -> str:
    return f"{change:+.0%}".replace("-", "−")


def draw_bars(counts: np.ndarray, description: str) -> Markup:
    """A small bar chart for a table cell."""
    heights = 100 - 100 * counts / counts.max()
    path = "".join(f"V{height:.0f}h1" for height in heights)
    svg = '<svg class="bars" role="img" aria-label="{}" viewBox="0 0 {} 100" '
    svg += 'preserveAspectRatio="none"><path d="M0 100{}V100z"/></svg>'
    return Markup(svg).format(description, len(counts), path)


def find_text_columns(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> list[bool]:
    """Which columns of a table hold text, to be aligned to the left."""
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
