"""Option values parsed into Python values; results on stdout, as text or JSON; notes and errors on
stderr; exit codes."""

import csv
import importlib.util
import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twofold.core.naming import nearest
from twofold.core.persistence import to_plain
from twofold.tables import would_overwrite
from twofold.tables.writing import ENDINGS

if TYPE_CHECKING:
    from twofold.estimators.regressor import BNNLVRegressor

# A bug in twofold; a mistake in the command or its input; a failed self-test; Ctrl-C, as in shells.
FAULT, MISTAKE, UNSOUND, STOPPED = 1, 2, 3, 130
# Most columns, or points, side by side on a terminal.
WIDE = 6
# Commands have their own options for these.
NOT_FOR_FIT = ("random_state", "checkpoint")


class CommandError(ValueError):
    """A mistake in a command or its input."""


def print_message(text: str) -> None:
    print(f"twofold: {text}", file=sys.stderr)


def print_note(text: str) -> None:
    print_message(f"note: {text}")


def print_json(content: Any) -> None:
    """Print one JSON document; non-finite numbers become null."""
    print(json.dumps(to_plain(content), indent=2, ensure_ascii=False, allow_nan=False))


def to_table(headings: Sequence[str], rows: Sequence[Sequence[str]], title: str = "") -> Any:
    """A table for the terminal, numbers aligned to the right."""
    from rich.table import Table
    from rich.text import Text

    # Text objects: in a plain string, Rich reads "[kg]" as a style.
    table = Table(title=Text(title) if title else None, title_justify="left")
    for index, heading in enumerate(headings):
        numbers = all(_is_number(row[index]) for row in rows)
        look: Any = {"justify": "right" if numbers else "left", "no_wrap": not index}
        table.add_column(Text(heading), overflow="fold", **look)
    for row in rows:
        table.add_row(*map(Text, row))
    return table


def to_point_table(columns: Mapping[str, Sequence[str]], title: str = "") -> Any:
    """A table of points; with a column per point if there are few, and many names."""
    points = len(next(iter(columns.values())))
    if len(columns) <= WIDE or points > WIDE:
        return to_table(list(columns), list(zip(*columns.values(), strict=True)), title)
    headings = ["", *(f"point {number}" for number in range(1, points + 1))]
    return to_table(headings, [[name, *column] for name, column in columns.items()], title)


def _is_number(cell: str) -> bool:
    try:
        float(cell.rstrip("%"))
    except ValueError:
        return False
    return True


def check_place(
    out: Path | None, endings: Sequence[str] = ENDINGS, reads: Sequence[Path | None] = ()
) -> None:
    """Refuse, before any work, an output file that cannot be written or that the command reads."""
    if out is None:
        return
    if endings and out.suffix.lower() not in endings:
        raise CommandError(f"expected a file that ends in {' or '.join(endings)}, got {out}")
    if out.is_dir() or not out.parent.is_dir():
        raise CommandError(f"{out} cannot be written: expected a file in an existing folder")
    for source in reads:
        if source is not None and would_overwrite(source, out):
            raise CommandError(f"{out} is read by this command; write to another file")


def split_words(text: str) -> list[str]:
    """Parse ``a,b,c``; a word that contains a comma must be quoted."""
    words = next(csv.reader([text], skipinitialspace=True), [])
    return [word.strip() for word in words if word.strip()]


def parse_numbers(option: str, text: str) -> list[float]:
    try:
        numbers = [float(word) for word in split_words(text)]
    except ValueError:
        numbers = []
    if not numbers:
        raise CommandError(f"--{option} must be numbers such as 0,1,2, got {text!r}")
    return numbers


def parse_bounds(text: str, option: str = "action") -> tuple[str, tuple[float, float]]:
    name, *ends = text.rsplit(":", 2)
    try:
        low, high = map(float, ends)
    except ValueError:
        raise CommandError(f"--{option} must be NAME:LOW:HIGH, got {text!r}") from None
    return name, (low, high)


def parse_pair(text: str) -> tuple[str, str]:
    name, sign, value = (part.strip() for part in text.partition("="))
    if not (name and sign and value):
        raise CommandError(f"expected NAME=VALUE, got {text!r}")
    return name, value


def parse_pairs(texts: Sequence[str]) -> dict[str, str]:
    """Parse ``NAME=VALUE`` texts without duplicate names."""
    pairs = dict(map(parse_pair, texts))
    if len(pairs) < len(texts):
        raise CommandError(f"duplicate name in {' '.join(texts)}; give each name once")
    return pairs


def parse_settings(texts: Sequence[str]) -> dict[str, Any]:
    """Parse ``NAME=VALUE`` texts, with values as JSON or plain words."""
    settings: dict[str, Any] = dict(parse_pairs(texts))
    for name, text in settings.items():
        with suppress(ValueError):
            settings[name] = json.loads(text)
    return settings


def add_quick(texts: Sequence[str], quick: bool) -> list[str]:
    if not quick:
        return list(texts)
    if any(parse_pair(text)[0] == "inference" for text in texts):
        raise CommandError("--quick means --setting inference=ensemble; give only one of the two")
    return [*texts, "inference=ensemble"]


def build_regressor(
    texts: Sequence[str], option: str = "setting", base: "BNNLVRegressor | None" = None
) -> "BNNLVRegressor":
    """A regressor with settings, or options of its inference method, from ``NAME=VALUE`` texts."""
    from twofold.estimators.regressor import BNNLVRegressor
    from twofold.estimators.validation import check_settings
    from twofold.inference.method import option_names, resolve_method

    settings, regressor = parse_settings(texts), base or BNNLVRegressor()
    parameters = [name for name in regressor.get_params(deep=False) if name not in NOT_FOR_FIT]
    try:
        options = option_names(resolve_method(settings.get("inference", regressor.inference)))
        check_names(f"--{option}", settings, [*parameters, *options])
        named = {n if n in parameters else f"inference__{n}": v for n, v in settings.items()}
        check_settings(regressor.set_params(**named))
    except (TypeError, ValueError) as error:
        raise CommandError(str(error)) from error
    return regressor


def check_names(where: str, names: Iterable[str], valid: Sequence[str]) -> None:
    """Refuse invalid names; ``where`` is the place of the name, such as an option."""
    for name in (name for name in names if name not in valid):
        suggestion = f"got {name!r}{nearest(name, valid)}"
        raise CommandError(f"valid names for {where}: {', '.join(valid)}; {suggestion}")


def load_function(option: str, text: str) -> Callable:
    """Load ``FILE.py:FUNCTION`` by running the file."""
    file, sign, name = text.rpartition(":")
    path = Path(file)
    if not sign or not name:
        raise CommandError(f"--{option} must be FILE.py:FUNCTION, got {text!r}")
    if not path.is_file() or path.suffix != ".py":
        raise CommandError(f"--{option}: there is no Python file {file}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        raise CommandError(f"--{option}: {path} fails: {type(error).__name__}: {error}") from error
    function = getattr(module, name, None)
    if not callable(function):
        names = [one for one, value in vars(module).items() if callable(value)]
        raise CommandError(f"--{option}: {path} has no function {name!r}{nearest(name, names)}")
    return function
