"""The database of a campaign, through SQLAlchemy.

The default is one SQLite file. A write is one transaction, on disk before the call returns
(``synchronous=EXTRA``); it takes the write lock at its start, so that processes take turns. Any
other database works if SQLAlchemy supports it and it supports RETURNING.
"""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import sqlalchemy as sql
from sqlalchemy.engine import make_url

from twofold.campaign.inputs import CampaignError, require

VERSION = 1
BUSY_SECONDS = 60
TABLES = sql.MetaData()


def _numbered(name: str, kinds: dict[str, Any], *optional: sql.Column) -> sql.Table:
    required = (kinds | {"created": sql.Float}).items()
    columns = [sql.Column(one, kind, nullable=False) for one, kind in required]
    number = sql.Column("number", sql.Integer, primary_key=True)
    return sql.Table(name, TABLES, number, *columns, *optional)


ABOUT = sql.Table(
    "twofold_campaign", TABLES, sql.Column("name", sql.String(64), primary_key=True),
    sql.Column("value", sql.Text, nullable=False),
)  # fmt: skip
PROPOSALS = _numbered(
    "proposal", dict.fromkeys(("point", "split", "reason"), sql.Text),
    sql.Column("cancelled", sql.Float),
)  # fmt: skip
# ``earlier`` holds replaced outputs by time of correction.
MEASUREMENTS = _numbered(
    "measurement", dict.fromkeys(("point", "outputs"), sql.Text),
    sql.Column("proposal", sql.Integer, sql.ForeignKey("proposal.number")),
    sql.Column("note", sql.Text),
    sql.Column("earlier", sql.Text, nullable=False, server_default="{}"),
    sql.Column("removed", sql.Float),
)  # fmt: skip
CURVE = _numbered(
    "snapshot", {"measurements": sql.Integer, "numbers": sql.Text},
    sql.Column("model", sql.String(64)),
)  # fmt: skip
READING = {"twofold_reading": True}
DRIVER = "postgresql+psycopg"  # default driver
TEXTS = {"point", "split", "outputs", "earlier", "numbers"}
# SQLite locks when a transaction begins; in other databases, writers lock this row.
TURN = sql.select(ABOUT.c.value).where(ABOUT.c.name == "version").with_for_update()
Row = dict[str, Any]


class Storage:
    """The tables of one campaign; ``definition`` is as of the time of opening."""

    def __init__(self, engine: sql.Engine, place: str, definition: Any = None):
        self._engine, self._place, self.definition = engine, place, definition

    @classmethod
    def create(cls, place: Any, definition: dict[str, Any]) -> "Storage":
        """Create an empty campaign; refuses a place that contains anything already."""
        storage = cls(*_connect(place, must_exist=False), definition)
        with storage._explain_errors(), storage._engine.begin() as connection:
            held = ", ".join(sorted(sql.inspect(connection).get_table_names()))
            if ABOUT.name in held:
                held = "a campaign, which every other command opens"
            require(not held, f"{storage._place} already contains {held}; choose another place")
            TABLES.create_all(connection)
            for name, value in {"version": VERSION, "definition": definition}.items():
                connection.execute(ABOUT.insert().values(name=name, value=json.dumps(value)))
        return storage

    @classmethod
    def open(cls, place: Any) -> "Storage":
        """Open the campaign at a place; refuses other databases and versions."""
        storage = cls(*_connect(place, must_exist=True))
        with storage.reading() as connection:
            held = sql.inspect(connection).has_table(ABOUT.name)
            require(held, f"{storage._place} is a database without a campaign")
            if storage._engine.url.get_backend_name() == "sqlite":
                # Detects corrupt or truncated pages, but not changed cell values.
                state = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar()).strip()
                require(state == "ok", storage._damaged(f" ({state}); restore it from a copy"))
            version = storage._about(connection, "version")
            number = isinstance(version, int) and version >= 1
            require(number, storage._damaged(f": its version is {version!r}"))
            newer = f"{storage._place} has schema version {version}"
            require(version == VERSION, f"{newer}, this twofold reads {VERSION}; upgrade twofold")
            storage.definition = storage._about(connection, "definition")
        return storage

    def redefine(self, changes: dict[str, Any]) -> None:
        with self.writing() as connection:
            self.definition = self._about(connection, "definition") | changes
            statement = ABOUT.update().where(ABOUT.c.name == "definition")
            connection.execute(statement.values(value=json.dumps(self.definition)))

    def read(self, *tables: sql.Table) -> list[list[Row]]:
        """The rows of several tables, from one snapshot."""
        with self.reading() as connection:
            return [rows(connection, table) for table in tables]

    def measure(self, *tables: sql.Table) -> list[str]:
        """Sizes of tables, which every write changes: rows and old outputs are never deleted."""
        sizes = []
        with self.reading() as connection:
            for table in tables:
                texts = [column for column in table.c if isinstance(column.type, sql.Text)]
                lengths = [sql.func.sum(sql.func.length(column)) for column in texts]
                query = sql.select(*map(sql.func.count, table.c), *lengths)
                sizes.append(str(connection.execute(query).one()))
        return sizes

    @property
    def model_file(self) -> Path | None:
        """Path of the stored model, beside an SQLite file; None for other databases."""
        url = self._engine.url
        place = url.database or ":memory:"
        if url.get_backend_name() != "sqlite" or place.startswith((":memory:", "file:")):
            return None
        return Path(f"{place}.model")

    @contextmanager
    def reading(self) -> Iterator[sql.Connection]:
        """A connection that raises ``CampaignError`` and sees one consistent snapshot."""
        backend = self._engine.url.get_backend_name()
        level = {"isolation_level": "REPEATABLE READ"} if backend == "postgresql" else {}
        with self._explain_errors(), self._engine.connect() as connection:
            yield connection.execution_options(**READING, **level)

    @contextmanager
    def writing(self) -> Iterator[sql.Connection]:
        """An atomic transaction, one writer at a time."""
        with self._explain_errors(), self._engine.begin() as connection:
            connection.execute(TURN)
            yield connection

    def _about(self, connection: sql.Connection, name: str) -> Any:
        query = sql.select(ABOUT.c.value).where(ABOUT.c.name == name)
        try:
            return json.loads(connection.execute(query).scalar_one())
        except (sql.exc.NoResultFound, ValueError) as error:
            how = f": its {name} is missing or cannot be read"
            raise CampaignError(self._damaged(how)) from error

    def _damaged(self, how: str) -> str:
        return f"{self._place} is damaged{how}"

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except sql.exc.DatabaseError as error:
            cause = " ".join(str(error.__cause__).split())
            raise CampaignError(f"{self._place} cannot be used as a campaign: {cause}") from error
        except UnicodeError as error:
            # SQLite's message about a damaged schema may contain undecodable bytes.
            problem = self._damaged(f" ({error}); restore it from a copy")
            raise CampaignError(problem) from error


def insert(connection: sql.Connection, table: sql.Table, **values: Any) -> int:
    """Add a row; returns its number."""
    row = _write(values) | {"created": time.time()}
    statement = table.insert().values(row).returning(table.c.number)
    return int(connection.execute(statement).scalar_one())


def update(connection: sql.Connection, table: sql.Table, row: Row, **values: Any) -> None:
    """Change values of a row, in memory and in the table."""
    row |= values
    statement = table.update().where(table.c.number == row["number"])
    connection.execute(statement.values(_write(values)))


def _write(values: Row) -> Row:
    """Dictionaries as JSON."""
    texts = {name: json.dumps(value) for name, value in values.items() if isinstance(value, dict)}
    return values | texts


def count(connection: sql.Connection, table: sql.Table) -> int:
    return int(connection.execute(sql.select(sql.func.count()).select_from(table)).scalar_one())


def rows(connection: sql.Connection, table: sql.Table) -> list[Row]:
    """All rows in order, with JSON parsed."""
    result = connection.execute(sql.select(table).order_by(table.c.number)).mappings()
    return [
        {name: _parse(table, row, name) if name in TEXTS else row[name] for name in row}
        for row in result
    ]


def _parse(table: sql.Table, row: Any, name: str) -> dict[str, Any]:
    """Parse a JSON text, which must be a dictionary."""
    try:
        return dict(json.loads(row[name]).items())
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CampaignError(
            f"the campaign is damaged: the {name} of {table.name} {row['number']} cannot be read "
            f"({error}); restore it from a copy"
        ) from error


def _connect(place: Any, must_exist: bool) -> tuple[sql.Engine, str]:
    """An engine for a path or a database URL, and its name for messages."""
    text = str(place)
    if "://" not in text:
        path = Path(text)
        there = path.is_file() or not must_exist
        require(there, f"there is no campaign at {path}; create one first")
        require(path.parent.is_dir(), f"there is no folder {path.parent}; create it first")
        text = f"sqlite:///{path}"
    try:
        url = make_url(text)
        if url.drivername == "postgresql":
            url = url.set(drivername=DRIVER)
        if url.get_backend_name() != "sqlite":
            return sql.create_engine(url), url.render_as_string(hide_password=True)
    except (sql.exc.ArgumentError, ValueError) as error:
        raise CampaignError(f"{place} is neither a path nor a database URL") from error
    except ImportError as error:
        package = "twofold[postgres]" if url.drivername == DRIVER else error.name
        problem = f"a campaign in {url.get_backend_name()} needs a driver ({error})"
        raise CampaignError(f'{problem}: pip install "{package}"') from error
    engine = sql.create_engine(url, connect_args={"timeout": BUSY_SECONDS})
    sql.event.listen(engine, "connect", _make_durable)
    sql.event.listen(engine, "begin", _begin)
    return engine, url.database or "the campaign in memory"


def _make_durable(connection: Any, _: Any) -> None:
    """Sync committed transactions to disk, including the removal of the journal, without which a
    power cut could still undo them; SQLAlchemy controls when transactions begin."""
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous=EXTRA")
    connection.execute("PRAGMA foreign_keys=ON")


def _begin(connection: sql.Connection) -> None:
    """Take the write lock at once: upgrading a reader to a writer could deadlock. Read-only
    transactions take none, so they also work on a read-only disk."""
    reads = READING.items() <= connection.get_execution_options().items()
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")
