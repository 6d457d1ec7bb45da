"""``Finding``: one fault of a log."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Severity = Literal["error", "warning"]


@dataclass(frozen=True)
class Finding:
    """A fault: ``kind`` in a word, ``where`` it is, a ``sentence`` with what to do about it.

    An error has to be mended before the log can be learnt from; a warning should be looked at.
    """

    kind: str
    where: str
    sentence: str
    severity: Severity = "error"
    column: str | None = None
    source: str = "the log"

    def __str__(self) -> str:
        return f"{self.severity}: {self.source}: {self.sentence}"


def listed(findings: Sequence[Finding]) -> str:
    """Findings as lines of text, errors first."""
    ordered = sorted(findings, key=lambda finding: finding.severity != "error")
    return "\n".join(f"  - {finding.severity}: {finding.sentence}" for finding in ordered)


def count(number: int, what: str) -> str:
    """``1 row``, ``2 rows``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"
