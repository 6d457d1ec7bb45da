"""Translate Python options in messages of the library into command-line options."""

import ast
import re
import shlex
from typing import Any

TEXT = r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\""
LIST = rf"\[(?:{TEXT}|[^\]'\"])*\]"
# Advice in messages of the library, and the corresponding command-line option.
TABLES = {
    "drop_missing=True": "--drop-missing",
    "leave the column out": "leave it out with --ignore, or make it a category with --category",
    r"pass date_order='day-first' or \S+": "use --date-order with twofold fit",
}
# For twofold policy, which has no option for some advice.
POLICY: dict[str, Any] = {
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
}
FILES = {r"pass encoding='[\w-]+'(?: \(in Python\))?": "save it as UTF-8"}


def as_typed(text: str, group: str = "") -> str:
    """A message with options as typed on the command line, for the commands of a group."""
    for pattern, spelling in (FILES | (POLICY if group == "policy" else TABLES)).items():
        text = re.sub(pattern, spelling, text)
    return text


def _spell(option: str, *values: Any) -> str:
    name = option.replace("_", "-")
    return " ".join(f"--{name}={shlex.quote(str(value))}" for value in values)
