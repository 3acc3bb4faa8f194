"""Sets of points as a source: what their rows mean, what is kept, and which files are refused."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.features import compute
from closecall.core.mercer.pyramid import PyramidMatch, weights_of_levels
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.sources import PointSets, open_source, source_from
from closecall.core.sources.point_sets import N_LEVELS

N = 60


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cache folder of the test's own."""
    cache = tmp_path / "cache"
    monkeypatch.setattr("closecall.core.sources.unpacking.user_cache_path", lambda name: cache / name)


@pytest.fixture
def sets() -> list[np.ndarray]:
    """Of one to seven points in three dimensions."""
    rng = np.random.default_rng(0)
    return [rng.random((n, 3)).astype(np.float32) for n in rng.integers(1, 8, N)]


@pytest.fixture
def classes(tmp_path: Path) -> Path:
    """Two of them, by turns."""
    (tmp_path / "c.txt").write_text("\n".join("ab"[i % 2] for i in range(N)))
    return tmp_path / "c.txt"


def written(root: Path, sets: list[np.ndarray], **other: np.ndarray) -> Path:
    """The sets in a file."""
    arrays = {"points": np.concatenate(sets), "sizes": np.array([len(own) for own in sets])}
    np.savez(root / "p.npz", **(arrays | other))
    return root / "p.npz"


def kernel(x: np.ndarray, y: np.ndarray, low: np.ndarray, side: float) -> float:
    """The normalised pyramid match of two sets, by counting what they have in common in each bin."""

    def count(bins: np.ndarray) -> dict[tuple[int, ...], int]:
        distinct, counts = np.unique(bins, axis=0, return_counts=True)
        return {tuple(place): int(n) for place, n in zip(distinct.tolist(), counts, strict=True)}

    total = 0.0
    for level, weight in enumerate(weights_of_levels(N_LEVELS)):
        of_x, of_y = (count(np.floor((own - low) / (side * 2**level)).astype(int)) for own in (x, y))
        total += weight * sum(min(n, of_y.get(place, 0)) for place, n in of_x.items())
    return total / float(np.sqrt(len(x) * len(y)))


def test_inner_products_are_the_pyramid_match(tmp_path: Path, sets: list[np.ndarray]) -> None:
    """Of any two items."""
    source = source_from(f"points:{written(tmp_path, sets)}")
    assert isinstance(source, PointSets)
    X, ids, problems = compute(source, np.arange(N))
    assert (ids.tolist(), problems) == (list(range(N)), [])
    low = np.concatenate(sets).min(axis=0).astype(np.float64)
    found = (X @ X.T).toarray()
    wide = [own.astype(np.float64) for own in sets]
    expected = [[kernel(x, y, low, source.pyramid.side_) for y in wide] for x in wide]
    np.testing.assert_allclose(found, expected, atol=1e-6)


def test_a_pool_keeps_its_pyramid(
    tmp_path: Path, sets: list[np.ndarray], classes: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A tenth is held out and makes no bins; a pool that is opened again doesn't make them again."""
    source = source_from(f"points:{written(tmp_path, sets)},{classes}")
    pool = build(source, tmp_path / "pool", threads=1)
    assert pool.is_sparse
    assert len(source.held_out()) == 6
    known = [sets[item] for item in pool.ids.tolist()]
    assert len(known) == N - 6
    assert pool.n_features == PyramidMatch(n_levels=N_LEVELS).fit(known).n_features_
    monkeypatch.setattr(PyramidMatch, "fit", lambda *_: pytest.fail("it was made again"))
    again = Pool.open(tmp_path / "pool")
    assert again.n_features == again.source.n_features
    rows = again.source.features(pool.ids[:5])
    np.testing.assert_allclose(rows.toarray(), pool.rows(np.arange(5)).toarray(), atol=1e-6)


def test_items_without_points_are_named(tmp_path: Path, sets: list[np.ndarray]) -> None:
    """They can't be compared, and are listed as images that can't be read are."""
    sets[7] = sets[7][:0]
    source = source_from(f"points:{written(tmp_path, sets)}")
    _, ids, problems = compute(source, np.arange(N))
    assert 7 not in ids
    assert [(problem.name, problem.reason) for problem in problems] == [("set 7", "it has no points")]
    assert len(source.image(7, 50).getcolors()) == 1  # the ground alone


def test_points_are_drawn_where_they_are(tmp_path: Path) -> None:
    """The first coordinate to the right, the second down; one coordinate alone along the middle."""
    corners = np.array([[0, 0], [1, 0], [1, 1]], dtype=float)
    source = source_from(f"points:{written(tmp_path, [corners, corners[1:2]])}")
    picture = np.asarray(source.image(1, 100)).astype(int).sum(axis=2)
    rows, columns = np.nonzero(picture > picture.min())
    assert columns.min() > 90
    assert rows.max() < 10
    small = np.asarray(source.image(0, 88)).astype(int).sum(axis=2)
    assert (small > small.min()).sum() > 3 * 5  # a point of one pixel can't be seen in a thumbnail
    source = source_from(f"points:{written(tmp_path, [corners[:, :1]])}")
    picture = np.asarray(source.image(0, 100)).astype(int).sum(axis=2)
    rows, _ = np.nonzero(picture > picture.min())
    assert (rows.min(), rows.max()) == (49, 51)


def test_changed_files_are_noticed(tmp_path: Path, sets: list[np.ndarray], classes: Path) -> None:
    """Neither points nor classes can be exchanged behind a pool's back."""
    spec = source_from(f"points:{written(tmp_path, sets)},{classes}").spec()
    lines = classes.read_text()
    classes.write_text("\n".join("ba"[i % 2] for i in range(N)))
    with pytest.raises(InputError, match=r"c\.txt has changed since"):
        open_source(spec)
    classes.write_text(lines)
    assert len(open_source(spec)) == N
    written(tmp_path, sets[::-1])
    with pytest.raises(InputError, match=r"p\.npz has changed since"):
        open_source(spec)


@pytest.mark.parametrize(
    ("other", "words"),
    [
        ({"sizes": np.array([3, 4])}, "add up to 7"),
        ({"sizes": np.array([-1, 4])}, "whole numbers of shape"),
        ({"sizes": np.array([1.0])}, "whole numbers of shape"),
        ({"points": np.zeros(5)}, "real numbers of shape"),
        ({"points": np.array([["a", "b"]])}, "real numbers of shape"),
        ({"points": np.array([[None]])}, "can't be read as arrays of numbers"),
        ({"points": np.array([[0, np.nan]]), "sizes": np.array([1])}, "NaN or infinity"),
        ({"points": np.zeros((0, 3)), "sizes": np.array([0])}, "real numbers of shape"),
    ],
)
def test_unsuitable_arrays_are_refused(
    tmp_path: Path, sets: list[np.ndarray], other: dict[str, np.ndarray], words: str
) -> None:
    """In one sentence."""
    with pytest.raises(InputError, match=words) as caught:
        source_from(f"points:{written(tmp_path, sets, **other)}")
    assert "\n" not in str(caught.value)


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    """Other arrays, other archives, damaged files."""
    np.savez(tmp_path / "x.npz", points=np.zeros((3, 2)))
    with pytest.raises(InputError, match="must have two arrays, points and sizes"):
        source_from(f"points:{tmp_path / 'x.npz'}")
    (tmp_path / "y.npz").write_bytes(b"no archive")
    with pytest.raises(InputError, match=r"is damaged, or no \.npz file"):
        source_from(f"points:{tmp_path / 'y.npz'}")
    whole = (tmp_path / "x.npz").read_bytes()
    (tmp_path / "z.npz").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InputError, match=r"is damaged, or no \.npz file"):
        source_from(f"points:{tmp_path / 'z.npz'}")
