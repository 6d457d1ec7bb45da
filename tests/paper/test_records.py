"""Records, how they are merged, and the published tables that are made from them."""

import json
from pathlib import Path

import numpy as np
import pytest

from paper import records, tables
from paper.records import Record

ROOT = Path(__file__).parents[2]


def test_records_of_several_machines_join(tmp_path, monkeypatch):
    here, there = tmp_path / "here", tmp_path / "there"
    for place, name, value in ((here, "a/seconds", 1.0), (there, "b/seconds", 2.0)):
        monkeypatch.setattr(records, "device", lambda place=place: place.name)
        record = Record("timing", {}, [0])
        record.add(name, value)
        record.write(place)
    records.join(there / "timing.json", here)
    joined = json.loads((here / "timing.json").read_text())
    assert joined["metrics"] == {"a/seconds": 1.0, "b/seconds": 2.0}
    assert joined["device"] == "there"
    assert [source["device"] for source in joined["kept_from"]] == ["here"]

    # The same machine does it again: the number is replaced, and where it came from is not doubled.
    again = Record("timing", {}, [0])
    again.add("b/seconds", 3.0)
    again.merge(here, lambda name: name != "b/seconds")
    renewed = json.loads((here / "timing.json").read_text())
    assert renewed["metrics"] == {"a/seconds": 1.0, "b/seconds": 3.0}
    assert [source["device"] for source in renewed["kept_from"]] == ["here"]


def test_standard_error_of_a_record():
    record = Record("x", {}, [0])
    record.add_mean("a", [1.0, 2.0, 3.0])
    assert record.metrics == {"a/mean": 2.0, "a/se": pytest.approx(1 / np.sqrt(3))}


@pytest.mark.parametrize("path", [ROOT / "README.md", *sorted((ROOT / "docs").glob("**/*.md"))])
def test_published_tables_match_the_records(path):
    text = path.read_text()
    assert tables.fill_tables(text, ROOT / "results") == text, "run `make tables`"
