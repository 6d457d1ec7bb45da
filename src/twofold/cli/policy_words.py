"""Messages of ``twofold policy``: errors and notes of the library with their options in the
spelling of the command line, and announcements of large logs."""

import ast
import re
import shlex
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twofold.cli.terminal import CommandError, say

if TYPE_CHECKING:
    from twofold.estimators.regressor import BNNLVRegressor

TEXT = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
LIST = rf"\[(?:{TEXT}|[^\]'\"])*\]"
# Python's spelling of an option and that of the command line, which has no option for some.
SPELLINGS: dict[str, Any] = {
    r"\b(sort|(?:drop|split|clip)_\w+)=True": r"--mend \1",
    r"\b(episode|time)=…": r"--\1 COLUMN",
    rf"\b(missing|held)=({LIST})": lambda found: _spell(found[1], *ast.literal_eval(found[2])),
    rf"\b(episode|time|date_order)=({TEXT})": lambda found: _spell(
        found[1], ast.literal_eval(found[2])
    ),
    rf"\btransforms=({{(?:{TEXT}): (?:{TEXT})}})": lambda found: _spell(
        "transform", *("=".join(pair) for pair in ast.literal_eval(found[1]).items())
    ),
    r"\bdtype='(\w+)'": r"--model dtype=\1",
    r"\bnodes=(\d+)": r"--model nodes=\1",
    r"\(([\d,]+) epochs\); increase epochs .*?\)": lambda found: (
        f"({found[1]} epochs); use --model epochs={2 * int(found[1].replace(',', ''))}"
    ),
    r"\brandom_state\b": "--seed",
    r"\bdate_order\b": "--date-order",
    r"pass decimal='.'": "write all numbers with the same mark",
    r"pass encoding='[\w-]+'(?: \(in Python\))?": "save it as UTF-8",
}
# Files are announced from this size on. Without an explicit number of passes, a model is fitted to
# at most this many rows: about an hour on two cores.
LARGE, MOST_ROWS = 20_000_000, 1_500_000
SAMPLE = 2**20


def as_typed(text: str) -> str:
    """A message with its options as they are typed on the command line."""
    for pattern, spelling in SPELLINGS.items():
        text = re.sub(pattern, spelling, text)
    return text


def _spell(option: str, *values: Any) -> str:
    name = option.replace("_", "-")
    return " ".join(f"--{name}={shlex.quote(str(value))}" for value in values)


@contextmanager
def typed_options() -> Iterator[None]:
    """Errors and warnings of the library, with options as they are typed."""
    with warnings.catch_warnings():
        show = warnings.showwarning
        warnings.showwarning = lambda message, *rest: show(as_typed(str(message)), *rest)
        try:
            yield
        except (ValueError, ArithmeticError) as error:
            raise CommandError(as_typed(str(error))) from error


def announce_log(path: Path, regressor: "BNNLVRegressor") -> None:
    """Announce large logs; refuse logs that would take days to fit."""
    from twofold.inference.method import MIN_EPOCHS

    parts = path.glob("*.parquet") if path.is_dir() else [path]
    size = sum(part.stat().st_size for part in parts if part.is_file())
    if size < LARGE:
        return
    rows = _estimate_rows(path, size)
    say(f"reading {path}: {size / 1e6:,.0f} MB, about {rows:,} rows")
    if getattr(regressor.inference, "epochs", 0) is None and rows > MOST_ROWS:
        passes = max(1, MIN_EPOCHS * MOST_ROWS // rows)
        raise CommandError(
            f"{path} has about {rows:,} rows, over which the model would make {MIN_EPOCHS} passes, "
            f"meant for at most {MOST_ROWS:,} rows; set the number with "
            f"--model epochs={passes}, or write every {-(-rows // MOST_ROWS)}th row to another file"
        )


def _estimate_rows(path: Path, size: int) -> int:
    """As a Parquet file says, or by the length of the first lines of a CSV file."""
    from twofold.tables import open_table

    if (known := open_table(path).count_rows()) is not None:
        return known
    with path.open("rb") as file:
        start = file.read(SAMPLE)
    return int(size / len(start) * start.count(b"\n"))
