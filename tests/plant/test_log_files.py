"""Tables are read as they are meant, written so that they come back, and refused in words."""

import inspect
import warnings
from datetime import datetime, timedelta

import numpy as np
import pandas as pd
import pytest

from twofold.plant.log import LogError, LogWarning
from twofold.plant.log_files import read_log, read_raw_log, write_log
from twofold.tables import TableError


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
    write_log(log, tmp_path / name)
    again = read_log(
        tmp_path / name, observations=["a", "b", "c"], actions={"u": (-1, 1), "v": (-1, 1)},
        episode="episode", time="time", cost="cost",
    )  # fmt: skip
    assert_same(log, again)


def test_a_file_and_a_data_frame_of_it_are_the_same_log(rows, columns, write):
    path = write(rows)
    log = read_log(path, **columns, cost="cost")
    assert_same(log, read_log(pd.read_csv(path), **columns, cost="cost"))
    assert [episode.name for episode in log.episodes] == ["r0", "r1", "r2"]
    episode = log.episodes[1]
    assert episode.observations[3].tolist() == [rows[43]["level"], rows[43]["heat"]]
    assert episode.actions[3].tolist() == [rows[43]["valve"]]
    # The cost of a row is what it costs to come to it.
    assert episode.costs[3] == rows[44]["cost"]


def test_a_cost_is_missing_in_any_row_but_the_first(rows, columns, write):
    for place in (0, 40, 39, 79, 119):
        rows[place] |= {"cost": ""}
    with pytest.raises(LogError, match="'cost' has 3 missing"):
        read_log(write(rows), **columns, cost="cost")


def test_decimal_commas_and_semicolons(rows, columns, write):
    plain = read_log(write(rows), **columns)
    german = [{name: str(cell).replace(".", ",") for name, cell in row.items()} for row in rows]
    path = write(german, "german.csv", ";")
    assert_same(plain, read_log(path, **columns))
    assert_same(plain, read_log(path, **columns, decimal=","))
    with pytest.raises(LogError, match="pass decimal=','"):
        read_log(path, **columns, decimal=".")


@pytest.mark.parametrize(
    ("cell", "remedy"),
    [
        ("1.234,5", "remove thousands separators"),
        ("1_000", "remove thousands separators"),
        ("1.5", "if the point is a decimal mark, pass decimal='.'"),
    ],
)
def test_a_number_that_may_be_another_one_is_named(rows, columns, write, cell, remedy):
    for row in rows:
        row["level"] = str(row["level"]).replace(".", ",")
    rows[5]["level"] = cell
    columns = {"observations": ["level"], "actions": {}, "episode": "run"}
    found = rf"'level' has text in 1 row \('{cell}'\) at line 7; {remedy}"
    with pytest.raises(LogError, match=found):
        read_log(write(rows, delimiter=";"), **columns, decimal=",")


@pytest.mark.parametrize("words", [("off", "on"), ("False", "True"), ("", "open")])
def test_a_column_of_words_is_to_be_written_as_numbers(rows, columns, write, words):
    for number, row in enumerate(rows):
        row["level"] = words[number % 2]
    with pytest.raises(LogError, match=r"'level' has text in \d+ rows .*such as 0 and 1") as caught:
        read_log(write(rows), **columns)
    assert "missing=" not in str(caught.value).splitlines()[1]


@pytest.mark.parametrize("delimiter", [",", ";", "\t", "|"])
def test_columns_are_set_apart_by_what_the_heading_has(rows, columns, write, delimiter):
    plain = read_log(write(rows), **columns)
    assert_same(plain, read_log(write(rows, "other.csv", delimiter), **columns))


@pytest.mark.parametrize("form", ["text", "zone", "frame"])
def test_dates_are_seconds(rows, columns, write, form):
    start = datetime(2024, 2, 28, 23, 59)
    for row in rows:
        row["t"] = (start + timedelta(seconds=row["t"])).isoformat(" ")
        row["t"] += "Z" if form == "zone" else ""
    source = write(rows)
    if form == "frame":
        source = pd.read_csv(source, parse_dates=["t"])
    times = read_log(source, **columns).episodes[2].times
    np.testing.assert_allclose(np.diff(times), 2.0)


def test_dates_that_cannot_be_read_are_named(rows, columns, write):
    rows[4]["t"] = "01.03.2024 06:00"
    with pytest.raises(LogError, match=r"'t' has text in 1 row .* line 6; write times as numbers"):
        read_log(write(rows), **columns)
    found = read_raw_log(write(rows), **columns, missing=["01.03.2024 06:00"])
    assert np.isnan(found.times[4]) and not found.texts["t"]


def test_blank_cells_and_words_for_nothing_are_missing(rows, columns, write):
    for place, word in enumerate(["", "NaN", "n/a", "I/O Timeout"]):
        rows[place]["level"] = word
    found = read_raw_log(write(rows), **columns, missing=["I/O timeout"])
    assert np.isnan(found.values["level"][:4]).all() and not found.texts["level"]
    assert read_raw_log(write(rows), **columns).texts["level"] == {3: "I/O Timeout"}


@pytest.mark.parametrize("missing", [[-999], ["-999"], "-999", -999])
def test_a_number_that_means_no_value_is_missing_in_files_of_both_kinds(
    rows, columns, tmp_path, missing
):
    rows[4]["level"] = rows[9]["valve"] = -999.0
    paths = tmp_path / "plant.csv", tmp_path / "plant.parquet"
    pd.DataFrame(rows).to_csv(paths[0], index=False)
    pd.DataFrame(rows).to_parquet(paths[1])
    for path in paths:
        found = read_raw_log(path, **columns, missing=missing)
        assert np.flatnonzero(np.isnan(found.values["level"])).tolist() == [4]
        assert np.flatnonzero(np.isnan(found.values["valve"])).tolist() == [9]
        assert len(read_log(path, **columns, missing=missing, drop_missing=True).episodes) == 5


def test_runs_have_the_same_names_in_files_of_both_kinds(rows, columns, tmp_path):
    table = pd.DataFrame(rows)
    table["run"] = table["run"].str[1:].astype(float)
    table.to_csv(tmp_path / "plant.csv", index=False)
    table.to_parquet(tmp_path / "plant.parquet")
    names = [
        [one.name for one in read_log(tmp_path / f"plant.{kind}", **columns).episodes]
        for kind in ("csv", "parquet")
    ]
    assert names == [["0", "1", "2"]] * 2


def test_blank_lines_byte_order_marks_and_short_rows(tmp_path):
    path = tmp_path / "x.csv"
    path.write_text("\ufefflevel,valve\n1,0.5\n\n2,0.25\n3\n", encoding="utf-8")
    log = read_log(path, observations=["level"], actions={"valve": (0, 1)})
    assert log.episodes[0].observations[:, 0].tolist() == [1, 2, 3]
    assert log.episodes[0].actions[:, 0].tolist() == [0.5, 0.25]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"observations": ["levle"]}, r"plant.csv has no column 'levle'.*did you mean 'level'\?"),
        ({"observations": ["LEVEL"]}, r"did you mean 'level'\?"),
        ({"episode": "runs"}, r"has no column 'runs'.*did you mean 'run'\?"),
        ({"observations": ["level", "valve"]}, "must be unique, got 'valve'"),
        ({"actions": ["valve"]}, r"need bounds.*actions=\{'valve': \(0\.\d+, 0\.\d+\)\}"),
        ({"actions": {"valve": (1, 0)}}, "valve: bounds must be finite and low < high"),
        ({"actions": {"valve": 1}}, "valve: bounds must be two numbers"),
        ({"decimal": "comma"}, "decimal must be '.' or ',', got 'comma'"),
        ({"sorted": True}, "no option 'sorted'.*did you mean 'sort'"),
    ],
)
def test_wrong_options_are_refused_in_words(rows, columns, write, change, message):
    with pytest.raises(TableError, match=message):
        read_log(write(rows), **columns | change)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "is empty"),
        ("level,valve\n", "heading but no rows"),
        ("level,valve\n1,2,3\n", "line 2: 3 cells for 2 columns"),
        ("level,level\n1,2\n", "duplicate column names: 'level'"),
    ],
)
def test_files_that_are_no_tables_are_refused(tmp_path, text, message):
    path = tmp_path / "x.csv"
    path.write_text(text)
    with pytest.raises(TableError, match=message):
        read_log(path, observations=["level"], actions={"valve": (0, 1)})


def test_bounds_are_offered_in_the_numbers_of_the_table(write):
    rows = [{"level": level, "valve": valve} for level, valve in [(1, "0,5"), (2, "2,5"), (3, -9)]]
    with pytest.raises(LogError, match=r"actions=\{'valve': \(0\.5, 2\.5\)\}"):
        read_log(
            write(rows, delimiter=";"), observations=["level"], actions=["valve"], decimal=",",
            missing=[-9],
        )  # fmt: skip


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16"])
def test_a_file_says_itself_how_it_is_written(tmp_path, encoding):
    path = tmp_path / "x.csv"
    path.write_text("°C,valve\r\n1,0\r\n2,1\r\n", encoding=encoding, newline="")
    for given in ({}, {"encoding": "utf-8"}):
        found = read_raw_log(path, observations=["°C"], actions={"valve": (0, 1)}, **given)
        assert found.values["°C"].tolist() == [1, 2]
        assert found.rows.tolist() == [2, 3]


@pytest.mark.parametrize("encoding", ["cp1252", "utf-16-le"])
def test_a_file_that_is_written_otherwise_is_refused_and_the_remedy_works(tmp_path, encoding):
    path = tmp_path / "x.csv"
    path.write_text("°C\n1\n2\n", encoding=encoding)
    with pytest.raises(TableError, match=f"pass encoding='{encoding}'"):
        read_raw_log(path, observations=["°C"], actions={})
    found = read_raw_log(path, observations=["°C"], actions={}, encoding=encoding)
    assert found.values["°C"].tolist() == [1, 2]


def test_what_is_no_text_is_refused(tmp_path):
    path = tmp_path / "x.xlsx"
    path.write_bytes(b"PK\x03\x04\x14\x00\x06\x00\xff\xfe")
    for encoding in ("utf-8", "cp1252"):
        with pytest.raises(TableError, match="save a spreadsheet as CSV or Parquet"):
            read_raw_log(path, observations=["a"], actions={}, encoding=encoding)
    with pytest.raises(TableError, match="no encoding 'ansi 1252'; common ones"):
        read_raw_log(path, observations=["a"], actions={}, encoding="ansi 1252")


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_files_and_folders_that_are_not_there_are_named(log, tmp_path, ending):
    with pytest.raises(TableError, match=f"no.{ending} cannot be read: No such file"):
        read_log(tmp_path / f"no.{ending}", observations=["a"], actions={})
    path = tmp_path / "nowhere" / f"x.{ending}"
    with pytest.raises(TableError, match=f"x.{ending} cannot be read: there is no folder"):
        read_log(path, observations=["a"], actions={})
    with pytest.raises(TableError, match=f"x.{ending} cannot be written: there is no folder"):
        write_log(log, path)


@pytest.mark.parametrize("name", ["x.xlsx", "x.txt", "x"])
def test_a_table_is_not_written_to_a_file_of_another_kind(log, tmp_path, name):
    with pytest.raises(TableError, match=r"must end in \.csv, \.parquet or \.pq, got .*x"):
        write_log(log, tmp_path / name)
    assert not (tmp_path / name).exists()


def test_a_log_is_read_with_all_that_its_frame_is_read_with():
    frame, log = (inspect.signature(read).parameters for read in (read_raw_log, read_log))
    assert all(log[name] == parameter for name, parameter in frame.items())


def test_rows_without_an_episode_are_named(rows, columns, write):
    rows[7]["run"] = ""
    with pytest.raises(LogError, match=r"episode column 'run' is blank in 1 rows.* line 9"):
        read_log(write(rows), **columns)
