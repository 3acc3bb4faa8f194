"""Under load: sessions share the processor fairly, and what is saved is in the log and on the card."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from closecall.app.api.cards import card_of, submit
from closecall.app.engine import load as load_module
from closecall.app.engine import lookahead
from closecall.app.engine.load import TURNS_A_ROUND, Load
from closecall.app.runtime.turns import Turns
from closecall.app.sessions import item_view
from closecall.app.sessions.blind.begin import begin
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.verification.verify import verify_project
from closecall.core.selection import STRATEGIES
from closecall.core.selection.exhaustive import ExhaustiveSearch
from closecall.core.selection.hashed import base as hashed
from closecall.core.selection.margin import index as margin
from tests.projects import answer, label, label_with_memory, new_project, truth_word, wait_for_index
from tests.stateful.served import Later

BUDGET = 60


@pytest.fixture
def project(workspace, monkeypatch):
    """One whose strategies have thrifty forms for a pool of its size."""
    monkeypatch.setattr(margin, "THRIFTY_BUDGET", BUDGET)
    monkeypatch.setattr(margin, "LEAST_BUDGET", 10)
    monkeypatch.setattr(hashed, "THRIFTY_CANDIDATES", 20)
    return new_project(workspace)


@pytest.fixture
def session(project) -> LabelingSession:
    wait_for_index(project, LabelingSession.DEFAULT)
    session = project.session()
    label(session, 6)
    return session


@pytest.fixture
def later(project, session, monkeypatch):
    """An executor whose jobs run when the test says so, in place of the project's threads."""
    monkeypatch.setattr(item_view, "AHEAD_SECONDS", 0.0)
    session.item_view.ahead.wait(60)
    project.executor = Later()
    return project.executor


def be_short(project, monkeypatch, is_short=True):
    monkeypatch.setattr(project.store.load, "is_short", lambda _: is_short)


def coming(session) -> dict:
    card = card_of(session)
    while card["next_is_coming"]:
        card = card_of(session)
    return card


class Waiting:
    """A look-ahead of another session that waits."""

    def __init__(self, owner: str, seconds: float, turns: Turns) -> None:
        self.owner, self.turns_left, self.seconds = owner, TURNS_A_ROUND, seconds
        turns._record(self, seconds)
        turns._waiting[self] = 0.0

    def take_turn(self) -> bool:
        return False

    def cancel(self) -> None:
        pass


def test_the_server_is_short_once_the_turns_of_others_take_too_long(monkeypatch):
    """Waiting turns times seconds per turn, divided by the cores, against 0.3 s."""
    monkeypatch.setattr(load_module, "IN_TIME_SECONDS", 0.3)
    turns = Turns(2)
    load = Load(turns)
    for n in range(1, 13):
        Waiting(f"s{n}", 0.021, turns)
        turns._record(Waiting("mine", 0.021, Turns(2)), 0.021)
        assert load.is_short("mine") == (n * TURNS_A_ROUND * 0.021 / 2 > 0.3) == (n >= 10)
    assert load.report()["turns_waiting"] == 36
    assert load.report()["seconds_per_turn"] == pytest.approx(0.021)


def test_one_slow_session_makes_the_server_short_for_nobody(monkeypatch):
    """Those with short turns get theirs between its long ones."""
    monkeypatch.setattr(load_module, "IN_TIME_SECONDS", 0.3)
    turns = Turns(2)
    load = Load(turns)
    turns._record(Waiting("mine", 0.02, Turns(2)), 0.02)
    Waiting("slow", 30.0, turns)
    assert not load.is_short("mine")
    assert not load.is_short("slow")


def test_an_overloaded_server_selects_nothing_in_advance(project, session, later, monkeypatch):
    """The card says that nothing will come; when fewer people wait, the next item is looked ahead from."""
    turns, before = project.store.load.turns, project.store.load.report()
    with monkeypatch.context() as then:
        then.setattr(Turns, "crowding", 2 * load_module.MOST_CROWDING)
        assert project.store.load.is_short(session.id)
        submit(session, [answer(card_of(session), "no")])
        later.work()
        assert card_of(session)["next"] == {}
        assert not card_of(session)["next_is_coming"]
        assert session.shown.parameters["hurried"]
    report = project.store.load.report()
    assert report["futures"] - before["futures"] == report["futures_shed"] - before["futures_shed"] == 4
    assert turns.crowding < load_module.MOST_CROWDING
    submit(session, [answer(card_of(session), "no")])
    later.work()
    assert set(card_of(session)["next"]) == {"yes", "no", "skip", "unsure"}


def test_skip_and_unsure_are_shed_where_time_is_short(project, session, later, monkeypatch):
    """Yes and no come; the card says that nothing else will, and the report has the shares."""
    be_short(project, monkeypatch)
    before = project.store.load.report()
    submit(session, [answer(card_of(session), "no")])
    card_of(session)
    later.work()
    card = card_of(session)
    assert set(card["next"]) == {"yes", "no"}
    assert not card["next_is_coming"]
    report = project.store.load.report()
    assert report["futures"] - before["futures"] == 4
    assert report["futures_shed"] - before["futures_shed"] == 2
    assert report["shed"] == report["futures_shed"] / report["futures"]
    after = submit(session, [answer(card, "skip")])  # the server selects what follows it
    assert after["item"]["id"] != card["item"]["id"]


def test_what_costs_nothing_is_not_shed(project, session, later, monkeypatch):
    """Where a skip teaches the same as a no, its item is known."""
    be_short(project, monkeypatch)
    monkeypatch.setattr(lookahead.Lookahead, "_are_alike", lambda *_: True)
    submit(session, [answer(card_of(session), "no")])
    card_of(session)
    later.work()
    assert set(card_of(session)["next"]) == {"yes", "no", "skip", "unsure"}
    assert project.store.load.report()["futures_shed"] == 0


def test_hurried_selections_have_a_smaller_budget_and_the_log_says_so(project, session, monkeypatch, capsys):
    """In the foreground, ahead and in a grid; the card says so; verify repeats them and judges them apart."""
    for strategy in ("margin-index", "mixture", "h-hash-weighted", "exhaustive"):
        wait_for_index(project, strategy)
    label_with_memory(session, 2)
    be_short(project, monkeypatch)
    hurried = {}
    for strategy in ("margin-index", "mixture", "h-hash-weighted", "exhaustive", "random"):
        session.set_strategy(strategy)
        for n in range(6):
            card = coming(session)
            word = truth_word(project, card["item"]["id"])
            sent = {"next": card["next"][word]["item"]["selection"]} if n % 2 else {}
            after = submit(session, [answer(card, word, **sent)])
            told = card["next"][word]["notes"]["hurried"] if n % 2 else after["notes"]["hurried"]
            shown = session.shown
            assert after["notes"]["hurried"] == told == ("hurried" in shown.parameters)
            assert "remembered" not in shown.parameters
            hurried.setdefault(strategy, []).append(shown)
    for strategy in ("margin-index", "mixture", "h-hash-weighted"):
        assert all(shown.parameters["hurried"] is True for shown in hurried[strategy]), strategy
    assert {shown.parameters["budget"] for shown in hurried["margin-index"]} == {BUDGET}
    assert {shown.parameters["n_candidates"] for shown in hurried["h-hash-weighted"]} == {20}
    assert all(shown.items_scored <= BUDGET for shown in hurried["margin-index"])
    for strategy in ("exhaustive", "random"):  # which have no thrifty form
        assert not any("hurried" in shown.parameters for shown in hurried[strategy])
    session.set_strategy("margin-index")
    grid = project.grid(session)
    grid.attend()
    assert all(record.parameters["hurried"] for record in grid.shown)
    report = project.store.load.report()
    assert report["selections_hurried"] >= 20
    assert 0 < report["hurried"] < 1

    be_short(project, monkeypatch, False)
    session.item_view.choose()
    label(session, 3)
    assert verify_project(project.folder, as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["problems"] == []
    assert found["ranks"]["margin-index"]["first_share"] > 0.9
    assert found["ranks"]["margin-index, hurried"]["selections"] >= 6 + 28
    assert {"mixture, hurried", "h-hash-weighted, hurried"} <= set(found["ranks"])
    assert "exhaustive, hurried" not in found["ranks"]
    assert verify_project(project.folder) == 0
    assert "Margin index, hurried: " in capsys.readouterr().out


def test_selections_are_hurried_while_the_annotator_outruns_the_look_ahead(project, session, later):
    """From the first quick answer that has to wait for an item until an answer that takes longer."""

    def is_hurried_after(taken: int | None, *, waits: bool) -> bool:
        """Answer an item after `taken` ms; return whether the next one is hurried."""
        later.work()
        card = coming(session)
        sent = {} if waits else {"next": card["next"]["no"]["item"]["selection"]}
        submit(session, [answer(card, "no", time_taken_ms=taken, **sent)])
        return "hurried" in session.shown.parameters

    assert not is_hurried_after(50, waits=False)  # quick, but the next item was there
    assert not is_hurried_after(700, waits=True)  # waits, but the look-ahead had time enough
    assert not is_hurried_after(None, waits=True)  # a program
    assert is_hurried_after(50, waits=True)
    assert is_hurried_after(50, waits=True)
    assert is_hurried_after(50, waits=False)  # in time, because it was hurried
    assert is_hurried_after(700, waits=False)  # was prepared before
    assert not is_hurried_after(50, waits=False)
    later.work()
    assert len(coming(session)["next"]) == 4


def test_without_a_hyperplane_nothing_is_hurried(project, monkeypatch):
    """What stands in for the strategy has no budget."""
    be_short(project, monkeypatch)
    session = project.session()
    card = card_of(session)
    assert not card["notes"]["hurried"]
    assert session.shown.why == "random-start"
    assert "hurried" not in session.shown.parameters


def test_a_blind_comparison_compares_the_strategies_as_they_are(project, session, monkeypatch):
    """Otherwise, it would tell how busy the server was, or how quickly people answer."""
    be_short(project, monkeypatch)
    blind = begin(session, ["margin-index", "random"])
    for _ in range(16):
        card = coming(blind)
        submit(blind, [answer(card, truth_word(project, card["item"]["id"]), time_taken_ms=50)])
    records = [record for side in blind.sides for record in project.log.selections(session_id=side.id)]
    assert any(record.why == "strategy" and record.strategy == "margin-index" for record in records)
    assert not any("hurried" in record.parameters for record in records)


def test_audited_items_and_further_answers_are_drawn_as_ever(project, session, monkeypatch, capsys):
    """Where time is short, too: only the strategy's own items are found by its thrifty form."""
    bob = project.session(project.log.start_session(1, "bob", LabelingSession.DEFAULT, seed=8).id)
    session.set_audit_share(0.3)
    project.set_overlap(2, 0.3)
    be_short(project, monkeypatch)
    for _ in range(6):
        label(session, 5)
        label(bob, 5)
    project.close()
    records = [r for each in (session, bob) for r in project.log.selections(1, each.id) if r.n_labels > 10]
    for why, are_hurried in (("audit", False), ("overlap", False), ("strategy", True)):
        chosen = [record for record in records if record.why == why]
        assert len(chosen) >= 5, why
        assert all(("hurried" in record.parameters) == are_hurried for record in chosen), why
        assert all((record.probability is not None) != are_hurried for record in chosen), why
    assert verify_project(project.folder, as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["problems"] == []
    assert found["ranks"]["auto, hurried"]["selections"] >= 5


class Held(ExhaustiveSearch):
    """A strategy whose selections take as long as the test likes."""

    name = "held"
    going_on = threading.Event()
    begun = threading.Semaphore(0)
    is_held = False

    def choose_many(self, queries):
        if Held.is_held:
            Held.begun.release()
            assert Held.going_on.wait(60)
        return super().choose_many(queries)


def test_nobody_waits_for_a_session_with_a_slow_strategy(project, session, monkeypatch):
    """Neither for an item, nor for what follows: while it selects, others answer as if it were not there."""
    monkeypatch.setitem(STRATEGIES, Held.name, Held)
    monkeypatch.setattr(item_view, "AHEAD_SECONDS", 0.0)
    wait_for_index(project, Held.name)
    slow = project.session(project.log.start_session(1, "lin", Held.name, seed=9).id)
    label(slow, 1)
    assert slow.item_view.ahead.wait(60)
    Held.is_held = True
    try:
        with ThreadPoolExecutor(1) as thread:
            card = card_of(slow)
            given = answer(card, "no", next=card["next"]["no"]["item"]["selection"])
            thread.submit(submit, slow, [given])  # the item that follows was there; the look-ahead is held
            assert Held.begun.acquire(timeout=60)
            for word in ("no", "yes", "no", "no"):
                card = coming(session)
                assert set(card["next"]) == {"yes", "no", "skip", "unsure"}
                after = submit(session, [answer(card, word)])  # without a prepared item: it is selected now
                assert after["item"] is not None
            assert not slow.item_view.ahead.is_done
            Held.going_on.set()
        assert slow.item_view.ahead.wait(60)
    finally:
        Held.going_on.set()
        Held.is_held = False


def test_shares_are_told_only_of_what_was_counted():
    """A server that has just started has none."""
    report = Load(Turns(2)).report()
    assert (report["shed"], report["hurried"]) == (None, None)
    assert (report["futures"], report["selections"], report["turns_waiting"]) == (0, 0, 0)
    json.dumps(report)
