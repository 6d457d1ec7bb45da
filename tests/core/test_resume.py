"""Earlier work is found again by the same run, and by no other."""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

from twofold.core.persistence import FileFormatError
from twofold.core.plain import to_plain
from twofold.core.resume import (
    OtherRunError,
    WorkFile,
    claim_folder,
    differences,
    fingerprint,
    read_claim,
)

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
    assert fingerprint(IDENTITY) == fingerprint(reordered)
    assert fingerprint(IDENTITY) != fingerprint(IDENTITY | {"alpha": 1.0})


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
    work.write()
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
