from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from closecall.core.errors import InputError
from closecall.core.selection import Request, make_strategy, strategy_from
from closecall.core.selection.auto import Auto
from closecall.core.selection.likely import LikelyPositive
from closecall.core.selection.margin import MarginIndex
from closecall.core.selection.margin.index import THRIFTY_BUDGET
from closecall.core.selection.mixture import PARTS, Mixture
from tests.contract.kit import gaussian_pool, hyperplanes

PLANE = hyperplanes(1)[0]
ALPHA = 1e-4


@pytest.fixture(scope="module")
def pool():
    return gaussian_pool(2000)


@pytest.fixture(scope="module")
def mixture(pool):
    return Mixture(margin=0.5, likely=0.3, random=0.2).fit(pool)


def test_every_part_chooses_its_share(mixture):
    """Over many seeds they have the shares that were given, whatever the seed before gave."""
    found = [mixture.select(PLANE, seed=seed).parts[0] for seed in range(3000)]
    counts = [found.count(part) for part in PARTS]
    assert stats.chisquare(counts, np.multiply([0.5, 0.3, 0.2], 3000)).pvalue > ALPHA
    pairs = [found[1:][place] for place, part in enumerate(found[:-1]) if part == "margin"]
    counts = [pairs.count(part) for part in PARTS]
    assert stats.chisquare(counts, np.multiply([0.5, 0.3, 0.2], len(pairs))).pvalue > ALPHA


def test_an_item_is_what_its_part_alone_would_choose(pool, mixture):
    """The nearest, the likeliest, or one drawn at random; and it says which."""
    alone = {
        "margin": make_strategy("exhaustive").fit(pool),
        "likely": make_strategy("likely-positive").fit(pool),
        "random": make_strategy("random").fit(pool),
    }
    exclude = pool.ids[::5]
    seen = set()
    for seed in range(40):
        found = mixture.select(PLANE, exclude=exclude, seed=seed)
        (part,) = found.parts
        assert found.ids.tolist() == alone[part].select(PLANE, exclude=exclude, seed=seed).ids.tolist()
        seen.add(part)
    assert seen == set(PARTS)


def test_a_batch_holds_the_best_of_each_part(pool, mixture):
    """Of many items, each part's come in its own order, and none twice."""
    found = mixture.select(PLANE, 60, seed=7)
    by_part = {part: found.ids[np.equal(found.parts, part)] for part in PARTS}
    near = make_strategy("exhaustive").fit(pool).select(PLANE, len(by_part["margin"]))
    assert by_part["margin"].tolist() == near.ids.tolist()
    likely = make_strategy("likely-positive").fit(pool)
    others = likely.select(PLANE, len(by_part["likely"]), exclude=near.ids)
    assert by_part["likely"].tolist() == others.ids.tolist()
    assert len(by_part["random"]) == 60 - len(near.ids) - len(others.ids) > 0
    assert len(set(found.ids.tolist())) == len(found.parts) == 60


def test_parts_are_told_of_the_items_that_diversity_leaves(pool, mixture):
    """Not of those that it takes away."""
    found = mixture.select(PLANE, 12, seed=3, diversity=0.6)
    assert len(found.parts) == len(found.ids) == 12
    without = mixture.select(PLANE, 120, seed=3)
    known = dict(zip(without.ids.tolist(), without.parts, strict=True))
    assert [known[item] for item in found.ids.tolist()] == list(found.parts)


def test_shares_of_nothing_are_never_drawn(pool):
    """A share of 0 is no share, and a share of 1 is all."""
    of_two = Mixture(margin=0.5, likely=0.5, random=0.0).fit(pool)
    assert set(of_two.select(PLANE, 500, seed=1).parts) == {"margin", "likely"}
    of_one = Mixture(margin=0.0, likely=0.0, random=1.0).fit(pool)
    assert set(of_one.select(PLANE, 500, seed=1).parts) == {"random"}


def test_other_strategies_have_no_parts(pool):
    """Only a mixture says which part chose."""
    assert make_strategy("random").fit(pool).select(PLANE, 3).parts == ()


def test_a_margin_index_is_shared_both_ways(pool, mixture):
    """A mixture needs no index of its own, whatever its shares, and what is remembered serves both."""
    margin_index = MarginIndex().fit(pool)
    shared = Mixture(margin=1.0, likely=0.0, random=0.0).sharing(margin_index)
    assert shared.index_name == margin_index.name == "margin-index"
    assert shared.arrays()["codes"] is margin_index.arrays()["codes"]
    (memory,) = margin_index.remember([PLANE])
    later = hyperplanes(1, seed=101)[0]
    with_memory = margin_index.select(later, 3, memory=memory)
    assert shared.select(later, 3, memory=memory).ids.tolist() == with_memory.ids.tolist()
    back = MarginIndex().sharing(mixture)
    assert back.select(PLANE, 4).ids.tolist() == margin_index.select(PLANE, 4).ids.tolist()
    with pytest.raises(InputError, match="cannot share the index of exhaustive"):
        Mixture().sharing(make_strategy("exhaustive").fit(pool))


@pytest.mark.parametrize(
    ("strategy", "uses"),
    [
        (LikelyPositive(), True),
        (LikelyPositive(scans=True), False),
        (Mixture(margin=0.0, likely=0.5, random=0.5), True),
        (Mixture(margin=0.0, likely=0.5, random=0.5, scans=True), False),
        (Mixture(margin=0.5, likely=0.5, random=0.0, scans=True), True),
        (Mixture(margin=0.0, likely=0.0, random=1.0), False),
        (Auto(scans=True), True),
    ],
)
def test_what_no_part_uses_is_neither_remembered_nor_saved_on(pool, strategy, uses):
    """A memory costs a scan in the background after each answer."""
    strategy = strategy.fit(pool)
    assert (strategy.remember([PLANE]) != [None]) is uses
    assert bool(strategy.certain_params()) is uses
    assert bool(strategy.thrifty_params()) is (uses and len(pool) > THRIFTY_BUDGET)


def test_one_pass_answers_for_all_that_look_for_likely_positives(monkeypatch, pool):
    """Several sessions cost one scan, not one each."""
    passes = []
    score_blocks = type(pool).score_blocks

    def counted(self, planes, segments=None):
        passes.append(len(planes))
        return score_blocks(self, planes, segments)

    strategy = Mixture(margin=0.2, likely=0.6, random=0.2, scans=True).fit(pool)
    monkeypatch.setattr(type(pool), "score_blocks", counted)
    found = strategy.select_many([Request(PLANE, seed=seed) for seed in range(20)])
    assert passes == [sum(one is not None and one.parts == ("likely",) for one in found)]


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("mixture:likely=0.5", "margin=0.5, likely=0.5, random=0.2"),
        ("mixture:margin=-0.1,likely=0.9,random=0.2", "margin=-0.1, likely=0.9, random=0.2"),
        ("mixture:margin=nan", "margin=nan, likely=0.3, random=0.2"),
    ],
)
def test_shares_that_are_none_are_refused(pool, word, said):
    """They are at least 0 and add up to 1; the sentence says what was given."""
    with pytest.raises(InputError, match=f"shares of a mixture must be .* sum to 1, got {said}"):
        strategy_from(word).fit(pool)
