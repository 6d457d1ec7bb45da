"""Prepare README and metadata for the package index, where relative links lead nowhere.

    python scripts/package_links.py https://github.com/OWNER/NAME v0.1.0

Links and pictures of the README get the address of the repository at a tag, and ``pyproject.toml``
the address as project URL. The release workflow runs this before it builds the package; the result
is not committed.
"""

import argparse
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
LINK = re.compile(r"(?P<picture>!?)(?P<text>\[[^]]*\])\((?!#|[a-z]+:)(?P<target>[^)\s]+)\)")


def make_absolute(text: str, address: str, ref: str) -> str:
    """The text with links to files of the repository: pictures raw, all others as pages."""

    def replace(match: re.Match[str]) -> str:
        kind = "raw" if match["picture"] else "blob"
        return f"{match['picture']}{match['text']}({address}/{kind}/{ref}/{match['target']})"

    return LINK.sub(replace, text)


def add_urls(project: str, address: str, ref: str) -> str:
    """The text of ``pyproject.toml`` with the project's URLs."""
    urls = {
        "Repository": address,
        "Documentation": f"{address}/blob/{ref}/docs/index.md",
        "Changelog": f"{address}/blob/{ref}/CHANGELOG.md",
        "Issues": f"{address}/issues",
    }
    lines = "".join(f'{name} = "{url}"\n' for name, url in urls.items())
    head, found, tail = project.partition("[project.scripts]\n")
    if not found or "[project.urls]" in project:
        raise ValueError("pyproject.toml needs [project.scripts] and no [project.urls]")
    return f"{head}[project.urls]\n{lines}\n{found}{tail}"


def main() -> None:
    """Rewrite both files."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("address", help="web address of the repository")
    parser.add_argument("ref", help="tag of the release")
    parser.add_argument("--folder", type=Path, default=ROOT)
    given = parser.parse_args()
    for name, change in (("README.md", make_absolute), ("pyproject.toml", add_urls)):
        path = given.folder / name
        path.write_text(change(path.read_text(), given.address.rstrip("/"), given.ref))


if __name__ == "__main__":
    main()
