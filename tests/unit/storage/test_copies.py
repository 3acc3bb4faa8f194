"""Backup and restore."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
import subprocess
import sys
import threading
from contextlib import closing
from pathlib import Path

import pytest

from closecall.storage import Concepts, Database, LabelLog, StorageError, backup, copies, files, restore
from closecall.storage.groupings import Groupings
from closecall.storage.place import Where
from tests.scale import scaled
from tests.storage_kit import (
    ENGINES,
    Annotator,
    as_ordinary_user,
    count_rows,
    make_concept,
    open_folder,
    sit_down,
)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A label database with one answer, closed."""
    path = tmp_path / "labels.db"
    with Database.open(path, create=True) as database:
        sit_down(database, make_concept(database)).says("yes", 5)
    return path


def items(where: Where) -> list[int]:
    """What was answered, in the log's order."""
    with Database.open(where, read_only=True) as database:
        return [a.item for a in LabelLog(database).answers_after(1)]


def refuses(kind: str, call, *args, **kwargs) -> str:  # type: ignore[no-untyped-def]
    """The call raises a StorageError of that kind; returns its sentence."""
    with pytest.raises(StorageError) as caught:
        call(*args, **kwargs)
    assert caught.value.kind == kind
    return str(caught.value)


def leftovers(folder: Path) -> list[str]:
    """Half-made files."""
    return [file.name for file in folder.iterdir() if "partial" in file.name or file.suffix == ".tmp"]


def test_a_copy_of_a_live_database_is_one_instant_of_it(labels: Path | str, tmp_path: Path) -> None:
    """While answers are being stored: everything acknowledged before is in the copy, batches are whole, and
    the copy is one file that needs no journal.
    """
    with Database.open(labels) as database:
        ada = Annotator(LabelLog(database), LabelLog(database).sessions()[0])
        stored, stop = [0], threading.Event()

        def write() -> None:
            while not stop.is_set():
                ada.send(*(ada.record("no", 10 + 3 * stored[0] + k) for k in range(3)))
                stored[0] += 1

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for number in range(scaled(quick=3, all=5)):
                before = stored[0]
                copy = backup(labels, tmp_path / f"copy{number}")
                after = stored[0] + 1
                found = items(copy)
                assert 1 + 3 * before <= len(found) <= 1 + 3 * after
                assert found == [5, *range(10, 10 + len(found) - 1)]
                assert (len(found) - 1) % 3 == 0
        finally:
            stop.set()
            writer.join()
    with closing(sqlite3.connect(tmp_path / "copy0")) as copied:
        assert copied.execute("PRAGMA journal_mode").fetchone() == ("delete",)
    assert leftovers(tmp_path) == []


@pytest.fixture(params=ENGINES)
def elsewhere(request: pytest.FixtureRequest, tmp_path: Path) -> Path | str:
    """Another place, where nothing is."""
    if request.param == "postgresql":
        return request.getfixturevalue("server").schema()
    (tmp_path / "other").mkdir()
    return tmp_path / "other" / "labels.db"


def test_there_and_back_again(labels: Path | str, elsewhere: Path | str, tmp_path: Path) -> None:
    """A restored database goes on where the copy was made, whichever engine either of them is on."""
    with Database.open(labels) as database:
        ada = Annotator(LabelLog(database), LabelLog(database).sessions()[0])
        shown = ada.is_shown(7, parameters={"k": 40, "of": ["ä", None, 0.1]}, leased=(3, 9), margin=1 / 7)
        ada.undoes(ada.says("no", 7, selection_id=shown.id))
        Concepts(database).add_example(1, b"\x89PNG\r\n\x1a\n\0", True, [0.25, -1.5])
        Concepts(database, description="clip").describe_example(1, [3.5])
        Groupings(database).keep("a" * 64, b"\0\xff")
        before, rows = list(ada.log.log_rows()), count_rows(database)
        example = Concepts(database).examples(1)[0]
    copy = backup(labels, tmp_path / "copy")
    assert restore(copy, elsewhere) is None
    with Database.open(elsewhere) as database:
        ada = Annotator(LabelLog(database), LabelLog(database).sessions()[0])
        assert (list(ada.log.log_rows()), count_rows(database)) == (before, rows)
        again = Concepts(database).examples(1)[0]
        assert (again.image, again.feature.tolist(), again.is_positive) == (
            example.image,
            example.feature.tolist(),
            True,
        )
        (under_clip,) = Concepts(database, description="clip").examples(1)
        assert under_clip.feature.tolist() == [3.5]
        assert Groupings(database).content("a" * 64) == b"\0\xff"
        assert ada.says("no", 6).seq == len(before) + 1
        assert ada.is_shown(6).seq == 2
        assert Concepts(database).create("eight", "Is it?").id == 2
    assert items(elsewhere) == [5, 7, 7, 6]
    assert items(copy) == [5, 7, 7]


def test_nothing_is_overwritten_unless_asked(labels: Path | str, tmp_path: Path) -> None:
    """Neither an older backup nor a database; and a replaced database is set aside, not deleted."""
    copy = backup(labels, tmp_path / "copy")
    assert "copy" in refuses("exists", backup, labels, copy)
    assert "exists" in refuses("exists", restore, copy, labels)
    with Database.open(labels) as database:
        Annotator(LabelLog(database), LabelLog(database).sessions()[0]).says("no", 6)
    aside = restore(copy, labels, overwrite=True)
    assert aside is not None
    assert (items(labels), items(aside)) == ([5], [5, 6])
    assert backup(aside, copy, overwrite=True) == copy
    assert items(copy) == [5, 6]


def test_a_file_that_appears_meanwhile_is_not_overwritten(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also when somebody else makes the file between the check and the end."""
    check = copies._check_sound

    def somebody_is_faster(copy: Path, source: Path) -> None:
        check(copy, source)
        (tmp_path / "copy").write_text("precious")

    monkeypatch.setattr(copies, "_check_sound", somebody_is_faster)
    refuses("exists", backup, path, tmp_path / "copy")
    assert (tmp_path / "copy").read_text() == "precious"
    assert leftovers(tmp_path) == []


@pytest.mark.parametrize(
    ("code", "kind"), [(errno.EIO, "other"), (errno.ENOSPC, "full"), (errno.EROFS, "read-only")]
)
@pytest.mark.parametrize("step", ["_sync_file", "_sync_folder"])
def test_a_database_keeps_its_name_if_it_can_not_be_replaced(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, code: int, kind: str
) -> None:
    """One sentence says why; the labels are where they were."""
    copy = backup(path, tmp_path / "copy")
    with Database.open(path) as database:
        Annotator(LabelLog(database), LabelLog(database).sessions()[0]).says("no", 6)
    before = sorted(file.name for file in tmp_path.iterdir())

    def fails(_: Path) -> None:
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(files, step, fails)
    assert os.strerror(code) in refuses(kind, restore, copy, path, overwrite=True)
    assert items(path) == [5, 6]
    assert sorted(file.name for file in tmp_path.iterdir()) == before


def test_restoring_needs_the_database_closed(labels: Path | str, tmp_path: Path) -> None:
    """A server's database is not pulled from under it."""
    copy = backup(labels, tmp_path / "copy")
    with Database.open(labels) as database:
        assert "stop" in refuses("locked", restore, copy, labels, overwrite=True)
        Annotator(LabelLog(database), LabelLog(database).sessions()[0]).says("no", 6)
    assert items(labels) == [5, 6]
    assert leftovers(tmp_path) == []


def test_looking_at_a_database_does_not_unlock_it(path: Path, tmp_path: Path) -> None:
    """A process that backs up, or opens once more, what it has open keeps other processes from taking it: a
    plain open() and close() of the file would give up all of the process's locks on it.
    """
    take = (
        "import sqlite3, sys; sqlite3.connect(sys.argv[1], timeout=0).execute('PRAGMA journal_mode=DELETE')"
    )
    with Database.open(path) as database:
        backup(path, tmp_path / "copy")
        Database.open(path, read_only=True).close()
        Database.open(path).close()
        ran = subprocess.run([sys.executable, "-c", take, path], capture_output=True, text=True, check=False)
        assert "locked" in ran.stderr
        Annotator(LabelLog(database), LabelLog(database).sessions()[0]).says("no", 6)


def test_an_old_journal_is_never_replayed_into_a_restored_database(path: Path, tmp_path: Path) -> None:
    """What a killed server left beside the database goes aside with it."""
    copy = backup(path, tmp_path / "copy")
    with Database.open(path) as database:
        Annotator(LabelLog(database), LabelLog(database).sessions()[0]).says("no", 6)
        wal = path.with_name("labels.db-wal").read_bytes()
        assert wal
    for there in (True, False):
        path.unlink()
        if there:
            path.write_bytes(b"not a database any more")
        path.with_name("labels.db-wal").write_bytes(wal)
        restore(copy, path, overwrite=True)
        assert not path.with_name("labels.db-wal").exists()
        assert items(path) == [5]


def test_what_is_no_backup_is_refused(path: Path, tmp_path: Path) -> None:
    """Each with its reason, and the place to restore to stays empty."""
    copy = backup(path, tmp_path / "copy")
    target = tmp_path / "new.db"
    note, other, newer, cut, bent = (tmp_path / n for n in ("note", "other", "newer", "cut", "bent"))
    note.write_text("Buy milk.")
    with closing(sqlite3.connect(other)) as connection, connection:
        connection.execute("CREATE TABLE milk (litres REAL)")
    shutil.copy(copy, newer)
    with closing(sqlite3.connect(newer)) as connection, connection:
        connection.execute("UPDATE alembic_version SET version_num = '0999'")
    whole = copy.read_bytes()
    cut.write_bytes(whole[: len(whole) // 2])
    bent.write_bytes(whole[:8192] + bytes(4096) + whole[12288:])
    refuses("missing", restore, tmp_path / "typo", target)
    refuses("not-a-database", restore, note, target)
    refuses("not-a-database", restore, other, target)
    assert "0999" in refuses("newer", restore, newer, target)
    refuses("corrupt", restore, cut, target)
    refuses("corrupt", restore, bent, target)
    refuses("missing", restore, copy, tmp_path / "nowhere" / "labels.db")
    assert not target.exists()
    assert leftovers(tmp_path) == []


def test_a_damaged_database_gives_no_backup(path: Path, tmp_path: Path) -> None:
    """A backup that would not restore is not kept, and an older good one stays."""
    copy = backup(path, tmp_path / "copy")
    whole = path.read_bytes()
    path.write_bytes(whole[:8192] + bytes(4096) + whole[12288:])
    refuses("corrupt", backup, path, copy, overwrite=True)
    assert items(copy) == [5]
    refuses("missing", backup, tmp_path / "typo", tmp_path / "copy2")
    assert leftovers(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_named() -> None:
    """Before anything is copied."""
    with open_folder() as folder:
        (folder / "full").mkdir()
        path = folder / "labels.db"
        Database.open(path, create=True).close()
        path.chmod(0o666)
        (folder / "full").chmod(0o555)
        with as_ordinary_user():
            assert "full" in refuses("read-only", backup, path, folder / "full" / "copy")
