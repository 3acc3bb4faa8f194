"""What every strategy promises of its thrifty form, with which a busy server selects."""

from __future__ import annotations

import numpy as np
import pytest

import closecall.core.selection.hashed.base
import closecall.core.selection.margin.index
from closecall.core.selection import ArrayPool, PoolExhausted, make_strategy
from tests.contract.kit import (
    ALL,
    OVER_MARGIN,
    VARIANTS,
    bags,
    every_strategy,
    gaussian_pool,
    hyperplanes,
    make,
)
from tests.contract.test_strategies import same

N = 400
BUDGET, CANDIDATES = 60, 12

ONLY_LIKELY = {"likely-positive", "likely-positive, on a device", "mixture, of one part"}
"""Those that only look for the largest scores; they score all sparse rows, so they can't be thriftier."""

UNBOUNDED = {*OVER_MARGIN, *ONLY_LIKELY, "margin-index, near-exact"} - {"likely-positive, all scored"}
"""Those whose margin index may read every row of the pool."""

GUARANTEED = {name for name in ALL if "guaranteed" in name}
"""Those that score all that they find: a smaller number would break the guarantee."""


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Budgets that are small for pools of this size."""
    monkeypatch.setattr(closecall.core.selection.margin.index, "THRIFTY_BUDGET", BUDGET)
    monkeypatch.setattr(closecall.core.selection.margin.index, "LEAST_BUDGET", 10)
    monkeypatch.setattr(closecall.core.selection.hashed.base, "THRIFTY_CANDIDATES", CANDIDATES)


@pytest.fixture(scope="module", params=[gaussian_pool, bags], ids=["dense", "sparse"])
def pool(request):
    return request.param(N)


def has_thrifty_form(variant: str, pool: ArrayPool) -> bool:
    if pool.is_sparse and variant in ONLY_LIKELY:
        return False
    name, params = VARIANTS.get(variant, (variant, {}))
    if "-hash" in name:
        return variant not in GUARANTEED and params.get("n_candidates", 500) > CANDIDATES
    return variant in UNBOUNDED


@every_strategy
def test_it_scores_fewer_rows_of_the_same_index(pool, variant):
    """The same arrays, the same name, and no other parameter than one of queries."""
    strategy = make(variant).fit(pool)
    thrifty = strategy.thrifty()
    if not has_thrifty_form(variant, pool):
        assert thrifty is strategy
        return
    assert (thrifty.name, type(thrifty), thrifty.n_items) == (strategy.name, type(strategy), N)
    assert thrifty.index_params() == strategy.index_params()
    differing = {name for name, value in thrifty.params().items() if strategy.params()[name] != value}
    assert differing == set(strategy.thrifty_params())
    assert differing
    assert differing <= strategy.query_params
    before, after = strategy.arrays(), thrifty.arrays()
    assert before.keys() == after.keys()
    large = [name for name, array in before.items() if len(array) >= N]
    assert all(np.shares_memory(before[name], after[name]) for name in large)
    scored = [
        [one.select(plane, seed=seed).scored for one in (strategy, thrifty)]
        for seed, plane in enumerate(hyperplanes(12))
    ]
    assert all(few <= many for many, few in scored)
    assert sum(few for _, few in scored) < sum(many for many, _ in scored)


@every_strategy
def test_it_is_made_once_and_is_as_thrifty_as_can_be(pool, variant):
    """Every busy selection uses the same object."""
    strategy = make(variant).fit(pool)
    thrifty = strategy.thrifty()
    assert strategy.thrifty() is thrifty
    assert thrifty.thrifty() is thrifty


@every_strategy
def test_its_parameters_say_what_it_selects(pool, variant):
    """A replay that only has the log's parameters selects the same, and so does a second call."""
    thrifty = make(variant).fit(pool).thrifty()
    again = thrifty if variant not in VARIANTS else make_strategy(thrifty.name, **thrifty.params()).fit(pool)
    for seed, plane in enumerate(hyperplanes(6)):
        given = {"n": 3, "seed": seed, "exclude": pool.ids[seed::5]}
        found = thrifty.select(plane, **given)
        assert same(found, again.select(plane, **given))
        assert same(found, thrifty.select(plane, **given))


@every_strategy
def test_it_finds_the_last_items_too(pool, variant):
    """A small budget is no reason to call a pool exhausted."""
    thrifty = make(variant).fit(pool).thrifty()
    free = pool.ids[[3, 77, 200]]
    for plane in hyperplanes(3):
        found = thrifty.select(plane, 10, exclude=np.setdiff1d(pool.ids, free))
        assert sorted(found.ids) == sorted(free)
    with pytest.raises(PoolExhausted):
        thrifty.select(plane, exclude=pool.ids)


@every_strategy
def test_one_that_was_extended_has_a_thrifty_form_of_its_own(pool, variant):
    """It covers what was added."""
    young = make(variant).fit(pool.prefix(300))
    young.thrifty()
    found = young.extended(pool).thrifty().select(hyperplanes(1)[0], 100, exclude=pool.ids[:300])
    assert sorted(found.ids) == sorted(pool.ids[300:])
