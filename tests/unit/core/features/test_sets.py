"""Sets of local edges: against their definition, and the rows against brute-force matching; pools of them."""

from __future__ import annotations

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image
from scipy.sparse import csr_array

from closecall.core.errors import InputError
from closecall.core.features import EdgeSets, compute, has_sparse_rows, n_features, of_image
from closecall.core.features.sets import points
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.pool.build import build
from closecall.core.pool.build_size import estimate
from closecall.core.pool.pool import Pool
from closecall.core.selection import make_strategy
from closecall.core.sources import Arrays, Described, Digits, Folder, source_from


def noise(n: int, seed: int = 0) -> NDArray[np.float32]:
    """Images of smooth grains and of all contrasts."""
    rng = np.random.default_rng(seed)
    coarse = rng.random((n, 8, 8)).repeat(4, axis=1).repeat(4, axis=2)
    grain = 0.2 * rng.random((n, 32, 32))
    return (0.5 + rng.random((n, 1, 1)) * (0.8 * coarse + grain - 0.5)).clip(0, 1).astype(np.float32)


def slowly(grey: NDArray[np.float32]) -> NDArray[np.float64]:
    """The definition, window by window."""
    g = grey.astype(np.float64)
    scale = g.std() + 1 / 64
    found = []
    for row in range(12):
        for column in range(12):
            xx = yy = xy = 0.0
            for y in range(2 + 2 * row, 8 + 2 * row):
                for x in range(2 + 2 * column, 8 + 2 * column):
                    right, below = (g[y, x + 1] - g[y, x - 1]) / scale, (g[y + 1, x] - g[y - 1, x]) / scale
                    xx, yy, xy = xx + right**2 / 36, yy + below**2 / 36, xy + right * below / 36
            way = np.array([xx - yy, 2 * xy]) / (xx + yy + 0.15**2)
            e = np.sqrt(xx + yy)
            spread = 1.4 * way / (0.4 + abs(way))
            found.append([(row + 0.5) / 2, (column + 0.5) / 2, *(2 + 2 * spread), 4 * e / (1 + e)])
    return np.array(found)


def matched(a: NDArray[np.float32], b: NDArray[np.float32]) -> float:
    """K̃ of two sets by plain counting, at two levels."""
    pairs = []
    for side in (1, 2):
        A, B = (Counter(map(tuple, np.floor(own / side).tolist())) for own in (a, b))
        pairs.append(sum((A & B).values()))
    return (pairs[0] + (pairs[1] - pairs[0]) / 2) / len(a)


def test_points_are_what_is_defined() -> None:
    """144 of five numbers, within the box, of noisy images and of digits."""
    digits, _ = Digits(10).grey(np.arange(3))
    images = np.concatenate([noise(4), digits])
    found = points(images)
    assert found.shape == (7, 144, 5)
    np.testing.assert_allclose(found, [slowly(image) for image in images], atol=1e-4)
    assert found.min() >= 0
    assert (found.max(axis=(0, 1)) < (6, 6, 4, 4, 4)).all()


def test_the_inner_product_is_the_pyramid_match() -> None:
    """Of any two images' sets, as brute force matches them."""
    digits, _ = Digits(10).grey(np.arange(4))
    images = np.concatenate([noise(5), digits])
    X, sets = EdgeSets().transform(images).astype(np.float64), points(images)
    expected = np.array([[matched(a, b) for b in sets] for a in sets])
    np.testing.assert_allclose((X @ X.T).toarray(), expected, atol=1e-6)
    assert np.ptp(expected) > 0.3
    assert X.shape == (9, EdgeSets().n_features) == (9, 10_368)
    assert (np.diff(X.indptr) == EdgeSets().n_entries).all()


def test_the_way_of_an_edge_tells() -> None:
    """Stripes one way and the other differ in the cosine, slanted ones in the sine; dark and bright don't."""
    y, x = np.mgrid[:32, :32]
    waves = [np.sin(phase * np.pi / 4) for phase in (x, y, x + y, x - y)]
    upright, level, falling, rising = (points((0.5 + 0.4 * wave)[None])[0] - 2 for wave in waves)
    assert (upright[:, 2] > 1.5).all()
    assert (level[:, 2] < -1.5).all()
    assert (falling[:, 3] > 1.5).all()
    assert (rising[:, 3] < -1.5).all()
    assert np.abs(upright[:, 3]).max() < 0.1
    np.testing.assert_allclose(points((0.5 - 0.4 * waves[0])[None])[0], upright + 2, atol=1e-4)


def test_contrast_and_brightness_hardly_tell() -> None:
    """Halved and shifted, an image's points hardly move; a flat one has no edges, and a row all the same."""
    image = noise(1, 3)
    np.testing.assert_allclose(points(image * 0.5 + 0.3), points(image), atol=0.5)
    flat = points(np.full((2, 32, 32), 0.7))
    assert (flat[:, :, 2:] == (2, 2, 0)).all()
    X = EdgeSets().transform(np.full((1, 32, 32), 0.2))
    assert (X @ X.T).toarray() == pytest.approx(1, abs=1e-5)


def test_the_strongest_contrasts_stay_in_the_box() -> None:
    """Single pixels, lines, steps and checkerboards, black on white and white on black."""
    images = np.zeros((6, 32, 32), dtype=np.float32)
    images[0, 10, 10] = images[1, :, 12] = images[2, 16:] = images[3, ::2, ::2] = 1
    images[4, :, ::4] = images[4, :, 1::4] = 1
    images[5, 5, 5] = 1e-30
    EdgeSets().transform(np.concatenate([images, 1 - images]))


def test_every_image_is_described_by_itself() -> None:
    """The same bits whatever the batch and the thread."""
    images = noise(40)
    whole = EdgeSets().transform(images)
    sets = EdgeSets()
    with ThreadPoolExecutor(4) as threads:
        parts = list(threads.map(sets.transform, np.array_split(images, 13)))
    assert np.array_equal(np.concatenate([part.indices for part in parts]), whole.indices)
    assert np.array_equal(np.concatenate([part.data for part in parts]), whole.data)
    for i in (0, 17, 39):
        alone = sets.transform(images[i : i + 1])
        assert np.array_equal(alone.toarray(), whole[i : i + 1].toarray())
    assert sets.transform(images[:0]).shape == (0, 10_368)


def test_what_is_no_grey_image_is_refused() -> None:
    """In the words of the other extractors."""
    with pytest.raises(InputError, match=r"have shape \(n_images, 32, 32\), got \(2, 16, 16\)"):
        EdgeSets().transform(np.zeros((2, 16, 16)))
    for bad in (-0.1, 1.5, np.nan):
        with pytest.raises(InputError, match="grey must lie between 0 and 1"):
            EdgeSets().transform(np.full((1, 32, 32), bad))


def test_a_source_may_ask_for_sets() -> None:
    """In a word, also enlarged; its items are the same, and their rows are sparse."""
    plain = Digits(30)
    for word in ("sets:digits:30", "sets:enlarged:2:digits:30", "enlarged:2:sets:digits:30"):
        source = source_from(word)
        assert n_features(source) == 10_368
        assert has_sparse_rows(source)
        X, _, _ = compute(source, np.arange(5))
        assert isinstance(X, csr_array)
        assert np.array_equal(X.toarray(), EdgeSets().transform(plain.grey(np.arange(5))[0]).toarray())
    assert not has_sparse_rows(plain)


def test_a_pool_of_sets_is_built_grown_and_asked(tmp_path: Path) -> None:
    """It is sparse, of images, and remembers what describes them; an uploaded image is described alike."""
    for i, image in enumerate(noise(8)):
        Image.fromarray(np.uint8(255 * image)).save(tmp_path / f"{i}.png")
    (tmp_path / "broken.png").write_bytes(b"no image")
    pool = build(source_from(f"sets:{tmp_path}"), tmp_path / "pool", threads=1)
    assert (len(pool), pool.n_features, pool.source.extractor) == (8, 10_368, "sets")
    assert (pool.is_sparse, pool.holds_texts, pool.n_unreadable) == (True, False, 1)
    pool.check()
    uploaded = of_image(Image.open(tmp_path / "3.png"), pool.source)
    assert uploaded.shape == (10_368,)
    item = pool.source.names(pool.ids).index("3.png")
    assert np.array_equal(pool.rows([item]).toarray()[0], uploaded)
    Image.fromarray(np.uint8(255 * noise(1, 1)[0])).save(tmp_path / "later.png")
    grown = build(source_from(f"sets:{tmp_path}"), tmp_path / "pool", threads=1)
    assert len(grown) == 9
    assert np.array_equal(grown.rows(np.arange(8)).toarray(), pool.rows(np.arange(8)).toarray())
    for other in (Folder(tmp_path), source_from(f"edges:{tmp_path}")):
        with pytest.raises(InputError, match="was built from"):
            build(other, tmp_path / "pool", threads=1)
    assert Pool.open(tmp_path / "pool").is_sparse


def test_a_changed_image_is_no_growth(tmp_path: Path) -> None:
    """Where an item of the pool shows another picture now, building again says so."""
    images = noise(4)
    for i, image in enumerate(images):
        Image.fromarray(np.uint8(255 * image)).save(tmp_path / f"{i}.png")
    build(source_from(f"sets:{tmp_path}"), tmp_path / "pool", threads=1)
    Image.fromarray(np.uint8(255 * images[1].T)).save(tmp_path / "2.png")
    Image.fromarray(np.uint8(255 * images[0])).save(tmp_path / "later.png")
    with pytest.raises(InputError, match=r"item 2 has changed, 2\.png"):
        build(source_from(f"sets:{tmp_path}"), tmp_path / "pool", threads=1)


def test_a_build_is_the_same_whatever_the_threads_and_takes_what_it_says(tmp_path: Path) -> None:
    """To the last byte of every file; the estimate is right within the small files beside the features."""
    source = source_from("sets:enlarged:2:digits:1200")
    pools = [build(source, tmp_path / str(n), threads=n) for n in (1, 3)]
    assert pools[0].digest == pools[1].digest
    taken = sum(file.stat().st_size for file in (tmp_path / "1").rglob("*") if file.is_file())
    assert estimate(source).bytes == pytest.approx(taken, rel=0.02)
    with pytest.raises(InputError, match="gives sparse features, which are float32, got dtype float16"):
        build(source, tmp_path / "half", dtype="float16")


def test_the_hyperplane_is_asked_of_every_row(tmp_path: Path) -> None:
    """The margin index finds what a brute-force product finds, as of texts."""
    pool = build(source_from("sets:digits:300"), tmp_path / "pool", threads=1)
    rng = np.random.default_rng(0)
    plane = Hyperplane(rng.standard_normal(pool.n_features), 0.1)
    margins = np.abs(plane.scores(pool.rows(np.arange(len(pool))).toarray()))
    for name in ("exhaustive", "margin-index"):
        chosen = make_strategy(name).fit(pool).select(plane)
        assert chosen.ids.tolist() == [pool.ids[margins.argmin()]]


def test_what_has_features_of_its_own_is_refused(tmp_path: Path) -> None:
    """Texts, and embeddings made elsewhere."""
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("some words")
    for word in ("sets:texts:", "enlarged:2:texts:"):
        with pytest.raises(InputError, match="contains texts"):
            source_from(f"{word}{tmp_path / 'texts'}")
    Image.new("L", (5, 5)).save(tmp_path / "a.png")
    np.save(tmp_path / "x.npy", np.eye(1))
    with pytest.raises(InputError, match="has its own embeddings: it cannot have other features"):
        Described(Arrays(tmp_path / "x.npy", tmp_path), "sets")
