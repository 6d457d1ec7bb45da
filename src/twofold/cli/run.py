"""One run of a command: its options from ``--config FILE.toml``, and the record it leaves. The
record lies beside the command's output, or, for a command that writes no file, in
``$XDG_STATE_HOME/twofold/runs`` (``~/.local/state`` by default)."""

import csv
import functools
import hashlib
import inspect
import io
import json
import os
import shlex
import sys
import time
import tomllib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import typer
from typer import Option

from twofold.cli import terminal
from twofold.cli.terminal import CommandError, check_names, print_message, print_note
from twofold.core import persistence
from twofold.core.persistence import to_plain
from twofold.tables import csv_text, write_table
from twofold.tables.table import disk_errors

ENDING = ".record.json"
# Options of the command line itself are not allowed in a file.
NOT_IN_FILES = ("config", "help")
# Options that affect where a result is written and how it is shown, but not its content.
WITHOUT_EFFECT = ("out", "force", "config", "as_json")
Verb = Callable[..., None]


def read_config(ctx: typer.Context, path: Path | None) -> Path | None:
    """Read a command's defaults from its table in a TOML file: ``[fit]``, ``[policy.search]``."""
    if path is not None and not ctx.resilient_parsing:
        words = ctx.command_path.split()[1:]
        table = _find_table(path, words, ctx.find_root().command)
        ctx.default_map = _to_defaults(f"[{'.'.join(words)}] in {path}", table, ctx.command.params)
    return path


CONFIG = Option(
    "--config", is_eager=True, callback=read_config,
    help="TOML file with options of this command, in a table of its name.",
)  # fmt: skip


def verb(app: typer.Typer, name: str | None = None) -> Callable[[Verb], Verb]:
    """Register a function of a ``Run`` and options as a command, and add --config and --json."""

    def register(function: Verb) -> Verb:
        @functools.wraps(function, assigned=("__name__", "__doc__"))
        def command(
            ctx: typer.Context,
            config: Annotated[Path | None, CONFIG] = None,
            as_json: Annotated[bool, Option("--json", help="Print the result as JSON.")] = False,
            **options: Any,
        ) -> None:
            function(Run(ctx), **options)

        ctx, *common = inspect.signature(command, follow_wrapped=False).parameters.values()
        _, *function_options = inspect.signature(function).parameters.values()
        params = [ctx, *function_options, *common[:-1]]
        vars(command)["__signature__"] = inspect.Signature(params)
        command.__annotations__ = {param.name: param.annotation for param in params}
        app.command(name)(command)
        return function

    return register


class Run:
    """Collects the content of the record while a command is at work, and prints its result."""

    def __init__(self, ctx: typer.Context):
        self._name = "-".join(ctx.command_path.split()[1:])
        self._settings = {name: to_plain(value) for name, value in ctx.params.items()}
        self._seeds = [ctx.params["seed"]] if "seed" in ctx.params else []
        self.config, self.as_json = ctx.params.get("config"), bool(ctx.params.get("as_json"))
        self._begun, self._clock = datetime.now(UTC), time.perf_counter()
        self._reads: dict[str, str] = {}
        self._times: dict[str, float] = {}
        self.metrics: dict[str, float] = {}
        if self.config is not None:
            self.reads(self.config)

    def reads(self, path: Path) -> str:
        """Record an input file; returns its hash."""
        with disk_errors(path, "read"):
            self._reads[str(path)] = digest = hash_files(path)
        return digest

    def protect(self, out: Path, force: bool) -> None:
        """Refuse to overwrite a file, unless forced, or unless its record shows that the same
        command wrote it with the same options and input content."""
        if force or not out.exists():
            return
        recorded: tuple[Any, ...] = ()
        with suppress(OSError, ValueError, LookupError, TypeError, AttributeError):
            record = json.loads(self._place(out).read_text(encoding="utf-8"))
            recorded = record["sha256"], *_identity(record["settings"], record["reads"])
        if recorded != (hash_files(out), *_identity(self._settings, self._reads)):
            raise CommandError(
                f"{out} exists, and this command with these options and data did not write it; "
                "--force replaces it, or choose another name with --out"
            )

    @contextmanager
    def timed(self, part: str) -> Iterator[None]:
        """Record the duration of a part, with the compile cache enabled."""
        from twofold.core.sharding import enable_compile_cache

        enable_compile_cache()
        begun = time.perf_counter()
        yield
        self._times[part] = round(time.perf_counter() - begun, 3)

    def show(self, content: Any, *parts: Any) -> None:
        """Print a result as JSON, or as lines and tables (``terminal.to_table``)."""
        if self.as_json:
            return terminal.print_json(content)
        for part in parts:
            if isinstance(part, str):
                print(part)
            else:
                from rich.console import Console

                Console().print(part)

    def show_columns(self, out: Path | None, columns: Mapping[str, Sequence[Any]]) -> None:
        """Print columns as a JSON list of rows, or as CSV unless they were written to a file."""
        if self.as_json:
            terminal.print_json(to_records(columns))
        elif out is None:
            print(csv_text(columns), end="")

    def write_table(self, out: Path | None, columns: Mapping[str, Sequence[Any]]) -> None:
        """Write the result to its file, if any, and the record."""
        if out is not None:
            write_table(out, columns)
        record = self.write(out)
        if out is not None:
            rows = len(next(iter(columns.values())))
            print_message(f"wrote {out}: {rows} rows; record: {record}")

    def write(self, wrote: Path | None = None) -> Path:
        """Write the record beside the output, or to the folder of runs; a failure is a note."""
        path = self._place(wrote)
        text = json.dumps(self._document(wrote), indent=2, ensure_ascii=False) + "\n"
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            persistence.write_text(path, text)
        except OSError as error:
            print_note(f"the record {path} could not be written: {error}")
        return path

    def _place(self, wrote: Path | None) -> Path:
        if wrote is None:
            state = Path(os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state")
            stamp = self._begun.strftime("%Y%m%dT%H%M%S.%f")
            return state / "twofold" / "runs" / f"{stamp}-{self._name}-{os.getpid()}.json"
        if wrote.is_dir():
            return wrote / "record.json"
        return wrote.with_name(wrote.name + ENDING)

    def _document(self, wrote: Path | None) -> dict[str, Any]:
        # A record beside a result may be shared with it, so it has no paths of this machine.
        place = {"folder": str(Path.cwd())} if wrote is None else {}
        return place | {
            "command": shlex.join(["twofold", *sys.argv[1:]]),
            "begun": self._begun.isoformat(timespec="seconds"),
            "versions": persistence.versions(),
            "device": persistence.device(),
            "seconds": round(time.perf_counter() - self._clock, 1),
            "times": self._times,
            "settings": self._settings,
            "seeds": self._seeds,
            "reads": self._reads,
            "wrote": None if wrote is None else str(wrote),
            "sha256": hash_files(wrote) if wrote is not None and wrote.is_file() else None,
            "metrics": to_plain(self.metrics),
        }


def to_records(columns: Mapping[str, Sequence[Any]]) -> list[dict[str, Any]]:
    rows = zip(*columns.values(), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in rows]


def hash_files(path: Path) -> str:
    """SHA-256 of a file, or of the files of a folder in order of name."""
    digest = hashlib.sha256()
    parts = sorted(part for part in path.iterdir() if part.is_file()) if path.is_dir() else [path]
    for part in parts:
        with part.open("rb") as file:
            hashlib.file_digest(file, lambda: digest)
    return digest.hexdigest()


def _identity(settings: Mapping[str, Any], reads: Mapping[str, str]) -> tuple[Any, Any]:
    """What determines a result: options, and the content of input files without their names."""
    used = {k: v for k, v in settings.items() if k not in WITHOUT_EFFECT and str(v) not in reads}
    return used, sorted(reads.values())


def _find_table(path: Path, words: list[str], command: Any) -> dict[str, Any]:
    """The table of a command in a TOML file; all parent tables must belong to commands."""
    try:
        with disk_errors(path, "read"):
            table: Any = tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} is not a TOML file: {error}") from error
    where = str(path)
    for depth, word in enumerate(words, start=1):
        check_names(where, table, list(command.commands))
        name = f"[{'.'.join(words[:depth])}]"
        where = f"{name} in {path}"
        if not isinstance(table.get(word), dict):
            raise CommandError(f"{path} has no table {name}")
        table, command = table[word], command.commands[word]
    return table


def _to_defaults(where: str, table: dict[str, Any], params: list[Any]) -> dict[str, Any]:
    given = {key.replace("_", "-"): value for key, value in table.items()}
    # Keys: long options and names of arguments.
    known = {max(one.opts, key=len).strip("-").replace("_", "-"): one for one in params}
    check_names(where, given, [key for key in known if key not in NOT_IN_FILES])
    pairs = [(key, known[key], value) for key, value in given.items()]
    return {one.name: _to_argument(f"{key} of {where}", one, value) for key, one, value in pairs}


def _to_argument(where: str, param: Any, value: Any) -> Any:
    """A value as it would be typed on the command line."""
    several = getattr(param, "multiple", False) or param.nargs == -1
    if isinstance(value, dict):
        if not several:
            raise CommandError(f"{where} must be one value, got a table")
        return [f"{name}={_to_text(part)}" for name, part in value.items()]
    if several:
        return [_to_text(part) for part in (value if isinstance(value, list) else [value])]
    if isinstance(value, list):
        line = io.StringIO()  # a,b,c, as ``split_words`` reads it
        csv.writer(line, lineterminator="").writerow(map(_to_text, value))
        return line.getvalue()
    return value if isinstance(value, bool) else _to_text(value)


def _to_text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
