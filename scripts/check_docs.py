"""Check every page: its links lead somewhere, its commands exist, and it is not too long.

    python scripts/check_docs.py [--run]

Links to files and headings of the repository are followed (not those to other sites); every
``twofold``, ``make`` and ``python`` command must be known with its options. ``--run`` also runs the
commands and the code of the pages at a small size (minutes) and writes ``results/docs.json``.
"""

import argparse
import importlib.util
import re
import shlex
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from xml.etree import ElementTree

import typer

from paper.__main__ import COMMANDS, build_parser
from paper.pieces import PIECES
from paper.records import Record
from scripts import notebooks
from twofold.cli import app as cli

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
PAGES = [ROOT / "README.md", *sorted(DOCS.glob("**/*.md")), *sorted(DOCS.glob("**/*.ipynb"))]
OTHER_PAGES = [ROOT / name for name in ("CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md")]
MOST_WORDS = 25_000
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.M))
OWN_PACKAGES = "paper", "benchmarks", "twofold"
# Generated parts: tables, output of examples, the reference of the command line.
GENERATED = re.compile(r"<!-- (table|output|commands)\b.*?<!-- end \1 -->", re.S)
BLOCK = re.compile(r"```.*?```|<!--.*?-->", re.S)
NOT_PROSE = re.compile(r"^ *\|.*$|^:::.*$|\]\([^)]*\)", re.M)
LINK = re.compile(r"\]\((?![a-z]+:)([^)#\s]*)(?:#([^)\s]+))?\)")


def read_page(page: Path) -> str:
    """The text of a page; of a notebook, its Markdown cells."""
    return notebooks.prose(page) if page.suffix == ".ipynb" else page.read_text()


def prose_words(text: str) -> int:
    """Number of words of a page outside code, tables and generated parts."""
    prose = NOT_PROSE.sub(" ", BLOCK.sub("", GENERATED.sub("", text)))
    return sum(bool(re.search(r"\w", word)) for word in prose.split())


def anchors(page: Path) -> set[str]:
    """Anchors of a page's headings, as on GitHub and on the site."""
    text = BLOCK.sub("", read_page(page))
    headings = re.findall(r"^#+ (.+)$", text, re.M)
    plain = [re.sub(r"[^\w\- ]", "", one.lower()).strip() for one in headings]
    return {one.replace(" ", "-") for one in plain} | set(re.findall(r'id="([^"]+)"', text))


def broken_links(page: Path) -> list[str]:
    """Links of a page to files or headings that do not exist."""
    text = re.sub(r"```.*?```|`[^`]*`", "", read_page(page), flags=re.S)
    broken = []
    for target, anchor in LINK.findall(text):
        file = (page.parent / target).resolve() if target else page
        known = not anchor or file.suffix != ".md" or (file.exists() and anchor in anchors(file))
        if not file.exists() or not known:
            broken.append(target + (f"#{anchor}" if anchor else ""))
    return broken


def shell_lines(page: Path) -> Iterator[str]:
    """The command lines in a page's shell blocks."""
    for block in re.findall(r"```sh\n(.*?)```", read_page(page), re.S):
        yield from block.replace("\\\n", " ").splitlines()


def commands_on(page: Path) -> Iterator[list[str]]:
    """The words of each command on a page, in shell blocks and in sentences."""
    inside = re.findall(r"`((?:twofold|make|python) [^`…]+)`", read_page(page))
    indented = re.findall(r"^    ((?:twofold|make|python) .*)$", read_page(page), re.M)
    for line in [*shell_lines(page), *inside, *indented]:
        words = shlex.split(line, comments=True)
        if words and words[0] in CHECKS:
            yield words


def check_twofold(words: list[str]) -> None:
    """The verb and its options are known to the command line."""
    command = typer.main.get_command(cli.app)
    words = list(words)
    while hasattr(command, "commands") and words and re.match("[a-z]", words[0]):
        assert words[0] in command.commands, f"there is no command {words[0]}"
        command = command.commands[words.pop(0)]
    valid = {name for param in command.params for name in (*param.opts, *param.secondary_opts)}
    valid |= {"--help", "--install-completion", "--show-completion", "--debug"}
    used = {word for word in words if re.fullmatch(r"--?[a-z][a-z-]*", word)}
    assert used <= valid, f"{command.name} has no {used - valid}"


def check_make(words: list[str]) -> None:
    """The target is in the Makefile; with ``WHAT``, the piece of the paper exists."""
    variables = dict(word.split("=", 1) for word in words if "=" in word)
    unknown = {word for word in words if "=" not in word} - TARGETS
    assert not unknown, f"the Makefile has no {unknown}"
    if "WHAT" in variables:
        check_paper([variables["WHAT"], *shlex.split(variables.get("ARGS", ""))])


def check_paper(words: list[str]) -> None:
    """The piece is in the registry, and the options parse."""
    name = build_parser().parse_args(words).name
    assert name.isupper() or name in {*PIECES, *COMMANDS}, f"there is no piece {name}"


def check_python(words: list[str]) -> None:
    """The module or file exists and has the options; modules of other packages are not checked."""
    if words[0] == "-m":
        if words[1] == "paper":
            check_paper(words[2:])
        elif words[1].split(".")[0] in OWN_PACKAGES:
            assert importlib.util.find_spec(words[1]) is not None, f"there is no {words[1]}"
    elif words[0].endswith(".py"):
        assert (ROOT / words[0]).exists(), f"there is no {words[0]}"
        source = (ROOT / words[0]).read_text()
        for word in words[1:]:
            assert not word.startswith("--") or word in source, f"{words[0]} has no {word}"


CHECKS = {"twofold": check_twofold, "make": check_make, "python": check_python}


def failed_commands(page: Path) -> list[str]:
    """Commands on a page that do not exist."""
    failed = []
    for words in commands_on(page):
        try:
            CHECKS[words[0]](words[1:])
        except (AssertionError, SystemExit) as error:
            failed.append(f"{shlex.join(words)}: {error}")
    return failed


def failed_runs() -> list[str]:
    """The failed tests among those that run commands and code of pages."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        words = ["-m", "pytest", "-q", "-m", "", f"--junitxml={report}"]
        files = [f"tests/docs/test_{name}.py" for name in ("commands", "notebooks", "pages")]
        subprocess.run([sys.executable, *words, *files], cwd=ROOT, check=False)
        cases = list(ElementTree.parse(report).iter("testcase"))
    return [case.attrib["name"] for case in cases if case.find("failure") is not None]


def main() -> None:
    """Check all pages; exit with 1 where something is wrong."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--run", action="store_true")
    parser.add_argument("--output", type=Path, default=ROOT / "results")
    given = parser.parse_args()
    record = Record("docs", {"most_words": MOST_WORDS}, [])
    wrong = {"broken_links": 0, "commands_failed": 0}
    for page in [*PAGES, *OTHER_PAGES]:
        for metric, found in (
            ("broken_links", broken_links(page)),
            ("commands_failed", failed_commands(page)),
        ):
            wrong[metric] += len(found)
            for one in found:
                print(f"{page.relative_to(ROOT)}: {metric.replace('_', ' ')}: {one}")
    words = sum(prose_words(read_page(page)) for page in PAGES)
    record.add("words", words)
    record.add(
        "words_with_tables_and_reference", sum(len(read_page(page).split()) for page in PAGES)
    )
    record.add("pages", len(PAGES))
    record.add("commands", sum(1 for page in PAGES for _ in commands_on(page)))
    if given.run:
        wrong["commands_failed"] += len(failed_runs())
    for metric, count in wrong.items():
        record.add(metric, count)
    for metric, value in record.metrics.items():
        print(f"{metric:20s} {value:,.0f}")
    if given.run:
        print(f"wrote {record.write(given.output)}")
    if any(wrong.values()) or words > MOST_WORDS:
        sys.exit(f"pages are wrong, or longer than {MOST_WORDS:,} words")


if __name__ == "__main__":
    main()
