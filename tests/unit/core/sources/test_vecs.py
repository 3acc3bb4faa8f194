from __future__ import annotations

import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.sources.embeddings import Embeddings

CODES = {"fvecs": "f", "bvecs": "B"}


def packed(rows: list[list[float]], form: str) -> bytes:
    """The file's bytes, row by row, as its authors describe them."""
    return b"".join(struct.pack(f"<i{len(row)}{CODES[form]}", len(row), *row) for row in rows)


def rows_of(form: str, n: int = 300, width: int = 9) -> list[list[float]]:
    """Numbers that the format holds exactly."""
    rng = np.random.default_rng(4)
    if form == "bvecs":
        return rng.integers(1, 256, (n, width)).tolist()
    return rng.normal(size=(n, width)).astype(np.float32).tolist()


@pytest.mark.parametrize("form", CODES)
@pytest.mark.parametrize("width", [1, 2, 3, 128])
def test_rows_are_those_that_were_written(tmp_path: Path, form: str, width: int) -> None:
    """Number by number, in any order of rows, also where rows are not aligned to four bytes."""
    rows = rows_of(form, width=width)
    (tmp_path / f"x.{form}").write_bytes(packed(rows, form))
    matrix = Embeddings(tmp_path / f"x.{form}")
    matrix.check()
    assert (len(matrix), matrix.n_features) == (300, width)
    items = np.array([299, 0, 17, 17])
    found = matrix.rows(items)
    assert found.dtype == np.float32
    assert found.tolist() == [rows[item] for item in items]


def test_the_suffix_may_be_in_capitals(tmp_path: Path) -> None:
    """As with other formats."""
    (tmp_path / "X.FVECS").write_bytes(packed([[1.0, 2.0]], "fvecs"))
    assert Embeddings(tmp_path / "X.FVECS").rows(np.array([0])).tolist() == [[1.0, 2.0]]


@pytest.mark.parametrize("form", CODES)
@pytest.mark.parametrize("lost", [1, 3, 4, 6])
def test_a_truncated_file_names_its_last_row(tmp_path: Path, form: str, lost: int) -> None:
    """Wherever it ends."""
    whole = packed(rows_of(form), form)
    each = len(whole) // 300
    (tmp_path / f"x.{form}").write_bytes(whole[:-lost])
    with pytest.raises(InputError, match=rf"cut short: row 299 has {each - lost} of its {each} bytes$"):
        Embeddings(tmp_path / f"x.{form}")


@pytest.mark.parametrize("form", CODES)
@pytest.mark.parametrize("length", [7, 8, 18, 0])
def test_rows_of_other_lengths_are_named(tmp_path: Path, form: str, length: int) -> None:
    """The first such row, with both lengths, whether or not the size of the file gives it away."""
    rows = rows_of(form)
    rows[200] = (rows[200] * 2)[:length]
    (tmp_path / f"x.{form}").write_bytes(packed(rows, form))
    with pytest.raises(InputError, match=rf"^row 200 of .* has {length} numbers, but earlier rows have 9$"):
        Embeddings(tmp_path / f"x.{form}").check()


def test_a_wrong_length_that_fits_the_size_is_found(tmp_path: Path) -> None:
    """Two rows of lengths 7 and 11 take the space of two of 9."""
    rows = rows_of("fvecs")
    rows[100], rows[101] = rows[100][:7], rows[101] + rows[101][:2]
    (tmp_path / "x.fvecs").write_bytes(packed(rows, "fvecs"))
    with pytest.raises(InputError, match=r"^row 100 of .* has 7 numbers, but earlier rows have 9$"):
        Embeddings(tmp_path / "x.fvecs").check()


@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "is empty$"),
        (b"\x01\x00", "is cut short: it has only 2 bytes$"),
        (struct.pack("<i", 3), "row 0 has 3 numbers in 16 bytes, but the file has 4$"),
        (struct.pack("<i2f", 3, 1, 2), "row 0 has 3 numbers in 16 bytes, but the file has 12$"),
        (
            struct.pack("<i3f", 2**31 - 1, 1, 2, 3),
            r"row 0 has 2,147,483,647 numbers in 8,589,934,592 bytes, but the file has 16$",
        ),
        (struct.pack("<i3f", 0, 1, 2, 3), "is damaged: row 0 must have at least 1 number, got 0$"),
        (struct.pack("<i3f", -5, 1, 2, 3), "is damaged: row 0 must have at least 1 number, got -5$"),
        (struct.pack(">i3f", 3, 1, 2, 3), "row 0 has 50,331,648 numbers"),
    ],
)
def test_damaged_headers_are_refused(tmp_path: Path, raw: bytes, words: str) -> None:
    """One sentence each that names the file; nothing of the size that a header gives is allocated."""
    (tmp_path / "x.fvecs").write_bytes(raw)
    tracemalloc.start()
    with pytest.raises(InputError, match=words) as caught:
        Embeddings(tmp_path / "x.fvecs")
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 1_000_000
    assert str(tmp_path / "x.fvecs") in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("value", "words"), [(np.nan, "NaN or infinity"), (-np.inf, "NaN or infinity"), (0, "only zeros")]
)
def test_a_row_without_direction_is_named(tmp_path: Path, value: float, words: str) -> None:
    """As in other formats."""
    rows = rows_of("fvecs")
    rows[123] = [0.0] * 8 + [value]
    (tmp_path / "x.fvecs").write_bytes(packed(rows, "fvecs"))
    with pytest.raises(InputError, match=rf"^row 123 of .*x\.fvecs .*{words}"):
        Embeddings(tmp_path / "x.fvecs").check()


def test_a_file_is_read_in_blocks(tmp_path: Path) -> None:
    """Opening and checking a file of 42 MB takes a fraction of its size in memory."""
    n, width = 40_000, 256
    raw = np.ones((n, width + 1), dtype="<f4")
    raw.view("<i4")[:, 0] = width
    raw.tofile(tmp_path / "x.fvecs")
    del raw
    tracemalloc.start()
    Embeddings(tmp_path / "x.fvecs").check()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < n * width * 4 / 3
