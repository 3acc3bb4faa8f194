"""What every query strategy promises, put to every one of them in every form."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import closecall.core.hashing.pool
import closecall.core.selection.margin.layout
from closecall.core.errors import InputError
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection import ArrayPool, PoolExhausted
from tests.contract.kit import (
    POOLS,
    bags,
    every_strategy,
    gaussian_pool,
    hyperplanes,
    made,
    make,
    nearest,
    sparse,
)
from tests.scale import scaled, thorough

PLANE = hyperplanes(1)[0]


@pytest.fixture(scope="module", params=POOLS)
def pool(request):
    return made(request, 400)


@pytest.fixture(scope="module")
def fitted(pool):
    """Strategies by variant, each fitted when it is first asked for."""

    class Fitted(dict):
        def __missing__(self, variant):
            return self.setdefault(variant, make(variant).fit(pool))

    return Fitted()


def same(one, other) -> bool:
    return (
        np.array_equal(one.ids, other.ids)
        and np.array_equal(one.margins, other.margins)
        and (one.scored, one.items, one.probability) == (other.scored, other.items, other.probability)
    )


@every_strategy
def test_a_selection_says_what_is_true(pool, fitted, variant):
    """Distinct items of the pool, the nearest first, with their true |wᵀx + b|, and honest counts."""
    for number, plane in enumerate(hyperplanes(10)):
        found = fitted[variant].select(plane, 5, seed=number)
        assert len(set(found.ids.tolist())) == 5
        rows = np.searchsorted(pool.ids, found.ids)
        assert np.array_equal(pool.ids[rows], found.ids)
        assert np.allclose(found.margins, np.abs(plane.scores(pool.rows(rows))), rtol=0, atol=1e-12)
        assert 5 <= found.scored <= found.items == len(pool)
        assert found.seconds > 0
        if nearest(variant):
            assert sorted(zip(found.margins, found.ids, strict=True)) == list(
                zip(found.margins, found.ids, strict=True)
            )


@every_strategy
def test_an_excluded_item_is_never_selected_even_when_one_is_left(pool, fitted, variant):
    """Whatever is excluded, and in whatever form it is said, the answer is among the others."""
    rng = np.random.default_rng(3)
    for left in (1, 2, 7, 200):
        free = np.sort(rng.choice(pool.ids, left, replace=False))
        excluded = np.setdiff1d(pool.ids, free)
        strangers = [-1, 0, 10**9]
        forms = (
            excluded,
            rng.permutation(excluded),
            set(excluded.tolist()),
            iter([*excluded.tolist(), *excluded.tolist(), *strangers]),
        )
        answers = [fitted[variant].select(PLANE, 2, exclude=form, seed=left) for form in forms]
        assert len(answers[0].ids) == min(2, left)
        assert np.isin(answers[0].ids, free).all()
        assert all(same(answers[0], answer) for answer in answers[1:])


@every_strategy
def test_fewer_items_than_wanted_are_all_returned_and_none_is_an_error(pool, fitted, variant):
    """What is left is returned; where nothing is, the error says so."""
    free = pool.ids[[3, 77, 200]]
    found = fitted[variant].select(PLANE, 10, exclude=np.setdiff1d(pool.ids, free))
    assert sorted(found.ids) == sorted(free)
    with pytest.raises(PoolExhausted, match="Pool exhausted: 0 available, 4 requested"):
        fitted[variant].select(PLANE, 4, exclude=pool.ids)
    everything = fitted[variant].select(PLANE, 1000)
    assert sorted(everything.ids) == sorted(pool.ids)


@every_strategy
def test_the_same_seeds_give_the_same_answer(pool, fitted, variant):
    """A strategy made again from the same parameters answers the same, and so does one asked again."""
    again = make(variant).fit(pool)
    for number, plane in enumerate(hyperplanes(10)):
        first = fitted[variant].select(plane, 3, seed=number, exclude=pool.ids[::3])
        assert same(first, again.select(plane, 3, seed=number, exclude=pool.ids[::3]))
        assert same(first, fitted[variant].select(plane, 3, seed=number, exclude=pool.ids[::3]))


@pytest.mark.parametrize("variant", ["random", "subsample"])
@pytest.mark.parametrize("which", ["seed of the call", "random_state"])
def test_other_seeds_give_other_answers(pool, variant, which):
    """What is random depends on both seeds."""
    found = [
        make(variant, random_state=0 if which == "seed of the call" else number)
        .fit(pool)
        .select(PLANE, seed=number if which == "seed of the call" else 0)
        .ids[0]
        for number in range(30)
    ]
    assert len(set(found)) > 3


@every_strategy
def test_eight_threads_at_once_get_what_one_gets(pool, fitted, variant):
    """Sessions share one index."""
    calls = [
        (plane, seed, pool.ids[seed::4])
        for plane in hyperplanes(scaled(quick=4, all=8))
        for seed in range(4)
        for _ in range(2)
    ]

    def ask(call):
        plane, seed, exclude = call
        return fitted[variant].select(plane, 3, seed=seed, exclude=exclude)

    alone = [ask(call) for call in calls]
    with ThreadPoolExecutor(8) as threads:
        together = list(threads.map(ask, calls))
    assert all(map(same, alone, together))


@every_strategy
def test_additions_are_found_and_the_older_index_stays_as_it_was(pool, fitted, variant):
    """A grown index can select what was added; the one it grew from doesn't change."""
    young = make(variant).fit(pool.prefix(300))
    before = young.select(PLANE, 3)
    grown = young.extended(pool)
    found = grown.select(PLANE, 100, exclude=pool.ids[:300])
    assert sorted(found.ids) == sorted(pool.ids[300:])
    assert (young.n_items, grown.n_items) == (300, 400)
    assert same(before, young.select(PLANE, 3))
    assert before.items == 300


@every_strategy
@pytest.mark.parametrize("kind", [gaussian_pool, bags])
def test_growing_step_by_step_is_the_same_as_fitting_at_once(monkeypatch, variant, kind):
    """An index is a function of its parameters and of the rows it covers, however it came to cover them.

    The steps end before and after the pool has doubled, and after the first block of rows that is kept.
    """
    monkeypatch.setattr(closecall.core.hashing.pool, "FIT_ROWS", scaled(quick=500, all=1000))
    monkeypatch.setattr(closecall.core.selection.margin.layout, "FIRST_FIT", 700)
    if scaled(quick=True, all=False):
        monkeypatch.setattr(closecall.core.selection.margin.layout, "BLOCK_ROWS", 512)
    steps = scaled(quick=(2, 700, 2047, 2049, 2300), all=(2, 700, 1000, 2047, 2049, 4096, 4097, 4500))
    pool = kind(steps[-1], d=4)
    at_once = make(variant).fit(pool)
    step_by_step = make(variant).fit(pool.prefix(1))
    for n_rows in steps:
        step_by_step = step_by_step.extended(pool.prefix(n_rows))
    for name, array in at_once.arrays().items():
        assert np.array_equal(array, step_by_step.arrays()[name]), name
    for plane in hyperplanes(5, d=4):
        assert same(at_once.select(plane, 2), step_by_step.select(plane, 2))


@every_strategy
def test_a_pool_that_is_no_continuation_is_refused(pool, fitted, variant):
    """An index does not grow over a smaller pool, nor over another one."""
    for other in (pool.prefix(399), ArrayPool(np.ones((500, 8)))):
        with pytest.raises(
            InputError, match=r"covers 400 rows, but the pool of \d+ rows does not start with them"
        ):
            fitted[variant].extended(other)


@every_strategy
@pytest.mark.parametrize("n", [1, 2, thorough(3), thorough(9)])
@pytest.mark.parametrize("kind", [gaussian_pool, bags])
def test_very_small_pools(variant, n, kind):
    """A pool of one item, or a few, is a pool."""
    pool = kind(n)
    found = make(variant).fit(pool).select(PLANE, n)
    assert sorted(found.ids) == sorted(pool.ids)


DEGENERATE = {
    "all equal": np.tile([[0.6, 0.8]], (50, 1)),
    "two values": np.repeat(np.eye(2), 30, axis=0),
    "in the plane": np.random.default_rng(0).standard_normal((60, 2)),
    "all on one side": np.abs(np.random.default_rng(1).standard_normal((60, 2))),
    "one feature": np.ones((40, 1)),
}


@every_strategy
@pytest.mark.parametrize(
    ("name", "kind"),
    [
        *[(name, "dense") for name in DEGENERATE],
        ("all equal", "sparse"),
        thorough("two values", "sparse"),
        thorough("in the plane", "sparse"),
        thorough("all on one side", "sparse"),
        ("one feature", "sparse"),
    ],
)
def test_degenerate_pools(variant, name, kind):
    """Duplicates, two dimensions, everything on one side: an item is selected all the same."""
    pool = ArrayPool(DEGENERATE[name])
    pool = sparse(pool) if kind == "sparse" else pool
    strategy = make(variant).fit(pool)
    d = pool.n_features
    for plane in (
        Hyperplane(np.ones(d), 1.0),
        Hyperplane(np.ones(d), 0.0),
        Hyperplane(np.zeros(d), 0.0),
        Hyperplane(np.zeros(d), -1.0),
    ):
        found = strategy.select(plane, 3, exclude=[0, 1])
        assert len(set(found.ids.tolist()) - {0, 1}) == 3
        if nearest(variant) and "unlike" not in found.parts:
            in_order = list(zip(found.margins, found.ids, strict=True))
            assert in_order == sorted(in_order)


@every_strategy
def test_bad_requests_are_refused_in_one_sentence(pool, fitted, variant):
    """A wrong argument is named, with what was given."""
    strategy = fitted[variant]
    with pytest.raises(InputError, match="n must be at least 1, got 0"):
        strategy.select(PLANE, 0)
    with pytest.raises(InputError, match="the hyperplane has 3 features, the pool's rows have 8"):
        strategy.select(Hyperplane(np.ones(3), 0.0))
    with pytest.raises(InputError, match="at least one item"):
        make(variant).fit(pool.prefix(0))
    with pytest.raises(InputError, match="random_state must be at least 0, got -1"):
        make(variant, random_state=-1).fit(pool)
    if not strategy.needs_hyperplane:
        assert np.isnan(strategy.select(None).margins).all()
    else:
        with pytest.raises(InputError, match="needs a hyperplane"):
            strategy.select(None)


@every_strategy
def test_progress_is_told_and_can_stop_the_work(pool, variant):
    """Where there is something to build, it says how far it is; an exception ends it."""
    told = []
    make(variant).fit(pool, progress=lambda done, total: told.append((done, total)))
    assert not told or told[-1] == (400, 400)
    if "hash" in variant:
        with pytest.raises(KeyboardInterrupt):
            make(variant).fit(pool, progress=_interrupt)


def _interrupt(done: int, total: int) -> None:
    raise KeyboardInterrupt
