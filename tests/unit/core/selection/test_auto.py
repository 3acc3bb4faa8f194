from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from closecall.core.linear.svm import train
from closecall.core.selection import ArrayPool, Request, make_strategy
from closecall.core.selection.auto import EDGE, FEW_POSITIVES, RARE, Auto, fitting_part
from closecall.core.selection.contenders.probcover import ProbCover
from closecall.core.selection.margin import MarginIndex
from closecall.core.selection.registry import strategy_of_log
from closecall.core.selection.requests import LabeledItems
from tests.contract.kit import gaussian_pool, hyperplanes, labeled
from tests.margin_kit import clustered_pool

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


@pytest.mark.parametrize("limit", [{"budget": 9_000}, {"share": 0.4}])
def test_a_limit_holds_for_both_parts_that_use_the_index(limit):
    """They score no more than the margin index itself, which scores all items without a limit."""
    pool = clustered_pool(30_000, 50)
    auto, index = Auto(**limit).fit(pool), MarginIndex(**limit).fit(pool)
    for plane in hyperplanes(4, d=50):
        for n_positives, part in ((2, "likely"), (20, "margin")):
            found = auto.select(plane, labels=labeled(n_positives, 40 - n_positives))
            assert found.parts == (part,)
            assert found.scored <= (9_000 if "budget" in limit else 12_000)
        assert found.ids.tolist() == index.select(plane).ids.tolist()


def at_distance(pool, plane, labels, nearest):
    """The plane with its scale changed, so that the nearest item without a label has this |wᵀx + b|."""
    found = make_strategy("exhaustive").fit(pool).select(plane, exclude=labels.ids)
    factor = nearest / found.margins[0]
    return replace(plane, normal=factor * plane.normal, bias=factor * plane.bias)


@pytest.mark.parametrize(
    ("nearest", "part"), [(0.5, "margin"), (1 - 1e-5, "margin"), (1.0, "unlike"), (3.0, "unlike")]
)
def test_if_the_margin_is_empty_it_selects_items_unlike_the_labeled_ones(pool, auto, nearest, part):
    """As ProbCover does; without exploring, the nearest item as before."""
    others, index = ProbCover().fit(pool), MarginIndex().fit(pool)
    former = Auto(explores=False).sharing(index)
    labels = LabeledItems(pool.ids[100:140], np.arange(40) % 2 == 0)
    assert EDGE < 1
    for drawn in PLANES:
        plane = at_distance(pool, drawn, labels, nearest)
        asked = {"exclude": labels.ids, "labels": labels}
        for n in (1, 5):
            found = auto.select(plane, n, **asked)
            as_its_part = (others if part == "unlike" else index).select(plane, n, **asked)
            assert found.parts == (part,) * n
            assert found.ids.tolist() == as_its_part.ids.tolist()
            assert found.margins.tolist() == as_its_part.margins.tolist()
            assert found.scored >= index.select(plane, n, **asked).scored
            plain = former.select(plane, n, **asked)
            assert (plain.parts, plain.ids.tolist()) == (
                ("margin",) * n,
                index.select(plane, n, **asked).ids.tolist(),
            )


def test_its_variants_share_what_is_fitted_for_items_unlike_the_labeled_ones(pool, monkeypatch):
    """Whichever of them needs it first."""
    fitted = []
    fit = ProbCover.fit

    def counted(self, pool):
        fitted.append(self.random_state)
        return fit(self, pool)

    monkeypatch.setattr(ProbCover, "fit", counted)
    auto = Auto().fit(pool)
    labels = LabeledItems(pool.ids[100:140], np.arange(40) % 2 == 0)
    plane = at_distance(pool, PLANES[0], labels, nearest=3.0)
    asked = {"exclude": labels.ids, "labels": labels}
    variants = [Auto(budget=9_000).sharing(auto), auto, Auto(scans=True).sharing(auto)]
    found = [variant.select(plane, **asked) for variant in variants]
    assert [(one.parts, one.ids.tolist()) for one in found] == 3 * [(("unlike",), found[0].ids.tolist())]
    assert fitted == [0]


def test_logs_of_earlier_versions_are_replayed_without_exploring():
    params = Auto().params()
    del params["explores"]
    assert strategy_of_log("auto", params).params() == params | {"explores": False}


def test_it_finds_positives_of_a_kind_that_no_label_has_shown():
    """They lie beyond the negatives, where the margin index comes last."""
    centres, size = np.array([[1.0, 0, 0], [-0.5, 0, 0], [-0.9, 0.4, 0]]), 60
    kind = np.repeat([0, 1, 2], size)
    X = centres[kind] + 0.02 * np.random.default_rng(8).standard_normal((3 * size, 3))
    pool, is_positive = ArrayPool(X), kind != 1
    found = {}
    for strategy in (MarginIndex().fit(pool), Auto().fit(pool)):
        ids = [*range(12), *range(size, size + 12)]
        for _ in range(30):
            y = is_positive[ids]
            asked = {"exclude": ids, "labels": LabeledItems(np.array(ids), y)}
            ids.append(int(strategy.select(train(X[ids], y, np.array(ids)), **asked).ids[0]))
        found[strategy.name] = int(np.count_nonzero(kind[ids] == 2))
    assert found["margin-index"] == 0
    assert found["auto"] >= 5
