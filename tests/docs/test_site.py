"""The documentation site: links to results, every page in the navigation, nothing from outside."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mkdocs", reason="mkdocs is not installed (extra docs)")
ROOT = Path(__file__).parents[2]
PAGES = [*(ROOT / "docs").glob("**/*.md"), *(ROOT / "docs").glob("**/*.ipynb")]


@pytest.fixture
def hooks():
    spec = importlib.util.spec_from_file_location("hooks", ROOT / "scripts/docs_hooks.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_links_to_results_are_those_of_the_site(hooks):
    text = "![a](../results/a.png) and [b](../results/b.json), [c](c.md), ../results/d.png"
    expected = "![a](results/a.png) and [b](results/b.json), [c](c.md), ../results/d.png"
    assert hooks.adapt_links(text, "page.md") == expected
    assert hooks.find_results(text, "page.md") == {"results/a.png", "results/b.json"}
    link = "[a](tutorials/measure.ipynb) [b](../tutorials/split.ipynb#x)"
    assert (
        hooks.adapt_links(link, "a.md") == "[a](tutorials/measure.md) [b](../tutorials/split.md#x)"
    )


def test_a_page_in_a_folder_reaches_them_too(hooks):
    text = "![a](../../results/a.png)"
    assert hooks.adapt_links(text, "concepts/page.md") == "![a](../results/a.png)"
    assert hooks.find_results(text, "concepts/page.md") == {"results/a.png"}
    assert hooks.find_results("![a](../results/a.png)", "concepts/page.md") == set()


def test_bars_in_tables_lose_their_backslash(hooks):
    html = r"<td><code>p(y \| x)</code></td><code>a \| b</code>"
    expected = r"<td><code>p(y | x)</code></td><code>a \| b</code>"
    assert hooks.on_page_content(html, None, None, None) == expected


def test_every_page_is_in_the_navigation():
    navigation = (ROOT / "mkdocs.yml").read_text().partition("\nnav:")[2]
    named = set(re.findall(r"[\w/]+\.md", navigation))
    pages = (page.relative_to(ROOT / "docs").with_suffix(".md") for page in PAGES)
    assert named == set(map(str, pages))


@pytest.mark.slow
def test_the_site_is_built_without_warnings_and_needs_nothing_from_outside(tmp_path):
    pytest.importorskip("material", reason="mkdocs-material is not installed (extra docs)")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "WARNING" not in done.stderr
    loaded = re.compile(
        r"<(?:script|img|iframe)[^>]*\ssrc=[\"']?https?:|<link[^>]*href=[\"']?https?:"
    )
    for page in tmp_path.glob("**/*.html"):
        assert not loaded.search(page.read_text()), f"{page.name} loads something from outside"
