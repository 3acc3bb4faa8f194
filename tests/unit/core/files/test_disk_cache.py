"""Byte strings on disk, within a bound."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from closecall.core.files import disk_cache
from closecall.core.files.disk_cache import DiskCache


def files(folder: Path) -> list[Path]:
    return [file for file in folder.rglob("*") if file.is_file()]


def test_what_is_stored_is_found_also_by_others(tmp_path: Path) -> None:
    """Under its key only; the empty string too."""
    DiskCache(tmp_path / "c", 1_000).put("a", b"one")
    DiskCache(tmp_path / "c", 1_000).put("b", b"")
    other = DiskCache(tmp_path / "c", 1_000)
    assert (other.get("a"), other.get("b"), other.get("c")) == (b"one", b"", None)


def test_the_least_recently_used_are_deleted(tmp_path: Path) -> None:
    """And all together never have more than the maximum."""
    cache = DiskCache(tmp_path, 10_000)
    for number in range(50):
        for file in files(tmp_path):  # a second passes: clocks of file systems are coarse
            os.utime(file, (file.stat().st_mtime - 1,) * 2)
        cache.put(str(number), bytes(984))
        if number >= 9:
            assert cache.get("0") is not None
        assert sum(file.stat().st_size for file in files(tmp_path)) <= 10_000
    assert cache.get("49") is not None
    assert cache.get("1") is None


def test_without_deleting_it_fills_up(tmp_path: Path) -> None:
    """Then others stay; too large an entry is never stored."""
    cache = DiskCache(tmp_path, 10_000)
    for number in range(50):
        cache.put(str(number), bytes(984), evict=False)
    cache.put("large", bytes(20_000))
    assert [cache.get(str(number)) is not None for number in range(12)] == [True] * 10 + [False] * 2
    assert cache.get("large") is None


def test_an_earlier_entry_is_replaced_or_deleted(tmp_path: Path) -> None:
    """It is not found any more, also if there is no room for the new one."""
    cache = DiskCache(tmp_path, 2_000)
    cache.put("a", bytes(900))
    cache.put("b", bytes(900))
    assert cache.put("a", b"1" * 900, evict=False)
    assert (cache.get("a"), cache.get("b")) == (b"1" * 900, bytes(900))
    assert not cache.put("a", b"2" * 1_100, evict=False)
    assert (cache.get("a"), cache.get("b")) == (None, bytes(900))


def test_damaged_entries_do_not_exist(tmp_path: Path) -> None:
    """Cut or changed, until they are stored again."""
    cache = DiskCache(tmp_path, 10_000)
    cache.put("a", b"content")
    (file,) = files(tmp_path)
    whole = file.read_bytes()
    for damaged in (whole[:-1], whole[:5], b"", whole[:-1] + b"x"):
        file.write_bytes(damaged)
        assert cache.get("a") is None
    cache.put("a", b"again")
    assert cache.get("a") == b"again"


def test_a_full_or_missing_disk_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is kept then."""
    (tmp_path / "file").write_text("")
    DiskCache(tmp_path / "file" / "c", 1_000).put("a", b"one")
    monkeypatch.setattr(disk_cache, "SPARE_BYTES", 1 << 60)
    cache = DiskCache(tmp_path / "c", 1_000)
    cache.put("a", b"one")
    assert cache.get("a") is None
