"""Find similar, simulated: its pages held against the same search written down plainly."""

from __future__ import annotations

import numpy as np
import pytest

import closecall.core.experiment.similar
from closecall.core.errors import InputError
from closecall.core.experiment.positives import Turn, Way, search_positives
from closecall.core.experiment.similar import FindSimilar
from closecall.core.learning.round import Labels
from closecall.core.metric import ITML, Constraints
from closecall.core.pool.build import build
from closecall.core.similar.answers import LEAST, MAX_PASSES, PAIRS, SEED, pairs_of
from tests.fakes import FakeSource


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """Two rare classes and a frequent one, which overlap."""
    source = FakeSource(
        2000, 8, classes=("rare", "frequent", "scarce"), priors=(0.02, 0.95, 0.03), separation=1.2, lean=1.0
    )
    return build(source, tmp_path_factory.mktemp("similar") / "pool")


class Answered:
    """As a metric wants it."""

    def __init__(self, items, yes):
        order = np.argsort(items)
        self.items, self.yes = np.array(items)[order], np.array(yes)[order]


def learned(pool, items, yes, gamma: float) -> np.ndarray:
    """A, by the definition of what is learned."""
    known = Answered(items, yes)
    X = pool.rows_of(known.items)
    near, far = pairs_of(known.yes, PAIRS, SEED)
    constraints = Constraints.from_pairs(X, near, far, random_state=SEED)
    metric = ITML(gamma=gamma, max_passes=MAX_PASSES, random_state=SEED).fit(X, constraints).metric_
    return metric.inner(np.eye(X.shape[1]), np.eye(X.shape[1]))


def found_plainly(pool, positive: int, first: list[int], wanted: int, page: int, gamma: float | None):
    """Which answers found a positive: all angles computed anew for each page, and sorted."""
    truth, X = pool.truth(pool.ids) == positive, pool.rows_of(pool.ids).astype(np.float64)
    row_of = {item: row for row, item in enumerate(pool.ids.tolist())}
    items, found_at = list(first), []
    while len(found_at) < wanted:
        yes = [bool(truth[row_of[item]]) for item in items]
        A = np.eye(X.shape[1])
        if gamma is not None and min(sum(yes), len(yes) - sum(yes)) >= LEAST:
            A = learned(pool, items, yes, gamma)
        Q = X[[row_of[item] for item, is_yes in zip(items, yes, strict=True) if is_yes]]
        norms = [np.sqrt(np.einsum("ij,jk,ik->i", rows, A, rows)) for rows in (Q, X)]
        nearness = (Q @ A @ X.T / norms[0][:, None] / norms[1]).max(axis=0)
        order = [row for row in np.argsort(-nearness, kind="stable") if pool.ids[row] not in items]
        for row in order[:page]:
            items.append(int(pool.ids[row]))
            if truth[row]:
                found_at.append(len(items) - len(first))
    return found_at, len(items) - len(first)


class Noted(Way):
    """Another way, and what it was told."""

    def __init__(self, way: Way) -> None:
        self.learns = way.learns
        self.way = way
        self.turns: list[Turn] = []
        self.chosen: list[np.ndarray] = []

    def choose(self, turns):
        chosen = self.way.choose(turns)
        self.turns += turns
        self.chosen += chosen
        return chosen


@pytest.mark.parametrize(
    ("params", "gamma"),
    [({}, None), ({"metric": "learned", "gamma": 1.0}, 1.0), ({"metric": "learned", "gamma": 0.05}, 0.05)],
)
@pytest.mark.parametrize("positive", [0, 2])
def test_pages_are_those_of_a_plain_search(pool, params, gamma, positive):
    """The nearest items to any yes that have no answer, under the metric of all answers so far."""
    noted = Noted(FindSimilar(pool, page=10, **params))
    (search,) = search_positives(pool, noted, [positive], wanted=15)
    begin = noted.turns[0].labels
    assert begin.y.tolist() == [True, *[False] * 5]
    expected = found_plainly(pool, positive, begin.ids.tolist(), 15, 10, gamma)
    assert (search.found_at.tolist(), search.n_answers) == expected


def test_a_metric_is_learned_as_soon_as_there_is_one(pool):
    """Before it the pages are those of the original, and later they are not."""
    pages = {}
    for metric in ("original", "learned"):
        noted = Noted(FindSimilar(pool, metric=metric, page=5))
        search_positives(pool, noted, [0], wanted=15)
        pages[metric] = [ids.tolist() for ids in noted.chosen]
        if metric == "original":
            early = sum(min(turn.labels.y.sum(), (~turn.labels.y).sum()) < LEAST for turn in noted.turns)
    assert 1 <= early < len(pages["original"])
    assert pages["learned"][:early] == pages["original"][:early]
    assert pages["learned"] != pages["original"]


def test_a_page_has_no_more_items_than_answers_are_left(pool):
    """Nor fewer, while the pool has so many."""
    noted = Noted(FindSimilar(pool))
    (search,) = search_positives(pool, noted, [0], wanted=40, most=60)
    assert [len(ids) for ids in noted.chosen] == [24, 24, 12]
    assert search.n_answers == 60


def test_where_none_can_be_learned_the_metric_before_stays(pool, monkeypatch):
    """As on the page, where answers may contradict each other."""
    rare, other = (pool.ids[pool.truth(pool.ids) == c][:12] for c in (0, 1))
    ids = np.concatenate([rare, other])
    turn = Turn(0, Labels.of(pool, ids, np.isin(ids, rare)), np.sort(ids), 100, 0)
    ways = [FindSimilar(pool, metric=metric) for metric in ("learned", "original")]
    before, plain = (way.choose([turn])[0].tolist() for way in ways)

    def contradict(*_, **__):
        raise InputError("the answers contradict each other")

    monkeypatch.setattr(closecall.core.experiment.similar, "learn_from_answers", contradict)
    assert ways[0].choose([turn])[0].tolist() == before != plain
    fresh = FindSimilar(pool, metric="learned")
    assert fresh.choose([turn])[0].tolist() == plain


@pytest.mark.parametrize(
    ("params", "message"),
    [
        ({"metric": "best"}, "metric must be one of original, learned, got 'best'"),
        ({"gamma": 0.0}, "gamma must be positive, got 0"),
        ({"page": 0}, "page must be at least 1, got 0"),
    ],
)
def test_what_it_cannot_do_is_refused(pool, params, message):
    """One sentence."""
    with pytest.raises(InputError, match=message):
        FindSimilar(pool, **params)
