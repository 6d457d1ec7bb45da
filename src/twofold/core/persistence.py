"""One file format for fitted models and checkpoints, and the atomic writer behind it.

It is a safetensors file whose header carries one JSON document under the name ``twofold``:
``format_version``, ``kind``, ``library_version``, the caller's ``metadata``, and ``checksum``, the
SHA-256 of all other bytes of the file. Nothing is pickled; reading a file runs no code from it.
"""

import errno
import hashlib
import importlib.metadata
import json
import os
import secrets
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias

import numpy as np
import safetensors.numpy

FORMAT_VERSION = 1
DTYPES = ("float32", "float64", "int32", "int64", "uint32", "bool")
RESTORE = "restore it from a copy or write it again"
FilePath: TypeAlias = str | os.PathLike[str]
try:
    LIBRARY_VERSION = importlib.metadata.version("twofold")
except importlib.metadata.PackageNotFoundError:
    LIBRARY_VERSION = "unknown"


class FileFormatError(ValueError):
    """A file is not what was expected."""


class Stored(NamedTuple):
    """What a file holds."""

    arrays: dict[str, np.ndarray]
    metadata: dict[str, Any]


def write(
    path: FilePath, kind: str, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any]
) -> None:
    """Store arrays and metadata in one file of a kind, such as ``"model"``, with ``write_bytes``.

    Metadata come back as JSON has them (tuples as lists, keys as strings), so without NaN.
    """
    storable = {name: _storable(name, array) for name, array in arrays.items()}
    mark = secrets.token_hex(32)  # stands in for the checksum, and occurs nowhere else
    content = safetensors.numpy.save(storable, {"twofold": _document(mark, kind, metadata)})
    end = 8 + int.from_bytes(content[:8], "little")
    head, body = content[:end], memoryview(content)[end:]
    checksum = _checksum(head, body, mark)
    write_bytes(path, head.replace(mark.encode(), checksum.encode()), body)


def read(path: FilePath, kind: str) -> Stored:
    """The content of a file that ``write`` made with the same kind.

    Raises ``FileFormatError`` for anything else, be it foreign, newer, edited or damaged.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(
            f"expected a twofold {kind}, but there is no {path}; check the path"
        )
    try:
        # Checked before opening, because opening a pipe would wait for its other end.
        if not path.is_file():
            raise FileFormatError("it is a directory or a device; give the path of a file")
        with path.open("rb") as file:
            return _read(file, kind)
    except FileFormatError as error:
        raise FileFormatError(f"expected {path} to be a twofold {kind}, but {error}") from error


def write_text(path: FilePath, text: str) -> None:
    """``write_bytes`` for text, as UTF-8."""
    write_bytes(path, text.encode())


def write_bytes(path: FilePath, *chunks: bytes | memoryview) -> None:
    """Make ``chunks`` the content of a file with ``replace_file``."""
    with replace_file(path) as temporary, temporary.open("xb") as file:
        file.writelines(chunks)


@contextmanager
def replace_file(path: FilePath) -> Iterator[Path]:
    """A temporary path; what is written there becomes the file at ``path``, atomically and durably.

    A crash leaves the old file or the new one (and perhaps a ``.twofold-*.tmp``). Links are kept.
    """
    target = Path(os.path.realpath(path))
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot write {target}: no directory {target.parent}; create it")
    if target.exists() and not target.is_file():
        raise FileExistsError(f"cannot write {target}: it is a directory or device; rename one")
    temporary = target.with_name(f".twofold-{os.getpid()}-{secrets.token_hex(4)}.tmp")
    try:
        yield temporary
        with temporary.open("r+b") as file:
            os.fsync(file.fileno())
        os.replace(temporary, target)
    except OSError as error:
        # Errors of writing and syncing do not say where.
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror or "it failed", str(target)) from error
    finally:
        # Where nothing can be written, there is nothing to remove.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    _sync_directory(target.parent)


def fingerprint(*arrays: np.ndarray) -> str:
    """SHA-256 of the arrays' types, shapes and numbers, whatever their layout in memory."""
    digest = hashlib.sha256()
    for array in arrays:
        if array.dtype.hasobject:
            raise ValueError(f"expected arrays of numbers, got dtype {array.dtype}; convert it")
        digest.update(f"{array.dtype.name} {array.shape}\n".encode())
        digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
    return digest.hexdigest()


def _storable(name: str, array: np.ndarray) -> np.ndarray:
    """The array in C order, without which safetensors stores other numbers, and native bytes."""
    if name == "__metadata__" or array.dtype.name not in DTYPES:
        raise ValueError(
            f"array {name!r} must have another name than '__metadata__' and one of the types "
            f"{', '.join(DTYPES)}, got {array.dtype}; rename or convert it"
        )
    return np.asarray(array, array.dtype.newbyteorder("="), order="C")


def _document(checksum: str, kind: str, metadata: Mapping[str, Any]) -> str:
    """The JSON document of the header."""
    document = {"checksum": checksum, "format_version": FORMAT_VERSION, "kind": kind}
    content = {"library_version": LIBRARY_VERSION, "metadata": dict(metadata)}
    try:
        return json.dumps(document | content, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"metadata must be JSON values with finite numbers, got something else ({error}); "
            "convert NumPy numbers with .item(), and put NaN and infinity into arrays"
        ) from error


def _checksum(head: bytes, body: bytes | memoryview, own_digits: str) -> str:
    """SHA-256 of a file, given as header and numbers, without the digits of its checksum."""
    digest = hashlib.sha256(head.replace(own_digits.encode(errors="replace"), b"", 1))
    digest.update(body)
    return digest.hexdigest()


def _read(file: BinaryIO, kind: str) -> Stored:
    """Header first, so that of a large foreign file no more than that is read."""
    head = _read_head(file)
    document = _parse(head[8:])
    version, checksum = document.get("format_version"), str(document.get("checksum"))
    # Before the checksum, which a later format may compute differently.
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise FileFormatError(
            f"it was written by twofold {document.get('library_version')} with format {version}; "
            f"this twofold reads up to format {FORMAT_VERSION}; upgrade twofold"
        )
    body = file.read()
    if _checksum(head, body, checksum) != checksum:
        raise FileFormatError(f"its checksum differs: it was edited, damaged or cut; {RESTORE}")
    if document.get("kind") != kind:
        raise FileFormatError(f"it is a {document.get('kind')}; give the path of a {kind}")
    try:
        return Stored(safetensors.numpy.load(head + body), document["metadata"])
    except (safetensors.SafetensorError, KeyError) as error:
        raise FileFormatError(f"its content is not understood ({error!r}); {RESTORE}") from error


def _read_head(file: BinaryIO) -> bytes:
    """The header's length in 8 bytes and the header, a JSON object."""
    size, start = os.fstat(file.fileno()).st_size, file.read(9)
    if start[8:] not in (b"{", b""):
        raise FileFormatError("it is no safetensors file; give a file twofold wrote")
    end = 8 + int.from_bytes(start[:8], "little")
    if end > size:
        raise FileFormatError(f"it is empty or cut short, with {size} bytes; {RESTORE}")
    file.seek(0)
    return file.read(end)


def _parse(header: bytes) -> dict[str, Any]:
    """The document in a safetensors header."""
    try:
        return dict(json.loads(json.loads(header.decode())["__metadata__"]["twofold"]))
    except (KeyError, TypeError) as error:
        raise FileFormatError("another program wrote it; give a file twofold wrote") from error
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"its header is not JSON ({error}); {RESTORE}") from error


def _sync_directory(directory: Path) -> None:
    """Make an exchange of names durable, where the system can open and sync a directory."""
    try:
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EINVAL):
            raise
