"""Generate the reference in ``docs/cli.md`` from the commands."""

import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer

from twofold.cli.app import app
from twofold.core import persistence

PAGE = Path(__file__).parents[1] / "docs" / "cli.md"
MARKED = re.compile(r"(<!-- commands -->\n).*?(<!-- end commands -->)", re.DOTALL)
# Common to all commands, and explained once.
COMMON = ("--config", "--json", "--help")


def commands(group: Any, path: tuple[str, ...] = ("twofold",)) -> Iterator[tuple[str, Any]]:
    """Every command with its full name."""
    for name, one in group.commands.items():
        if hasattr(one, "commands"):
            yield from commands(one, (*path, name))
        else:
            yield " ".join((*path, name)), one


def section(words: str, command: Any) -> str:
    """A heading, description, example, and table of arguments and options."""
    text, _, example = inspect.cleandoc(command.callback.__doc__).partition("Example: ")
    rows = [row(param) for param in command.params if param.opts[0] not in COMMON]
    table = "".join(f"| {' | '.join(cells)} |\n" for cells in rows)
    shown = " \\\n    ".join(example.splitlines())
    return f"### `{words}`\n\n{text.strip()}\n\n```sh\n{shown}\n```\n\n" + (
        "| | | |\n| --- | --- | --- |\n" + table + "\n" if rows else ""
    )


def row(param: Any) -> list[str]:
    """A parameter: name, description and default."""
    is_option = param.opts[0].startswith("-")
    names = [*param.opts, *param.secondary_opts] if is_option else [param.name]
    name = ", ".join(f"`{one}`" for one in names)
    default = "required" if param.required else "" if param.default in (None, []) else param.default
    text = (param.help or "").replace("|", "\\|")
    return [name, text, "" if default is False else str(default)]


def fill_page(page: str) -> str:
    """The page with a new reference."""
    text = "".join(section(*one) for one in commands(typer.main.get_command(app)))
    return MARKED.sub(lambda match: match[1] + text + match[2], page)


if __name__ == "__main__":
    persistence.write_text(PAGE, fill_page(PAGE.read_text(encoding="utf-8")))
