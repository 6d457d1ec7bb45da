"""Numbers of a record as cells and rows of a Markdown table."""

import json
from pathlib import Path


def metrics(name: str, results: Path) -> dict[str, float]:
    """The metrics of one record; empty if it does not exist yet."""
    path = results / f"{name}.json"
    return json.loads(path.read_text())["metrics"] if path.exists() else {}


def mean_and_error(values: dict[str, float], name: str, digits: int = 2) -> str:
    """``mean ± standard error``."""
    mean, error = values[f"{name}/mean"], values[f"{name}/se"]
    return f"{mean:.{digits}f} ± {error:.{digits}f}"


def markdown(headings: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)
