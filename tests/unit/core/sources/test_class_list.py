from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.sources.class_list import read_classes

NAMES = ["tench", "cock", "", "tench", "hen"]
"""Of five items; the third is unknown."""


@pytest.mark.parametrize("end", ["", "\n"])
@pytest.mark.parametrize("newline", ["\n", "\r\n"])
def test_lines_of_a_text(tmp_path: Path, newline: str, end: str) -> None:
    """One class per line, in the order of the alphabet; an empty line is an unknown class."""
    lines = newline.join(NAMES) + end
    (tmp_path / "c.txt").write_bytes(lines.encode("utf-8-sig"))
    names, truth = read_classes(tmp_path / "c.txt", 5)
    assert names == ("cock", "hen", "tench")
    assert truth.dtype == np.int16
    assert [names[i] if i >= 0 else "" for i in truth] == NAMES


@pytest.mark.parametrize("column", [False, True])
def test_strings_of_an_array(tmp_path: Path, column: bool) -> None:
    """The same from an array, also one of one column."""
    array = np.array(NAMES)
    np.save(tmp_path / "c.npy", array[:, None] if column else array)
    names, truth = read_classes(tmp_path / "c.npy", 5)
    assert [names[i] if i >= 0 else "" for i in truth] == NAMES


@pytest.mark.parametrize("dtype", ["int8", "int64", ">i4", "txt", "txt with an empty line"])
def test_numbers_are_in_their_own_order(tmp_path: Path, dtype: str) -> None:
    """10 comes after 9; negative numbers and empty lines are unknown."""
    given = [10, 9, -1, 100, 9]
    if dtype.startswith("txt"):
        path = tmp_path / "c.txt"
        unknown = "-1" if dtype == "txt" else ""
        path.write_text("\n".join(unknown if number < 0 else str(number) for number in given))
    else:
        path = tmp_path / "c.npy"
        np.save(path, np.array(given, dtype=dtype))
    names, truth = read_classes(path, 5)
    assert names == ("9", "10", "100")
    assert truth.tolist() == [1, 0, -1, 2, 0]


def test_negative_lines_among_names_are_unknown_too(tmp_path: Path) -> None:
    """Names that only begin with a minus sign are names."""
    (tmp_path / "c.txt").write_text("hen\n-1\n-x\n\n-20\nhen\n")
    names, truth = read_classes(tmp_path / "c.txt", 6)
    assert names == ("-x", "hen")
    assert truth.tolist() == [1, -1, 0, -1, -1, 1]


def test_unsuitable_arrays_are_refused(tmp_path: Path) -> None:
    """One sentence each that names the file, what is needed and what there is."""
    for array, words in (
        (np.array([1.0, 2.0]), "must have integers or strings, got float64"),
        (np.array([1, {}], dtype=object), "can't be read as an array of classes"),
        (np.zeros((2, 2), dtype=int), r"must have shape \(n_items,\), got \(2, 2\)"),
        (np.array([1, 2, 3]), "must have one class per item, 2, got 3"),
        (np.array([7, 7]), "must have 2 to 32,767 different classes, got 1"),
        (np.array([-1, -2]), "must have 2 to 32,767 different classes, got 0"),
    ):
        np.save(tmp_path / "c.npy", array, allow_pickle=True)
        with pytest.raises(InputError, match=words) as caught:
            read_classes(tmp_path / "c.npy", 2)
        assert "c.npy" in str(caught.value)
    np.save(tmp_path / "c.npy", np.arange(40_000))
    with pytest.raises(InputError, match="32,767 different classes, got 40,000"):
        read_classes(tmp_path / "c.npy", 40_000)


def test_unsuitable_files_are_refused(tmp_path: Path) -> None:
    """Missing, of another type, not UTF-8, empty."""
    (tmp_path / "latin.txt").write_bytes("café\nthé\n".encode("latin-1"))
    (tmp_path / "empty.txt").touch()
    (tmp_path / "empty.npy").touch()
    (tmp_path / "c.csv").write_text("a\nb\n")
    for name, words in {
        "missing.txt": "there is no file",
        "c.csv": "must be one of .npy, .txt",
        "latin.txt": "must be a text in UTF-8",
        "empty.txt": "one class per item, 2, got 0",
        "empty.npy": "can't be read",
    }.items():
        with pytest.raises(InputError, match=words) as caught:
            read_classes(tmp_path / name, 2)
        assert name in str(caught.value)
        assert "\n" not in str(caught.value)
