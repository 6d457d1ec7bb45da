"""``--config FILE.toml``: options of a command from a file; the command line has the last word."""

import csv
import io
import json
import tomllib
from collections.abc import Iterable
from pathlib import Path
from typing import Annotated, Any

import typer

from twofold.cli.errors import CommandError
from twofold.core.naming import nearest

# Of no use in a file: they are about the command line itself.
NOT_IN_FILES = ("config", "help")


def read_config(ctx: typer.Context, path: Path | None) -> Path | None:
    """Take a command's defaults from its table of a TOML file: ``[fit]``, ``[policy.search]``."""
    if path is not None and not ctx.resilient_parsing:
        words = ctx.command_path.split()[1:]
        section = _section(path, _parsed(path), words, ctx.find_root().command)
        ctx.default_map = _defaults(path, ".".join(words), section, ctx.command.params)
    return path


Config = Annotated[
    Path | None,
    typer.Option(
        "--config",
        is_eager=True,
        callback=read_config,
        help="TOML file with a table for this command, named like it.",
    ),
]


def _parsed(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise CommandError(f"{path} cannot be read: {error.strerror}") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise CommandError(f"{path} is not a TOML file: {error}") from error


def _section(path: Path, table: Any, words: list[str], command: Any) -> dict[str, Any]:
    """The table of a command; every table on the way must be that of a command."""
    for depth, word in enumerate(words):
        where = f"[{'.'.join(words[:depth])}] in {path}" if depth else str(path)
        known = list(command.commands)
        for name in table:
            if name not in known:
                raise CommandError(
                    f"{where} has {name!r}, which is no command of twofold; expected tables such "
                    f"as [{'.'.join(words)}]{nearest(name, known)}"
                )
        if not isinstance(table.get(word), dict):
            raise CommandError(f"{path} has no table [{'.'.join(words)}]")
        table, command = table[word], command.commands[word]
    return table


def _defaults(path: Path, name: str, table: dict[str, Any], params: list[Any]) -> dict[str, Any]:
    by_key = {_key(param): param for param in params if _key(param) not in NOT_IN_FILES}
    found = {}
    for key, value in table.items():
        param = by_key.get(key.replace("_", "-"))
        if param is None:
            raise CommandError(
                f"[{name}] in {path} has the unknown key {key!r}; known are {', '.join(by_key)}"
                f"{nearest(key, by_key)}"
            )
        found[param.name] = _value(f"{key} of [{name}] in {path}", param, value)
    return found


def _key(param: Any) -> str:
    """What a parameter is called in a file: its long option, or the argument's name."""
    long = [one for one in param.opts if one.startswith("--")]
    return (long[0].removeprefix("--") if long else param.name).replace("_", "-")


def _value(where: str, param: Any, value: Any) -> Any:
    """A value as the command line would have brought it."""
    several = getattr(param, "multiple", False) or param.nargs == -1
    if isinstance(value, dict):
        if not several:
            raise CommandError(f"{where} must be one value, got a table")
        return [f"{name}={_word(one)}" for name, one in value.items()]
    if several:
        return [_word(one) for one in (value if isinstance(value, list) else [value])]
    if isinstance(value, list):
        return _line(map(_word, value))
    return value if isinstance(value, bool) else _word(value)


def _line(words: Iterable[str]) -> str:
    """``a,b,c``, as ``settings.words`` reads it."""
    text = io.StringIO()
    csv.writer(text, lineterminator="").writerow(words)
    return text.getvalue()


def _word(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, default=str)
