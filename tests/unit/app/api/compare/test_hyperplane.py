"""A question's hyperplane put to several query strategies."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from closecall.app.api.cards import card_of, submit
from closecall.app.api.compare import hyperplane as live_hyperplane
from closecall.app.api.compare import lanes
from closecall.app.api.compare.hyperplane import HyperplaneComparison, Row, Spread, headline
from closecall.app.api.compare.lanes import COMPARED
from closecall.app.api.compare.planes import LEAST_TIMES, Measurement, last_planes
from closecall.app.sessions.full_scan_check import compare
from closecall.core.errors import InputError
from closecall.core.evaluation.rank import margins_of, scores_of
from closecall.core.pool.pool import Pool
from closecall.core.selection import make_strategy
from closecall.core.selection.random import RandomSampling
from tests.projects import N_ITEMS, answer, label, new_project, open_workspace, wait_for_index
from tests.scale import scaled


@pytest.fixture
def compared(monkeypatch):
    """Strategies that the page compares; a quick run leaves the one out that takes long to prepare."""
    monkeypatch.setattr(lanes, "MOST_PRODUCTS", scaled(quick=0, all=lanes.MOST_PRODUCTS))
    return [name for name in COMPARED if name != lanes.DENSE or scaled(quick=False, all=True)]


@pytest.fixture
def session(tmp_path, compared):
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        wait_for_index(project, "random")
        yield project.session(project.log.start_session(1, "ada", "random", seed=5).id)


def settled(comparison):
    """The page when nothing is coming any more."""
    until = time.monotonic() + 600
    while (page := comparison.page())["is_coming"]:
        assert time.monotonic() < until
        time.sleep(0.01)
    return page


def by_hand(pool, plane):
    """Every item that could be picked, nearest first, and its |wᵀx + b|."""
    free = np.setdiff1d(pool.ids, plane.answered)
    margins = margins_of(pool.rows_of(free), plane.hyperplane)
    order = np.argsort(margins, kind="stable")
    return free[order].tolist(), margins[order]


def test_the_rows_say_what_sorting_all_items_gives(session, compared):
    """Rank, |wᵀx| and the pick of every strategy, in the fixed order; the full scan's pick is the nearest."""
    label(session, 12)
    pool = session.project.pool
    page = settled(HyperplaneComparison(session))
    plane, *_ = last_planes(session.concept, pool)
    items, margins = by_hand(pool, plane)
    free = np.sort(items)
    scores = scores_of(pool.rows_of(free), plane.hyperplane)
    likeliest_first = free[np.argsort(-scores, kind="stable")].tolist()
    assert [row["strategy"] for row in page["rows"]] == compared
    for row in page["rows"]:
        assert row["state"] == "shown"
        place = items.index(row["item"])
        assert row["margin"]["now"] == pytest.approx(margins[place], abs=1e-9)
        if row["sought"] == "likeliest":
            place = likeliest_first.index(row["item"])
        assert row["rank"] == place
        assert row["src"].startswith("data:image")
        assert row["ms"]["low"] <= row["ms"]["median"] <= row["ms"]["high"]
    by_name = {row["strategy"]: row for row in page["rows"]}
    assert by_name["exhaustive"]["item"] == items[0]
    assert (by_name["exhaustive"]["ratio"], by_name["exhaustive"]["share"]) == (1.0, 1.0)
    assert by_name["random"]["in_use"]
    assert page["headline"].startswith("Random picks the ")
    assert "12 labels" in page["about"]


@pytest.mark.thorough
def test_strategies_are_added_on_request_with_what_they_cost(session, compared, monkeypatch):
    """Their rows come last, as soon as they are asked for; what takes seconds has no cost."""
    monkeypatch.setattr(lanes, "MOST_PRODUCTS", 0)
    monkeypatch.setattr("closecall.app.indexes.strategies.LONG_SECONDS", 1e-9)
    label(session, 12)
    comparison = HyperplaneComparison(session)
    offered = comparison.compared.offered
    assert list(offered) == ["eh-hash", "lbh-hash", "lbh-hash-weighted"]
    assert offered["eh-hash"].startswith("about ")
    assert offered["lbh-hash"] == ""
    before = [row["strategy"] for row in settled(comparison)["rows"]]
    comparison.compared.added = ("lbh-hash",)
    page = settled(comparison)
    assert [row["strategy"] for row in page["rows"]] == [*before, "lbh-hash"]
    assert page["rows"][-1]["state"] == "shown"
    comparison.compared.added = ()
    assert [row["strategy"] for row in settled(comparison)["rows"]] == before
    session.set_strategy("lbh-hash")
    assert "lbh-hash" not in comparison.compared.offered
    assert settled(comparison)["rows"][-1]["in_use"]


@pytest.fixture
def ms_per_item(monkeypatch):
    """A clock for each thread that advances only while rows of a pool are scored, by a fixed time per row."""
    score_blocks, clock, step = Pool.score_blocks, threading.local(), 0.125

    def now():
        clock.now = getattr(clock, "now", 0.0) + 1e-9  # nothing takes no time at all
        return clock.now

    def scored(pool, hyperplanes, segments=None):
        for first_row, scores in score_blocks(pool, hyperplanes, segments):
            clock.now = now() + step / 1000 * scores.shape[1]
            yield first_row, scores

    monkeypatch.setattr(Pool, "score_blocks", scored)
    monkeypatch.setattr("closecall.core.selection.base.perf_counter", now)
    monkeypatch.setattr("closecall.app.api.compare.planes._clock", now)
    return step


def test_a_full_scan_takes_as_long_on_the_card_in_a_check_and_here(tmp_path, compared, ms_per_item):
    """All three time one pass over all items, before and after a restart."""

    def full_scan_times(session):
        wait_for_index(session.project, "random")
        label(session, 1)
        unmeasured = compare(session, session.shown.id).full_scan_ms
        times = session.project.indexes.full_scan
        times.note_use()
        times.measure(session.project.pool)
        card = label(session, 1)
        check = compare(session, card["item"]["selection"])
        rows = settled(HyperplaneComparison(session))["rows"]
        (here,) = (row["ms"] for row in rows if row["strategy"] == "exhaustive")
        return [unmeasured, card["notes"]["full_scan_ms"], check.full_scan_ms, here["now"], here["median"]]

    expected = pytest.approx([ms_per_item * N_ITEMS] * 5)
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        first = project.session(project.log.start_session(1, "ada", "random", seed=5).id)
        label(first, 12)
        key, session = project.key, first.id
        assert full_scan_times(first) == expected
    with open_workspace(tmp_path) as workspace:
        assert full_scan_times(workspace.project(key).session(session)) == expected


def test_the_hyperplanes_are_those_of_the_log(session):
    """Newest first, each once, whatever skips and corrections came between; what was answered is left out."""
    label(session, 9)
    project, concept = session.project, session.concept
    card = card_of(session)
    label(session, 4)
    submit(session, [answer(card_of(session), "skip")])
    last = project.log.recent_answers(1, 1)[0]
    assert last.answer == "skip"
    planes = last_planes(concept, project.pool)
    digests = [plane.hyperplane.digest for plane in planes]
    assert len(set(digests)) == len(digests)
    assert digests[0] == session.shown.hyperplane_digest
    assert project.log.selection(card["item"]["selection"]).hyperplane_digest in digests
    sizes = [len(plane.labels.y) for plane in planes]
    assert sizes == sorted(sizes, reverse=True)
    assert last.item in planes[0].answered


def test_before_a_yes_and_a_no_the_page_says_what_is_missing(session, compared):
    """And asks for nothing any more; with labels it is measured."""
    comparison = HyperplaneComparison(session)
    page = settled(comparison)
    assert (page["headline"], page["rows"]) == ("There is no hyperplane yet", [])
    label(session, 12)
    comparison.renew()
    assert len(settled(comparison)["rows"]) == len(compared)


def test_nobody_measures_when_nobody_looks(session, compared, monkeypatch):
    """Each look is worth a step, then it waits; who comes back finds it going on."""
    monkeypatch.setattr(live_hyperplane, "LEFT_SECONDS", -1.0)
    label(session, 12)
    for name in compared:
        wait_for_index(session.project, name)
    comparison = HyperplaneComparison(session)
    steps = []
    while comparison.page()["is_coming"]:
        until = time.monotonic() + 60
        while comparison._is_stepping:
            assert time.monotonic() < until
            time.sleep(0.001)
        steps.append(comparison._shown.n_done)
        assert len(steps) < 100
    assert steps[:3] == [1, 2, 3]
    assert comparison._shown.is_done


def test_a_strategy_that_fails_is_left_out_and_says_so(session):
    """The others are asked as if it were not there."""

    class Failing(RandomSampling):
        def choose(self, query):
            raise InputError(f"no use for {query.n}")

    label(session, 12)
    pool = session.project.pool
    strategies = {"good": make_strategy("exhaustive").fit(pool), "bad": Failing().fit(pool)}
    measurement = Measurement(pool, last_planes(session.concept, pool), strategies)
    while not measurement.is_done:
        measurement.step()
    good, bad = measurement.answers["good"], measurement.answers["bad"]
    assert bad.failure == "It can't answer here: no use for 1"
    assert (bad.items, bad.seconds) == ([], [])
    assert set(good.ranks) == {0}
    assert len(good.seconds) >= LEAST_TIMES
    assert len(good.items) == len(good.margins) == len(measurement.planes)


def test_the_same_log_gives_the_same_picks(session):
    """What is drawn at random, too; times alone differ."""
    label(session, 12)
    pages = [settled(HyperplaneComparison(session)) for _ in range(2)]
    told = [[(row["item"], row["rank"], row["scored"]) for row in page["rows"]] for page in pages]
    assert told[0] == told[1]


def row(strategy, *, spread=1.0, **known):
    """A row whose times are 1 / ratio ms; their quartiles are that divided and multiplied by `spread`."""
    ms = 1 / known.get("ratio", 1.0)
    times = Spread(ms, ms / spread, ms / spread, ms, ms * spread, ms * spread)
    known = {
        "label": strategy.capitalize(),
        "in_use": False,
        "state": "shown",
        "item": 1,
        "ms": times,
    } | known
    return Row(strategy=strategy, **known)


FULL = row("exhaustive", ratio=1.0, scored=600)


@pytest.mark.parametrize(
    ("used", "said"),
    [
        ({"ratio": 72.4}, "Quick picks the same image as a full scan, 72 times faster."),
        ({"ratio": 0.31}, "Quick picks the same image as a full scan, but takes 3.2 times as long."),
        ({"ratio": 1.0}, "Quick picks the same image as a full scan, and takes as long."),
        ({"ratio": 2.0, "item": 2}, "Quick picks an equally near one, 2.0 times faster."),
        (
            {"ratio": 3917.0, "rank": 402},
            "Quick picks the 403rd nearest of 600 images, 3,917 times faster than a full scan.",
        ),
        (
            {"ratio": 0.5, "rank": 11},
            "Quick picks the 12th nearest of 600 images, and takes 2.0 times as long as a full scan.",
        ),
    ],
)
def test_the_headline_is_made_from_the_data(used, said):
    """Whichever way it comes out."""
    assert headline([FULL, row("quick", in_use=True, **used)], 600, "image") == said


def test_the_headline_claims_no_speed_where_nothing_was_saved():
    """An index that scores all items of a small pool is a full scan, however the two times came out.

    In a large pool, it reads less of each item.
    """
    said = "Here Quick scores all 600 images, as a full scan does."
    for ratio in (0.6, 1.4, 1.9):
        assert headline([FULL, row("quick", in_use=True, ratio=ratio, scored=600)], 600, "image") == said
    for ratio, said in ((9.8, "9.8 times faster."), (0.2, "but takes 5.0 times as long.")):
        used = row("quick", in_use=True, ratio=ratio, scored=600)
        assert headline([FULL, used], 600, "image") == f"Quick picks the same image as a full scan, {said}"
    missed = row("quick", in_use=True, ratio=1.0, scored=600, rank=2)
    said = "Quick picks the 3rd nearest of 600 images, and takes as long as a full scan."
    assert headline([FULL, missed], 600, "image") == said


@pytest.mark.parametrize(
    ("used", "said"),
    [
        ({}, "Quick picks the likeliest yes of 600 images, 8.0 times faster than a full scan."),
        ({"rank": 2}, "Quick picks the 3rd likeliest yes of 600 images, 8.0 times faster than a full scan."),
        (
            {"sought": "other", "rank": 4},
            "Here Quick looks for something other than the nearest image.",
        ),
    ],
)
def test_the_headline_judges_a_pick_by_what_was_sought(used, said):
    """A likely positive is far from the hyperplane, and none the worse for it."""
    known = {"in_use": True, "ratio": 8.0, "scored": 300, "sought": "likeliest"} | used
    assert headline([FULL, row("quick", **known)], 600, "image") == said


@pytest.mark.parametrize(("noes", "sought"), [(1, "nearest"), (12, "likeliest")])
def test_auto_picks_here_what_it_picks_on_the_card(session, monkeypatch, noes, sought):
    """It goes by the labels, too: while yes is rare, by the largest wᵀx, and the rank is by that."""
    monkeypatch.setattr(lanes, "COMPARED", ("random", "exhaustive", "auto"))
    pool = session.project.pool
    for word in ["yes"] + ["no"] * noes:
        submit(session, [answer(card_of(session), word)])
    page = settled(HyperplaneComparison(session))
    plane, *_ = last_planes(session.concept, pool)
    row = next(row for row in page["rows"] if row["strategy"] == "auto")
    free = np.setdiff1d(pool.ids, plane.answered)
    scores = scores_of(pool.rows_of(free), plane.hyperplane)
    keys = -scores if sought == "likeliest" else np.abs(scores)
    assert row["sought"] == sought
    assert row["item"] == free[np.argsort(keys, kind="stable")[0]]
    assert row["rank"] == 0


@pytest.mark.parametrize(("spread", "said"), [(1.1, "1.4 times faster."), (1.5, "and takes as long.")])
def test_the_headline_claims_no_speed_where_the_times_overlap(spread, said):
    quick = row("quick", in_use=True, ratio=1.4, spread=spread)
    assert headline([FULL, quick], 600).endswith(said)


def test_the_page_says_how_many_items_the_indexes_cover(session, monkeypatch):
    """While they lag behind the pool, the rows are about the items that they cover."""
    names = ("random", "exhaustive", "margin-index")
    monkeypatch.setattr(lanes, "COMPARED", names)
    label(session, 12)
    comparison = HyperplaneComparison(session)
    assert "cover" not in settled(comparison)["about"]
    pool = session.project.pool
    part = pool.prefix(N_ITEMS - 100)
    for behind, said in [
        (("margin-index",), "Margin index covers only"),
        (("margin-index", "random"), "Some indexes cover only"),
        (names, "The indexes cover only"),
    ]:
        fitted = {name: make_strategy(name).fit(part if name in behind else pool) for name in names}
        monkeypatch.setattr(comparison.compared, "ready", lambda fitted=fitted: fitted)
        comparison.renew(again=True)
        about = settled(comparison)["about"]
        assert about.endswith(f"{said} {N_ITEMS - 100} of {N_ITEMS} items so far; ranks count all items.")


@pytest.mark.parametrize("word", ["text", "vector"])
def test_items_are_called_what_they_are(word):
    """The headline is about what people label."""
    rows = [FULL, row("quick", in_use=True, ratio=3.0)]
    assert headline(rows, 600, word) == f"Quick picks the same {word} as a full scan, 3.0 times faster."


def test_beside_the_full_scan_in_use_the_headline_is_about_who_comes_nearest_to_it():
    """Never about luck, nor about who is still being prepared."""
    lucky = row("random", rank=0, ratio=900.0)
    near, far = row("near", ratio=2.0, typical_rank=1.0), row("far", ratio=50.0, typical_rank=9.0)
    coming = row("coming", state="coming")
    used = row("exhaustive", in_use=True, ratio=1.0, scored=600)
    assert headline([lucky, used, far, near, coming], 600).startswith("Near picks")
    assert headline([lucky, used, coming], 600) == "Measuring the strategies…"


def test_spreads_are_numpys_percentiles():
    """And the newest value is the first."""
    values = np.random.default_rng(3).lognormal(size=41).tolist()
    spread = Spread.of(values)
    assert spread.now == values[0]
    assert [spread.low, spread.q1, spread.median, spread.q3, spread.high] == pytest.approx(
        np.quantile(values, [0.1, 0.25, 0.5, 0.75, 0.9])
    )
