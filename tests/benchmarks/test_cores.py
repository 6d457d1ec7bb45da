"""Chains on several cores: both ways are timed on the same chains, and stand in one table."""

from benchmarks import cores
from benchmarks.tables.first_fit import tabulate_cores


def test_both_ways_are_timed_and_compared(tmp_path, monkeypatch):
    monkeypatch.setattr(cores, "SIZES", {"120x1": (8, 1, (2,), 0), "750x1_latent": (8, 1, (2,), 1)})
    monkeypatch.setattr(cores, "EPOCHS", 1)
    monkeypatch.setattr(cores, "REPEATS", 1)
    used = []
    time_step = cores.time_step
    monkeypatch.setattr(cores.cores, "count_cores", lambda: 2)
    monkeypatch.setattr(cores, "time_step", lambda *a: used.append(a[-1]) or time_step(*a))
    record = cores.measure()
    assert used == [1, 2, 1, 2]
    values = record.metrics
    for size in cores.SIZES:
        divided, shared = (values[f"{size}/{way}/ms"] for way in ("divided", "shared"))
        assert values[f"{size}/ratio"] == divided / shared > 0
    record.write(tmp_path)
    rows = tabulate_cores(tmp_path).splitlines()[2:]
    assert [row.split(" | ")[0] for row in rows] == ["| 120 × 1", "| 750 × 1, with z"]
