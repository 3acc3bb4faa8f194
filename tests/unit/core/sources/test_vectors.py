from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from closecall.core.errors import InputError
from closecall.core.features import compute
from closecall.core.pool.build import build
from closecall.core.sources import Described, Enlarged, Vectors, open_source, source_from

N, D = 400, 6


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache folder of the test's own."""
    cache = tmp_path / "cache"
    monkeypatch.setattr("closecall.core.sources.unpacking.user_cache_path", lambda name: cache / name)


@pytest.fixture
def rows() -> np.ndarray:
    """Small whole numbers, which every format holds exactly."""
    return np.random.default_rng(0).integers(1, 200, (N, D)).astype(np.float32)


def written(root: Path, rows: np.ndarray, form: str) -> Path:
    """The rows in a file of this format."""
    path = root / f"x.{form}"
    if form == "npy":
        np.save(path, rows)
    elif form == "parquet":
        pq.write_table(pa.table({"vector": [row.tolist() for row in rows]}), path)
    else:
        kind = "<f4" if form == "fvecs" else "u1"
        table = np.zeros(len(rows), dtype=[("length", "<i4"), ("numbers", kind, (rows.shape[1],))])
        table["length"], table["numbers"] = rows.shape[1], rows
        table.tofile(path)
    return path


@pytest.mark.parametrize("form", ["npy", "parquet", "fvecs", "bvecs"])
def test_every_format_gives_the_same_pool(tmp_path: Path, rows: np.ndarray, form: str) -> None:
    """Row i is item i, of unit norm, in the order of the file."""
    source = source_from(f"vectors:{written(tmp_path, rows, form)}")
    assert isinstance(source, Vectors)
    assert source.classes == ()
    pool = build(source, tmp_path / "pool", threads=1)
    assert len(pool) == N
    np.testing.assert_allclose(
        pool.rows(np.arange(N)), rows / np.linalg.norm(rows, axis=1, keepdims=True), rtol=1e-5
    )
    assert pool.ids.tolist() == list(range(N))
    assert open_source(source.spec()).name(17) == "vector 17"


@pytest.mark.parametrize("form", ["txt", "npy"])
def test_classes_come_from_a_file_of_their_own(tmp_path: Path, rows: np.ndarray, form: str) -> None:
    """A tenth of the rows of known class is held out, drawn evenly; unknown ones are not."""
    truth = np.arange(N) % 3
    truth[:50] = -1
    if form == "npy":
        np.save(tmp_path / "my, classes.npy", truth)
    else:
        lines = ["" if t < 0 else str(t) for t in truth]
        (tmp_path / "my, classes.txt").write_text("\n".join(lines))
    source = source_from(f"vectors:{written(tmp_path, rows, 'fvecs')},{tmp_path}/my, classes.{form}")
    assert source.classes == ("0", "1", "2")
    assert source.truth(np.arange(N)).tolist() == truth.tolist()
    held_out = source.held_out()
    assert len(held_out) == 35
    assert held_out.min() >= 50
    halves = (held_out < 225).sum()
    assert 7 <= halves <= 28  # 17.5 expected, with a standard deviation below 3
    again = open_source(source.spec())
    assert (again.held_out() == held_out).all()


def test_queries_are_held_out(tmp_path: Path, rows: np.ndarray) -> None:
    """They follow the vectors, are never selected, and have the features and drawings of their own rows."""
    base = written(tmp_path, rows[:380], "fvecs")
    queries = tmp_path / "q.bvecs"
    written(tmp_path, rows[380:], "bvecs").rename(queries)
    source = source_from(f"vectors:{base},{queries}")
    assert source.classes == ()
    assert source.held_out().tolist() == list(range(380, N))
    items = np.array([399, 0, 380, 379])
    assert source.features(items).tolist() == rows[items].tolist()
    assert source.names(items) == ["query 19", "vector 0", "query 0", "vector 379"]
    pool = build(source, tmp_path / "pool", threads=1)
    assert pool.ids.tolist() == list(range(380))
    unit = rows[380:] / np.linalg.norm(rows[380:], axis=1, keepdims=True)
    np.testing.assert_allclose(pool.held_out.X, unit, rtol=1e-5)
    assert (pool.held_out.truth == -1).all()
    spec = source.spec()
    assert open_source(spec).image(390, 60).tobytes() == source.image(390, 60).tobytes()
    written(tmp_path, rows[380:] + 1, "bvecs").rename(queries)
    with pytest.raises(InputError, match=r"q\.bvecs has changed since"):
        open_source(spec)


def test_queries_must_fit(tmp_path: Path, rows: np.ndarray) -> None:
    """Another length, a row without direction, and classes beside queries are refused."""
    base = written(tmp_path, rows, "fvecs")
    short = written(tmp_path, rows[:9, :4], "bvecs")
    with pytest.raises(InputError, match=r"x\.fvecs has rows of 6 numbers, and .*x\.bvecs of 4"):
        Vectors(base, queries=short)
    zero = written(tmp_path, 0 * rows[:9], "bvecs")
    with pytest.raises(InputError, match=r"row 0 of .*x\.bvecs has only zeros"):
        Vectors(base, queries=zero)
    with pytest.raises(InputError, match="either classes or queries"):
        Vectors(base, tmp_path / "c.txt", queries=base)


def test_changed_files_are_noticed(tmp_path: Path, rows: np.ndarray) -> None:
    """Neither vectors nor classes can be exchanged behind a pool's back."""
    path = written(tmp_path, rows, "fvecs")
    labels = tmp_path / "c.txt"
    labels.write_text("a\nb\n" * (N // 2))
    spec = Vectors(path, labels).spec()
    open_source(spec)
    labels.write_text("b\na\n" * (N // 2))
    with pytest.raises(InputError, match=r"c\.txt has changed since"):
        open_source(spec)
    labels.unlink()
    with pytest.raises(InputError, match=r"there is no file .*c\.txt"):
        open_source(spec)
    labels.write_text("a\nb\n" * (N // 2))
    rows[0] += 1
    written(tmp_path, rows, "fvecs")
    with pytest.raises(InputError, match=r"x\.fvecs has changed since"):
        open_source(spec)


def test_unsuitable_rows_are_refused_before_a_pool_is_built(tmp_path: Path, rows: np.ndarray) -> None:
    """Every row is read when the source is made."""
    rows[321] = np.nan
    with pytest.raises(InputError, match=r"row 321 of .*NaN"):
        Vectors(written(tmp_path, rows, "fvecs"))


def test_vectors_are_no_images(tmp_path: Path, rows: np.ndarray) -> None:
    """They cannot be enlarged or described otherwise."""
    source = Vectors(written(tmp_path, rows, "bvecs"))
    for refuse in (lambda: Enlarged(source, 2), lambda: Described(source, "edges")):
        with pytest.raises(InputError, match="has its own embeddings"):
            refuse()
    assert source.original(0) is None


def test_length_does_not_count(tmp_path: Path, rows: np.ndarray) -> None:
    """Features are directions."""
    source = Vectors(written(tmp_path, rows, "fvecs"))
    before = compute(source, np.arange(N))[0]
    after = compute(Vectors(written(tmp_path, 3 * rows, "fvecs")), np.arange(N))[0]
    np.testing.assert_allclose(after, before, rtol=1e-6)
