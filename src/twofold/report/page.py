"""A report as one HTML file that needs nothing else to be looked at.

The parts of a page are strings of HTML; what is passed to the functions here is plain text, which
they escape, unless it is ``Markup``.
"""

import html
import itertools
import re
from collections.abc import Mapping, Sequence
from importlib.resources import files
from typing import TypeVar

from matplotlib.figure import Figure

from twofold.core.persistence import LIBRARY_VERSION
from twofold.report.svg import clickable, has_clickable, joined, svg

__all__ = [
    "Markup",
    "choose_button",
    "chooser",
    "clickable",
    "numbers",
    "page",
    "paragraphs",
    "picture",
    "pictures",
    "svg",
    "table",
    "warning",
]  # fmt: skip

NO_NETWORK = (
    "default-src 'none'; style-src 'unsafe-inline'; script-src 'unsafe-inline'; img-src data:"
)
NUMBER = re.compile(r"\s*[-+−±]?[\d.,]+(e[-+]?\d+)?\s*%?\s*|\s*|–|—|nan|-?inf")
Choice = TypeVar("Choice", bound=tuple[str, ...])
PREFIX = "twofold-picture-"
_numbers = itertools.count()


class Markup(str):
    """Text that is HTML already."""


def picture(figure: Figure, description: str, caption: str = "") -> str:
    """A figure with its description in words, and perhaps a caption below it.

    Draw figures small, one panel each (about 4.6 × 3.4 inches), so that their text can be read on
    a phone. Every point is an element of the page: thin out scatter plots of more than some 2,000
    points, or draw them with ``rasterized=True``.
    """
    drawn = svg(figure, f"{PREFIX}{next(_numbers)}-")
    role = "group" if has_clickable(drawn) else "img"
    drawn = drawn.replace("<svg ", f'<svg role="{role}" aria-label="{_text(description)}" ', 1)
    below = f"<figcaption>{_text(caption)}</figcaption>" if caption else ""
    return f'<figure class="picture">{drawn}{below}</figure>'


def pictures(*parts: str) -> str:
    """Pictures, or other parts, side by side where there is room."""
    return f'<div class="pictures">{"".join(parts)}</div>'


def table(headings: Sequence[str], rows: Sequence[Sequence[str]], caption: str = "") -> str:
    """A table that scrolls sideways by itself; columns of numbers are set to the right."""
    columns = list(zip(*rows, strict=True)) or [()] * len(headings)
    sides = [
        "" if all(NUMBER.fullmatch(cell) for cell in column) else ' class="text"'
        for column in columns
    ]
    head = "".join(
        f'<th scope="col"{side}>{_text(heading)}</th>'
        for side, heading in zip(sides, headings, strict=True)
    )
    body = "".join(
        "<tr>"
        + "".join(f"<td{side}>{_text(cell)}</td>" for side, cell in zip(sides, row, strict=True))
        + "</tr>"
        for row in rows
    )
    title = f"<caption>{_text(caption)}</caption>" if caption else ""
    name = _text(caption or ", ".join(headings[:3]))
    return (
        f'<div class="scroll" role="region" aria-label="Table: {name}" tabindex="0"><table>{title}'
        f"<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def numbers(pairs: Mapping[str, str]) -> str:
    """Key figures, each on a card: what it is, and its value."""
    cards = "".join(
        f"<div><dt>{_text(name)}</dt><dd>{_text(value)}</dd></div>" for name, value in pairs.items()
    )
    return f'<dl class="numbers">{cards}</dl>'


def paragraphs(*sentences: str) -> str:
    """Each as a paragraph."""
    return "".join(f"<p>{_text(sentence)}</p>" for sentence in sentences)


def warning(text: str) -> str:
    """Something that a reader must not miss."""
    said = text[:1].upper() + text[1:]
    return f'<p class="warning" role="note"><strong>Warning.</strong> {_text(said)}</p>'


def chooser(
    name: str,
    selects: Mapping[str, Sequence[str]],
    blocks: Mapping[Choice, str],
    chosen: Choice | None = None,
    lead: str = "",
) -> str:
    """One block of HTML for each combination of options, of which the chosen one is shown.

    Parameters
    ----------
    name : str
        Of the chooser: what ``clickable`` and ``choose_button`` refer to. Choosers of one name,
        which must have the same blocks, follow each other.
    selects : mapping
        Options by the label of their control; those with one option get no control.
    blocks : mapping
        HTML by combinations of one option for each control. Some may be missing: then the nearest
        is shown.
    chosen : tuple, optional
        What is shown first; otherwise the first block.
    lead : str
        HTML that always stands above the controls.
    """
    chosen = chosen or next(iter(blocks))
    if chosen not in blocks:
        raise ValueError(f"expected one of {list(blocks)} to be chosen, got {chosen}")
    bar = "".join(_select(label, options) for label, options in selects.items())
    only = all(len(options) == 1 for options in selects.values())
    parts = "".join(_block(tuple(selects), choice, block) for choice, block in blocks.items())
    hidden = " hidden" if only else ""
    return (
        f'<div class="chooser" data-name="{_text(name)}" data-first="{_text(joined(chosen))}">'
        f'{lead}<div class="choices" role="group" aria-label="Choose"{hidden}>{bar}'
        f'<span class="unseen" role="status"></span></div>{parts}</div>'
    )


def choose_button(text: str, chooser: str, choice: Sequence[str]) -> Markup:
    """A button, for a table's cell or a sentence, that chooses a block."""
    return Markup(
        f'<button type="button" class="link" data-chooser="{_text(chooser)}" '
        f'data-choice="{_text(joined(choice))}">{_text(text)}</button>'
    )


def page(title: str, introduction: str, sections: Sequence[tuple[str, str]]) -> str:
    """The whole document; sections are headings, as text, and their HTML."""
    names = [f"section-{number}" for number in range(1, len(sections) + 1)]
    contents = "".join(
        f'<li><a href="#{name}">{_text(heading)}</a></li>'
        for name, (heading, _) in zip(names, sections, strict=True)
    )
    body = "".join(
        f'<section id="{name}" aria-labelledby="{name}-title"><h2 id="{name}-title">'
        f"{_text(heading)}</h2>{content}</section>\n"
        for name, (heading, content) in zip(names, sections, strict=True)
    )
    menu = f'<nav aria-label="Contents"><ul>{contents}</ul></nav>' if len(sections) > 1 else ""
    return _numbered(
        f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="{NO_NETWORK}">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>{_text(title)}</title>
<style>{_asset("page.css")}</style></head>
<body><a class="skip" href="#content">Skip to the content</a>
<header><h1>{_text(title)}</h1>
<button type="button" id="theme" hidden>Dark</button></header>
<main id="content" tabindex="-1"><div class="introduction">{paragraphs(introduction)}</div>
{menu}
{body}</main>
<footer>Made by twofold {_text(LIBRARY_VERSION)}. All of this page is in this file.</footer>
<script>{_asset("page.js")}</script></body></html>
"""
    )


def _numbered(document: str) -> str:
    """With pictures numbered as they follow each other, so that equal reports are equal files."""
    order: dict[str, int] = {}
    return re.sub(
        rf"{PREFIX}(\d+)-",
        lambda found: f"picture-{order.setdefault(found[1], len(order) + 1)}-",
        document,
    )


def _select(label: str, options: Sequence[str]) -> str:
    hidden = " hidden" if len(options) == 1 else ""
    listed = "".join(
        f'<option value="{_text(joined([option]))}">{_text(option)}</option>' for option in options
    )
    field = f'<select autocomplete="off">{listed}</select>'
    return f"<label{hidden}><span>{_text(label)}</span> {field}</label>"


def _block(labels: tuple[str, ...], choice: tuple[str, ...], content: str) -> str:
    pairs = zip(labels, choice, strict=True)
    name = ", ".join(f"{label}: {option}" for label, option in pairs)
    return (
        f'<div class="block" data-block="{_text(joined(choice))}">'
        f'<h3 class="choice">{_text(name)}</h3>{content}</div>'
    )


def _text(value: str) -> str:
    return value if isinstance(value, Markup) else html.escape(value)


def _asset(name: str) -> str:
    return (files("twofold.report") / "assets" / name).read_text(encoding="utf-8")
