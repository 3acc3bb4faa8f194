"""What every query strategy promises about batches in which no two items are too alike."""

from __future__ import annotations

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.selection import ArrayPool
from tests.contract.kit import (
    bags,
    dense_rows,
    every_strategy,
    gaussian_pool,
    hyperplanes,
    make,
    nearest,
    sparse,
)

PLANE = hyperplanes(1)[0]


@pytest.fixture(scope="module", params=[gaussian_pool, bags], ids=["dense", "sparse"])
def copies(request):
    """Forty distinct rows, ten copies of each."""
    distinct = request.param(40)
    pool = ArrayPool(np.tile(dense_rows(distinct), (10, 1)), ids=3 * np.arange(400))
    return sparse(pool) if distinct.is_sparse else pool


def rows_of(pool, ids):
    return dense_rows(pool)[np.searchsorted(pool.ids, ids)]


@every_strategy
def test_of_exact_copies_one_is_chosen(copies, variant):
    """However little diversity is asked for; what is told of the items is true, and in the usual order."""
    strategy = make(variant).fit(copies)
    for number, plane in enumerate(hyperplanes(5)):
        found = strategy.select(plane, 8, diversity=1e-9, seed=number, exclude=copies.ids[::7])
        X = rows_of(copies, found.ids)
        assert len(np.unique(X, axis=0)) == len(found.ids) == 8
        assert not np.isin(found.ids, copies.ids[::7]).any()
        assert np.allclose(found.margins, np.abs(plane.scores(X)), rtol=0, atol=1e-12)
        assert not nearest(variant) or found.margins.tolist() == sorted(found.margins)
        assert (found.items, found.probability) == (400, None)


@every_strategy
def test_copies_fill_up_only_what_nothing_else_can(variant):
    """Where fewer are different than are wanted, all of those are there, and the number is as wanted."""
    pool = ArrayPool(np.tile([[1.0, 0.0], [0.8, 0.6], [0.0, 1.0]], (20, 1)))
    found = make(variant).fit(pool).select(hyperplanes(1, d=2)[0], 5, diversity=0.5)
    assert len(set(found.ids.tolist())) == 5
    assert len(np.unique(rows_of(pool, found.ids), axis=0)) == 3


@every_strategy
def test_items_are_as_far_apart_as_is_said(variant):
    """The angle between any two is at least the share of the pool's median angle, if so many are."""
    pool = gaussian_pool(400, lean=2.0)
    X = pool.rows(np.arange(400)).astype(np.float64)
    median = np.median(np.arccos(np.clip(X @ X.T, -1, 1))[np.triu_indices(400, 1)])
    found = make(variant).fit(pool).select(PLANE, 4, diversity=0.5)
    chosen = rows_of(pool, found.ids).astype(np.float64)
    angles = np.arccos(np.clip(chosen @ chosen.T, -1, 1))[np.triu_indices(4, 1)]
    assert (angles > 0.5 * 0.8 * median).all()  # the strategy knows the median from a sample


@every_strategy
def test_where_there_is_no_choice_diversity_changes_nothing(copies, variant):
    """Not for one item, not where none is asked for, and not where all that is left is taken."""
    strategy = make(variant).fit(copies)
    for n, exclude, diversity in [(1, (), 0.9), (8, (), 0.0)]:
        plain = strategy.select(PLANE, n, exclude=exclude, seed=5)
        found = strategy.select(PLANE, n, exclude=exclude, seed=5, diversity=diversity)
        assert found.ids.tolist() == plain.ids.tolist()
        assert found.margins.tolist() == plain.margins.tolist()
        assert (found.scored, found.probability) == (plain.scored, plain.probability)
    free = copies.ids[[0, 40, 80, 81]]
    found = strategy.select(PLANE, 6, exclude=np.setdiff1d(copies.ids, free), diversity=0.9)
    assert sorted(found.ids) == sorted(free)


@every_strategy
def test_other_diversities_are_refused(copies, variant):
    """It is a share."""
    strategy = make(variant).fit(copies)
    for bad in (-0.1, 1.1, float("nan")):
        with pytest.raises(InputError, match=f"diversity must be from 0 to 1, got {bad}"):
            strategy.select(PLANE, 3, diversity=bad)
