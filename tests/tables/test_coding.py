"""Columns of tables as inputs of models: numbers, dates, categories, and back."""

import numpy as np
import pytest

from twofold.tables import TableError, read_table
from twofold.tables.coding import (
    Column,
    decode,
    describe_columns,
    encode,
    find_step,
    name_outside,
    spread,
)

TEXT = """heat,day,acid,size,lot,note
20,2025-03-01,citric,small,7,a0
25,2025-03-02,lactic,large,8,a1
30,2025-03-04,citric,medium,7,a2
30,2025-03-04,,small,8,a3
"""


@pytest.fixture
def table(tmp_path):
    (tmp_path / "oven.csv").write_text(TEXT)
    return read_table(tmp_path / "oven.csv")


@pytest.fixture
def columns(table):
    given = {"size": ["small", "medium", "large"], "lot": []}
    return describe_columns(table, ["heat", "day", "acid", "size", "lot"], given)


def test_columns_are_what_their_cells_say_or_what_is_said(columns):
    assert [one.kind for one in columns] == ["number", "date", "category", "ordered", "category"]
    assert columns[2].levels == ("citric", "lactic") and columns[4].levels == ("7", "8")
    assert columns[2].features == ["acid=citric", "acid=lactic"]


def test_dates_are_days_words_are_ones_and_zeros_and_ordered_words_numbers(table, columns):
    with pytest.raises(TableError, match=r"1 of 4 rows .* \('acid' 1\), the first of them line 5"):
        encode(table, columns)
    values, kept = encode(table, columns, ["heat"], drop_missing=True)
    first = np.datetime64("2025-03-01").astype("datetime64[D]").astype(int)
    expected = [
        [20, first, 1, 0, 0, 1, 0, 20],
        [25, first + 1, 0, 1, 2, 0, 1, 25],
        [30, first + 3, 1, 0, 1, 1, 0, 30],
    ]
    np.testing.assert_array_equal(values, expected)
    np.testing.assert_array_equal(kept, [0, 1, 2])
    cells = decode(
        [one.with_range(values[:, [i]]) for i, one in enumerate(columns[:2])], values[:, :2]
    )
    assert cells == {"heat": [20, 25, 30], "day": ["2025-03-01", "2025-03-02", "2025-03-04"]}
    assert decode(columns[2:4], values[:, 2:5])["size"] == ["small", "large", "medium"]


def test_what_no_model_has_seen_is_refused_with_its_place(tmp_path, columns):
    (tmp_path / "new.csv").write_text(TEXT.replace("lactic", "lactik"))
    with pytest.raises(TableError, match=r"line 3 is 'lactik'.* did you mean 'lactic'.*fit again"):
        encode(read_table(tmp_path / "new.csv"), columns)


def test_comments_and_mixed_columns_are_no_categories(tmp_path):
    rows = "".join(f"remark {i},{i if i else 'none yet'}\n" for i in range(40))
    (tmp_path / "notes.csv").write_text("note,count\n" + rows)
    table = read_table(tmp_path / "notes.csv")
    with pytest.raises(TableError, match="'note' has 40 different texts"):
        describe_columns(table, ["note"])
    with pytest.raises(TableError, match="must be numbers, but 1 row has text"):
        describe_columns(table, ["count"])
    assert describe_columns(table, ["count"], {"count": []})[0].kind == "category"


@pytest.mark.parametrize(
    ("values", "step"),
    [
        ([3, 8, 20, 21], 1.0),
        ([0.5, 1.25, 3.1], 0.01),
        ([5, 10, 10, 20, 5, 20], 5.0),
        ([np.pi], None),
    ],
)
def test_a_step_is_that_of_the_grid_or_of_the_last_decimal(values, step):
    assert find_step(np.array(values, float)) == step


def test_points_are_spread_over_ranges_on_the_grid_of_each_column(columns):
    heat = Column("heat", low=20.0, high=30.0, step=5.0)
    day = Column("day", "date", low=20_000.0, high=20_010.0, step=1.0)
    plain = Column("plain", low=-1.0, high=1.0)
    rows = spread([heat, day, columns[2], plain], 64, 0)
    assert set(rows[:, 0]) == {20.0, 25.0, 30.0} and set(rows[:, 1]) <= set(range(20_000, 20_011))
    np.testing.assert_array_equal(rows[:, 2:4].sum(axis=1), 1.0)
    assert len(np.unique(rows, axis=0)) == len(rows) and np.ptp(rows[:, 4]) > 1.9
    assert len(spread([heat], 64, 0)) == 3


def test_times_of_day_and_small_constants_come_back():
    hours = Column("when", "date", low=20_000.0, high=20_001.0, step=1 / 24)
    assert hours.decode(np.array([[20_000.5]])) == ["2024-10-04 12:00"]
    noon = Column("when", "date", low=20_000.5, high=20_010.5, step=1.0)
    assert noon.decode(np.array([[20_001.5]])) == ["2024-10-05 12:00"]
    assert Column("tiny", low=1.5e-9, high=1.5e-9).decode(np.array([[1.5e-9]])) == [1.5e-9]


@pytest.mark.parametrize(
    ("cells", "new"),
    [
        (["2025/01/17", "2025/02/18"], None),
        (["17/01/25", "18/02/25"], "2025-04-03"),
        (["17/01/2025 01:00 +01:00", "18/02/2025 01:00 +01:00"], "2025-04-03"),
        (["01/17/2025", "02/18/2025"], "2025-03-04"),
    ],
)
def test_dates_are_read_as_people_write_them(tmp_path, cells, new):
    (tmp_path / "dates.csv").write_text("\n".join(["day", *cells]) + "\n")
    table = read_table(tmp_path / "dates.csv")
    (column,) = describe_columns(table, ["day"])
    first = np.datetime64("2025-01-17").astype("datetime64[D]").astype(int)
    np.testing.assert_array_equal(encode(table, [column])[0][:, 0], [first, first + 32])
    # A new table is read in the order that the model's table has shown.
    (tmp_path / "new.csv").write_text("day\n03/04/2025\n")
    table = read_table(tmp_path / "new.csv")
    if new is None:
        with pytest.raises(
            TableError, match="no value shows whether the day or the month comes first"
        ):
            encode(table, [column])
    else:
        assert encode(table, [column])[0].item() == np.datetime64(new).astype(int)


def test_a_column_of_dates_with_another_text_is_refused_by_its_place(tmp_path):
    (tmp_path / "dates.csv").write_text("day\n2025-01-17\n2025-01-18\nyesterday\n")
    with pytest.raises(TableError, match="'day' in line 4 must be a date, got 'yesterday'"):
        describe_columns(read_table(tmp_path / "dates.csv"), ["day"])


def test_a_word_for_nothing_is_a_level_where_it_is_named(tmp_path):
    (tmp_path / "acid.csv").write_text("acid\nNA\nlow\nnone\n")
    table = read_table(tmp_path / "acid.csv")
    (found,) = describe_columns(table, ["acid"])
    assert found.levels == ("low", "none")
    (named,) = describe_columns(table, ["acid"], {"acid": ["NA", "low", "none"]})
    np.testing.assert_array_equal(encode(table, [named])[0][:, 0], [0, 1, 2])


def test_rows_outside_the_measured_range_are_found():
    heat, acid = Column("heat", low=20.0, high=30.0), Column("acid", "category", ("a", "b"))
    plain = Column("plain")
    x = np.array([[25.0, 1, 0, 9.0], [31.0, 0, 1, 9.0], [19.0, 1, 0, 9.0]])
    assert name_outside([heat, acid, plain], x) == ["", "heat", "heat"]
