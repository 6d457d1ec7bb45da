"""Tables in README and docs, made from the records in ``results/``.

A file marks the place of a table with ``<!-- table: NAME -->`` and ``<!-- end table -->``; what
stands between is replaced.
"""

import json
import re
from collections.abc import Callable
from pathlib import Path

from twofold.persistence import write_text

PUBLISHED_UCI = {
    "concrete": (-3.16, -3.04, -2.94, -3.06),
    "energy": (-2.04, -1.99, -1.21, -1.38),
    "kin8nm": (0.90, 0.95, 1.14, 1.20),
    "power-plant": (-2.84, -2.80, -2.81, -2.79),
    "wine-quality-red": (-0.97, -0.93, -0.93, -0.94),
}
MARKED = re.compile(r"(<!-- table: (\w+) -->\n).*?(<!-- end table -->)", re.DOTALL)


def metrics(name: str, results: Path) -> dict[str, float]:
    """The metrics of one record."""
    return json.loads((results / f"{name}.json").read_text())["metrics"]


def mean_and_error(values: dict[str, float], name: str, digits: int = 2) -> str:
    """``mean ± standard error``."""
    mean, error = values[f"{name}/mean"], values[f"{name}/se"]
    return f"{mean:.{digits}f} ± {error:.{digits}f}"


def markdown(headings: list[str], rows: list[list[str]]) -> str:
    """A Markdown table."""
    lines = [headings, ["---", *["---:"] * (len(headings) - 1)], *rows]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


def toy_fit(results: Path) -> str:
    """Test log-likelihood on the toy problems beside the oracle."""
    values = metrics("toy_fit", results)
    rows = [
        [
            problem,
            mean_and_error(values, f"{problem}/test_log_likelihood"),
            f"{values[f'{problem}/oracle/test_log_likelihood']:.2f}",
        ]
        for problem in ("heteroscedastic", "bimodal")
    ]
    return markdown(["problem", "test log-likelihood", "true process"], rows)


def uci(results: Path) -> str:
    """Test log-likelihood and RMSE on the UCI sets beside published numbers."""
    values = metrics("uci", results)
    rows = [
        [
            name,
            mean_and_error(values, f"{name}/test_log_likelihood"),
            *(f"{number:.2f}" for number in published),
            mean_and_error(values, f"{name}/rmse", 3),
        ]
        for name, published in PUBLISHED_UCI.items()
    ]
    peers = ["PBP", "MC-dropout", "MC-dropout ×100", "Deep Ensembles"]
    return markdown(["set", "twofold", *peers, "twofold RMSE"], rows)


def bench_train(results: Path) -> str:
    """Time of a training update beside PyTorch's and lightning-uq-box's."""
    values = metrics("bench_train", results)
    peers = {
        "torch_eager": "PyTorch, eager",
        "torch_compile": "PyTorch, torch.compile",
        "torch_tuned": "PyTorch, torch.compile, tuned by hand",
        "lightning_uq_box": "lightning-uq-box, sequential BNN+LV",
    }
    rows = [
        [label, f"{values[f'{peer}/ms_per_update']:.2f}", f"{values[f'ratio/{peer}']:.1f}"]
        for peer, label in peers.items()
    ]
    own = ["twofold", f"{values['ms_per_update']:.2f}", "1.0"]
    matched = ["twofold, matched", f"{values['twofold_matched/ms_per_update']:.2f}", "1.0"]
    rows = [own, *rows[:-1], matched, rows[-1]]
    return markdown(["", "ms per update", "its time over ours"], rows)


TABLES: dict[str, Callable[[Path], str]] = {
    "toy_fit": toy_fit,
    "uci": uci,
    "bench_train": bench_train,
}


def fill(text: str, results: Path) -> str:
    """The text with every marked table made anew."""
    return MARKED.sub(lambda match: match[1] + TABLES[match[2]](results) + match[3], text)


def run(root: Path) -> list[Path]:
    """Renew the tables of README and docs; returns the files that changed."""
    changed = []
    for path in [root / "README.md", *sorted((root / "docs").glob("**/*.md"))]:
        text = path.read_text()
        new = fill(text, root / "results")
        if new != text:
            write_text(path, new)
            changed.append(path)
    return changed
