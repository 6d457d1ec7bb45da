"""``TableError``: what is wrong with a table, in one sentence."""


class TableError(ValueError):
    """A table that cannot be read or written, or that does not hold what was asked for."""
