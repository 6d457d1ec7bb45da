"""What mkdocs needs to know of files beside ``docs/``: those of ``results/`` that pages link to.

Pages link to ``../results/NAME``, which is right where the repository is browsed. The site gets a
copy of each file that is linked, in its own folder ``results/``, and links that lead there.
"""

import posixpath
import re
from pathlib import Path

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?<=\]\()(?P<target>(?:\.\./)+results/[^)#\s]+)")


def beyond(target: str, page: str) -> str | None:
    """The path below the repository that a page's link leads to, if it is one of a result."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    return path if path.startswith("results/") else None


def rewritten(markdown: str, page: str) -> str:
    """A page's text with links to results as they are on the site."""

    def replace(match: re.Match[str]) -> str:
        path = beyond(match["target"], page)
        return posixpath.relpath(path, posixpath.dirname(page) or ".") if path else match[0]

    return LINK.sub(replace, markdown)


def linked(markdown: str, page: str) -> set[str]:
    """The results that a page links to."""
    found = (beyond(match["target"], page) for match in LINK.finditer(markdown))
    return {path for path in found if path}


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the results that pages link to."""
    wanted: set[str] = set()
    for file in files.documentation_pages():
        wanted |= linked(file.content_string, file.src_uri)
    for path in sorted(wanted):
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Turn links to results into those of the site."""
    return rewritten(markdown, page.file.src_uri)
