from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from closecall.core.errors import InputError
from closecall.core.experiment.positives import ByStrategy, Search, classes_to_search, search_positives
from closecall.core.pool.build import build
from closecall.core.selection import Choice, Query, QueryStrategy, make_strategy
from tests.fakes import FakeSource
from tests.scale import scaled


@pytest.fixture(scope="module")
def pool(tmp_path_factory):
    """Two rare classes and a frequent one, well apart."""
    folder = tmp_path_factory.mktemp("positives") / "pool"
    source = FakeSource(
        2000, 8, classes=("rare", "frequent", "scarce"), priors=(0.02, 0.95, 0.03), separation=2.0, lean=1.0
    )
    return build(source, folder)


class Clairvoyant(QueryStrategy):
    """Selects items of class 0 and others in turn, lowest ids first, and notes its hyperplanes."""

    name = "clairvoyant"

    def choose(self, query: Query) -> Choice:
        self.seen = [*getattr(self, "seen", []), query]
        free = query.allowed(self.pool_.ids)
        truth = self.pool_.truth(self.pool_.ids)
        rare, others = (np.flatnonzero(free & is_rare) for is_rare in (truth == 0, truth != 0))
        n = min(len(rare), len(others))
        rows = np.column_stack([others[:n], rare[:n]]).ravel()[: query.n]
        return Choice(self.pool_.ids[rows], self.reader_.margins(rows, query.plane()), scored=len(rows))


def test_every_answer_is_counted(pool):
    """Positives are found at the answers that found them, the ones a search begins with aside."""
    strategy = Clairvoyant().fit(pool)
    (search,) = search_positives(pool, ByStrategy(strategy, 4), [0], wanted=5)
    assert search.found_at.tolist() == [2, 4, 6, 8, 10, 12]
    assert (search.n_answers, len(strategy.seen)) == (12, 3)
    assert [len(query.exclude) for query in strategy.seen] == [6, 10, 14]
    assert search.labels_needed(5) == 10
    assert [search.found_after(n) for n in (1, 2, 11, 100)] == [0, 1, 5, 6]
    assert search.n_items == len(pool) - 6
    assert search.n_positive == np.count_nonzero(pool.truth(pool.ids) == 0) - 1


def test_hyperplanes_are_trained_on_all_answers(pool):
    """Each round's differs from the one before, and separates what was answered."""
    strategy = Clairvoyant().fit(pool)
    search_positives(pool, ByStrategy(strategy, 4), [0], wanted=6)
    for query in strategy.seen:
        assert np.sort(query.labels.ids).tolist() == query.exclude.tolist()
        assert query.labels.n_positives == np.count_nonzero(pool.truth(query.exclude) == 0)
        scores = query.plane().scores(pool.rows_of(query.exclude))
        is_yes = pool.truth(query.exclude) == 0
        assert scores[is_yes].mean() > scores[~is_yes].mean()
    assert len({query.plane().digest for query in strategy.seen}) == len(strategy.seen)


def test_a_search_that_is_given_up_goes_on_at_random(pool):
    """What is missing costs what it costs in the mean to find it among the items left."""
    (search,) = search_positives(pool, ByStrategy(Clairvoyant().fit(pool), 4), [0], wanted=8, most=5)
    assert search.n_answers == 5
    assert search.found_at.tolist() == [2, 4]
    left, positive_left = search.n_items - 5, search.n_positive - 2
    drawn = np.random.default_rng(0).permuted(np.tile(np.arange(left) < positive_left, (3000, 1)), axis=1)
    sixth = 1 + np.argmax(np.cumsum(drawn, axis=1) == 6, axis=1)
    low, high = stats.norm.interval(0.9999, sixth.mean(), sixth.std() / np.sqrt(3000))
    assert low < search.labels_needed(8) - 5 < high


def test_progress_counts_every_search_that_has_ended(pool):
    """After each round, up to all of them."""
    said: list[tuple[int, int]] = []
    way = ByStrategy(make_strategy("random").fit(pool))
    found = search_positives(pool, way, [0, 1, 2], wanted=9, progress=lambda *numbers: said.append(numbers))
    rounds = [search.n_answers for search in found]
    assert len(set(rounds)) > 1
    assert said == [(sum(n <= done for n in rounds), 3) for done in range(1, max(rounds) + 1)]


def test_random_items_need_as_many_labels_as_theory_says(pool):
    """The mean over many searches is that of the negative hypergeometric distribution."""
    way = ByStrategy(make_strategy("random").fit(pool), 5)
    found = search_positives(pool, way, [0] * scaled(quick=50, all=120), wanted=6, most=3)
    needed = np.array([search.labels_needed(6) for search in found])
    expected = found[0].labels_needed_at_random(6)
    low, high = stats.norm.interval(0.9999, needed.mean(), needed.std() / np.sqrt(len(needed)))
    assert low < expected < high
    assert all(len(search.found_at) >= 6 for search in found)


def test_likely_positives_are_found_first(pool):
    """Where the classes are well apart, random items need many times more answers."""
    way = ByStrategy(make_strategy("likely-positive").fit(pool))
    (search,) = search_positives(pool, way, [0], wanted=20)
    assert search.labels_needed(20) < search.labels_needed_at_random(20) / 5


def test_searches_begin_alike_whatever_the_strategy(pool):
    """The same first items for each, and others for each search and seed."""
    first = {}
    for seed in (0, 1):
        for name in ("margin-index", "exhaustive"):
            strategy = make_strategy(name).fit(pool)
            asked = []
            strategy.choose_many = lambda queries, asked=asked: (
                asked.extend(queries) or [Choice.nothing() for _ in queries]
            )
            with pytest.raises(InputError, match="fewer items than the search needs"):
                search_positives(pool, ByStrategy(strategy), [0, 0], seed=seed)
            first[seed, name] = [query.exclude.tolist() for query in asked]
    assert first[0, "margin-index"] == first[0, "exhaustive"]
    excluded = [tuple(one) for seed in (0, 1) for one in first[seed, "exhaustive"]]
    assert len(set(excluded)) == 4


def test_only_rare_classes_are_searched(pool):
    """Those of at most the given share that have enough items; each once before any comes again."""
    assert sorted(classes_to_search(pool, 2, 20, 0.1)) == [0, 2]
    assert sorted(classes_to_search(pool, 5, 20, 0.1)) in ([0, 0, 0, 2, 2], [0, 0, 2, 2, 2])
    assert sorted(classes_to_search(pool, 3, 20, 1.0)) == [0, 1, 2]
    with pytest.raises(InputError, match=r"with 21 items or more makes up at most 0\.1 % of it"):
        classes_to_search(pool, 2, 20, 0.001)


def test_the_truth_must_be_known(tmp_path):
    """Somebody has to answer."""
    unknown = build(FakeSource(50, 4, classes=()), tmp_path / "pool")
    with pytest.raises(InputError, match="needs at least two classes"):
        classes_to_search(unknown, 2, 5, 1.0)


def test_what_was_found_says_what_was_needed():
    """The arithmetic, on a search that is written down."""
    search = Search(0, np.array([3, 10, 11]), 20, n_items=99, n_positive=9)
    assert search.labels_needed(2) == 10
    assert search.labels_needed(4) == 20 + 80 / 7
    assert search.labels_needed_at_random(4) == 40
