"""What a user types after options, as Python has it, and mistakes in it as sentences."""

import csv
import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from twofold.cli.errors import CommandError
from twofold.core.naming import nearest

if TYPE_CHECKING:
    from twofold.estimators.regressor import BNNLVRegressor

# Commands have options of their own for these.
NOT_FOR_FIT = ("random_state", "checkpoint")


def words(text: str) -> list[str]:
    """``a,b,c``; a word with a comma stands in quotation marks."""
    found = next(csv.reader([text], skipinitialspace=True), [])
    return [word.strip() for word in found if word.strip()]


def parse_pair(text: str) -> tuple[str, str]:
    """``NAME=VALUE``."""
    name, sign, value = (part.strip() for part in text.partition("="))
    if not (name and sign and value):
        raise CommandError(f"expected NAME=VALUE, got {text!r}")
    return name, value


def parse_pairs(texts: Sequence[str]) -> dict[str, str]:
    """``NAME=VALUE`` of each, no name twice."""
    pairs = dict(map(parse_pair, texts))
    if len(pairs) < len(texts):
        raise CommandError(f"a name stands twice in {' '.join(texts)}; leave one out")
    return pairs


def parse_settings(texts: Sequence[str]) -> dict[str, Any]:
    """``NAME=VALUE`` of each, the value as JSON has it or a plain word."""
    return {name: _parse_value(value) for name, value in parse_pairs(texts).items()}


def _parse_value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def regressor_of(
    texts: Sequence[str], option: str = "setting", base: "BNNLVRegressor | None" = None
) -> "BNNLVRegressor":
    """A regressor with ``NAME=VALUE`` of each text."""
    from twofold.estimators.regressor import BNNLVRegressor
    from twofold.estimators.validation import check_settings
    from twofold.inference.registry import option_names, resolve_method

    given, regressor = parse_settings(texts), base or BNNLVRegressor()
    own = [name for name in regressor.get_params(deep=False) if name not in NOT_FOR_FIT]
    try:
        regressor.set_params(**{name: value for name, value in given.items() if name in own})
        options = option_names(resolve_method(regressor.inference))
        check_names(option, given, [*own, *options])
        regressor.set_params(
            **{f"inference__{name}": value for name, value in given.items() if name in options}
        )
        check_settings(regressor)
    except (TypeError, ValueError) as error:
        raise CommandError(str(error)) from error
    return regressor


def check_names(option: str, given: dict[str, Any], known: Sequence[str]) -> None:
    """Refuse names that an option does not know."""
    for name in given:
        if name not in known:
            raise CommandError(
                f"--{option} knows {', '.join(known)}, got {name!r}{nearest(name, known)}"
            )
