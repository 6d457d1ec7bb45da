"""Links and URLs of a release on the package index."""

import re
import tomllib
from pathlib import Path

from scripts.package_links import add_urls, make_absolute

ROOT = Path(__file__).parents[2]
ADDRESS, TAG = "https://forge.example/me/twofold", "v0.1.0"


def test_links_of_the_readme_become_absolute():
    text = "![a](docs/images/a.png) [b](docs/b.md#c) [d](https://e.org) [f](#g)"
    found = make_absolute(text, ADDRESS, TAG)
    assert found == (
        f"![a]({ADDRESS}/raw/{TAG}/docs/images/a.png) [b]({ADDRESS}/blob/{TAG}/docs/b.md#c) "
        "[d](https://e.org) [f](#g)"
    )


def test_no_link_of_the_readme_remains_relative():
    found = make_absolute((ROOT / "README.md").read_text(), ADDRESS, TAG)
    assert not re.findall(r"\]\((?!#|https:)", found)


def test_the_metadata_get_urls_and_nothing_else_changes():
    text = (ROOT / "pyproject.toml").read_text()
    project, before = tomllib.loads(add_urls(text, ADDRESS, TAG)), tomllib.loads(text)
    assert project["project"].pop("urls")["Repository"] == ADDRESS
    assert project == before
