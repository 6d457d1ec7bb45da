"""One way to resume: earlier work is used again if it belongs to the same run.

An *identity* is a mapping of everything that decides a result (settings, seeds, fingerprints of
data) to JSON values. It is stored with the work, in a file (``WorkFile``) or in a folder
(``claim_folder``), and compared when the work is found again.
"""

import hashlib
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from twofold.core import persistence
from twofold.core.persistence import FileFormatError, FilePath, Stored
from twofold.core.plain import to_plain

FORMAT_VERSION = 1


class OtherRunError(ValueError):
    """The work found at a place belongs to another run."""


def fingerprint(identity: Mapping[str, Any]) -> str:
    """SHA-256 of an identity, the same whatever the order of its names."""
    text = json.dumps(to_plain(identity), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def differences(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """What distinguishes two identities, in words; nothing if they are the same."""
    wanted = to_plain(wanted)
    return [
        f"{name} was {stored.get(name)!r}, now {wanted.get(name)!r}"
        for name in dict.fromkeys([*wanted, *stored])
        if stored.get(name) != wanted.get(name)
    ]


class WorkFile:
    """A file of arrays and metadata that belongs to one run."""

    def __init__(self, path: FilePath, kind: str, identity: Mapping[str, Any]):
        self.path = Path(path)
        self.kind = kind
        self.identity = to_plain(identity)

    def read(self) -> Stored | None:
        """The stored work, or None if there is no file; that of another run is refused."""
        if not self.path.exists():
            return None
        stored = persistence.read(self.path, self.kind)
        changed = differences(stored.metadata.get("identity", {}), self.identity)
        if changed:
            raise OtherRunError(
                f"the {self.kind} {self.path} belongs to another run: {'; '.join(changed)}. "
                "Delete the file to start again, or give this run a path of its own"
            )
        return stored

    def find(self) -> Stored | None:
        """As ``read``, but work that is damaged or of another run counts as none: it will be
        computed again."""
        try:
            return self.read()
        except (OSError, OtherRunError, FileFormatError):
            return None

    def write(
        self,
        arrays: Mapping[str, np.ndarray] | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Replace the file atomically."""
        content = dict(metadata or {}) | {"identity": self.identity}
        persistence.write(self.path, self.kind, arrays or {}, content)

    def check_writable(self) -> None:
        """Raise now, not after hours of work, if the file cannot be written."""
        folder = self.path.absolute().parent
        if self.path.is_dir():
            raise IsADirectoryError(f"{self.kind} must be a file, but {self.path} is a directory")
        if not folder.is_dir():
            raise FileNotFoundError(
                f"the {self.kind}'s directory {folder} does not exist; create it"
            )
        if not os.access(folder, os.W_OK):
            raise PermissionError(f"the {self.kind}'s directory {folder} is not writable")


def claim_folder(
    folder: FilePath, file: str, identity: Mapping[str, Any], about: Mapping[str, Any]
) -> dict[str, Any]:
    """Make a new or empty folder this run's own, or find that it is; any other is refused.

    The folder's ``file`` holds the identity and what else is known about the run; its content is
    returned.
    """
    folder = Path(folder)
    path = folder / file
    if path.exists():
        content = read_claim(path)
        changed = differences(content["identity"], identity)
        if changed:
            raise OtherRunError(
                f"{folder} belongs to another run: {'; '.join(changed)}. Give this run a folder of "
                "its own"
            )
        return content
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OtherRunError(f"{folder} is not empty and has no {file}; give a new or empty folder")
    content = {"format_version": FORMAT_VERSION, "identity": identity, "about": about}
    folder.mkdir(parents=True, exist_ok=True)
    persistence.write_text(path, json.dumps(to_plain(content), indent=1, allow_nan=False))
    return read_claim(path)


def read_claim(path: FilePath) -> dict[str, Any]:
    """The ``identity`` of a claimed folder, and what it is ``about``."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        version = int(content["format_version"])
        found = {name: dict(content[name]) for name in ("identity", "about")}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"
        raise FileFormatError(f"{path} is damaged ({why}); {persistence.RESTORE}") from error
    if version > FORMAT_VERSION:
        raise FileFormatError(
            f"{path} has format {version}, and this twofold reads up to {FORMAT_VERSION}; "
            "upgrade twofold"
        )
    return found
