"""The live page of a campaign: ``campaign_page`` with forms, for a server. Figures take seconds and
are drawn separately; the tables are always up to date."""

from dataclasses import replace
from typing import Any, NamedTuple

from twofold.campaign import Campaign
from twofold.campaign.campaign import Revision
from twofold.report.campaign_page import describe_figures, describe_tables
from twofold.report.course import make_course
from twofold.report.figures import style
from twofold.report.page import Chooser, Document, render_page

# Most measurements in the table (figures show all); suggested number of first points.
MOST_ROWS, FIRST_ASKED = 200, 3


class Figures(NamedTuple):
    """Drawn figures, and the revision of the campaign that they show."""

    revision: Revision
    content: dict[str, Any]


def draw_figures(campaign: Campaign) -> Figures:
    """Draw all figures of the page, without fitting anything."""
    revision, document = campaign.revision(), Document()

    def draw(content: Any) -> Any:
        if isinstance(content, Chooser):
            blocks = {choice: draw(block) for choice, block in content.blocks.items()}
            return replace(content, blocks=blocks)
        return [
            one._replace(figure=document.draw(one.figure, one.words, one.wide)) for one in content
        ]

    with style():
        content = describe_figures(make_course(campaign))
        return Figures(revision, {name: part and draw(part) for name, part in content.items()})


def render_live_page(campaign: Campaign, title: str, figures: Figures | None, nonce: str) -> str:
    """The page as HTML, with the available figures; its own scripts have the ``nonce``."""
    # Before the content is read: a key that is too old only causes another refresh.
    shown = make_content_key(campaign, figures)
    course, status = make_course(campaign, title), campaign.status()
    content = describe_tables(course) | dict.fromkeys(("curves", "maps", "slices", "results"))
    content |= {} if figures is None else figures.content
    return render_page(
        "live.html", title, **content, rows=campaign.export()[::-1][:MOST_ROWS], nonce=nonce,
        missing=status.missing, suggested=status.missing or FIRST_ASKED, shown=shown,
        drawn=figures is not None,
    )  # fmt: skip


def make_content_key(campaign: Campaign, figures: Figures | None) -> str:
    """A key of the displayed content; the page is out of date when it has changed."""
    return f"{[*campaign.revision()]} {[*figures.revision] if figures else ''}"
