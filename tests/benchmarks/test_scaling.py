"""The benchmark of scaling runs at smoke size, and its tables show it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.tables import scaling as scaling_tables
from paper.records import Record

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
def test_the_benchmark_of_scaling_at_smoke_size(tmp_path):
    words = [sys.executable, str(ROOT / "benchmarks/scaling.py"), "--smoke", "--output", tmp_path]
    subprocess.run(list(map(str, words)), check=True)
    found = json.loads((tmp_path / "scaling.json").read_text())["metrics"]
    assert found["rows_4000/seconds/fit"] > 0 and found["bytes_per_row/scratch"] == 8 * 21
    assert (tmp_path / "scaling.png").read_bytes().startswith(b"\x89PNG")
    assert "| 4,000 |" in scaling_tables.scaling(tmp_path)
    assert "28 |" in scaling_tables.scaling_bytes(tmp_path)
    assert found["row_group/rows"] == 4000
    assert found["row_group/4000/peak_bytes/read"] >= found["row_group/4000/peak_bytes/before"] > 0
    assert "\n| 1,000 |" in scaling_tables.row_groups(tmp_path)


@pytest.mark.slow
def test_row_groups_are_measured_alone_and_keep_the_sizes(tmp_path):
    earlier = Record("scaling", {}, [0])
    earlier.add("slope/fit", 0.9)
    earlier.add("row_group/7/x", 1.0)
    earlier.write(tmp_path)
    words = [sys.executable, ROOT / "benchmarks/scaling.py", "--smoke", "--only", "row_groups"]
    subprocess.run([*map(str, words), "--output", str(tmp_path)], check=True)
    found = json.loads((tmp_path / "scaling.json").read_text())["metrics"]
    assert found["slope/fit"] == 0.9 and "row_group/7/x" not in found
    assert found["row_group/1000/seconds/read"] > 0
    assert not (tmp_path / "scaling.png").exists()
