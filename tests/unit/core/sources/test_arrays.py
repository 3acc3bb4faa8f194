from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.features import compute, n_features
from closecall.core.sources import Arrays, open_source

N, D = 12, 5


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A cache folder of the test's own."""
    cache = tmp_path / "cache"
    monkeypatch.setattr("closecall.core.sources.unpacking.user_cache_path", lambda name: cache / name)
    return cache


@pytest.fixture
def photos(tmp_path: Path) -> Path:
    """Twelve images of two classes; image i, in the order of paths, is i + 1 pixels wide."""
    for i in range(N):
        file = tmp_path / "photos" / ("ant" if i < 6 else "bee") / f"{i:02}.png"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.new("L", (i + 1, 9)).save(file)
    return tmp_path / "photos"


@pytest.fixture
def rows() -> np.ndarray:
    """Twelve random rows."""
    return np.random.default_rng(0).normal(size=(N, D))


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", ">f4"])
def test_row_i_belongs_to_image_i(tmp_path: Path, photos: Path, rows: np.ndarray, dtype: str) -> None:
    """Features are the rows, of any type of real number; images come in the order of their paths."""
    rows = (10 * rows).round() + 1 if dtype == "int8" else rows
    np.save(tmp_path / "x.npy", rows.astype(dtype))
    source = Arrays(tmp_path / "x.npy", photos)
    assert len(source) == N
    assert n_features(source) == source.n_features == D
    items = np.array([3, 11, 0])
    X, ids, _ = compute(source, items)
    assert ids.tolist() == items.tolist()
    wanted = rows.astype(dtype).astype(np.float32)[items]
    np.testing.assert_allclose(X, wanted / np.linalg.norm(wanted, axis=1, keepdims=True), rtol=1e-5)
    assert [source.image(int(item), 64).size[0] for item in items] == [4, 12, 1]
    assert source.classes == ("ant", "bee")
    assert source.truth(items).tolist() == [0, 1, 0]
    assert len(source.held_out()) == 1


def test_a_list_gives_images_their_own_order(tmp_path: Path, photos: Path, rows: np.ndarray) -> None:
    """Rows belong to the lines of a list, relative to the list's folder, empty lines left out."""
    np.save(tmp_path / "x.npy", rows[:3])
    (photos / "list.txt").write_text("bee/11.png\n\nant/00.png\r\n./bee/06.png\n")
    source = Arrays(tmp_path / "x.npy", photos / "list.txt")
    assert [source.image(item, 64).size[0] for item in range(3)] == [12, 1, 7]
    assert [source.name(item) for item in range(3)] == ["bee/11.png", "ant/00.png", "bee/06.png"]
    assert source.truth(np.arange(3)).tolist() == [1, 0, 1]
    again = open_source(source.spec())
    assert [again.name(item) for item in range(3)] == ["bee/11.png", "ant/00.png", "bee/06.png"]
    assert again.title == source.title


@pytest.mark.parametrize("line", ["missing.png", "../outside.png", "ant", "/etc/hostname", "ant/link.png"])
def test_a_list_names_files_of_its_folder_only(
    tmp_path: Path, photos: Path, rows: np.ndarray, line: str
) -> None:
    """Missing files, folders and whatever lies outside are refused with the line's number."""
    np.save(tmp_path / "x.npy", rows[:2])
    Image.new("L", (1, 1)).save(tmp_path / "outside.png")
    (photos / "ant" / "link.png").symlink_to(tmp_path / "outside.png")
    (photos / "list.txt").write_text(f"bee/11.png\n{line}\n")
    with pytest.raises(InputError, match=r"line 2 of .*list\.txt"):
        Arrays(tmp_path / "x.npy", photos / "list.txt")


def fixed_lists(rows: np.ndarray) -> pa.Table:
    """One column of lists of a fixed size, and a column of text."""
    vectors = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel()), rows.shape[1])
    return pa.table({"path": [f"{i}.png" for i in range(len(rows))], "vector": vectors})


def lists(rows: np.ndarray) -> pa.Table:
    """One column of lists, and one of numbers."""
    return pa.table({"number": range(len(rows)), "vector": [row.tolist() for row in rows]})


def columns(rows: np.ndarray) -> pa.Table:
    """A column a feature, and one of text."""
    table = {f"f{j}": column for j, column in enumerate(rows.T)}
    return pa.table({"path": [f"{i}.png" for i in range(len(rows))], **table})


@pytest.mark.parametrize("table", [fixed_lists, lists, columns])
@pytest.mark.parametrize("group", [5, 100])
def test_parquet_gives_the_same_rows(
    tmp_path: Path, photos: Path, rows: np.ndarray, table: object, group: int, own_cache: Path
) -> None:
    """Lists of fixed or equal size, or numeric columns, in one row group or in many; unpacked once."""
    pq.write_table(table(rows), tmp_path / "x.parquet", row_group_size=group)
    source = Arrays(tmp_path / "x.parquet", photos)
    np.testing.assert_allclose(source.features(np.arange(N)), rows, rtol=1e-6)
    unpacked = next(own_cache.rglob("rows.npy"))
    before = unpacked.stat().st_mtime_ns
    assert (open_source(source.spec()).features(np.arange(N)) == source.features(np.arange(N))).all()
    assert unpacked.stat().st_mtime_ns == before


def test_reopening_notices_other_features(tmp_path: Path, photos: Path, rows: np.ndarray) -> None:
    """A pool's embeddings can't be exchanged behind its back; its list of images is the saved one."""
    np.save(tmp_path / "x.npy", rows)
    source = Arrays(tmp_path / "x.npy", photos)
    spec = source.spec()
    source.save(tmp_path)
    Image.new("L", (1, 1)).save(photos / "ant" / "00a.png")
    again = open_source(spec, tmp_path)
    assert [again.name(i) for i in range(N)] == [source.name(i) for i in range(N)]
    rows[5, 0] += 1
    np.save(tmp_path / "x.npy", rows)
    with pytest.raises(InputError, match="has changed since"):
        open_source(spec, tmp_path)


def test_as_many_rows_as_images_are_needed(tmp_path: Path, photos: Path, rows: np.ndarray) -> None:
    """The message gives both numbers."""
    np.save(tmp_path / "x.npy", rows[:-1])
    with pytest.raises(InputError, match=r"x\.npy has 11 rows and .*photos has 12 images"):
        Arrays(tmp_path / "x.npy", photos)


@pytest.mark.parametrize(
    ("value", "words"),
    [(np.nan, "NaN or infinity"), (np.inf, "NaN or infinity"), (1e300, "NaN or infinity"), (0, "only zeros")],
)
@pytest.mark.parametrize("form", ["npy", "parquet"])
def test_a_row_without_direction_is_named(
    tmp_path: Path, photos: Path, rows: np.ndarray, value: float, words: str, form: str
) -> None:
    """NaN, infinity, numbers too large for float32 and rows of zeros are refused with row and file."""
    rows[7] = 0 if value == 0 else rows[7]
    rows[7, 2] = value
    if form == "npy":
        np.save(tmp_path / "x.npy", rows)
    else:
        pq.write_table(lists(rows), tmp_path / "x.parquet")
    with pytest.raises(InputError, match=rf"row 7 of .*x\.{form} .*{words}"):
        Arrays(tmp_path / f"x.{form}", photos)


def test_missing_numbers_of_parquet_are_named(tmp_path: Path, photos: Path, rows: np.ndarray) -> None:
    """A null, whole row or single number, is no direction either; a shorter list is told as such."""
    nested = [row.tolist() for row in rows]
    for row, value, words in ((4, None, "row 4 .*NaN"), (9, nested[9][:3], "row 9 .* has 3 numbers")):
        broken = list(nested)
        broken[row] = value
        pq.write_table(pa.table({"v": broken}), tmp_path / "x.parquet")
        with pytest.raises(InputError, match=words):
            Arrays(tmp_path / "x.parquet", photos)
    nested[6][1] = None
    pq.write_table(pa.table({"v": nested}), tmp_path / "x.parquet")
    with pytest.raises(InputError, match=r"row 6 .*NaN"):
        Arrays(tmp_path / "x.parquet", photos)
    broken_column = pa.table({"a": [1.0] * 5 + [None] + [1.0] * 6, "b": [2.0] * 12})
    pq.write_table(broken_column, tmp_path / "x.parquet")
    with pytest.raises(InputError, match=r"row 5 .*NaN"):
        Arrays(tmp_path / "x.parquet", photos)


class Planted:
    """Unpickling this leaves a trace."""

    def __reduce__(self) -> tuple[object, tuple[object, ...]]:
        return Path.touch, (Path("planted"),)


def test_pickles_are_never_loaded(tmp_path: Path, photos: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither an array of objects nor a bare pickle is unpickled, whatever the file is called."""
    monkeypatch.chdir(tmp_path)
    np.save(tmp_path / "objects.npy", np.array([[Planted()] * 2] * N, dtype=object), allow_pickle=True)
    (tmp_path / "bare.npy").write_bytes(pickle.dumps(Planted()))
    for name in ("objects.npy", "bare.npy"):
        with pytest.raises(InputError, match=rf"{name}.*pickle.*never loaded"):
            Arrays(tmp_path / name, photos)
    assert not (tmp_path / "planted").exists()


def test_other_shapes_and_files_are_refused(tmp_path: Path, photos: Path, rows: np.ndarray) -> None:
    """Each unsuitable file is one sentence that names it."""
    for name, array, words in (
        ("flat.npy", rows[:, 0], r"\(n_rows, n_features\), got \(12,\)"),
        ("cube.npy", rows.reshape(2, 6, 5), r"got \(2, 6, 5\)"),
        ("none.npy", rows[:0], r"at least one row and one feature, got shape \(0, 5\)"),
        ("thin.npy", rows[:, :0], r"at least one row and one feature, got shape \(12, 0\)"),
        ("complex.npy", rows.astype(complex), "real numbers, got complex128"),
        ("text.npy", rows.astype(str), "real numbers"),
    ):
        np.save(tmp_path / name, array)
        with pytest.raises(InputError, match=words) as caught:
            Arrays(tmp_path / name, photos)
        assert name in str(caught.value)
    np.save(tmp_path / "cut.npy", rows)
    (tmp_path / "cut.npy").write_bytes((tmp_path / "cut.npy").read_bytes()[:-20])
    (tmp_path / "empty.npy").touch()
    (tmp_path / "words.npy").write_text("hello")
    (tmp_path / "zip.npy").write_bytes(b"PK\x03\x04 and no more")
    (tmp_path / "fake.parquet").write_text("PAR1 fake PAR1")
    (tmp_path / "table.csv").write_text("1,2")
    np.savez(tmp_path / "several.npz", rows)
    (tmp_path / "several.npz").rename(tmp_path / "several.npy")
    for name, words in {
        "cut.npy": "can't be read",
        "empty.npy": "can't be read",
        "words.npy": "can't be read as an array of numbers: it is not a .npy file",
        "zip.npy": "can't be read",
        "several.npy": "several arrays",
        "fake.parquet": "no Parquet file",
        "table.csv": "must be one of .npy, .parquet",
        "missing.npy": "there is no file",
    }.items():
        with pytest.raises(InputError, match=words) as caught:
            Arrays(tmp_path / name, photos)
        assert name in str(caught.value)
    for table, words in (
        (pa.table({"a": ["x"] * N}), "got neither"),
        (pa.table({"a": [[1.0]] * N, "b": [[1.0]] * N}), "one column of lists, got a, b"),
        (pa.table({"a": pa.array([], pa.float32())}), "no rows"),
    ):
        pq.write_table(table, tmp_path / "x.parquet")
        with pytest.raises(InputError, match=words):
            Arrays(tmp_path / "x.parquet", photos)
