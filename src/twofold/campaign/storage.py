"""Where a campaign lives: a database, through SQLAlchemy.

The default is one SQLite file. A write is one transaction, on disk before the call returns
(``synchronous=EXTRA``) and begun with the lock on writing, so that several processes take turns.
Another database will do as well if SQLAlchemy knows its URL and it can return what it inserts.

A campaign of an older twofold is brought up to date when it is opened, one transaction for each
step (``STEPS``): a kill leaves it at the version before or after a step, never between. A step
spells out what it changes, because the tables of today may differ.

The model is kept in a file beside an SQLite file, which ``twofold.load`` reads too. It only saves
time: if it is damaged, foreign or missing, the model is fitted again; if measurements have come
since, its chains go on from where they ended (``Storage.continue_fit``).
"""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import sqlalchemy as sql
from sqlalchemy.engine import make_url

from twofold.campaign.space import CampaignError, require
from twofold.core import persistence

if TYPE_CHECKING:
    from twofold.estimators.regressor import BNNLVRegressor

VERSION = 2
BUSY_SECONDS = 60
TABLES = sql.MetaData()


def _numbered(name: str, kinds: dict[str, Any], *optional: sql.Column) -> sql.Table:
    required = (kinds | {"created": sql.Float}).items()
    columns = [sql.Column(one, kind, nullable=False) for one, kind in required]
    number = sql.Column("number", sql.Integer, primary_key=True)
    return sql.Table(name, TABLES, number, *columns, *optional)


NAME, VALUE = (
    sql.Column("name", sql.String(64), primary_key=True),
    sql.Column("value", sql.Text, nullable=False),
)
ABOUT = sql.Table("twofold_campaign", TABLES, NAME, VALUE)
PROPOSALS = _numbered("proposal", dict.fromkeys(("point", "split", "reason"), sql.Text))
ANSWERED = sql.Column("proposal", sql.Integer, sql.ForeignKey("proposal.number"))
MEASUREMENTS = _numbered("measurement", dict.fromkeys(("point", "outputs"), sql.Text), ANSWERED)
MODEL = sql.Column("model", sql.String(64))
CURVE = _numbered("snapshot", {"measurements": sql.Integer, "numbers": sql.Text}, MODEL)
READING = {"twofold_reading": True}
TEXTS = {"point", "split", "outputs", "numbers"}
# SQLite locks when a transaction begins; elsewhere this row is what writers take turns at.
TURN = sql.select(ABOUT.c.value).where(ABOUT.c.name == "version").with_for_update()
Row = dict[str, Any]
# Settings of a model: defaults, and those that do not change it.
DEFAULTS, WITHOUT_EFFECT = {"random_state": 0}, {"verbose", "checkpoint", "checkpoint_seconds"}
UNREADABLE = (OSError, ValueError, LookupError, TypeError)
# Chains go on until there are so many times the rows of the last fit from scratch, which also
# chooses the form of the model.
MOST_GROWTH = 1.5
CONTINUED = "langevin"


def name_models(connection: sql.Connection) -> None:
    """1 to 2: a point of the curve says which model it belongs to."""
    connection.execute(sql.text("ALTER TABLE snapshot ADD COLUMN model VARCHAR(64)"))


STEPS: dict[int, Callable[[sql.Connection], None]] = {1: name_models}


class Fit(NamedTuple):
    """A model, a name that only models of the same data and settings share, whether its file holds
    it, and whether its chains went on from those of an earlier model."""

    model: "BNNLVRegressor"
    name: str
    stored: bool
    warm: bool = False


class Origin(NamedTuple):
    """How many rows a stored model has, and the last one before it that was fitted from scratch."""

    rows: int
    rows_from_scratch: int

    @property
    def warm(self) -> bool:
        """Whether the model goes back to an earlier one."""
        return self.rows > self.rows_from_scratch


class Storage:
    """The tables of one campaign; ``definition`` as it was when they were opened."""

    def __init__(self, engine: sql.Engine, place: str, definition: Any = None):
        self._engine, self._place, self.definition = engine, place, definition

    @classmethod
    def create(cls, place: Any, definition: dict[str, Any]) -> "Storage":
        """A new, empty campaign; refuses a place that holds anything already."""
        storage = cls(*_connect(place, must_exist=False), definition)
        with storage._explain_errors(), storage._engine.begin() as connection:
            held = ", ".join(sorted(sql.inspect(connection).get_table_names()))
            remedy = "open the campaign that is there, or choose another place"
            require(not held, f"{storage._place} already holds {held}; {remedy}")
            TABLES.create_all(connection)
            for name, value in {"version": VERSION, "definition": definition}.items():
                connection.execute(ABOUT.insert().values(name=name, value=json.dumps(value)))
        return storage

    @classmethod
    def open(cls, place: Any) -> "Storage":
        """The campaign at a place, brought up to date; refuses other databases and newer ones."""
        storage = cls(*_connect(place, must_exist=True))
        with storage.reading() as connection:
            held = sql.inspect(connection).has_table(ABOUT.name)
            require(held, f"{storage._place} is a database, but holds no campaign")
            storage._check_pages(connection)
            version = storage._version(connection)
            storage.definition = storage._about(connection, "definition")
        while version < VERSION:
            version = storage._take_step()
        return storage

    def redefine(self, changes: dict[str, Any]) -> None:
        """Replace parts of the definition."""
        with self.writing() as connection:
            self.definition = self._about(connection, "definition") | changes
            self._set_about(connection, "definition", self.definition)

    def read(self, *tables: sql.Table) -> list[list[Row]]:
        """The rows of tables, all at the same moment."""
        with self.reading() as connection:
            return [rows(connection, table) for table in tables]

    @property
    def model_file(self) -> Path | None:
        """Where the model is kept: beside an SQLite file, else nowhere."""
        url = self._engine.url
        place = url.database or ":memory:"
        if url.get_backend_name() != "sqlite" or place.startswith((":memory:", "file:")):
            return None
        return Path(f"{place}.model")

    def load_or_fit(self, settings: dict[str, Any], x: np.ndarray, y: np.ndarray) -> Fit:
        """The model of inputs ``[N, D]`` and outputs ``[N, O]``: that of the file, or a new one."""
        from twofold.estimators.regressor import BNNLVRegressor
        from twofold.estimators.storage import pack, plain_settings, unpack
        from twofold.estimators.training import whole_fits
        from twofold.inference.method import to_mapping

        model = BNNLVRegressor(**(DEFAULTS | settings))
        settings = plain_settings(model) | {"inference": to_mapping(model.inference)}
        used = {name: value for name, value in settings.items() if name not in WITHOUT_EFFECT}
        identity = {"settings": used, "data": persistence.fingerprint(x, y)}
        name = persistence.hash_identity(identity)
        file = self.model_file
        work = None if file is None else persistence.WorkFile(file, "model", identity)
        if work is not None and (found := work.find()) is not None:
            with suppress(*UNREADABLE):
                stored = unpack(found, BNNLVRegressor)
                return Fit(stored, name, True, _origin(found, len(x)).warm)
        targets = y[:, 0] if y.shape[1] == 1 else y
        try:
            with whole_fits():
                continued = self.continue_fit(used, x, targets)
                model, origin = continued or (model.fit(x, targets), Origin(len(x), len(x)))
        except ValueError as error:
            raise CampaignError(f"no model can be fitted: {error}") from error
        # Without the file, the next question takes longer; that is all.
        with suppress(OSError):
            if work is not None:
                arrays, metadata = pack(model)
                work.write(arrays, metadata | {"origin": origin._asdict()})
                return Fit(model, name, True, origin.warm)
        return Fit(model, name, False, origin.warm)

    def continue_fit(
        self, settings: dict[str, Any], x: np.ndarray, y: np.ndarray
    ) -> "tuple[BNNLVRegressor, Origin] | None":
        """Chains that go on from those of the stored model, if it has the same settings and fewer
        rows; None where a fit from scratch is due.

        What comes of it depends on nothing but these rows and the stored model.
        """
        from twofold.estimators.regressor import BNNLVRegressor
        from twofold.estimators.storage import unpack

        if self.model_file is None or settings["inference"]["method"] != CONTINUED:
            return None
        try:
            stored = persistence.read(self.model_file, "model")
            before = _origin(stored, len(x))
            same = stored.metadata["identity"]["settings"] == persistence.to_plain(settings)
            model = unpack(stored, BNNLVRegressor)
        except UNREADABLE:
            return None
        grown = before.rows < len(x) <= MOST_GROWTH * before.rows_from_scratch
        shape = model.model_.inputs, model.model_.outputs, model.y_ndim_
        same &= shape == (x.shape[1], y.reshape(len(y), -1).shape[1], y.ndim)
        if not (grown and same):
            return None
        model.set_params(warm_start=True).fit(x, y).set_params(warm_start=False)
        # A fit from scratch has trained members.
        warm = not len(model.energies_)
        return model, before._replace(rows=len(x)) if warm else Origin(len(x), len(x))

    def load_model(self, shape: tuple[int, int]) -> "BNNLVRegressor | None":
        """The model of a file, if it is there and sound, with so many input columns and outputs."""
        from twofold.estimators.regressor import load

        with suppress(*UNREADABLE):
            model = None if self.model_file is None else load(self.model_file)
            if model is not None and (model.model_.inputs, model.model_.outputs) == shape:
                return model
        return None

    @contextmanager
    def reading(self) -> Iterator[sql.Connection]:
        """A connection whose errors are a campaign's."""
        with self._explain_errors(), self._engine.connect() as connection:
            yield connection.execution_options(**READING)

    @contextmanager
    def writing(self) -> Iterator[sql.Connection]:
        """A transaction, one writer at a time: all of it is kept, or nothing."""
        with self._explain_errors(), self._engine.begin() as connection:
            connection.execute(TURN)
            yield connection

    def _take_step(self) -> int:
        """One step towards today's version, unless another process has taken it."""
        with self.writing() as connection:
            version = self._version(connection)
            if version < VERSION:
                STEPS[version](connection)
                version += 1
                self._set_about(connection, "version", version)
            self.definition = self._about(connection, "definition")
            return version

    def _check_pages(self, connection: sql.Connection) -> None:
        """Find pages of an SQLite file that were changed or cut; what cells say it cannot know."""
        if self._engine.url.get_backend_name() == "sqlite":
            found = str(connection.exec_driver_sql("PRAGMA quick_check(1)").scalar())
            if found != "ok":
                raise self._damaged(f" ({found.strip()}); restore it from a copy")

    def _version(self, connection: sql.Connection) -> int:
        version = self._about(connection, "version")
        if not isinstance(version, int) or version < min(STEPS):
            raise self._damaged(f": its version is {version!r}")
        limit = f"this twofold reads up to {VERSION}; upgrade twofold"
        require(version <= VERSION, f"{self._place} has schema version {version}, {limit}")
        return version

    def _about(self, connection: sql.Connection, name: str) -> Any:
        query = sql.select(ABOUT.c.value).where(ABOUT.c.name == name)
        try:
            return json.loads(connection.execute(query).scalar_one())
        except (sql.exc.NoResultFound, ValueError) as error:
            raise self._damaged(f": its {name} is missing or cannot be read") from error

    def _damaged(self, how: str) -> CampaignError:
        return CampaignError(f"{self._place} is damaged{how}")

    def _set_about(self, connection: sql.Connection, name: str, value: Any) -> None:
        statement = ABOUT.update().where(ABOUT.c.name == name)
        connection.execute(statement.values(value=json.dumps(value)))

    @contextmanager
    def _explain_errors(self) -> Iterator[None]:
        try:
            yield
        except sql.exc.DatabaseError as error:
            problem = f"{self._place} cannot be used as a campaign: {error.__cause__}"
            raise CampaignError(problem) from error
        except UnicodeError as error:
            # What SQLite says of a damaged schema may hold bytes of it that are no text.
            raise self._damaged(f" ({error}); restore it from a copy") from error


def _origin(stored: persistence.Stored, rows: int) -> Origin:
    """Of a stored model; one of an older twofold was fitted from scratch to so many rows."""
    return Origin(**stored.metadata.get("origin", {"rows": rows, "rows_from_scratch": rows}))


def insert(connection: sql.Connection, table: sql.Table, **values: Any) -> int:
    """Add a row, dictionaries as JSON; returns its number."""
    texts = {name: json.dumps(value) for name, value in values.items() if isinstance(value, dict)}
    row = values | texts | {"created": time.time()}
    statement = table.insert().values(row).returning(table.c.number)
    return int(connection.execute(statement).scalar_one())


def count(connection: sql.Connection, table: sql.Table) -> int:
    """How many rows there are."""
    return int(connection.execute(sql.select(sql.func.count()).select_from(table)).scalar_one())


def rows(connection: sql.Connection, table: sql.Table) -> list[Row]:
    """All rows in order, JSON texts as what they say."""
    found = connection.execute(sql.select(table).order_by(table.c.number)).mappings()
    return [
        {name: _parse(table, row, name) if name in TEXTS else row[name] for name in row}
        for row in found
    ]


def _parse(table: sql.Table, row: Any, name: str) -> dict[str, Any]:
    """What a JSON text says, which is always a dictionary."""
    try:
        return dict(json.loads(row[name]).items())
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CampaignError(
            f"the campaign is damaged: the {name} of {table.name} {row['number']} cannot be read "
            f"({error}); restore it from a copy"
        ) from error


def _connect(place: Any, must_exist: bool) -> tuple[sql.Engine, str]:
    """An engine for a path or a database URL, and how to call it in messages."""
    text = str(place)
    if "://" not in text:
        path = Path(text)
        there = path.is_file() or not must_exist
        require(there, f"there is no campaign at {path}; create one first")
        require(path.parent.is_dir(), f"there is no folder {path.parent} to put {path.name} into")
        text = f"sqlite:///{path}"
    try:
        url = make_url(text)
        if url.get_backend_name() != "sqlite":
            return sql.create_engine(url), url.render_as_string(hide_password=True)
    except (sql.exc.ArgumentError, ValueError) as error:
        raise CampaignError(f"{place} is neither a path nor a database URL") from error
    engine = sql.create_engine(url, connect_args={"timeout": BUSY_SECONDS})
    sql.event.listen(engine, "connect", _make_durable)
    sql.event.listen(engine, "begin", _begin)
    return engine, url.database or "the campaign in memory"


def _make_durable(connection: Any, _: Any) -> None:
    """A committed transaction is on the disk, and so is the removal of its journal, without which
    a power cut could still undo it; SQLAlchemy says when one begins."""
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous=EXTRA")
    connection.execute("PRAGMA foreign_keys=ON")


def _begin(connection: sql.Connection) -> None:
    """Take the lock on writing at once: a reader that turns writer could wait for itself.

    Who only reads needs none, and a disk that may only be read gives none.
    """
    reads = READING.items() <= connection.get_execution_options().items()
    connection.exec_driver_sql("BEGIN" if reads else "BEGIN IMMEDIATE")
