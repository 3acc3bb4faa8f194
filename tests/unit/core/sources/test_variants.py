"""Variants in feature space: the pool's own rows first, then others near them, the same on every reading."""

from __future__ import annotations

import shutil

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.features import compute
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.sources import open_source, source_from
from closecall.core.sources.registry import feature_kind
from tests.fakes import FakeSource
from tests.pools import small_pool

N, ROWS = 300, 270


@pytest.fixture(scope="module")
def base(tmp_path_factory) -> Pool:
    return small_pool(tmp_path_factory.mktemp("base") / "pool", FakeSource(N, 20, held_out=range(0, N, 10)))


@pytest.fixture(scope="module")
def source(base):
    return source_from(f"variants:1000:{base.path}")


def test_the_first_items_are_the_pools(base, source):
    """With their features, classes, names, images and held-out items."""
    X, kept, problems = compute(source, base.ids)
    assert np.array_equal(kept, base.ids)
    assert not problems
    assert np.abs(X - base.rows_of(base.ids)).max() < 1e-6
    assert np.array_equal(source.held_out(), base.held_out.ids)
    assert np.abs(source.features(base.held_out.ids) - base.held_out.X).max() < 1e-6
    assert np.array_equal(source.truth(np.arange(N)), base.source.truth(np.arange(N)))
    assert source.name(7) == base.source.name(7)
    assert len(source) == 1000
    assert source.classes == base.classes


def test_a_variant_is_near_its_row(base, source):
    """Nearer than most rows, but not the same; it shows the row's image, and has its class and name."""
    variants = np.arange(N, 1000)
    origins = base.ids[(variants - N) % ROWS]
    X, of_origins = source.features(variants), base.rows_of(origins)
    distances = np.linalg.norm(X - of_origins, axis=1)
    every = base.rows(np.arange(ROWS))
    usual = np.linalg.norm(every[:, None] - every[None], axis=2)
    nearest = np.partition(usual, 1, axis=1)[:, 1]
    assert distances.min() > 0
    assert np.median(distances) < 1.2 * np.median(nearest)
    assert np.array_equal(source.truth(variants), base.truth(origins))
    assert source.names(variants[[0, ROWS]]) == [
        f"{base.source.name(int(base.ids[0]))}, variant {number}" for number in (1, 2)
    ]
    assert source.image(N, 32).tobytes() == base.source.image(int(base.ids[0]), 32).tobytes()
    assert len(np.unique(X, axis=0)) == len(X)


def test_a_row_does_not_depend_on_the_others(source):
    """Whatever is read with it, also from a source that is opened again or has more items."""
    some = np.array([999, 3, 421, 0])
    again = open_source(source.spec())
    longer = source_from(f"variants:5000:{source.pool}")
    for other in (again, longer):
        assert np.array_equal(other.features(some), source.features(some))
    assert np.array_equal(source.features(some[2:3])[0], source.features(some)[2])


def test_a_pool_of_variants(source, tmp_path):
    """In bytes, as it is meant."""
    pool = small_pool(tmp_path / "p", source, dtype="byte")
    assert len(pool) == 1000 - 30
    assert np.abs(pool.rows_of([500]) - compute(source, np.array([500]))[0]).max() < 0.1
    assert Pool.open(tmp_path / "p").source.name(0) == source.name(0)


def test_unreadable_items_stay_unreadable(tmp_path):
    """They have no row in the pool, and get none; nor do they get a class."""
    base = small_pool(tmp_path / "base", FakeSource(100, None, unreadable=[5, 30], held_out=[30, 40]))
    source = source_from(f"variants:400:{base.path}")
    _, kept, problems = compute(source, np.arange(400))
    assert [problem.item for problem in problems] == [5, 30]
    assert np.setdiff1d(np.arange(400), kept).tolist() == [5, 30]
    assert source.truth(np.array([5])).tolist() == [-1]
    assert source.held_out().tolist() == [40]


def test_a_pool_that_grew_has_the_same_variants(tmp_path):
    """What was built from its first items can still be opened."""
    base = small_pool(tmp_path / "base", FakeSource(60, 8, held_out=[3]))
    source = source_from(f"variants:200:{base.path}")
    spec, X = source.spec(), source.features(np.arange(200))
    small_pool(tmp_path / "base", FakeSource(90, 8, held_out=[3]))
    again = open_source(spec)
    assert np.array_equal(again.features(np.arange(200)), X)
    assert again.spec() == spec
    shutil.rmtree(tmp_path / "base")
    assert feature_kind(spec, None) == "embeddings"


def test_what_has_no_variants_is_refused(base, tmp_path):
    """A pool that is not there, is in bytes or has too many items; a pool that has changed since."""
    with pytest.raises(InputError, match="There is no pool at"):
        source_from(f"variants:1000:{tmp_path}/none")
    with pytest.raises(InputError, match="N must be at least 300"):
        source_from(f"variants:299:{base.path}")
    build(FakeSource(50, 8), tmp_path / "bytes", dtype="byte")
    with pytest.raises(InputError, match="variants need a complete pool with float32 or float16 features"):
        source_from(f"variants:1000:{tmp_path}/bytes")
    build(FakeSource(50, 8), tmp_path / "p")
    spec = source_from(f"variants:1000:{tmp_path}/p").spec()

    shutil.rmtree(tmp_path / "p")
    build(FakeSource(50, 8, seed=1), tmp_path / "p")
    with pytest.raises(InputError, match="changed"):
        open_source(spec)
