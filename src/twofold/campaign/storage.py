"""Where a campaign lives: a database, through SQLAlchemy.

The default is one SQLite file. A write is one transaction, on disk before the call returns
(``synchronous=FULL``) and begun with the lock on writing, so that several processes take turns.
Every other database URL that SQLAlchemy knows will do as well.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy.engine import make_url

from twofold.campaign.errors import CampaignError

VERSION = 1
BUSY_SECONDS = 60
TABLES = sql.MetaData()

ABOUT = sql.Table(
    "twofold_campaign",
    TABLES,
    sql.Column("name", sql.String(64), primary_key=True),
    sql.Column("value", sql.Text, nullable=False),
)
PROPOSALS = sql.Table(
    "proposal",
    TABLES,
    sql.Column("number", sql.Integer, primary_key=True),
    sql.Column("point", sql.Text, nullable=False),
    sql.Column("split", sql.Text, nullable=False),
    sql.Column("reason", sql.Text, nullable=False),
    sql.Column("created", sql.Float, nullable=False),
)
MEASUREMENTS = sql.Table(
    "measurement",
    TABLES,
    sql.Column("number", sql.Integer, primary_key=True),
    sql.Column("proposal", sql.Integer, sql.ForeignKey("proposal.number"), nullable=True),
    sql.Column("point", sql.Text, nullable=False),
    sql.Column("outputs", sql.Text, nullable=False),
    sql.Column("created", sql.Float, nullable=False),
)
SNAPSHOTS = sql.Table(
    "snapshot",
    TABLES,
    sql.Column("number", sql.Integer, primary_key=True),
    sql.Column("measurements", sql.Integer, nullable=False),
    sql.Column("numbers", sql.Text, nullable=False),
    sql.Column("created", sql.Float, nullable=False),
)


class Storage:
    """The tables of one campaign."""

    def __init__(self, engine: sql.Engine, place: str):
        self._engine = engine
        self._place = place

    @classmethod
    def create(cls, place: Any, definition: dict[str, Any]) -> "Storage":
        """A new, empty campaign; refuses a place that holds anything already."""
        storage = cls(*_engine(place, must_exist=False))
        with storage.writing() as connection:
            present = sql.inspect(connection).get_table_names()
            if present:
                raise CampaignError(
                    f"{storage._place} already holds {', '.join(sorted(present))}; open the "
                    "campaign that is there, or choose another place"
                )
            TABLES.create_all(connection)
            for name, value in {"version": VERSION, "definition": definition}.items():
                connection.execute(ABOUT.insert().values(name=name, value=json.dumps(value)))
        return storage

    @classmethod
    def open(cls, place: Any) -> "Storage":
        """The campaign at a place; refuses files that are none, or of a newer twofold."""
        storage = cls(*_engine(place, must_exist=True))
        with storage.reading() as connection:
            if not sql.inspect(connection).has_table(ABOUT.name):
                raise CampaignError(f"{storage._place} is a database, but holds no campaign")
        version = storage.about("version")
        if version != VERSION:
            raise CampaignError(
                f"{storage._place} has schema version {version}, this twofold knows {VERSION}; "
                "upgrade twofold"
            )
        return storage

    def about(self, name: str) -> Any:
        """One of the facts stored at the creation."""
        with self.reading() as connection:
            query = sql.select(ABOUT.c.value).where(ABOUT.c.name == name)
            found = connection.execute(query).scalar()
        if found is None:
            raise CampaignError(f"{self._place} is damaged: its {name} is missing")
        return json.loads(found)

    @contextmanager
    def reading(self) -> Iterator[sql.Connection]:
        """A connection whose errors are a campaign's."""
        try:
            with self._engine.connect() as connection:
                yield connection
        except sql.exc.DatabaseError as error:
            raise self._explained(error) from error

    @contextmanager
    def writing(self) -> Iterator[sql.Connection]:
        """A transaction: all of it is kept, or nothing."""
        try:
            with self._engine.begin() as connection:
                yield connection
        except sql.exc.DatabaseError as error:
            raise self._explained(error) from error

    def _explained(self, error: Exception) -> CampaignError:
        return CampaignError(f"{self._place} cannot be used as a campaign: {error.__cause__}")


def insert(connection: sql.Connection, table: sql.Table, **values: Any) -> int:
    """Add a row, dictionaries as JSON; returns its number."""
    plain = {
        name: json.dumps(value) if isinstance(value, dict) else value
        for name, value in values.items()
    }
    statement = table.insert().values(**plain, created=time.time()).returning(table.c.number)
    return int(connection.execute(statement).scalar_one())


def rows(connection: sql.Connection, table: sql.Table) -> list[dict[str, Any]]:
    """All rows in order, JSON texts as what they say."""
    texts = {"point", "split", "outputs", "numbers"}
    found = connection.execute(sql.select(table).order_by(table.c.number)).mappings()
    return [
        {name: json.loads(value) if name in texts else value for name, value in row.items()}
        for row in found
    ]


def _engine(place: Any, must_exist: bool) -> tuple[sql.Engine, str]:
    """An engine for a path or a database URL, and how to call it in messages."""
    text = str(place)
    if "://" not in text:
        path = Path(text)
        if must_exist and not path.is_file():
            raise CampaignError(f"there is no campaign at {path}; create one first")
        if not path.parent.is_dir():
            raise CampaignError(f"there is no folder {path.parent} to put {path.name} into")
        text = f"sqlite:///{path}"
    try:
        url = make_url(text)
    except sql.exc.ArgumentError as error:
        raise CampaignError(f"{place} is neither a path nor a database URL") from error
    if url.get_backend_name() != "sqlite":
        return sql.create_engine(url), url.render_as_string(hide_password=True)
    engine = sql.create_engine(url, connect_args={"timeout": BUSY_SECONDS})
    sql.event.listen(engine, "connect", _durable)
    sql.event.listen(engine, "begin", _begin)
    return engine, url.database or "the campaign in memory"


def _durable(connection: Any, _: Any) -> None:
    """A committed transaction is on the disk; SQLAlchemy says when one begins."""
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous=FULL")
    connection.execute("PRAGMA foreign_keys=ON")


def _begin(connection: sql.Connection) -> None:
    """Take the lock on writing at once: a reader that turns writer could wait for itself."""
    connection.exec_driver_sql("BEGIN IMMEDIATE")
