from __future__ import annotations

import pytest

from closecall.core.selection import Request, make_strategy
from closecall.core.selection.auto import FEW_POSITIVES, RARE, Auto, fitting_part
from closecall.core.selection.margin import MarginIndex
from tests.contract.kit import gaussian_pool, hyperplanes, labeled

PLANES = hyperplanes(4)


@pytest.fixture(scope="module")
def pool():
    return gaussian_pool(2000)


@pytest.fixture(scope="module")
def auto(pool):
    return Auto().fit(pool)


@pytest.mark.parametrize(
    ("n_positives", "n_negatives", "part"),
    [
        (0, 0, "margin"),
        (0, RARE, "likely"),
        (1, RARE, "likely"),
        (1, RARE - 1, "margin"),
        (FEW_POSITIVES - 1, RARE * (FEW_POSITIVES - 1), "likely"),
        (FEW_POSITIVES, 990, "margin"),
        (10, 10, "margin"),
    ],
)
def test_yes_comes_first_while_it_is_few_and_rare(n_positives, n_negatives, part):
    assert fitting_part(n_positives, n_negatives) == part


@pytest.mark.parametrize(
    ("n_positives", "part", "name"), [(2, "likely", "likely-positive"), (10, "margin", "exhaustive")]
)
def test_it_selects_what_its_part_would(pool, auto, n_positives, part, name):
    """One item or many, and says which part that was."""
    alone = make_strategy(name).fit(pool)
    for plane in PLANES:
        for n in (1, 7):
            found = auto.select(
                plane, n, exclude=pool.ids[::3], labels=labeled(n_positives, 40 - n_positives)
            )
            assert found.ids.tolist() == alone.select(plane, n, exclude=pool.ids[::3]).ids.tolist()
            assert found.parts == (part,) * n


def test_queries_of_both_phases_are_answered_together(auto):
    """Each as if it were alone, in their order."""
    requests = [
        Request(plane, labels=labeled(n_positives, 40 - n_positives))
        for plane in PLANES
        for n_positives in (3, 30)
    ]
    together = auto.select_many(requests)
    alone = [auto.select_many([request])[0] for request in requests]
    assert [found.ids.tolist() for found in together] == [found.ids.tolist() for found in alone]
    assert [found.parts for found in together] == 4 * [("likely",), ("margin",)]


def test_it_uses_the_margin_index(pool, auto):
    """And selects with less effort when time is short, as the margin index does."""
    index = MarginIndex().fit(pool)
    shared, thrifty = Auto(budget=9_000).sharing(index), MarginIndex(budget=9_000).sharing(index)
    assert shared.select(PLANES[0]).ids.tolist() == thrifty.select(PLANES[0]).ids.tolist()
    assert auto.thrifty_params() == index.thrifty_params()
