"""Files: the format of fitted models and checkpoints, atomic writes, resuming, and provenance.

The format is a safetensors file whose header carries one JSON document under the name ``twofold``:
``format_version``, ``kind``, ``library_version``, the caller's ``metadata``, and ``checksum``, the
SHA-256 of all other bytes of the file. Nothing is pickled; reading a file runs no code from it.

Earlier work is reused if it belongs to the same run. An *identity* maps everything that determines
a result (settings, seeds, fingerprints of data) to JSON values. It is stored with the work, in a
file (``WorkFile``) or a folder (``claim_folder``), and compared before the work is reused.
"""

import errno
import hashlib
import importlib.metadata
import json
import os
import platform
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple, TypeAlias, TypeVar

import numpy as np
import safetensors.numpy

FORMAT_VERSION, CLAIM_VERSION = 1, 1
DTYPES = ("float32", "float64", "int32", "int64", "uint32", "bool")
# Packages whose versions affect results.
LIBRARIES = "twofold jax jaxlib optax blackjax numpy scipy scikit-learn tinygp".split()
RESTORE = "restore it from a copy or write it again"
FilePath: TypeAlias = str | os.PathLike[str]
T = TypeVar("T")
# Exceptions that unexpected content can cause.
UNFIT = TypeError, ValueError, LookupError, AttributeError, ArithmeticError


def version_of(package: str, otherwise: str = "not installed") -> str:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return otherwise


LIBRARY_VERSION = version_of("twofold", "unknown")


class FileFormatError(ValueError):
    """A file is not of the expected kind or content."""


class OtherRunError(ValueError):
    """The work found at a place belongs to another run."""


class Stored(NamedTuple):
    arrays: dict[str, np.ndarray]
    metadata: dict[str, Any]


def write(
    path: FilePath, kind: str, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any]
) -> None:
    """Store arrays and metadata in one file of a kind, such as ``"model"``, with ``write_bytes``.

    Metadata are read back as JSON values (tuples become lists, keys strings); NaN is not allowed.
    """
    for name, array in arrays.items():
        if name == "__metadata__" or array.dtype.name not in DTYPES:
            raise ValueError(
                f"array {name!r} must have another name than '__metadata__' and one of the types "
                f"{', '.join(DTYPES)}, got {array.dtype}; rename or convert it"
            )
    # Native byte order and C order: safetensors would store wrong numbers otherwise.
    storable = {n: np.asarray(a, a.dtype.newbyteorder("="), order="C") for n, a in arrays.items()}
    mark = secrets.token_hex(32)  # stands in for the checksum, and occurs nowhere else
    document = {"checksum": mark, "format_version": FORMAT_VERSION, "kind": kind}
    document |= {"library_version": LIBRARY_VERSION, "metadata": dict(metadata)}
    try:
        text = json.dumps(document, allow_nan=False)
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(
            f"metadata must be JSON values with finite numbers, got something else ({error}); "
            "convert NumPy numbers with .item(), and put NaN and infinity into arrays"
        ) from error
    content = safetensors.numpy.save(storable, {"twofold": text})
    end = 8 + int.from_bytes(content[:8], "little")
    head, body = content[:end], memoryview(content)[end:]
    checksum = _checksum(head, body, mark)
    write_bytes(path, head.replace(mark.encode(), checksum.encode()), body)


def read(path: FilePath, kind: str) -> Stored:
    """The content of a file that ``write`` made with the same kind. Raises ``FileFormatError`` for
    any other file: foreign, newer, edited or damaged."""
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"expected a twofold {kind}, but there is no {path}")
    with name_file(path, kind):
        # Checked before opening, because opening a pipe would wait for its other end.
        if not path.is_file():
            raise FileFormatError("it is a directory or a device; give the path of a file")
        with path.open("rb") as file:
            return _read(file, kind)


def load(path: FilePath, kind: str, build: Callable[[Stored], T]) -> T:
    """Read a file and build an object from it; invalid content raises ``FileFormatError``."""
    stored = read(path, kind)
    with name_file(path, kind):
        try:
            return build(stored)
        except FileFormatError:
            raise
        except UNFIT as error:
            why = f"its content is not valid ({type(error).__name__}: {error}); {RESTORE}"
            raise FileFormatError(why) from error


@contextmanager
def name_file(path: FilePath, kind: str) -> Iterator[None]:
    """Add the file's name to a ``FileFormatError``."""
    try:
        yield
    except FileFormatError as error:
        raise FileFormatError(f"expected {path} to be a twofold {kind}, but {error}") from error


def write_text(path: FilePath, text: str) -> None:
    write_bytes(path, text.encode())


def write_bytes(path: FilePath, *chunks: bytes | memoryview) -> None:
    """Write ``chunks`` to a file with ``replace_file``."""
    with replace_file(path) as temporary, temporary.open("xb") as file:
        file.writelines(chunks)


@contextmanager
def replace_file(path: FilePath) -> Iterator[Path]:
    """A temporary path; the file written there replaces ``path`` atomically and durably. A crash
    leaves the old file or the new one (and perhaps a ``.twofold-*.tmp``). Symbolic links are
    followed."""
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
        # Errors of write and fsync do not contain the path.
        if error.errno is None:
            raise
        raise OSError(error.errno, error.strerror or "cannot be written", str(target)) from error
    finally:
        # If nothing could be written, there is nothing to remove.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)
    _sync_directory(target.parent)


def fingerprint(*arrays: np.ndarray) -> str:
    """SHA-256 of the types, shapes and values of arrays, independent of their memory layout."""
    digest = hashlib.sha256()
    for array in arrays:
        if array.dtype.hasobject:
            raise ValueError(f"expected arrays of numbers, got dtype {array.dtype}; convert it")
        digest.update(f"{array.dtype.name} {array.shape}\n".encode())
        digest.update(array.astype(array.dtype.newbyteorder("<"), copy=False).tobytes())
    return digest.hexdigest()


def to_plain(value: Any) -> Any:
    """Arrays and tuples as lists, NumPy numbers as numbers, paths as text, dataclasses as mappings
    with their class name under ``kind``; numbers that are not finite become None."""
    if is_dataclass(value) and not isinstance(value, type):
        content = {field.name: getattr(value, field.name) for field in fields(value)}
        return {"kind": type(value).__name__} | to_plain(content)
    if isinstance(value, Mapping):
        return {str(name): to_plain(part) for name, part in value.items()}
    if isinstance(value, list | tuple):
        return [to_plain(part) for part in value]
    if hasattr(value, "tolist"):
        return to_plain(value.tolist())
    if isinstance(value, float) and (value != value or abs(value) == float("inf")):
        return None
    return str(value) if isinstance(value, Path) else value


def hash_identity(identity: Mapping[str, Any]) -> str:
    """SHA-256 of an identity, independent of the order of its keys."""
    text = json.dumps(to_plain(identity), sort_keys=True, allow_nan=False)
    return hashlib.sha256(text.encode()).hexdigest()


def differences(stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> list[str]:
    """Descriptions of the differences between two identities."""
    wanted = to_plain(wanted)
    return [
        f"{name} was {stored.get(name)!r}, now {wanted.get(name)!r}"
        for name in dict.fromkeys([*wanted, *stored])
        if stored.get(name) != wanted.get(name)
    ]


class WorkFile:
    """A file of arrays and metadata that belongs to one run."""

    def __init__(self, path: FilePath, kind: str, identity: Mapping[str, Any]):
        self.path, self.kind, self.identity = Path(path), kind, to_plain(identity)

    def read(self) -> Stored | None:
        """The stored work, or None if there is no file; raises if it belongs to another run."""
        if not self.path.exists():
            return None
        stored = read(self.path, self.kind)
        identity = stored.metadata.get("identity")
        changed = differences(identity if isinstance(identity, dict) else {}, self.identity)
        if changed:
            raise OtherRunError(
                f"the {self.kind} {self.path} belongs to another run: {'; '.join(changed)}. "
                "Delete the file to start again, or give this run a path of its own"
            )
        return stored

    def find(self) -> Stored | None:
        """Like ``read``, but also None for damaged work or work of another run."""
        try:
            return self.read()
        except (OSError, OtherRunError, FileFormatError):
            return None

    def write(self, arrays: Mapping[str, np.ndarray], metadata: Mapping[str, Any]) -> None:
        write(self.path, self.kind, arrays, dict(metadata) | {"identity": self.identity})

    def check_writable(self) -> None:
        """Raise now, not after hours of work, if the file cannot be written."""
        folder = self.path.absolute().parent
        if self.path.is_dir():
            raise IsADirectoryError(f"{self.kind} must be a file, but {self.path} is a directory")
        place = f"the {self.kind}'s directory {folder}"
        if not folder.is_dir():
            raise FileNotFoundError(f"{place} does not exist; create it")
        if not os.access(folder, os.W_OK):
            raise PermissionError(f"{place} is not writable")


def claim_folder(
    folder: FilePath, file: str, identity: Mapping[str, Any], about: Mapping[str, Any]
) -> dict[str, Any]:
    """Claim a new or empty folder for a run, or verify that it belongs to it; otherwise raise. The
    folder's ``file`` holds the identity and further facts ``about`` the run; its content is
    returned."""
    folder = Path(folder)
    path = folder / file
    if path.exists():
        content = read_claim(path)
        changed = differences(content["identity"], identity)
        if changed:
            remedy = "Give this run a folder of its own"
            raise OtherRunError(f"{folder} belongs to another run: {'; '.join(changed)}. {remedy}")
        return content
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise OtherRunError(f"{folder} is not empty and has no {file}; use a new or empty folder")
    content = {"format_version": CLAIM_VERSION, "identity": identity, "about": about}
    folder.mkdir(parents=True, exist_ok=True)
    write_text(path, json.dumps(to_plain(content), indent=1, allow_nan=False))
    return read_claim(path)


def read_claim(path: FilePath) -> dict[str, Any]:
    """The ``identity`` and ``about`` of a claimed folder."""
    try:
        content = json.loads(Path(path).read_text(encoding="utf-8"))
        version = int(content["format_version"])
        claim = {name: dict(content[name]) for name in ("identity", "about")}
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        why = f"{type(error).__name__}: {error}"
        raise FileFormatError(f"{path} is damaged ({why}); {RESTORE}") from error
    if version > CLAIM_VERSION:
        limit = f"this twofold reads up to {CLAIM_VERSION}; upgrade twofold"
        raise FileFormatError(f"{path} has format {version}, and {limit}")
    return claim


def versions() -> dict[str, str]:
    """Versions of Python and of the libraries that affect results."""
    return {"python": platform.python_version()} | {one: version_of(one) for one in LIBRARIES}


def device() -> str:
    """The kind of device JAX computes on."""
    import jax

    kind = jax.devices()[0]
    cores = f", {os.cpu_count()} cores" if kind.platform == "cpu" else ""
    return f"{kind.platform}: {kind.device_kind}{cores}"


def _checksum(head: bytes, body: bytes | memoryview, own_digits: str) -> str:
    """SHA-256 of a file, given as header and body, without the digits of its checksum."""
    digest = hashlib.sha256(head.replace(own_digits.encode(errors="replace"), b"", 1))
    digest.update(body)
    return digest.hexdigest()


def _read(file: BinaryIO, kind: str) -> Stored:
    """Read the header first, so that a large foreign file is rejected without reading the rest."""
    size, start = os.fstat(file.fileno()).st_size, file.read(9)
    if start[8:] not in (b"{", b""):
        raise FileFormatError("it is not a safetensors file; give a file written by twofold")
    end = 8 + int.from_bytes(start[:8], "little")
    if end > size:
        raise FileFormatError(f"it is empty or cut short, with {size} bytes; {RESTORE}")
    file.seek(0)
    head = file.read(end)
    try:
        document = dict(json.loads(json.loads(head[8:].decode())["__metadata__"]["twofold"]))
    except (KeyError, TypeError) as error:
        raise FileFormatError("it was written by another program; give a twofold file") from error
    except (ValueError, RecursionError) as error:
        raise FileFormatError(f"its header is not JSON ({error}); {RESTORE}") from error
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
        return Stored(safetensors.numpy.load(head + body), dict(document["metadata"]))
    except (safetensors.SafetensorError, LookupError, TypeError, ValueError) as error:
        raise FileFormatError(f"its content cannot be read ({error!r}); {RESTORE}") from error


def _sync_directory(directory: Path) -> None:
    """Make a rename durable, if the system can open and sync a directory."""
    try:
        handle = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
    except OSError as error:
        if error.errno not in (errno.EACCES, errno.EINVAL):
            raise
