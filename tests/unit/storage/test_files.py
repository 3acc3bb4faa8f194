"""Files that appear when they are whole, where the system is Windows: there less can be sent to the disk."""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path
from typing import Any

import pytest

from closecall.storage import Database, StorageError, backup, files
from tests.storage_kit import count_rows, make_concept, sit_down


class Windows:
    """The module `os` as far as it differs there: it opens no folder, and syncs no handle of a reader."""

    name = "nt"

    def __init__(self) -> None:
        self.synced: list[int] = []

    def __getattr__(self, name: str) -> Any:
        return getattr(os, name)

    def open(self, path: Path, flags: int) -> int:
        if Path(path).is_dir():
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return os.open(path, flags)

    def fsync(self, descriptor: int) -> None:
        if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
            raise OSError(errno.EBADF, os.strerror(errno.EBADF))
        self.synced.append(os.fstat(descriptor).st_ino)


@pytest.fixture
def windows(monkeypatch: pytest.MonkeyPatch) -> Windows:
    """Stands in for the system wherever `storage.files` asks it."""
    made = Windows()
    monkeypatch.setattr(files, "os", made)
    return made


@pytest.mark.parametrize("overwrite", [False, True])
def test_a_file_is_published_on_windows(tmp_path: Path, windows: Windows, overwrite: bool) -> None:
    """Its content goes to the disk by a handle that may write, and no folder is opened."""
    partial, file = tmp_path / "partial", tmp_path / "file"
    partial.write_bytes(b"whole")
    files.publish(partial, file, overwrite=overwrite)
    assert file.read_bytes() == b"whole"
    assert windows.synced == [file.stat().st_ino]


@pytest.mark.parametrize(("overwrite", "left"), [(False, None), (True, b"whole")])
def test_a_name_that_cannot_be_flushed_is_an_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, overwrite: bool, left: bytes | None
) -> None:
    """A new file is removed again; a file that was replaced has the new content, whole."""
    partial, file = tmp_path / "partial", tmp_path / "file"
    partial.write_bytes(b"whole")
    if overwrite:
        file.write_bytes(b"earlier")

    def fails(_: Path) -> None:
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(files, "_sync_folder", fails)
    with pytest.raises(StorageError, match="cannot be written"):
        files.publish(partial, file, overwrite=overwrite)
    assert (file.read_bytes() if file.exists() else None) == left


def test_labels_are_made_and_copied_on_windows(tmp_path: Path, windows: Windows) -> None:
    """A new database and a backup are both published."""
    with Database.open(tmp_path / "labels.db", create=True) as database:
        sit_down(database, make_concept(database)).says("yes", 5)
    copy = backup(tmp_path / "labels.db", tmp_path / "copy.db")
    assert len(windows.synced) == 2
    with Database.open(copy, read_only=True) as database:
        assert count_rows(database)["answers"] == 1


def test_folder_and_file_go_to_the_disk_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """First the content, then the name."""
    synced: list[int] = []
    monkeypatch.setattr(os, "fsync", lambda descriptor: synced.append(os.fstat(descriptor).st_ino))
    partial = tmp_path / "partial"
    partial.write_bytes(b"whole")
    files.publish(partial, tmp_path / "file", overwrite=False)
    assert synced == [partial.stat().st_ino, tmp_path.stat().st_ino]
