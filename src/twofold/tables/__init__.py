"""Tables from CSV and Parquet files and from data frames, whole or block by block, and back."""

from twofold.tables.reading import TableFile, open_table, read_table
from twofold.tables.table import Table, TableError, check_names, check_roles
from twofold.tables.writing import csv_text, open_writer, would_overwrite, write_table

__all__ = [
    "Table", "TableError", "TableFile", "check_names", "check_roles", "csv_text", "open_table",
    "open_writer", "read_table", "would_overwrite", "write_table",
]  # fmt: skip
