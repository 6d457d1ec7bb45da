"""Tables from CSV and Parquet files and from data frames, whole or block by block, and back."""

from twofold.tables.errors import TableError

__all__ = ["TableError"]
