"""The checker of pages: links, headings and the number of words."""

import pytest

from scripts import check_docs
from scripts.check_docs import (
    MOST_WORDS,
    OTHER_PAGES,
    PAGES,
    broken_links,
    prose_words,
    read_page,
)


@pytest.mark.parametrize("page", [*PAGES, *OTHER_PAGES], ids=lambda page: page.stem)
def test_links_of_every_page_lead_somewhere(page):
    assert broken_links(page) == []


def test_broken_links_are_found(tmp_path):
    (tmp_path / "other.md").write_text("# One heading: α & β\n\n```sh\n# no heading\n```\n")
    page = tmp_path / "page.md"
    good = "[a](other.md) [b](other.md#one-heading-α--β) [c](https://example.org) [d](#here)"
    page.write_text(f"# Here\n{good} `[no](link.md)`\n[e](none.md) [f](other.md#no-heading)")
    assert broken_links(page) == ["none.md", "other.md#no-heading"]


def test_words_are_those_of_prose():
    text = """# Three words here

Two more: [of which](one.md) – and `inline code`.

| a | table |
| --- | --- |
<!-- table: b -->
generated text
<!-- end table -->
```python
x = 1
```
"""
    assert prose_words(text) == 10


def test_the_documentation_is_short_enough():
    assert sum(prose_words(read_page(page)) for page in check_docs.PAGES) <= MOST_WORDS
