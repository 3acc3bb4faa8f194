"""How an index on disk is replaced while others read it; `tests/contract/test_saved.py` has what is saved."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from closecall.core.selection import files
from closecall.core.selection.files import read_index, write_index

OLD = {"codes": np.arange(5), "places": np.zeros(3), "same": np.ones(2)}
NEW = {"codes": np.arange(7), "same": np.ones(2), "more": np.arange(4.0)}
STEPS = ("replace", "rename", "unlink", "rmdir", "mkdir", "fsync")
"""Calls of the system that change what is on the disk."""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_index(tmp_path / "index", {"n": 1}, OLD)
    return tmp_path / "index"


def version(folder: Path) -> int:
    """The number of the index in a folder, whose arrays must be of this index."""
    header, arrays = read_index(folder)
    expected = {1: OLD, 2: NEW}[header["n"]]
    assert arrays.keys() == expected.keys()
    assert all(np.array_equal(arrays[name], expected[name]) for name in expected)
    return int(header["n"])


def test_whoever_reads_during_a_replacement_finds_the_old_index_or_the_new_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After each step; a kill or a power cut may be there, too. What such a kill left is removed."""
    (folder / "codes-0123456789abcdef.npy").write_bytes(b"of a killed process")
    seen: list[int] = []

    def watched(step: Any) -> Any:
        def taken(*words: Any, **options: Any) -> Any:
            done = step(*words, **options)
            seen.append(version(folder))
            return done

        return taken

    with monkeypatch.context() as patched:
        for name in STEPS:
            patched.setattr(os, name, watched(getattr(os, name)))
        write_index(folder, {"n": 2}, NEW)
    assert (seen[0], seen[-1]) == (1, 2)
    assert seen == sorted(seen)
    assert len(seen) > 8
    assert len(list(folder.iterdir())) == len(NEW) + 1
    assert [path.name for path in folder.parent.iterdir()] == ["index"]


def test_an_index_that_is_replaced_while_it_is_read_is_read_again(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The arrays that its manifest named are gone; the new manifest names others."""
    stamp_of, replaced = files.stamp_of, []

    def slowly(path: Path) -> Any:
        if not replaced:
            replaced.append(path)
            write_index(folder, {"n": 2}, NEW)
        return stamp_of(path)

    monkeypatch.setattr(files, "stamp_of", slowly)
    assert version(folder) == 2
    assert replaced
