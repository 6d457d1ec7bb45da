"""Hooks of mkdocs: copy results that pages link to, turn tutorials into pages, unescape bars.

Pages link to ``../results/NAME`` and ``tutorials/NAME.ipynb``, which is right where the repository
is browsed. The site gets a copy of each linked result in its own folder ``results/``, a page for
each notebook, and adapted links. A bar in code in a table needs a backslash, which GitHub
removes and mkdocs shows.
"""

import importlib.util
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[1]
NOTEBOOK = re.compile(r"(?<=\]\()((?:\.\./)*(?:tutorials/)?\w+)\.ipynb(?=[#)])")
CELL = re.compile(r"(?s)<td[^>]*>.*?</td>")
LINK = re.compile(r"(?<=\]\()(?P<target>(?:\.\./)+results/[^)#\s]+)")


def find_result(target: str, page: str) -> str | None:
    """The path of a linked result in the repository; None for other links."""
    path = posixpath.normpath(posixpath.join("docs", posixpath.dirname(page), target))
    return path if path.startswith("results/") else None


def adapt_links(markdown: str, page: str) -> str:
    """A page's text with the links of the site."""

    def replace(match: re.Match[str]) -> str:
        path = find_result(match["target"], page)
        return posixpath.relpath(path, posixpath.dirname(page) or ".") if path else match[0]

    return NOTEBOOK.sub(r"\1.md", LINK.sub(replace, markdown))


def find_results(markdown: str, page: str) -> set[str]:
    """All results that a page links to."""
    found = (find_result(match["target"], page) for match in LINK.finditer(markdown))
    return {path for path in found if path}


def load_notebooks() -> Any:
    """The module ``notebooks``; mkdocs does not import hooks as a package."""
    spec = importlib.util.spec_from_file_location("notebooks", ROOT / "scripts/notebooks.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add a page for each tutorial, and the results that pages link to."""
    found = load_notebooks()
    for name in found.NAMES:
        text, figures = found.to_page(found.read(name), name)
        for file, content in ((f"{name}.md", text), *figures.items()):
            files.append(File.generated(config, f"tutorials/{file}", content=content))
    wanted: set[str] = set()
    for file in files.documentation_pages():
        wanted |= find_results(file.content_string, file.src_uri)
    for path in sorted(wanted):
        files.append(File.generated(config, path, abs_src_path=str(ROOT / path)))
    return files


def on_page_markdown(markdown: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Adapt the links."""
    return adapt_links(markdown, page.file.src_uri)


def on_page_content(html: str, page: Page, config: MkDocsConfig, files: Files) -> str:
    """Remove the backslash of bars in tables."""
    return CELL.sub(lambda match: match[0].replace("\\|", "|"), html)
