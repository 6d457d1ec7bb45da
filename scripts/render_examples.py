"""Run the examples at full size, and write their output and figures to the docs.

python scripts/render_examples.py [NAME ...]    # all of them: some minutes on two cores
"""

import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.notebooks import wrap_sentences

ROOT = Path(__file__).parents[1]
FIGURES = {
    "regression": "regression.png",
    "campaign": "reactor.png",
    "policy": "tank_policies.png",
    "hmc": "hmc.png",
    "own_system": "own_system.png",
    "bring_your_own": "bring_your_own.png",
}
SHOWN_FOLDER = "demo-output"
MOST_BYTES = 200_000


def output(name: str, folder: Path) -> str:
    """The printed output of an example, which writes its files to ``folder``."""
    words = [sys.executable, f"examples/{name}.py", "--output", str(folder)]
    done = subprocess.run(words, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=True)
    lines = done.stdout.replace(str(folder), SHOWN_FOLDER).rstrip().splitlines()
    return wrap_sentences("\n".join(line.rstrip() for line in lines))


def replace_output(page: str, name: str, text: str) -> str:
    """The page with new text between its markers."""
    begin, end = f"<!-- output: {name} -->", "<!-- end output -->"
    found = re.search(f"{begin}\n.*?{end}", page, re.DOTALL)
    if found is None:
        raise SystemExit(
            f"docs/examples/{name}.md needs the lines {begin} and {end}, in that order"
        )
    block = f"{begin}\n```text\n{text}\n```\n{end}"
    return page[: found.start()] + block + page[found.end() :]


def render(name: str) -> None:
    """Run one example, write its page and its figure."""
    page = ROOT / "docs" / "examples" / f"{name}.md"
    with tempfile.TemporaryDirectory() as folder:
        text = output(name, Path(folder))
        figure = Path(folder) / FIGURES[name]
        size = figure.stat().st_size
        if size > MOST_BYTES:
            raise SystemExit(f"{figure.name} has {size:,} bytes, more than {MOST_BYTES:,}")
        shutil.copyfile(figure, ROOT / "docs" / "images" / f"example_{name}.png")
    page.write_text(replace_output(page.read_text(), name, text))
    print(f"wrote {page.relative_to(ROOT)} and docs/images/example_{name}.png", flush=True)


def main() -> None:
    """Render the examples that were named, or all."""
    names = sys.argv[1:] or list(FIGURES)
    unknown = sorted(set(names) - set(FIGURES))
    if unknown:
        raise SystemExit(
            f"there is no example {', '.join(unknown)}; there are {', '.join(FIGURES)}"
        )
    for name in names:
        render(name)


if __name__ == "__main__":
    main()
