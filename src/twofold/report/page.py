"""A report as one HTML file that needs nothing else to be looked at."""

import html
import io
from collections.abc import Sequence

from matplotlib.figure import Figure

STYLE = """
:root { color-scheme: light dark; --text: #1b1b1b; --page: #fafafa; --line: #ccc; }
@media (prefers-color-scheme: dark) { :root { --text: #e8e8e8; --page: #161616; --line: #444; } }
body { font: 16px/1.5 system-ui, sans-serif; color: var(--text); background: var(--page);
       max-width: 60rem; margin: 2rem auto; padding: 0 1rem; }
figure { margin: 1.5rem 0; background: #fff; border-radius: 8px; padding: 0.5rem; }
figure svg { width: 100%; height: auto; }
table { border-collapse: collapse; display: block; overflow-x: auto; }
th, td { padding: 0.3rem 0.9rem; text-align: right; border-bottom: 1px solid var(--line); }
"""


def svg(figure: Figure) -> str:
    """The figure as an inline SVG element."""
    buffer = io.StringIO()
    figure.savefig(buffer, format="svg", bbox_inches="tight", metadata={"Date": None})
    text = buffer.getvalue()
    return text[text.index("<svg") :]


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """An HTML table."""
    head = "".join(f"<th scope='col'>{html.escape(text)}</th>" for text in headings)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(cell)}</td>" for cell in row) + "</tr>" for row in rows
    )
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


def page(title: str, introduction: str, figure: Figure, description: str, tables: str) -> str:
    """The whole document; ``description`` says in words what the figure shows."""
    return f"""<!doctype html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{html.escape(title)}</title><style>{STYLE}</style></head>
<body><main><h1>{html.escape(title)}</h1>
<p>{html.escape(introduction)}</p>
<figure role="img" aria-label="{html.escape(description)}">{svg(figure)}</figure>
{tables}
</main></body></html>
"""
