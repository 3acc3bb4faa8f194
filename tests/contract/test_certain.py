"""Promises of every strategy about its certain form, with which a server selects while a device scans."""

from __future__ import annotations

import numpy as np
import pytest

from closecall.core.selection import make_strategy
from tests.contract.kit import (
    OVER_MARGIN,
    VARIANTS,
    bags,
    every_strategy,
    gaussian_pool,
    hyperplanes,
    labeled,
    make,
)

UNLIMITED = {*OVER_MARGIN, "mixture, of one part"} - {"likely-positive, all scored"}
"""Those whose margin index reads all rows that may be the nearest, with the default confidence."""


@pytest.fixture(scope="module", params=[gaussian_pool, bags], ids=["dense", "sparse"])
def pool(request):
    return request.param(400)


@every_strategy
def test_it_differs_in_the_confidence_only(pool, variant):
    """Nothing is changed that a person has set: neither a budget nor a confidence."""
    strategy = make(variant).fit(pool)
    certain = strategy.certain()
    if variant not in UNLIMITED:
        assert certain is strategy
        return
    assert (certain.name, certain.n_items) == (strategy.name, 400)
    assert certain.index_params() == strategy.index_params()
    assert certain.params() == strategy.params() | {"confidence": 1.0}
    assert "confidence" in strategy.query_params
    assert certain is strategy.certain() is certain.certain() is certain.thrifty()
    assert certain.remember(hyperplanes(2)) == [None, None]
    before, after = strategy.arrays(), certain.arrays()
    assert before.keys() == after.keys()
    large = [name for name, array in before.items() if len(array) >= 400]
    assert all(np.shares_memory(before[name], after[name]) for name in large)


@pytest.mark.parametrize("name", ["margin-index", "auto", "mixture"])
def test_it_finds_the_nearest_of_all_items(pool, name):
    """As the exhaustive scan does, and it scores as many."""
    shares = {"margin": 1.0, "likely": 0.0, "random": 0.0} if name == "mixture" else {}
    certain = make_strategy(name, **shares).fit(pool).certain()
    scan = make_strategy("exhaustive").fit(pool)
    for plane in hyperplanes(10):
        found = certain.select(plane, 5, exclude=pool.ids[::3], labels=labeled(25, 25))
        expected = scan.select(plane, 5, exclude=pool.ids[::3])
        assert found.ids.tolist() == expected.ids.tolist()
        assert found.margins.tolist() == expected.margins.tolist()
        assert found.scored == len(pool)


def test_it_is_restored_from_a_saved_index(tmp_path):
    """The index that was saved without it, and the other way round."""
    pool = gaussian_pool(400)
    plane = hyperplanes(1)[0]
    for params, others in (({}, {"confidence": 1.0}), ({"confidence": 1.0}, {})):
        make_strategy("margin-index", **params).fit(pool).save(tmp_path)
        loaded = type(make_strategy("margin-index")).load(tmp_path, pool)
        assert loaded.params()["confidence"] == params.get("confidence")
        other = make_strategy("margin-index", **others).sharing(loaded)
        assert other.select(plane).ids == make_strategy("exhaustive").fit(pool).select(plane).ids


assert set(VARIANTS) >= UNLIMITED
