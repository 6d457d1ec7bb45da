"""Files survive crashes whole, and a file that is not whole is never read; earlier work is
found again by the same run, and by no other."""

import errno
import json
import os
import random
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
import safetensors.numpy

from twofold.core import persistence
from twofold.core.persistence import (
    FileFormatError,
    OtherRunError,
    WorkFile,
    claim_folder,
    differences,
    fingerprint,
    hash_identity,
    read,
    read_claim,
    to_plain,
    write,
    write_bytes,
    write_text,
)

ARRAYS = {
    "weights": np.array([[1.5, np.nan], [-np.inf, 0.0]], np.float32),
    "key\x1b": np.array([7, 2**32 - 1], np.uint32),
    "empty": np.zeros((3, 0)),
    "scalar": np.array(2.5),
}
METADATA = {
    "name": 'Würfel \n "quoted" \\ \x1b 🎲',
    "layers": [50, {"α": 0.5, "none": None, "yes": True}],
    "zeros": "0" * 64,
}

# Loads the module by itself, because a whole import of twofold would cost each start a second.
REWRITE_FOREVER = """
import importlib.util, itertools, sys
import numpy as np
spec = importlib.util.spec_from_file_location("persistence", sys.argv[1])
persistence = importlib.util.module_from_spec(spec)
spec.loader.exec_module(persistence)
for turn in itertools.count():
    values = np.full(100_000 + turn % 7, turn)
    persistence.write(sys.argv[2], "checkpoint", {"values": values}, {"turn": turn})
    if turn == 0:
        print("ready", flush=True)
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "file.safetensors"


@pytest.fixture
def content(path: Path) -> bytes:
    """The bytes of a small valid model, which also lies at ``path``."""
    write(path, "model", ARRAYS, METADATA)
    return path.read_bytes()


def assert_refused(path: Path, content: bytes) -> None:
    path.write_bytes(content)
    with pytest.raises(FileFormatError):
        read(path, "model")


def forge(path: Path, **changes: object) -> None:
    """A file with a valid checksum and a document that ``write`` would not make."""
    fields = {"checksum": "#" * 64, "format_version": 1, "kind": "model", "metadata": {}} | changes
    document = json.dumps({name: value for name, value in fields.items() if value is not None})
    head = safetensors.numpy.save({"half": np.ones(2, np.float16)}, {"twofold": document})
    checksum = persistence._checksum(head, b"", "#" * 64)
    path.write_bytes(head.replace(b"#" * 64, checksum.encode()))


def test_round_trip_of_arrays_and_metadata(path):
    write(path, "model", ARRAYS, METADATA)
    stored = read(path, "model")
    assert stored.metadata == METADATA
    assert stored.arrays.keys() == ARRAYS.keys()
    for name, array in ARRAYS.items():
        np.testing.assert_array_equal(stored.arrays[name], array, strict=True)


@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (0, 3), (2, 3)])
@pytest.mark.parametrize("dtype", persistence.DTYPES)
def test_round_trip_of_every_type_and_shape(path, dtype, shape):
    array = np.arange(np.prod(shape, dtype=int)).reshape(shape).astype(dtype)
    write(path, "checkpoint", {"array": array}, {})
    np.testing.assert_array_equal(read(path, "checkpoint").arrays["array"], array, strict=True)


def test_round_trip_without_arrays(path):
    write(path, "model", {}, {})
    assert read(path, "model") == ({}, {})


@pytest.mark.parametrize(
    "view",
    [lambda a: a.T, lambda a: a[::2, ::-1], lambda a: a.astype(">f8"), np.asfortranarray],
    ids=["transposed", "strided", "big-endian", "fortran"],
)
def test_layout_in_memory_does_not_matter(path, view):
    array = view(np.arange(12.0).reshape(4, 3))
    write(path, "model", {"array": array}, {})
    stored = read(path, "model").arrays["array"]
    np.testing.assert_array_equal(stored, array)
    assert stored.dtype == np.float64
    assert fingerprint(stored) == fingerprint(array)


def test_same_content_gives_the_same_bytes(path, content):
    write(path, "model", ARRAYS, METADATA)
    assert path.read_bytes() == content


def test_other_tools_can_open_the_file(path, content):
    np.testing.assert_array_equal(safetensors.numpy.load_file(path)["scalar"], 2.5)


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float32(1), {1, 2}, b"bytes"])
def test_metadata_that_is_no_json_is_refused(path, value):
    with pytest.raises(ValueError, match="metadata must be JSON values with finite numbers"):
        write(path, "model", {}, {"nested": [value]})
    assert not path.exists()


@pytest.mark.parametrize("name, dtype", [("x", object), ("x", complex), ("__metadata__", float)])
def test_arrays_that_cannot_come_back_are_refused(path, name, dtype):
    with pytest.raises(ValueError, match="rename or convert it"):
        write(path, "model", {name: np.zeros(2, dtype)}, {})
    assert not path.exists()


@pytest.mark.parametrize("function", ["replace", "fsync"])
@pytest.mark.parametrize("error", [OSError(errno.EIO, "broken disk"), KeyboardInterrupt()])
def test_failure_leaves_the_old_file_and_nothing_else(path, content, monkeypatch, function, error):
    def fail(*_):
        raise error

    monkeypatch.setattr(persistence.os, function, fail)
    with pytest.raises(type(error)):
        write(path, "model", {}, {"new": True})
    monkeypatch.undo()
    assert path.read_bytes() == content
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(
    "number, raised", [(errno.EINVAL, False), (errno.EACCES, False), (errno.EIO, True)]
)
def test_only_systems_that_cannot_sync_a_directory_are_excused(path, monkeypatch, number, raised):
    def fail(*_):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(persistence.os, "open", fail)
    if raised:
        with pytest.raises(OSError, match=os.strerror(number)):
            write_text(path, "new")
    else:
        write_text(path, "new")
    assert path.read_text() == "new"


def test_file_and_directory_are_synced_around_the_exchange(path, monkeypatch):
    calls = []
    for name in ("fsync", "replace"):
        original = getattr(os, name)

        def record(*args, name=name, original=original):
            calls.append((name, name == "fsync" and os.path.isdir(f"/proc/self/fd/{args[0]}")))
            return original(*args)

        monkeypatch.setattr(persistence.os, name, record)
    write_text(path, "text")
    on_linux = os.path.isdir("/proc/self/fd")
    assert calls == [("fsync", False), ("replace", False), ("fsync", on_linux)]


def test_sigkill_at_random_moments_leaves_a_whole_file(path):
    delays = random.Random(0)
    command = [sys.executable, "-c", REWRITE_FOREVER, persistence.__file__, str(path)]
    for _ in range(20):
        with subprocess.Popen(command, stdout=subprocess.PIPE) as process:
            assert process.stdout.readline() == b"ready\n"
            time.sleep(delays.uniform(0.0, 0.05))
            process.send_signal(signal.SIGKILL)
        stored = read(path, "checkpoint")
        turn = stored.metadata["turn"]
        np.testing.assert_array_equal(stored.arrays["values"], np.full(100_000 + turn % 7, turn))


def test_readers_and_writers_at_the_same_time_see_whole_files(path):
    command = [sys.executable, "-c", REWRITE_FOREVER, persistence.__file__, str(path)]
    writers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(2)]
    try:
        for writer in writers:
            assert writer.stdout.readline() == b"ready\n"
        for _ in range(100):
            stored = read(path, "checkpoint")
            assert np.all(stored.arrays["values"] == stored.metadata["turn"])
    finally:
        for writer in writers:
            writer.kill()
            writer.communicate()


def test_every_truncation_is_found(path, content):
    for length in range(len(content)):
        assert_refused(path, content[:length])


def test_every_flipped_bit_is_found(path, content):
    for position in range(len(content)):
        for bit in range(8):
            damaged = bytearray(content)
            damaged[position] ^= 1 << bit
            assert_refused(path, bytes(damaged))


def test_random_damage_is_found(path, content):
    generator = random.Random(0)
    for _ in range(2000):
        start, end = sorted(generator.choices(range(len(content) + 1), k=2))
        filling = generator.randbytes(generator.randrange(20))
        damaged = content[:start] + filling + content[end:]
        if damaged != content:
            assert_refused(path, damaged)


def test_edits_that_mean_the_same_are_found(path, content):
    assert_refused(path, content.replace(b"\\\\u00fc", b"\\\\u00FC"))
    assert_refused(path, content.replace(b"key\\u001b", b"key\\u001B"))
    assert_refused(path, content + b"\n")
    end = 8 + int.from_bytes(content[:8], "little")
    padding = end - len(content[:end].rstrip())
    assert padding > 0
    assert_refused(path, content[: end - 1] + b"\t" + content[end:])
    longer = (end - 8 + 8).to_bytes(8, "little")
    assert_refused(path, longer + content[8:end] + b" " * 8 + content[end:])


@pytest.mark.parametrize("length", [2**63 - 1, 2**64 - 1, 2**40])
def test_absurd_header_length_allocates_nothing(path, content, length):
    path.write_bytes(length.to_bytes(8, "little") + content[8:])
    with pytest.raises(FileFormatError, match="cut short"):
        read(path, "model")


@pytest.mark.parametrize(
    "content, message",
    [
        (b"", "empty or cut short, with 0 bytes"),
        (b"\x10\x00", "empty or cut short, with 2 bytes"),
        (bytes(8), "its header is not JSON"),
        (b"x,y\n1.0,2.0\n3.0,4.0\n", "not a safetensors file"),
        (bytes(1000), "not a safetensors file"),
        ((2).to_bytes(8, "little") + b"{}", "written by another program"),
        ((20).to_bytes(8, "little") + b'{"__metadata__":"a"}', "written by another program"),
        ((10).to_bytes(8, "little") + b'{"a": \xff\xfe}\n', "its header is not JSON"),
        ((500_005).to_bytes(8, "little") + b'{"a":' + b"[" * 500_000, "its header is not JSON"),
    ],
    ids=lambda value: repr(value)[:30] if isinstance(value, bytes) else None,
)
def test_other_files_are_named(path, content, message):
    path.write_bytes(content)
    with pytest.raises(FileFormatError, match=message) as caught:
        read(path, "model")
    assert str(caught.value).startswith(f"expected {path} to be a twofold model, but ")


@pytest.mark.parametrize("document", ["", "{", "[1]", "3", "null", '"text"', "[" * 500_000])
def test_unreadable_documents_are_refused(path, document):
    assert_refused(path, safetensors.numpy.save({}, {"twofold": document}))


def test_safetensors_of_another_program(path):
    safetensors.numpy.save_file(ARRAYS, path, {"format": "pt"})
    with pytest.raises(FileFormatError, match="written by another program; give a twofold file"):
        read(path, "model")


def test_wrong_kind(path):
    write(path, "checkpoint", {}, {})
    with pytest.raises(FileFormatError, match="be a twofold model, but it is a checkpoint; give"):
        read(path, "model")


def test_newer_format(path):
    forge(path, format_version=2, library_version="9.1")
    message = r"written by twofold 9\.1 with format 2; this twofold reads up to format 1; upgrade"
    with pytest.raises(FileFormatError, match=message):
        read(path, "model")


def test_newer_format_need_not_have_todays_checksum(path):
    forge(path, format_version=2, checksum=None)
    with pytest.raises(FileFormatError, match="upgrade twofold"):
        read(path, "model")


@pytest.mark.parametrize("checksum", [None, 3, "", "\ud800", ["#" * 64]])
def test_checksum_must_be_there(path, checksum):
    forge(path, checksum=checksum)
    with pytest.raises(FileFormatError, match="checksum differs"):
        read(path, "model")


def test_document_without_metadata_is_refused(path):
    forge(path, metadata=None)
    with pytest.raises(FileFormatError, match="its content cannot be read"):
        read(path, "model")


def test_library_version_is_recorded(path, content):
    with safetensors.safe_open(path, "np") as file:
        document = json.loads(file.metadata()["twofold"])
    assert document["library_version"] == persistence.LIBRARY_VERSION
    assert document["metadata"] == METADATA


def test_missing_file(path):
    with pytest.raises(
        FileNotFoundError, match=r"expected a twofold model, but there is no .*file"
    ):
        read(path, "model")


def test_directory_in_place_of_the_file(path):
    path.mkdir()
    with pytest.raises(FileFormatError, match="directory or a device"):
        read(path, "model")
    with pytest.raises(FileExistsError, match="it is a directory or device"):
        write(path, "model", {}, {})
    assert list(path.parent.iterdir()) == [path]


def test_pipe_in_place_of_the_file(path):
    os.mkfifo(path)
    with pytest.raises(FileFormatError, match="directory or a device"):
        read(path, "model")
    with pytest.raises(FileExistsError, match="it is a directory or device"):
        write(path, "model", {}, {})
    assert path.is_fifo()


def test_missing_parent_is_named_and_not_created(tmp_path):
    parent = tmp_path / "missing"
    with pytest.raises(FileNotFoundError, match=f"no directory {parent}; create it"):
        write(parent / "file", "model", {}, {})
    assert not parent.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_read_only_directory(path, content):
    path.parent.chmod(0o500)
    try:
        with pytest.raises(PermissionError):
            write(path, "model", {}, {})
        assert path.read_bytes() == content
        assert list(path.parent.iterdir()) == [path]
    finally:
        path.parent.chmod(0o700)


def test_symbolic_link_stays(path, tmp_path):
    link = tmp_path / "link"
    link.symlink_to(path.name)
    write_text(link, "new")
    assert link.is_symlink()
    assert path.read_text() == "new"


def test_relative_and_long_names(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    write("n" * 255, "model", {}, {"found": True})
    assert read("n" * 255, "model").metadata == {"found": True}


def test_write_text_and_bytes(path):
    write_text(path, '{"α": 1}\n')
    assert path.read_bytes() == '{"α": 1}\n'.encode()
    write_bytes(path, b"one", memoryview(b""), b"two")
    assert path.read_bytes() == b"onetwo"
    write_bytes(path)
    assert path.read_bytes() == b""


def test_permissions_are_those_of_a_plain_file(path, tmp_path):
    plain = tmp_path / "plain"
    plain.touch()
    write_text(path, "text")
    assert path.stat().st_mode == plain.stat().st_mode


def test_fingerprint_tells_arrays_apart():
    base = np.arange(6.0)
    others = [
        (),
        (base,),
        (base.reshape(2, 3),),
        (base.reshape(3, 2),),
        (base.astype(np.float32),),
        (base.astype(np.int64),),
        (base.view(np.int64),),
        (base[::-1],),
        (base[:3], base[3:]),
        (base[:2], base[2:]),
        (base, base),
        (np.zeros((3, 0)),),
        (np.zeros((0, 3)),),
        (np.array(0.0),),
        (np.array([0.0]),),
    ]
    assert len({fingerprint(*arrays) for arrays in others}) == len(others)


def test_fingerprint_is_stable():
    """Fixed for ever: a stored fingerprint must match in later versions and on other machines."""
    expected = "44fc36e5f23aec05bdfc6538bcba7ae6270bcba362b40ab64447a7be7e7485de"
    assert fingerprint(np.arange(3.0), np.array([True])) == expected


def test_fingerprint_refuses_objects():
    with pytest.raises(ValueError, match="expected arrays of numbers, got dtype object"):
        fingerprint(np.array([None]))


IDENTITY = {"alpha": 0.5, "layers": (20, 20), "seed": np.int64(3)}


@dataclass(frozen=True)
class Setting:
    size: int
    path: Path


def test_values_become_what_json_has():
    value = {"a": np.arange(2), 1: (Setting(2, Path("x")), np.float32(0.5)), "n": float("nan")}
    expected = {"a": [0, 1], "1": [{"kind": "Setting", "size": 2, "path": "x"}, 0.5], "n": None}
    assert to_plain(value) == expected


def test_a_fingerprint_depends_on_values_not_on_their_order_or_type():
    reordered = {"seed": 3, "layers": [20, 20], "alpha": 0.5}
    assert hash_identity(IDENTITY) == hash_identity(reordered)
    assert hash_identity(IDENTITY) != hash_identity(IDENTITY | {"alpha": 1.0})


def test_differences_name_what_changed_on_either_side():
    assert differences(to_plain(IDENTITY), IDENTITY) == []
    found = differences({"alpha": 1.0, "old": 1}, {"alpha": 0.5, "new": 2})
    assert found == ["alpha was 1.0, now 0.5", "new was None, now 2", "old was 1, now None"]


def test_a_file_is_found_by_its_own_run_only(tmp_path):
    work = WorkFile(tmp_path / "work", "checkpoint", IDENTITY)
    assert work.read() is None
    work.write({"x": np.arange(3.0)}, {"epoch": 7})
    stored = work.read()
    np.testing.assert_array_equal(stored.arrays["x"], np.arange(3.0))
    assert stored.metadata["epoch"] == 7

    other = WorkFile(tmp_path / "work", "checkpoint", IDENTITY | {"alpha": 1.0})
    with pytest.raises(OtherRunError, match=r"alpha was 0\.5, now 1\.0"):
        other.read()
    assert other.find() is None


def test_damaged_work_is_refused_or_done_again(tmp_path):
    work = WorkFile(tmp_path / "work", "checkpoint", IDENTITY)
    work.write({}, {})
    content = work.path.read_bytes()
    work.path.write_bytes(content[:-1] + b"?")
    with pytest.raises(FileFormatError):
        work.read()
    assert work.find() is None


def test_a_place_that_cannot_be_written_is_refused_beforehand(tmp_path):
    with pytest.raises(IsADirectoryError):
        WorkFile(tmp_path, "checkpoint", {}).check_writable()
    with pytest.raises(FileNotFoundError, match="create it"):
        WorkFile(tmp_path / "no" / "file", "checkpoint", {}).check_writable()


def test_a_folder_is_claimed_once_and_belongs_to_one_run(tmp_path):
    folder = tmp_path / "run"
    claimed = claim_folder(folder, "project.json", IDENTITY, {"rows": 5})
    assert claimed["about"] == {"rows": 5}
    assert claim_folder(folder, "project.json", IDENTITY, {})["about"] == {"rows": 5}
    assert read_claim(folder / "project.json")["identity"] == to_plain(IDENTITY)
    with pytest.raises(OtherRunError, match="seed was 3, now 4"):
        claim_folder(folder, "project.json", IDENTITY | {"seed": 4}, {})


def test_a_folder_with_other_content_is_left_alone(tmp_path):
    (tmp_path / "mine.txt").write_text("keep")
    with pytest.raises(OtherRunError, match="not empty"):
        claim_folder(tmp_path, "project.json", {}, {})
    assert [path.name for path in tmp_path.iterdir()] == ["mine.txt"]


@pytest.mark.parametrize("text", ["", "[]", '{"format_version": 1}', '{"format_version": "x"}'])
def test_a_damaged_claim_is_refused(tmp_path, text):
    (tmp_path / "project.json").write_text(text)
    with pytest.raises(FileFormatError, match="damaged"):
        claim_folder(tmp_path, "project.json", {}, {})
