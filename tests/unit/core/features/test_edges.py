"""Edge histograms: against their definition step by step, and as another description of images."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.features import EXTRACTORS as FEATURES
from closecall.core.features import EdgeHistogram, Gist, compute, n_features, of_image
from closecall.core.mercer import ChiSquared
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.sources import Arrays, Described, Digits, Enlarged, Folder, source_from
from closecall.core.sources.base import EXTRACTORS

VERTICAL, HORIZONTAL, FALLING, RISING, UNDIRECTED = range(5)


def noise(n: int, seed: int = 0) -> NDArray[np.float32]:
    """Of all strengths, so that some blocks are edges and others not."""
    rng = np.random.default_rng(seed)
    return (0.5 + rng.random((n, 1, 1)) * (rng.random((n, 32, 32)) - 0.5) * 0.2).astype(np.float32)


def slowly(grey: NDArray[np.float32]) -> NDArray[np.float64]:
    """The definition, block by block."""
    filters = [
        [[1, -1], [1, -1]],
        [[1, 1], [-1, -1]],
        [[2**0.5, 0], [0, -(2**0.5)]],
        [[0, 2**0.5], [-(2**0.5), 0]],
        [[2, -2], [-2, 2]],
    ]
    local = np.zeros((4, 4, 5))
    for y in range(16):
        for x in range(16):
            block = 255 * grey[2 * y : 2 * y + 2, 2 * x : 2 * x + 2].astype(np.float64)
            strengths = [abs((block * np.array(f)).sum()) for f in filters]
            if max(strengths) >= 11:
                local[y // 4, x // 4, int(np.argmax(strengths))] += 1 / 16
    groups = [[(r, c) for r in range(4) for c in range(4)]]
    groups += [[(r, c) for r in range(4)] for c in range(4)]
    groups += [[(r, c) for c in range(4)] for r in range(4)]
    corners = [(0, 0), (0, 2), (2, 0), (2, 2), (1, 1)]
    groups += [[(r, c), (r + 1, c), (r, c + 1), (r + 1, c + 1)] for r, c in corners]
    larger = [np.mean([local[part] for part in group], axis=0) for group in groups]
    whole = np.concatenate([local.ravel(), *larger])
    if not whole.any():
        whole[:] = 1
    return whole / np.linalg.norm(whole)


def test_it_is_what_is_defined() -> None:
    """150 numbers of noisy images, and of digits."""
    digits, _ = Digits(10).grey(np.arange(4))
    images = np.concatenate([noise(6), digits])
    expected = np.array([slowly(image) for image in images])
    assert expected.shape[1] == EdgeHistogram.n_features == 150
    np.testing.assert_allclose(EdgeHistogram().transform(images), expected, atol=1e-6)


@pytest.mark.parametrize(
    ("kind", "block"),
    [
        (VERTICAL, [[0, 1], [0, 1]]),
        (HORIZONTAL, [[1, 1], [0, 0]]),
        (FALLING, [[1, 0.5], [0.5, 0]]),
        (RISING, [[0.5, 1], [0, 0.5]]),
        (UNDIRECTED, [[0, 1], [1, 0]]),
    ],
)
def test_each_kind_of_edge_has_its_numbers(kind: int, block: list[list[float]]) -> None:
    """An image of nothing but one kind has only every fifth number, and all of them equal."""
    (features,) = EdgeHistogram().transform(np.tile(np.array(block), (16, 16))[None])
    assert (features.reshape(30, 5)[:, kind] == features[kind]).all()
    assert features[kind] == pytest.approx(30**-0.5)


def test_where_an_edge_is_matters() -> None:
    """One in the second part of the third row counts there, and in the larger parts that contain it."""
    image = np.zeros((1, 32, 32))
    image[0, 16:24, 9] = 1
    (features,) = EdgeHistogram().transform(image)
    parts = np.flatnonzero(features.reshape(30, 5)[:, VERTICAL]).tolist()
    whole, columns, rows, squares = 16, 17, 21, 25
    assert parts == [4 * 2 + 1, whole, columns + 1, rows + 2, squares + 2, squares + 4]
    assert np.count_nonzero(features) == len(parts)


def test_weak_edges_are_none() -> None:
    """Below 11 of 255 a block is flat; an image of flat blocks prefers no number."""
    image = np.full((2, 32, 32), 0.5, dtype=np.float32)
    image[0, :, ::2] += 5.4 / 255
    image[1, :, ::2] += 5.6 / 255
    flat, edges = EdgeHistogram().transform(image)
    np.testing.assert_allclose(flat, 150**-0.5)
    assert np.count_nonzero(edges) == 30


def test_every_image_is_described_by_itself() -> None:
    """The same bits whatever the batch, of unit norm, and never negative: the χ² kernel takes them."""
    images = noise(9)
    whole = EdgeHistogram().transform(images)
    for i in range(9):
        assert np.array_equal(EdgeHistogram().transform(images[i : i + 1]), whole[i : i + 1])
    np.testing.assert_allclose(np.linalg.norm(whole, axis=1), 1, atol=1e-6)
    np.testing.assert_allclose(np.diag(ChiSquared().matrix(whole, whole)), 1, atol=1e-6)
    assert EdgeHistogram().transform(images[:0]).shape == (0, 150)


@pytest.mark.parametrize("extractor", [Gist, EdgeHistogram])
def test_what_is_no_grey_image_is_refused(extractor: type[Gist | EdgeHistogram]) -> None:
    """By both extractors in the same words."""
    with pytest.raises(InputError, match=r"have shape \(n_images, 32, 32\), got \(2, 16, 16\)"):
        extractor().transform(np.zeros((2, 16, 16)))
    for bad in (-0.1, 1.5, np.nan):
        with pytest.raises(InputError, match="grey must lie between 0 and 1"):
            extractor().transform(np.full((1, 32, 32), bad))


def test_every_extractor_has_a_name() -> None:
    """What sources may name is what there is."""
    assert set(EXTRACTORS) == set(FEATURES)


def test_a_source_may_ask_for_edges() -> None:
    """In a word, also enlarged; its items are the same, and their features are others."""
    plain = Digits(30)
    for word in ("edges:digits:30", "edges:enlarged:2:digits:30", "enlarged:2:edges:digits:30"):
        source = source_from(word)
        assert n_features(source) == 150
        X, _, _ = compute(source, np.arange(5))
        assert np.array_equal(X, EdgeHistogram().transform(plain.grey(np.arange(5))[0]))


def test_a_pool_of_edges_is_built_grown_and_asked(tmp_path: Path) -> None:
    """It remembers what describes it, and an uploaded image is described alike."""
    for i, image in enumerate(noise(8)):
        Image.fromarray(np.uint8(255 * image)).save(tmp_path / f"{i}.png")
    pool = build(source_from(f"edges:{tmp_path}"), tmp_path / "pool", threads=1)
    assert (len(pool), pool.n_features, pool.source.extractor) == (8, 150, "edges")
    uploaded = of_image(Image.open(tmp_path / "3.png"), pool.source)
    item = pool.source.names(pool.ids).index("3.png")
    np.testing.assert_allclose(pool.rows([item])[0], uploaded, atol=1e-6)
    Image.fromarray(np.uint8(255 * noise(1, 1)[0])).save(tmp_path / "later.png")
    grown = build(source_from(f"edges:{tmp_path}"), tmp_path / "pool", threads=1)
    assert len(grown) == 9
    assert np.array_equal(grown.rows(np.arange(8)), pool.rows(np.arange(8)))
    with pytest.raises(InputError, match="was built from"):
        build(Folder(tmp_path), tmp_path / "pool", threads=1)
    assert Pool.open(tmp_path / "pool").n_features == 150


def test_what_has_features_of_its_own_is_refused(tmp_path: Path) -> None:
    """Texts, and embeddings made elsewhere."""
    (tmp_path / "texts").mkdir()
    (tmp_path / "texts" / "a.txt").write_text("some words")
    with pytest.raises(InputError, match="contains texts"):
        source_from(f"edges:texts:{tmp_path / 'texts'}")
    Image.new("L", (5, 5)).save(tmp_path / "a.png")
    np.save(tmp_path / "x.npy", np.eye(1))
    with pytest.raises(InputError, match="has its own embeddings: it cannot have other features"):
        Described(Arrays(tmp_path / "x.npy", tmp_path), "edges")
    with pytest.raises(InputError, match="features must be one of gist, edges, sets, got 'colours'"):
        Described(Enlarged(Digits(5), 2), "colours")  # type: ignore[arg-type]
