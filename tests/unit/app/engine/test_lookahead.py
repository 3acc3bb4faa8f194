"""Looking ahead: the browser has the next item before the answer, and the log says the same as without."""

from __future__ import annotations

import json
import math
import threading
import time
from dataclasses import replace
from weakref import ref

import numpy as np
import pytest

from closecall.app.api.cards import card_of, submit
from closecall.app.engine import lookahead
from closecall.app.sessions import item_view
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.verification.verify import verify_project
from closecall.storage import LabelState, StorageError
from closecall.storage.records import AnswerRecord, SelectionRecord
from closecall.storage.selections import FORESEEN
from tests.projects import answer, label, new_project, open_workspace, shown_to, truth_word, wait_for_index
from tests.stateful.served import Later
from tests.storage_kit import count_rows

WORDS = ["yes", "no", "skip", "unsure"]


@pytest.fixture
def project(workspace, monkeypatch):
    """Its index stays the one that was built: with one that was saved, what sessions remember would go."""
    monkeypatch.setattr("closecall.app.indexes.strategies.CHEAP_SECONDS", math.inf)
    return new_project(workspace)


@pytest.fixture
def session(project) -> LabelingSession:
    wait_for_index(project, LabelingSession.DEFAULT)
    session = project.session()
    label(session, 6)
    return session


def coming(session) -> dict:
    """The card, as soon as it has what follows."""
    card = card_of(session)
    while card["next_is_coming"]:
        card = card_of(session)
    return card


def follow(card, word, **changes):
    """An answer by a browser that shows what follows at once, and that card's part as the browser has it."""
    view = card["next"][word]
    return answer(card, word, next=view["item"]["selection"], **changes), view


@pytest.mark.parametrize("word", WORDS)
def test_what_was_sent_ahead_is_what_would_be_chosen(workspace, word):
    """The same item by the same hyperplane as where the browser has to wait for it."""
    found = []
    for ahead in (True, False):
        project = new_project(workspace)
        wait_for_index(project, LabelingSession.DEFAULT)
        session = project.session(project.log.start_session(1, "ada", "margin-index", seed=3).id)
        for truth in ("yes", "no", "no", "yes", "no"):
            card = coming(session)
            given = follow(card, truth)[0] if ahead else answer(card, truth)
            submit(session, [given])
        card = coming(session)
        submit(session, [follow(card, word)[0] if ahead else answer(card, word)])
        shown = session.shown
        found.append((shown.item, shown.hyperplane_digest, shown.margin, shown.round, shown.n_labels))
    assert found[0] == found[1]


def test_the_card_after_an_answer_is_the_view_that_was_sent_ahead(session):
    """Its numbers, too: nothing on the page changes when the server catches up."""
    while session.project.indexes.full_scan_ms is None:
        time.sleep(0.01)
    for word in [*WORDS, "yes", "no"]:
        card = coming(session)
        given, view = follow(card, word)
        after = submit(session, [given])
        assert after["acked"] == [given["id"]]
        assert {name: after[name] for name in ("round", "notes")} == {k: view[k] for k in ("round", "notes")}
        assert after["item"] == view["item"] | {"src": card["pictures"][str(view["item"]["id"])]}


def test_each_answer_has_a_model_and_a_selection_of_its_own(session):
    """Whatever was chosen ahead, and not shown, is not in the log of selections."""
    before = len(list(session.project.log.selections()))
    for _ in range(8):
        card = coming(session)
        submit(session, [follow(card, truth_word(session.project, card["item"]["id"]))[0]])
    shown = list(session.project.log.selections())[before:]
    assert len(shown) == 8
    assert len({record.hyperplane_digest for record in shown}) == 8
    answered = [a.selection_id for a in session.project.log.answers_after(1)]
    assert set(answered[-7:]) == {record.id for record in shown[:-1]}


def test_the_log_can_be_replayed(session, capsys):
    """Every digest, choice and rank, of skips and corrections, too; also before there is a hyperplane."""
    session.project.memories.worthwhile_seconds = 0.0
    for word in ["yes", "skip", "no", "unsure", "no", "yes"]:
        given, _ = follow(coming(session), word)
        submit(session, [given])
    card = submit(
        session, [answer(card_of(session), "yes", selection=None, item=given["item"], corrects=given["id"])]
    )
    submit(session, [answer(card, "undo", selection=None, item=given["item"], undoes=given["id"])])
    submit(session, [follow(coming(session), "no")[0]])
    other = session.project.session(session.project.log.start_session(1, "lin", "margin-index", seed=9).id)
    submit(other, [follow(coming(other), "yes")[0]])
    submit(session, [follow(coming(session), "yes")[0]])
    assert verify_project(session.project.folder, as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["problems"] == []
    assert found["choices"] == found["digests"] > 10


def test_what_was_selected_ahead_keeps_no_memory_of_a_hyperplane(session):
    """It has a number for each item of the pool: a replaced one must not stay with the last selections."""
    memories = session.project.memories
    memories.worthwhile_seconds = 0.0
    submit(session, [follow(coming(session), "no")[0]])
    index, patience = session.project.indexes.get(session.strategy), time.monotonic() + 60
    while getattr(memories.newest(session.id, index), "digest", None) != session.shown.hyperplane_digest:
        assert time.monotonic() < patience
        time.sleep(0.01)
    memories.worthwhile_seconds = float("inf")
    coming(session)
    submit(session, [follow(coming(session), "yes")[0]])
    card = coming(session)
    remembered = memories.newest(session.id, index)
    assert all(
        session.item_view.ahead.future(view["item"]["selection"]).chosen.record.parameters["remembered"]
        == remembered.digest
        for view in card["next"].values()
    )
    memory = ref(remembered.memory)
    del remembered
    assert memory() is not None
    memories.newest(session.id, None)  # another index, which drops the memory
    assert memory() is None


def test_two_answers_wait_for_the_server_to_be_back(tmp_path):
    """It goes between them, the second being about an image that came ahead of the first answer."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        session = project.session()
        label(session, 6)
        first, view = follow(coming(session), "yes")
        second = answer(view, "no", next=None)
    with open_workspace(tmp_path) as workspace:
        reopened = workspace.project(project.key).session(session.id)
        after = submit(reopened, [first, second])
        assert set(after["acked"]) == {first["id"], second["id"]}
        labels = reopened.concept.catch_up().labels()
        assert {first["item"], second["item"]} <= set(labels.items.tolist())
        assert after["item"]["id"] not in (first["item"], second["item"])


def test_the_second_alone_is_stored_on_its_own_item(session):
    """What was shown is known from before it was sent, whatever became of the answer before it."""
    _, view = follow(coming(session), "yes")
    alone = answer(view, "no")
    assert submit(session, [alone])["acked"] == [alone["id"]]
    assert session.concept.catch_up().status(view["item"]["id"]) == "no"


def test_a_selection_of_another_session_is_not_gone_on_to(project, session):
    """A browser can't bring another's item into view."""
    other = project.session(project.log.start_session(1, "lin", "margin-index").id)
    card, theirs = coming(session), coming(other)
    after = submit(session, [answer(card, "yes", next=theirs["next"]["yes"]["item"]["selection"])])
    assert after["item"]["selection"] != theirs["next"]["yes"]["item"]["selection"]
    after = submit(session, [answer(after, "yes", next="no such selection")])
    assert len(after["acked"]) == 1
    assert session.shown.session_id == session.id


def test_others_are_not_shown_what_was_sent_ahead(project, session):
    """Neither what is in view nor what may be in view in a moment."""
    card = coming(session)
    mine = {card["item"]["id"], *(view["item"]["id"] for view in card["next"].values())}
    assert len(mine) >= 3
    other = project.session(project.log.start_session(1, "lin", "margin-index").id)
    assert mine <= set(project.leases.held(but_for={other.id}))
    theirs = coming(other)
    assert not mine & {theirs["item"]["id"], *(view["item"]["id"] for view in theirs["next"].values())}


def test_skip_and_unsure_teach_the_same_and_are_chosen_once(session, monkeypatch):
    """And the model that a skip leaves as it is isn't trained again."""
    trained = []
    train = lookahead.Lookahead._chosen
    monkeypatch.setattr(
        lookahead.Lookahead, "_chosen", lambda self, *args: trained.append(args[1]) or train(self, *args)
    )
    submit(session, [answer(coming(session), "no")])
    card = coming(session)
    assert {supposed["answer"] for supposed in trained[-3:-1]} == {"no", "yes"}
    assert trained[-1]["answer"] == "skip"
    assert card["next"]["skip"]["item"]["id"] == card["next"]["unsure"]["item"]["id"]
    assert card["next"]["skip"]["item"]["selection"] != card["next"]["unsure"]["item"]["selection"]
    assert card["next"]["skip"]["notes"]["counts"]["skip"] == card["notes"]["counts"]["skip"] + 1
    assert card["next"]["unsure"]["notes"]["counts"]["unsure"] == card["notes"]["counts"]["unsure"] + 1


@pytest.mark.parametrize("change", ["strategy", "correction", "skipped"])
def test_what_is_stale_is_cancelled_and_computed_anew(session, change):
    """By another strategy, or with what was corrected; what was sent before may be shown all the same."""
    given = answer(card_of(session), "yes")
    submit(session, [given])
    before = coming(session)
    old = session.item_view.ahead
    if change == "strategy":
        session.set_strategy("random")
    elif change == "skipped":
        session.revisit_skipped()
    else:
        submit(session, [answer(before, "no", selection=None, item=given["item"], corrects=given["id"])])
    after = coming(session)
    assert session.item_view.ahead is not old
    ids = {view["item"]["selection"] for view in before["next"].values()}
    assert not ids & {view["item"]["selection"] for view in after["next"].values()}
    stale, view = follow(before, "no")
    shown = submit(session, [stale])
    assert shown["item"]["selection"] == view["item"]["selection"]


def test_a_cancelled_look_ahead_writes_nothing(session, monkeypatch):
    """Nobody waits for it any more."""
    held, begun = threading.Event(), threading.Event()
    compute = lookahead.Lookahead._next

    def hold(self):
        begun.set()
        held.wait(20)
        return compute(self)

    submit(session, [answer(card_of(session), "no")])
    coming(session)
    monkeypatch.setattr(lookahead.Lookahead, "_next", hold)
    submit(session, [answer(card_of(session), "no")])
    assert begun.wait(20)
    job = session.item_view.ahead
    foreseen = count_rows(session.project.log.database)["foreseen"]
    job.cancel()
    held.set()
    assert job.wait(20)
    assert job.futures == {}
    assert count_rows(session.project.log.database)["foreseen"] == foreseen


@pytest.fixture
def later(project, session, monkeypatch):
    """An executor whose jobs run when the test says so, in place of the project's threads."""
    monkeypatch.setattr(item_view, "AHEAD_SECONDS", 0.0)
    coming(session)
    project.executor = Later()
    submit(session, [answer(card_of(session), "no")])
    return project.executor


def run_turn(executor):
    """Do the next turn."""
    future, job = executor._jobs.pop(0)
    future.set_result(job())


def test_the_likelier_answer_comes_first_and_the_card_has_what_is_ready(session, later, monkeypatch):
    """One answer a turn while others wait; `next` grows, what it had stays, and it says when it is full."""
    monkeypatch.setattr(session.project.store.load.turns, "patience", lambda _: 0.0)
    orders = []
    for word in ("yes", "no", "no", "yes"):
        ready: dict[str, str] = {}
        order = []
        while later._jobs:
            run_turn(later)
            card = card_of(session)
            new = {name: view["item"]["selection"] for name, view in card["next"].items()}
            assert ready.items() <= new.items()
            assert card["next_is_coming"] == bool(later._jobs)
            assert set(card["pictures"]) == {str(view["item"]["id"]) for view in card["next"].values()}
            order += [name for name in ("yes", "no", "skip", "unsure") if name in new.keys() - ready.keys()]
            ready = new
        shown, plane = session.shown, session.concept.trained(session.project.pool)[1].hyperplane
        likely = plane.scores(session.project.pool.rows_of([shown.item]))[0] > 0
        assert order == (["yes", "no"] if likely else ["no", "yes"]) + ["skip", "unsure"]
        orders.append(tuple(order))
        submit(session, [answer(card, word)])
    assert len(set(orders)) == 2, "the test saw only one of both orders"


def test_a_view_that_came_early_can_be_gone_on_to(session, later, monkeypatch, capsys):
    """The answer needn't wait for the other futures, which are then dropped; the log can be replayed."""
    turns = session.project.store.load.turns
    monkeypatch.setattr(turns, "patience", lambda _: 0.0)
    for _ in range(4):
        run_turn(later)
        card = card_of(session)
        ((word, view),) = card["next"].items()
        after = submit(session, [answer(card, word, next=view["item"]["selection"])])
        assert after["item"]["selection"] == view["item"]["selection"]
        assert turns.n_waiting == 3  # only those of the look-ahead that began now
    assert verify_project(session.project.folder, as_json=True) == 0
    assert json.loads(capsys.readouterr().out)["problems"] == []


def test_where_nobody_else_waits_one_turn_computes_all(session, later, monkeypatch):
    """They are stored together; a turn that has taken long ends nevertheless."""
    stored = []
    foresee = session.project.log.foresee
    monkeypatch.setattr(
        session.project.log, "foresee", lambda records: stored.append(len(records)) or foresee(records)
    )
    monkeypatch.setattr(lookahead, "TURN_SECONDS", math.inf)
    run_turn(later)
    monkeypatch.setattr(lookahead, "TURN_SECONDS", -1)
    submit(session, [answer(card_of(session), "no")])
    while later._jobs:
        run_turn(later)
    assert stored == [4, 1, 1, 2]


def test_who_answers_drops_what_is_still_to_come(session, later):
    """At once: neither a thread nor the person who now waits for a selection is held up by it."""
    turns = session.project.store.load.turns
    card = card_of(session)
    old = session.item_view.ahead
    assert turns.n_waiting == 3
    waiting = []
    select = session.item_view._choose_of

    def choose_of(*given):
        waiting.append(turns.n_waiting)
        return select(*given)

    session.item_view._choose_of = choose_of
    session.store([answer(card, "yes")])
    assert waiting == [0]
    assert old.is_done
    assert old.is_cancelled


def test_a_future_that_fails_leaves_those_before_it(session, later, monkeypatch):
    """What was published is in the log; the rest comes after the answer."""
    monkeypatch.setattr(session.project.store.load.turns, "patience", lambda _: 0.0)
    run_turn(later)

    def full(_):
        raise StorageError("the disk is full", "full")

    monkeypatch.setattr(session.project.log, "foresee", full)
    with pytest.raises(StorageError, match="full"):
        run_turn(later)
    card = card_of(session)
    assert (len(card["next"]), card["next_is_coming"], later._jobs) == (1, False, [])


def test_where_it_fails_the_card_waits_for_the_server(session, monkeypatch, caplog):
    """A full disk, say: the answer is stored, and the next item comes after it."""

    def full(_):
        raise StorageError("the disk is full", "full")

    submit(session, [answer(card_of(session), "no")])
    monkeypatch.setattr(session.project.log, "foresee", full)
    submit(session, [answer(card_of(session), "no")])
    card = coming(session)
    assert card["next"] == {}
    patience = time.monotonic() + 60
    while "Looking ahead failed: the disk is full" not in caplog.text:
        assert time.monotonic() < patience
        time.sleep(0.005)
    assert session.project.problem() is None  # the next writer hears of it
    after = submit(session, [answer(card, "yes", next=None)])
    assert after["item"]["id"] != card["item"]["id"]


@pytest.mark.thorough
def test_the_last_items_of_a_pool_are_foreseen_and_its_end_too(workspace):
    """Where nothing follows an answer, nothing is sent for it."""
    project = new_project(workspace)
    session = project.session()
    card = coming(session)
    n_items = card["notes"]["counts"]["left"]
    everything = project.pool.ids
    for item in everything[everything != card["item"]["id"]][: n_items - 2].tolist():
        submit(session, [answer(card, "no", item=item, selection=shown_to(session, item))])
    submit(session, [answer(card_of(session), "yes")])
    card = coming(session)
    assert card["next"] == {}
    assert submit(session, [answer(card, "yes")])["waiting"]["exhausted"]


def test_only_the_last_are_kept(session):
    """Foreseen selections are no log."""
    coming(session)
    log = session.project.log
    for round_ in range(FORESEEN // 2):
        log.foresee([_foreseen(session, f"selection-{round_}-{word}") for word in WORDS])
    assert count_rows(log.database)["foreseen"] == FORESEEN
    log.append_answers([], shown=["selection-0-yes", f"selection-{FORESEEN // 2 - 1}-yes"])
    assert log.selection("selection-0-yes") is None
    kept = log.selection(f"selection-{FORESEEN // 2 - 1}-yes")
    assert kept.item == session.shown.item
    assert count_rows(log.database)["foreseen"] == FORESEEN - 1


def _foreseen(session, name) -> SelectionRecord:
    return replace(session.shown, id=name)


def test_supposing_an_answer_is_like_giving_it_and_leaves_no_trace():
    """For any state of the votes, all that a selection depends on."""
    rng = np.random.default_rng(0)
    annotators, words = ["ada", "lin", "kim"], ["yes", "no", "unsure", "skip"]
    for trial in range(40):
        state = LabelState(1)
        for seq in range(1, 30):
            record = _record(seq, rng.choice(annotators), int(rng.integers(6)), rng.choice(words))
            if seq > 1 and rng.random() < 0.15:
                record = None
            if record:
                state.apply(record)
        before = state.standing()
        item, who, word = int(rng.integers(8)), str(rng.choice(annotators)), str(rng.choice(words))
        supposed = state.supposing(item, who, word)
        assert _same(state.standing(), before), trial
        assert state.status(99) is None
        state.apply(_record(99, who, item, word))
        assert _same(state.standing(), supposed), trial


def _record(seq, annotator, item, word) -> AnswerRecord:
    return AnswerRecord(
        id=f"answer-{seq:05}",
        concept_id=1,
        session_id="session-1",
        annotator=str(annotator),
        item=item,
        answer=str(word),
        browser_time=0,
        seq=seq,
    )


def _same(one, other) -> bool:
    arrays = [(one.labels.items, other.labels.items), (one.labels.yes, other.labels.yes)]
    arrays += [(one.answered, other.answered), (one.skipped, other.skipped)]
    return all(np.array_equal(a, b) for a, b in arrays) and one.counts == other.counts
