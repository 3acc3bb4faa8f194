from __future__ import annotations

import gc
import shutil
import threading
import weakref
from collections.abc import Iterator
from datetime import UTC
from pathlib import Path

import numpy as np
import pytest

from closecall.app.api.cards import card_of, submit
from closecall.app.engine.label_errors import CLEARLY, Judge
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.review import PAGE, Asked, Review
from closecall.core.linear.leave_one_out import leave_one_out
from closecall.storage import AnswerRecord, StorageError, new_id
from tests.projects import answer, correct, label, new_project, open_workspace, shown_to, truth_word


@pytest.fixture(scope="module")
def labeled_once(tmp_path_factory) -> tuple[Path, str]:
    """A project with thirty answers of Ada's, and her session."""
    with open_workspace(tmp_path_factory.mktemp("review")) as workspace:
        project = new_project(workspace)
        session = project.session(annotator="ada")
        label(session, 30)
    return project.folder, session.id


@pytest.fixture
def project(labeled_once, tmp_path) -> Iterator[OpenProject]:
    """A copy of it."""
    folder, _ = labeled_once
    shutil.copytree(folder, tmp_path / folder.name)
    with open_workspace(tmp_path) as workspace:
        yield workspace.project(folder.name)


@pytest.fixture
def session(labeled_once, project: OpenProject) -> LabelingSession:
    made = project.session(labeled_once[1])
    card_of(made)
    return made


def page(review: Review, **asked):
    """What the page shows once the model is trained."""
    shown = review.page(Asked(**asked), UTC)
    while not shown["judged"]:
        threading.Event().wait(0.01)
        shown = review.page(Asked(**asked), UTC)
    return shown


def stands(row, annotator="ada"):
    """The id and word of the annotator's answer in force."""
    return next(
        ((e["id"], e["answer"]) for e in row["events"] if e["in_force"] and e["annotator"] == annotator), None
    )


def said(session: LabelingSession, item: int, word: str, **changes):
    """What the review page sends: an answer without a selection."""
    blank = {"item": {"id": item, "selection": None}}
    return answer(blank, word, session=session.id, time_taken_ms=None, **changes)


def other(word: str) -> str:
    return {"yes": "no", "no": "yes"}[word]


def mistake(session: LabelingSession) -> int:
    """Answer what is in view wrongly."""
    card = card_of(session)
    item = card["item"]["id"]
    submit(session, [answer(card, other(truth_word(session.project, item)))])
    return item


def test_views_count_what_the_labels_say(project, session):
    """As the labeling page counts, and each view lists as many items."""
    card = card_of(session)
    submit(session, [answer(card, "skip")])
    review = Review(session)
    counts = session.concept.catch_up().counts
    views = page(review)["views"]
    assert views["yes"] == counts.yes > 0
    assert views["no"] == counts.no > 0
    assert (views["skip"], views["unsure"], views["contested"], views["all"]) == (1, 0, 0, 31)
    for view in ("yes", "no", "skip", "all"):
        shown = page(review, view=view)
        assert shown["listed"] == views[view]
        assert len(shown["rows"]) == min(PAGE, views[view])
    assert page(review, view="skip")["rows"][0]["item"] == card["item"]["id"]


def test_likely_mistakes_come_first(project, session):
    """Slips about images that are not hard are at the top of the list."""
    label(session, 30)
    answered = set(session.concept.standing().answered.tolist())
    wrong = [int(item) for item in project.pool.ids if int(item) not in answered][::120]
    slips = [
        answer({"item": {"id": item, "selection": shown_to(session, item)}}, other(truth_word(project, item)))
        for item in wrong
    ]
    review = Review(session)
    assert len(submit(session, slips)["acked"]) == len(wrong) >= 4
    shown = page(review)
    first = {row["item"] for row in shown["rows"][: 2 * len(wrong)]}
    assert len(first & set(wrong)) >= len(wrong) - 1
    against = [row["score"] if stands(row)[1] == "no" else -row["score"] for row in shown["rows"]]
    assert against == sorted(against, reverse=True)
    assert against[-1] > 0
    assert 0 < shown["views"]["doubted"] == shown["notes"]["doubted"] == sum(a >= CLEARLY for a in against)


def test_a_label_is_scored_without_itself(project, session):
    """The score of a label is the one of leave-one-out; of a skipped item it is the model's own."""
    skipped = card_of(session)["item"]["id"]
    submit(session, [answer(card_of(session), "skip")])
    rows = {
        row["item"]: row["score"]
        for n in (0, PAGE)
        for row in page(Review(session), view="all", first=n)["rows"]
    }
    labels, concept = session.concept.standing().labels, session.concept.record
    X = project.pool.rows_of(labels.items)
    expected = leave_one_out(X, labels.yes, C=concept.c, class_weight=concept.class_weight)
    np.testing.assert_allclose([rows[int(item)] for item in labels.items], expected.scores)
    (plain,) = expected.hyperplane.scores(project.pool.rows_of(np.array([skipped])))
    assert rows[skipped] == pytest.approx(plain)


def test_a_correction_counts_and_moves_nothing(project, session):
    """The label changes, the list stays as it is, and the old answer is in the history."""
    review = Review(session)
    before = page(review, view="no")
    row = before["rows"][0]
    old, _ = stands(row)
    sent = said(session, row["item"], "yes", corrects=old)
    assert correct(review, [sent])["acked"] == [sent["id"]]
    after = page(review, view="no")
    assert [r["item"] for r in after["rows"]] == [r["item"] for r in before["rows"]]
    assert stands(after["rows"][0]) == (sent["id"], "yes")
    assert [(e["answer"], e["in_force"], e["is_correction"]) for e in after["rows"][0]["events"]] == [
        ("no", False, False),
        ("yes", True, True),
    ]
    assert after["views"]["no"] == before["views"]["no"] - 1
    assert after["notes"]["corrected"] == 1
    assert after["notes"]["corrected_last"] == sent["browser_time"]
    assert session.concept.catch_up().status(row["item"]) == "yes"
    assert row["item"] not in [r["item"] for r in page(review, view="no", fresh=1)["rows"]]


def test_an_undo_brings_back_what_was_corrected(project, session):
    """And the history tells all three, with who took back what."""
    review = Review(session)
    row = page(review, view="no")["rows"][0]
    sent = said(session, row["item"], "skip", corrects=stands(row)[0])
    correct(review, [sent])
    correct(review, [said(session, row["item"], "undo", undoes=sent["id"])])
    after = page(review, view="no")["rows"][0]
    assert stands(after) == stands(row)
    assert [e["answer"] for e in after["events"]] == ["no", "skip", "undo"]
    assert after["events"][2]["undoes"] == sent["id"]
    assert after["events"][0]["round"] >= 1


def test_a_queue_of_several_changes_is_stored_in_its_order(project, session):
    """Correct, correct again, undo, correct: as a browser sends it that was cut off for a while."""
    review = Review(session)
    row = page(review, view="no")["rows"][0]
    first = said(session, row["item"], "yes", corrects=stands(row)[0])
    second = said(session, row["item"], "skip", corrects=first["id"])
    undo = said(session, row["item"], "undo", undoes=second["id"])
    third = said(session, row["item"], "unsure", corrects=first["id"])
    queue = [first, second, undo, third]
    assert correct(review, queue)["acked"] == [sent["id"] for sent in queue]
    assert correct(review, queue) == {"acked": [sent["id"] for sent in queue], "refused": [], "message": None}
    assert stands(page(review, view="no")["rows"][0]) == (third["id"], "unsure")


def test_a_change_made_without_sight_of_another_is_refused(project, session):
    """Two windows: the second learns that the first was faster, and nothing is overwritten."""
    review = Review(session)
    row = page(review, view="no")["rows"][0]
    mine = said(session, row["item"], "yes", corrects=stands(row)[0])
    correct(review, [mine])
    late = said(session, row["item"], "skip", corrects=stands(row)[0])
    (refusal,) = correct(review, [late])["refused"]
    assert refusal["id"] == late["id"]
    assert refusal["reason"].startswith(f"Your change was not stored: item {row['item']} was answered in")
    assert stands(page(review, view="no")["rows"][0]) == (mine["id"], "yes")
    assert correct(review, [said(session, row["item"], "skip", corrects=mine["id"])])["refused"] == []


def test_a_second_annotator_adds_an_answer_and_the_majority_counts(project, session):
    """One against one is contested and does not train; a third decides."""
    row = page(Review(session), view="no")["rows"][0]
    item = row["item"]
    lin = project.session(annotator="lin")
    review = Review(lin)
    shown = next(r for r in page(review, view="no")["rows"] if r["item"] == item)
    assert stands(shown, "lin") is None
    given = said(lin, item, "yes")
    assert correct(review, [given])["acked"] == [given["id"]]
    shown = page(review, view="contested")
    assert [r["item"] for r in shown["rows"]] == [item]
    assert (stands(shown["rows"][0], "ada")[1], stands(shown["rows"][0], "lin")[1]) == ("no", "yes")
    assert item not in session.concept.standing().labels.items
    assert (shown["views"]["unsure"], shown["notes"]["counts"]["unsure"]) == (0, 0)
    assert shown["notes"]["counts"]["tied"] == 1
    bob = project.session(annotator="bob")
    correct(Review(bob), [said(bob, item, "yes")])
    assert session.concept.catch_up().status(item) == "yes"
    again = said(lin, item, "no")
    assert "another window" in correct(review, [again])["refused"][0]["reason"]


def test_agreement_is_of_the_two_who_share_most_items(project, session):
    """Cohen's kappa over what both answered with yes or no."""
    lin = project.session(annotator="lin")
    review = Review(lin)
    assert page(review)["notes"]["agreement"] is None
    labels = session.concept.standing().labels
    for item, yes in zip(labels.items[:10].tolist(), labels.yes[:10].tolist(), strict=True):
        correct(review, [said(lin, item, "yes" if yes else "no")])
    bob = project.session(annotator="bob")
    correct(Review(bob), [said(bob, int(labels.items[0]), "skip"), said(bob, int(labels.items[1]), "yes")])
    agreement = page(review)["notes"]["agreement"]
    assert (agreement["names"], agreement["items"]) == (["ada", "lin"], 10)
    assert agreement["kappa"] == 1


def test_the_pace_is_the_median_of_the_last_answers(project, session):
    """Corrections have no pace."""
    for taken in (500, 900, 1300):
        submit(session, [answer(card_of(session), "no", time_taken_ms=taken)])
    review = Review(session)
    row = page(review, view="no")["rows"][0]
    correct(review, [said(session, row["item"], "yes", corrects=stands(row)[0])])
    notes = page(review)["notes"]
    assert notes["paces_ms"][-3:] == [500, 900, 1300]
    assert notes["pace_ms"] == np.median(notes["paces_ms"])


def test_what_is_searched_is_found_on_all_pages(project, session):
    """By id, by name and by answer, in the order of the view; a page beyond the end is the last one."""
    label(session, 30)
    review = Review(session)
    everything = page(review, view="all")
    assert everything["listed"] == 60
    item = everything["rows"][3]["item"]
    (row,) = page(review, view="all", line=str(item))["rows"]
    assert (row["item"], row["name"]) == (item, project.pool.source.name(item))
    assert page(review, view="all", line="DIGIT")["listed"] == 60
    assert page(review, view="all", line="yes")["listed"] == everything["views"]["yes"]
    assert page(review, view="no", line="yes")["listed"] == 0
    last = page(review, view="all", first=1000)
    assert (last["first"], len(last["rows"])) == (40, 20)
    seen = [row["item"] for n in (0, 20, 40) for row in page(review, view="all", first=n)["rows"]]
    assert len(set(seen)) == 60


def test_pictures_are_sent_once(project, session):
    """Not again with every correction; for another page, or where a browser lost them, they are."""
    review = Review(session)
    pictures = [row["src"] for row in page(review, view="all")["rows"]]
    assert all(src.startswith("data:image/") for src in pictures)
    assert {row["src"] for row in page(review, view="all")["rows"]} == {None}
    assert [row["src"] for row in page(review, view="all", again=1)["rows"]] == pictures
    assert None not in [row["src"] for row in page(review, view="all", first=20)["rows"]]


def test_answers_of_other_sessions_left_in_the_browser_are_stored_too(project, session):
    """And those of sessions that this database does not know stay where they are."""
    newer = project.session(annotator="ada")
    card = card_of(session)
    left = answer(card, "no", session=session.id)
    foreign = answer(card, "no", session="of-another-database")
    settled = correct(Review(newer), [left, foreign])
    assert (settled["acked"], settled["refused"]) == ([left["id"]], [])


def test_a_disk_that_is_full_is_told_and_nothing_is_acknowledged(project, session, monkeypatch):
    """The browser keeps its queue; the list is shown all the same."""
    review = Review(session)
    row = page(review, view="no")["rows"][0]

    def refuse(*args, **kwargs):
        raise StorageError("the disk is full", "full")

    with monkeypatch.context() as full:
        full.setattr(project.log, "append_answers", refuse)
        settled = correct(review, [said(session, row["item"], "yes", corrects=stands(row)[0])])
    assert settled == {"acked": [], "refused": [], "message": "The disk is full"}
    assert stands(page(review, view="no")["rows"][0])[1] == "no"


def test_before_there_is_a_model_nothing_is_doubted(tmp_path):
    """Answers are listed, without scores."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        session = project.session(annotator="ada")
        submit(session, [answer(card_of(session), "no")])
        review = Review(session)
        shown = page(review)
        assert (shown["listed"], shown["views"]["doubted"], shown["notes"]["doubted"]) == (0, 0, None)
        assert [row["score"] for row in page(review, view="all")["rows"]] == [None]


def audited(session: LabelingSession, word: str, item: int) -> AnswerRecord:
    """An answer of an audit is in the log."""
    given = AnswerRecord(
        id=new_id(),
        concept_id=session.concept.record.id,
        session_id=session.id,
        annotator=session.annotator,
        item=item,
        answer=word,
        browser_time=0,
        purpose="audit",
    )
    (stored,) = session.project.log.append_answers([given]).accepted
    return stored


def test_answers_of_an_audit_are_never_among_the_doubted(project, session):
    """They would be corrected in the model's favour; they can be found like others."""
    answered = session.concept.standing().answered
    drawn = [int(item) for item in project.pool.ids if item not in answered][:40]
    for item in drawn:
        audited(session, other(truth_word(project, item)), item)
    shown = page(Review(session))
    assert shown["views"]["all"] == 70
    assert not {row["item"] for row in shown["rows"]} & set(drawn)


def test_whatever_is_said_of_an_item_of_an_audit_stays_out_of_training(project, session):
    """A correction, another annotator's answer, and what follows an undo."""
    labels = session.concept.standing().labels.items.tolist()
    item = next(
        int(item) for item in project.pool.ids if int(item) not in session.concept.standing().answered
    )
    drawn = audited(session, "no", item)
    lin = project.session(annotator="lin")
    second, correction = said(lin, item, "yes"), said(session, item, "yes", corrects=drawn.id)
    assert correct(Review(lin), [second])["acked"] == [second["id"]]
    assert correct(Review(session), [correction])["acked"] == [correction["id"]]
    assert [project.log.answer(given["id"]).purpose for given in (second, correction)] == ["audit", "audit"]
    assert session.concept.catch_up().status(item) == "yes"
    assert session.concept.standing().labels.items.tolist() == labels
    correct(Review(session), [said(session, item, "undo", undoes=correction["id"])])
    assert session.concept.standing().labels.items.tolist() == labels


def test_the_page_waits_a_moment_for_a_new_model_and_no_longer(project, session, monkeypatch):
    """While it is trained, the last one's scores are shown, and the page says so."""
    review = Review(session)
    before = page(review)
    go, train = threading.Event(), Judge._judgement

    def slow(self, *args):
        go.wait(20)
        return train(self, *args)

    monkeypatch.setattr("closecall.app.engine.label_errors.WAIT_SECONDS", 0.02)
    monkeypatch.setattr(Judge, "_judgement", slow)
    wrong = mistake(session)
    during = review.page(Asked(), UTC)
    assert not during["judged"]
    assert during["views"]["doubted"] == before["views"]["doubted"]
    assert review.page(Asked(view="all"), UTC)["rows"][0]["item"] == wrong
    go.set()
    after = page(review)
    assert after["notes"]["labels"] == before["notes"]["labels"] + 1


@pytest.mark.parametrize(
    "nonsense",
    [
        None,
        7,
        [],
        {"view": "everything"},
        {"view": ["no"]},
        {"first": "x", "line": 3},
        {"first": -5, "fresh": None, "again": "x"},
    ],
)
def test_what_a_browser_asks_for_may_be_anything(nonsense):
    """Then it gets the first page of the first view."""
    assert Asked.of(nonsense) == Asked()


def test_a_project_that_was_reviewed_is_freed_when_it_closes(tmp_path):
    """What those who review a question share belongs to the question, and ends with it."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        session = project.session()
        label(session, 4)
        Review(session).page(Asked(), UTC)
        seen = weakref.ref(project)
    del workspace, project, session
    gc.collect()
    assert seen() is None
