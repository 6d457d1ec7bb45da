"""Steps from one version of a campaign's tables to the next.

A campaign of an older twofold is brought up to date when it is opened, one transaction for each
step (``Storage.open``): a kill leaves it at the version before or after a step, never between.
A step says what it changes in words of its own version, for the tables of today may differ.
"""

from collections.abc import Callable

import sqlalchemy as sql

VERSION = 2


def name_models(connection: sql.Connection) -> None:
    """1 to 2: a point of the curve says which model it was found with."""
    connection.execute(sql.text("ALTER TABLE snapshot ADD COLUMN model VARCHAR(64)"))


STEPS: dict[int, Callable[[sql.Connection], None]] = {1: name_models}
