"""What is wrong with a table that is read in blocks is said by the name of its file."""

import subprocess
import sys

import numpy as np
import pytest

from twofold.tables import TableError, open_table, open_writer

pyarrow = pytest.importorskip("pyarrow", reason="pyarrow is not installed (extra parquet)")
parquet = pytest.importorskip("pyarrow.parquet")


def read_all(path):
    return list(open_table(path).blocks(4))


def test_a_csv_with_an_endless_cell(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('x,y\n1,2\n"3,' + "4" * 200_000)
    with pytest.raises(TableError, match=r"a\.csv cannot be read as a CSV file: .*limit"):
        read_all(path)


def test_a_damaged_page_of_a_parquet_file(tmp_path):
    path = tmp_path / "a.parquet"
    parquet.write_table(pyarrow.table({"x": [1.5] * 100}), path, compression="none")
    data = bytearray(path.read_bytes())
    data[4:24] = b"\xff" * 20
    path.write_bytes(data)
    with pytest.raises(TableError, match=r"a\.parquet cannot be read as a Parquet file"):
        read_all(path)


def test_files_of_a_folder_that_differ_in_kind(tmp_path):
    parquet.write_table(pyarrow.table({"x": [1, 2]}), tmp_path / "a.parquet")
    parquet.write_table(pyarrow.table({"x": [1.5, 2.5]}), tmp_path / "b.parquet")
    with pytest.raises(
        TableError, match=r"b.parquet has the columns x \(double\), but .* x \(int64\)"
    ):
        open_table(tmp_path)


READ = """
import sys, pyarrow
from twofold.tables import open_table
rows = sum(map(len, open_table(sys.argv[1]).blocks(1000)))
print(rows, pyarrow.default_memory_pool().max_memory())
"""


def test_a_row_group_need_not_fit_into_memory(tmp_path):
    values = np.random.default_rng(0).normal(size=(4, 400_000))
    table = pyarrow.table({f"x{index}": column for index, column in enumerate(values)})
    path = tmp_path / "a.parquet"
    parquet.write_table(table, path, len(table), use_dictionary=False, data_page_size=2**16)
    assert parquet.ParquetFile(path).num_row_groups == 1
    # What Arrow had at most is known of a whole process alone.
    done = subprocess.run([sys.executable, "-c", READ, path], capture_output=True, check=True)
    rows, most = map(int, done.stdout.split())
    # Of each column some pages and buffers of 64 KiB; the row group has 12.8 MB.
    assert rows == len(table) and most < values.nbytes / 8


def test_the_rows_of_a_large_row_group_keep_their_order(tmp_path):
    values = np.arange(50_000.0)
    parquet.write_table(pyarrow.table({"x": values}), tmp_path / "a.parquet", data_page_size=2**12)
    source = open_table(tmp_path / "a.parquet")
    for block in source.blocks(999):
        np.testing.assert_array_equal(block.data["x"].to_numpy(), values[block.rows])
    assert block.rows[-1] == len(values) - 1


def test_two_columns_of_one_name(tmp_path):
    table = pyarrow.Table.from_arrays([pyarrow.array([1]), pyarrow.array([2])], names=["x", "x"])
    parquet.write_table(table, tmp_path / "a.parquet")
    with pytest.raises(TableError, match="duplicate column names: 'x'"):
        open_table(tmp_path / "a.parquet")


def test_a_link_stays_a_link_and_other_endings_are_refused(tmp_path):
    (tmp_path / "real.csv").write_text("old\n")
    (tmp_path / "link.csv").symlink_to(tmp_path / "real.csv")
    with open_writer(tmp_path / "link.csv") as write:
        write({"x": [1, 2]})
    assert (tmp_path / "link.csv").is_symlink()
    assert (tmp_path / "real.csv").read_text() == "x\n1\n2\n"
    with pytest.raises(TableError, match=r"must end in \.csv"), open_writer(tmp_path / "a.xlsx"):
        pass
    with pytest.raises(RuntimeError), open_writer(tmp_path / "real.csv") as write:
        write({"x": [3]})
        raise RuntimeError
    assert (tmp_path / "real.csv").read_text() == "x\n1\n2\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["link.csv", "real.csv"]
