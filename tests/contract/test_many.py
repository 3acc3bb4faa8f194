"""What every query strategy promises about several requests at once."""

from __future__ import annotations

import numpy as np
import pytest

from closecall.core.errors import InputError
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection import PoolExhausted, QueryStrategy, Request, Selection, make_strategy
from tests.contract.kit import POOLS, every_strategy, hyperplanes, made, make

PLANES = hyperplanes(4)


@pytest.fixture(scope="module", params=POOLS)
def pool(request):
    return made(request, 400)


def alone(strategy: QueryStrategy, request: Request) -> Selection | None:
    try:
        return strategy.select(
            request.hyperplane,
            request.n,
            exclude=request.exclude,
            seed=request.seed,
            memory=request.memory,
            diversity=request.diversity,
        )
    except PoolExhausted:
        return None


@every_strategy
def test_each_request_gets_what_it_gets_alone(pool, variant):
    """Each with its own n, exclusions, seed, memory and diversity, whatever the others ask for."""
    strategy = make(variant).fit(pool)
    memory = strategy.remember(PLANES[:1])[0]
    requests = [
        Request(PLANES[0]),
        Request(PLANES[1], 7, exclude=pool.ids[::2], seed=3),
        Request(PLANES[0], 5, seed=4, memory=memory),
        Request(PLANES[2], 6, diversity=0.6),
        Request(PLANES[2], exclude=pool.ids),
        Request(PLANES[3], 1000),
        Request(Hyperplane(1e40 * PLANES[3].normal, 1e40 * PLANES[3].bias), 3),
        Request(PLANES[1], 2, exclude=[-5, 10**9, *pool.ids[:399].tolist()]),
    ]
    together = strategy.select_many(requests)
    for request, answer in zip(requests, together, strict=True):
        expected = alone(strategy, request)
        if expected is None:
            assert answer is None
            continue
        assert answer is not None
        assert answer.ids.tolist() == expected.ids.tolist()
        assert answer.margins.tolist() == expected.margins.tolist()
        assert (answer.scored, answer.items) == (expected.scored, expected.items)
        assert answer.probability == expected.probability
    assert together[4] is None
    assert strategy.select_many([]) == []


@every_strategy
def test_a_bad_request_is_refused_before_any_is_answered(monkeypatch, pool, variant):
    """As `select` refuses it."""
    strategy = make(variant).fit(pool)
    monkeypatch.setattr(strategy, "choose_many", pytest.fail)
    for bad, message in [
        (Request(PLANES[0], 0), "n must be at least 1, got 0"),
        (Request(Hyperplane(np.ones(3), 0.0)), "the hyperplane has 3 features, the pool's rows have 8"),
        (Request(PLANES[0], 2, diversity=1.5), "diversity must be from 0 to 1, got 1.5"),
        (Request(PLANES[0], 2, diversity=float("nan")), "diversity must be from 0 to 1, got nan"),
    ]:
        with pytest.raises(InputError, match=message):
            strategy.select_many([Request(PLANES[1]), bad])


def test_exhaustive_answers_all_by_one_pass(monkeypatch, pool):
    """That is what it is for; workers are asked for one search of all."""
    passes = []
    score_blocks = type(pool).score_blocks

    def counted(self, hyperplanes, segments=None):
        passes.append(len(hyperplanes))
        return score_blocks(self, hyperplanes, segments)

    def counted_search(self, pool, reader, search):
        passes.append(len(search.queries))
        return searched_by(self, pool, reader, search)

    monkeypatch.setattr(type(pool), "score_blocks", counted)
    if pool.crew is not None:
        searched_by = type(pool.crew).search
        monkeypatch.setattr(type(pool.crew), "search", counted_search)
    make_strategy("exhaustive").fit(pool).select_many([Request(plane, 3) for plane in PLANES])
    assert passes == [4]
