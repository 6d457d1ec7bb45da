"""What the documentation names exists."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROWS = [
    line.split(" | ")
    for line in (ROOT / "docs/equations.md").read_text().splitlines()
    if re.search(r"`(twofold|paper)\.", line)
]


def test_the_table_is_not_empty():
    assert len(ROWS) > 10


@pytest.mark.parametrize("row", ROWS, ids=lambda row: row[1])
def test_equation_has_its_function_and_test(row):
    module, name = re.search(r"`((?:twofold|paper)[\w.]*)\.(\w+)`", row[1]).groups()
    assert hasattr(importlib.import_module(module), name)
    test = ROOT / re.search(r"`(tests/[\w/.]+)`", row[2]).group(1)
    assert name in test.read_text(), f"{test} does not mention {name}"
