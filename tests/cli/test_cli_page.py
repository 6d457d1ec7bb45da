"""The reference of the command line is up to date."""

import runpy
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "scripts" / "cli_page.py"


def test_the_reference_is_up_to_date():
    script = runpy.run_path(str(SCRIPT))
    text = script["PAGE"].read_text(encoding="utf-8")
    assert script["fill_page"](text) == text, "run `make tables`"
    assert "### `twofold policy search`" in text


def test_a_changed_page_is_mended():
    script = runpy.run_path(str(SCRIPT))
    text = script["PAGE"].read_text(encoding="utf-8")
    assert script["fill_page"](text.replace("### `twofold fit`", "")) == text
