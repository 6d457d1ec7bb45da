"""Tables are read as Python's csv module reads them, whole and in blocks, row for row."""

import csv

import numpy as np
import pandas as pd
import pytest

from twofold.tables import TableError, open_table, read_table, reading


def reference(path, width):
    """Lines and cells of the rows that are not blank."""
    with path.open(encoding="utf-8", newline=None) as file:
        reader = csv.reader(file)
        next(reader)
        rows = [(reader.line_num, [*row, *[""] * width][:width]) for row in reader]
    return [(line, cells) for line, cells in rows if any(cell.strip() for cell in cells)]


def found(tables):
    """The same of tables, with line breaks within cells as Python has them."""
    return [
        (line, ["\n".join(cell.splitlines()) for cell in cells])
        for one in tables
        for line, *cells in zip(one.rows.tolist(), *one.data.to_pydict().values(), strict=True)
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
@pytest.mark.parametrize("seed", range(4))
def test_ragged_blank_and_quoted_rows_keep_their_lines(tmp_path, monkeypatch, seed, end):
    monkeypatch.setattr(reading, "PARSED_ROWS", 5)
    rng = np.random.default_rng(seed)
    kinds = ["1,2,3", "4,5", "6", "", " , ,", "7,8,9,", '"a\nb",2,3', '1,"c ""d""",""']
    lines = ["a,b,c", *rng.choice(kinds, 60).tolist()]
    path = tmp_path / "t.csv"
    path.write_text("\n".join(lines), newline=end)
    expected = reference(path, 3)
    assert found([read_table(path)]) == expected
    for size in (1, 7, 100):
        blocks = list(open_table(path).blocks(size))
        assert found(blocks) == expected and {len(one) for one in blocks[:-1]} <= {size}


def test_a_row_with_too_many_cells_is_named_by_its_line(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text('a,b\n"1\n",2\n\n3\n4,5,6\n')
    for read in (read_table, lambda one: list(open_table(one).blocks(2))):
        with pytest.raises(TableError, match=r"t\.csv, line 6: 3 cells for 2 columns"):
            read(path)


def test_columns_without_a_heading_are_kept_but_not_named(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text(",a,\n0,1.5,x\n1,2.5,y\n")
    table = read_table(path)
    assert table.names == ["a"] and table.values(table.names)[0].tolist() == [[1.5], [2.5]]
    assert list(table.to_lists().values()) == [[0.0, 1.0], [1.5, 2.5], ["x", "y"]]


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_texts_and_missing_values_are_counted_and_named(tmp_path, ending):
    frame = pd.DataFrame({"a": ["1", "b", "c"], "x": [1.0, np.nan, 3.0]})
    path = tmp_path / f"t.{ending}"
    frame.to_csv(path, index=False) if ending == "csv" else frame.to_parquet(path)
    unit = "line 3" if ending == "csv" else "row 1"
    table = read_table(path)
    with pytest.raises(TableError, match=f"'a' must be numbers, but 2 rows .* 'b' in {unit}"):
        table.values(["a"])
    with pytest.raises(TableError, match=rf"1 of 3 rows .*\('x' 1\), the first of them {unit}"):
        table.values(["x"])
    values, kept = table.values(["x"], drop_missing=True)
    assert values.tolist() == [[1.0], [3.0]]
    assert table.places(kept) == (["line 2", "line 4"] if ending == "csv" else ["row 0", "row 2"])


def test_categories_dates_and_durations_of_a_data_frame():
    frame = pd.DataFrame({
        "kind": pd.Categorical(["1.5", "2", None]),
        "at": pd.to_datetime(["2024-01-01", "2024-01-02", None]),
        "after": pd.to_timedelta(["5s", "7s", "12s"]),
        7: [True, False, True],
    })  # fmt: skip
    table = read_table(frame)
    np.testing.assert_array_equal(table.numbers("kind").values, [1.5, 2.0, np.nan])
    np.testing.assert_array_equal(table.times("at").values, [0.0, 86_400.0, np.nan])
    np.testing.assert_array_equal(table.times("after").values, [0.0, 2.0, 7.0])
    assert table.numbers("7").values.tolist() == [1.0, 0.0, 1.0]
    assert table.labels("kind") == ["1.5", "2", ""]
