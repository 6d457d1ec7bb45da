"""Tables are read as they are meant, written so that they come back, and refused in words."""

import sys
import warnings
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pytest

from twofold.logs import LogError, LogWarning, cells, read_frame, read_table, write_table


@pytest.fixture(autouse=True)
def no_warnings():
    with warnings.catch_warnings():
        warnings.simplefilter("error", LogWarning)
        yield


def assert_same(one, other):
    assert (one.observations, one.actions) == (other.observations, other.actions)
    np.testing.assert_array_equal(one.action_high, other.action_high)
    assert [episode.name for episode in one.episodes] == [
        episode.name for episode in other.episodes
    ]
    for first, second in zip(one.episodes, other.episodes, strict=True):
        for field in ("observations", "actions", "costs", "times"):
            np.testing.assert_array_equal(getattr(first, field), getattr(second, field))


@pytest.mark.parametrize("name", ["log.csv", "log.parquet"])
def test_a_written_log_is_read_back_to_the_last_digit(log, tmp_path, name):
    if name.endswith("parquet"):
        pytest.importorskip("pyarrow")
    write_table(log, tmp_path / name)
    again = read_table(
        tmp_path / name, observations=["a", "b", "c"], actions={"u": (-1, 1), "v": (-1, 1)},
        episode="episode", time="time", cost="cost",
    )  # fmt: skip
    assert_same(log, again)


def test_a_file_and_a_data_frame_of_it_are_the_same_log(rows, columns, write):
    path = write(rows)
    log = read_table(path, **columns, cost="cost")
    assert_same(log, read_table(pd.read_csv(path), **columns, cost="cost"))
    assert [episode.name for episode in log.episodes] == ["r0", "r1", "r2"]
    episode = log.episodes[1]
    assert episode.observations[3].tolist() == [rows[43]["level"], rows[43]["heat"]]
    assert episode.actions[3].tolist() == [rows[43]["valve"]]
    # The cost of a row is what it costs to come to it.
    assert episode.costs[3] == rows[44]["cost"]


def test_costs_may_stand_beside_the_action_that_they_belong_to(rows, columns, write):
    for last in (39, 79, 119):
        rows[last] |= {"cost": "", "valve": ""}
    log = read_table(write(rows), **columns, cost="cost", cost_at="departure")
    assert log.episodes[1].costs[3] == rows[43]["cost"]
    with pytest.raises(LogError, match="'cost' has 3 missing"):
        read_table(write(rows), **columns, cost="cost")


def test_decimal_commas_and_semicolons(rows, columns, write):
    plain = read_table(write(rows), **columns)
    german = [
        {k: str(v).replace(".", ",") if k != "t" else v for k, v in row.items()} for row in rows
    ]
    path = write(german, "german.csv", ";")
    with pytest.raises(LogError, match="pass decimal=','"):
        read_table(path, **columns)
    assert_same(plain, read_table(path, **columns, decimal=","))


@pytest.mark.parametrize("form", ["text", "zone", "frame"])
def test_dates_are_seconds(rows, columns, write, form):
    start = datetime(2024, 2, 28, 23, 59)
    for row in rows:
        row["t"] = (start + timedelta(seconds=row["t"])).isoformat(" ")
        row["t"] += "Z" if form == "zone" else ""
    source = write(rows)
    if form == "frame":
        source = pd.read_csv(source, parse_dates=["t"])
    times = read_table(source, **columns).episodes[2].times
    np.testing.assert_allclose(np.diff(times), 2.0)


def test_dates_that_cannot_be_read_are_named(rows, columns, write):
    rows[4]["t"] = "01.03.2024 06:00"
    with pytest.raises(LogError, match=r"'t' has text in 1 row .* line 6; write times as numbers"):
        read_table(write(rows), **columns)
    found = read_frame(write(rows), **columns, missing=["01.03.2024 06:00"])
    assert np.isnan(found.times[4]) and not found.texts["t"]


def test_blank_cells_and_words_for_nothing_are_missing(rows, columns, write):
    for place, word in enumerate(["", "NaN", "n/a", "I/O Timeout"]):
        rows[place]["level"] = word
    found = read_frame(write(rows), **columns, missing=["I/O timeout"])
    assert np.isnan(found.values["level"][:4]).all() and not found.texts["level"]
    assert read_frame(write(rows), **columns).texts["level"] == {3: "I/O Timeout"}


def test_blank_lines_byte_order_marks_and_short_rows(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("\ufefflevel,valve\n1,0.5\n\n2,0.25\n3\n", encoding="utf-8")
    log = read_table(path, observations=["level"], actions={"valve": (0, 1)})
    assert log.episodes[0].observations[:, 0].tolist() == [1, 2, 3]
    assert log.episodes[0].actions[:, 0].tolist() == [0.5, 0.25]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"observations": ["levle"]}, r"plant.csv has no column 'levle'.*did you mean 'level'\?"),
        ({"observations": ["LEVEL"]}, r"did you mean 'level'\?"),
        ({"episode": "runs"}, r"has no column 'runs'.*did you mean 'run'\?"),
        ({"observations": ["level", "valve"]}, "own name, got 'valve'"),
        ({"actions": ["valve"]}, r"need bounds.*actions=\{'valve': \(0\.\d+, 0\.\d+\)\}"),
        ({"actions": {"valve": (1, 0)}}, "valve: bounds must be finite and low < high"),
        ({"actions": {"valve": 1}}, "valve: bounds must be two numbers"),
        ({"cost_at": "end"}, "cost_at must be 'arrival' or 'departure', got 'end'"),
        ({"sorted": True}, "no option 'sorted'.*did you mean 'sort'"),
    ],
)
def test_wrong_options_are_refused_in_words(rows, columns, write, change, message):
    with pytest.raises(LogError, match=message):
        read_table(write(rows), **columns | change)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("level,valve\n", "heading but no rows"),
        ("level,valve\n1,2,3\n", "line 2: 3 cells for 2 columns"),
        ("level,level\n1,2\n", "two columns of one name: 'level'"),
    ],
)
def test_files_that_are_no_tables_are_refused(tmp_path, text, message):
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(LogError, match=message):
        read_table(path, observations=["level"], actions={"valve": (0, 1)})


def test_files_that_cannot_be_read(tmp_path, monkeypatch):
    with pytest.raises(LogError, match="cannot be read: No such file"):
        read_table(tmp_path / "no.csv", observations=["a"], actions={})
    (tmp_path / "old.csv").write_bytes("°C\n1\n".encode("cp1252"))
    with pytest.raises(LogError, match="pass encoding='cp1252'"):
        read_table(tmp_path / "old.csv", observations=["°C"], actions={})
    read_frame(tmp_path / "old.csv", observations=["°C"], actions={}, encoding="cp1252")
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(LogError, match=r"pip install 'twofold\[parquet\]'"):
        read_table(tmp_path / "x.parquet", observations=["a"], actions={})


def test_rows_without_an_episode_are_named(rows, columns, write):
    rows[7]["run"] = ""
    with pytest.raises(LogError, match=r"episode column 'run' is blank in 1 rows.* line 9"):
        read_table(write(rows), **columns)


def test_a_zero_is_a_number_whatever_the_column_is_made_of():
    column = np.array([0, 1, None, 0.0, "", 4.5], dtype=object)
    found = cells.numbers(column)
    np.testing.assert_array_equal(found.values, [0, 1, np.nan, 0, np.nan, 4.5])
    assert found.texts == {}
