"""Execute the tutorials in ``docs/tutorials`` and store their output, and turn them into pages.

    python scripts/notebooks.py [NAME ...]    # all of them: some minutes on two cores

Cells run in one namespace, in a temporary folder; what a cell prints, the value of its last line
and its figures are stored. Jupyter is not needed.
"""

import ast
import base64
import contextlib
import io
import json
import os
import sys
import tempfile
import textwrap
import warnings
from pathlib import Path
from typing import Any

import matplotlib as mpl

FOLDER = Path(__file__).resolve().parents[1] / "docs" / "tutorials"
NAMES = sorted(path.stem for path in FOLDER.glob("*.ipynb"))
WIDTH = 96  # characters of a line of output


def read(name: str) -> dict[str, Any]:
    """A notebook as JSON."""
    return json.loads((FOLDER / f"{name}.ipynb").read_text(encoding="utf-8"))


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells that are executed."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def run_cell(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    """Execute a cell; its outputs as a notebook stores them."""
    import matplotlib.pyplot as plt

    tree, printed = ast.parse(source), io.StringIO()
    shown = bool(tree.body) and isinstance(tree.body[-1], ast.Expr)
    last: Any = tree.body.pop() if shown and not source.rstrip().endswith(";") else None
    with contextlib.redirect_stdout(printed), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        exec(compile(tree, "cell", "exec"), names)
        if last is not None:
            value = eval(compile(ast.Expression(last.value), "cell", "eval"), names)
            if value is not None:
                print(value)
    outputs: list[dict[str, Any]] = []
    if text := printed.getvalue():
        outputs.append({"output_type": "stream", "name": "stdout", "text": text})
    for number in plt.get_fignums():
        image = io.BytesIO()
        plt.figure(number).savefig(image, format="png", dpi=80)
        data = {"image/png": base64.b64encode(image.getvalue()).decode()}
        outputs.append({"output_type": "display_data", "metadata": {}, "data": data})
    plt.close("all")
    return outputs


def execute(notebook: dict[str, Any], changes: dict[str, str] | None = None) -> dict[str, Any]:
    """Run all cells in an empty folder, with some texts replaced; their outputs are stored. Returns
    the names that the cells define."""
    mpl.use("agg")
    names: dict[str, Any] = {"__name__": "__main__"}
    before = Path.cwd()
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        try:
            for number, cell in enumerate(code_cells(notebook), 1):
                source = "".join(cell["source"])
                for old, new in (changes or {}).items():
                    source = source.replace(old, new)
                cell |= {"outputs": run_cell(source, names), "execution_count": number}
        finally:
            os.chdir(before)
    return names


def wrap_sentences(text: str) -> str:
    """Printed text with long sentences wrapped; lines of tables, with columns, stay whole."""
    lines = []
    for line in text.splitlines():
        if len(line) <= WIDTH or "   " in line.strip():
            lines.append(line)
            continue
        indent = " " * (len(line) - len(line.lstrip()) + 4)
        lines += textwrap.wrap(line, WIDTH, subsequent_indent=indent, break_on_hyphens=False)
    return "\n".join(lines)


def to_page(notebook: dict[str, Any], name: str) -> tuple[str, dict[str, bytes]]:
    """A notebook as Markdown, and its figures by the names of their files."""
    parts: list[str] = []
    figures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source)
            continue
        parts.append(f"```python\n{source}\n```")
        for output in cell["outputs"]:
            if output["output_type"] == "stream":
                text = wrap_sentences("".join(output["text"]).rstrip())
                parts.append(f"```text\n{text}\n```")
            else:
                file = f"{name}_{len(figures)}.png"
                figures[file] = base64.b64decode(output["data"]["image/png"])
                parts.append(f"![Figure]({file})")
    return "\n\n".join(parts) + "\n", figures


def prose(path: Path) -> str:
    """The Markdown cells of a notebook."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return "\n\n".join("".join(c["source"]) for c in cells if c["cell_type"] == "markdown")


def main() -> None:
    """Execute the notebooks that were named, or all, and write them."""
    for name in sys.argv[1:] or NAMES:
        notebook = read(name)
        execute(notebook)
        text = json.dumps(notebook, indent=1, ensure_ascii=False) + "\n"
        (FOLDER / f"{name}.ipynb").write_text(text, encoding="utf-8")
        print(f"executed docs/tutorials/{name}.ipynb", flush=True)


if __name__ == "__main__":
    main()
