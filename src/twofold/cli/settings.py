"""What a user types after options, as Python has it, and mistakes in it as sentences."""

import csv
from collections.abc import Sequence
from typing import Any

from twofold.campaign.text import parse_settings
from twofold.cli.errors import CommandError
from twofold.core.naming import nearest
from twofold.estimators.regressor import BNNLVRegressor
from twofold.estimators.validation import check_settings

# Commands have options of their own for these.
NOT_FOR_FIT = ("random_state", "checkpoint")


def words(text: str) -> list[str]:
    """``a,b,c``; a word with a comma stands in quotation marks."""
    found = next(csv.reader([text], skipinitialspace=True), [])
    return [word.strip() for word in found if word.strip()]


def regressor_of(
    texts: Sequence[str], option: str = "setting", base: BNNLVRegressor | None = None
) -> BNNLVRegressor:
    """A regressor with ``NAME=VALUE`` of each text."""
    given, regressor = parse_settings(texts), base or BNNLVRegressor()
    known = [name for name in regressor.get_params() if name not in NOT_FOR_FIT]
    check_names(option, given, known)
    try:
        regressor.set_params(**given)
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
