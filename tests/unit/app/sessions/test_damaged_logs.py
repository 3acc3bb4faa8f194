"""Logs with answers about items without a row, from before these were refused: they count for nothing."""

from __future__ import annotations

import json
import time
import uuid
from datetime import UTC
from pathlib import Path

import pytest
from click.testing import CliRunner

from closecall.app.api.cards import card_of, submit
from closecall.app.api.people import team
from closecall.app.api.progress import progress
from closecall.app.api.submit import take
from closecall.app.cli.main import main
from closecall.app.exchange.backup import backup_labels, restore_labels
from closecall.app.projects.roles import Person
from closecall.app.sessions.blind.begin import offer
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.review import VIEWS, Asked, Review
from closecall.app.sessions.similar.query import Like
from closecall.storage import AnswerRecord, LabelState
from tests.projects import answer, label, labeled, new_project, open_workspace, shown_to, wait_for_index
from tests.unit.storage.test_fold import answer as logged

ADA = Person("ada", is_owner=True)


def stored(session: LabelingSession, item: int, word: str, **more: str) -> AnswerRecord:
    """An answer that is in the log, although nobody would take it today."""
    record = AnswerRecord(
        id=str(uuid.uuid4()),
        concept_id=session.concept.record.id,
        session_id=session.id,
        annotator=session.annotator,
        item=item,
        answer=word,
        browser_time=1,
        **more,
    )
    (accepted,) = session.project.log.append_answers([record]).accepted
    return accepted


def damage(ada: LabelingSession, bob: LabelingSession) -> list[AnswerRecord]:
    """Contested, unsure, audited, decided, corrected and shown items that have no row; those in force."""
    pool = ada.project.pool
    held_out = [int(item) for item in pool.held_out.ids[:2]]
    contested, decided, corrected = 10**9, 10**9 + 1, 2**63 - 1
    first = stored(ada, corrected, "yes")
    undone = stored(ada, 10**9 + 2, "no")
    stored(ada, undone.item, "undo", undoes=undone.id)
    return [
        first,
        stored(ada, contested, "yes"),
        stored(bob, contested, "no"),
        stored(ada, held_out[0], "yes"),
        stored(bob, held_out[1], "unsure"),
        stored(ada, decided, "yes", purpose="audit"),
        stored(bob, decided, "no", purpose="decision"),
        stored(ada, corrected, "no", corrects=first.id),
        stored(bob, 10**9 + 3, "unsure"),
        stored(ada, 10**9 + 3, "skip", selection_id=shown_to(ada, 10**9 + 3)),
    ]


@pytest.fixture
def project(tmp_path) -> OpenProject:
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        wait_for_index(project, LabelingSession.DEFAULT)
        yield project


@pytest.fixture
def ada(project) -> LabelingSession:
    return labeled(project, 6)


@pytest.fixture
def bob(project) -> LabelingSession:
    return project.session(project.log.start_session(1, "bob", LabelingSession.DEFAULT, seed=6).id)


def run(*arguments: object) -> str:
    """What a command prints; it must succeed."""
    result = CliRunner().invoke(main, [str(argument) for argument in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_labels_without_a_row_train_nothing_and_hold_up_nobody(project, ada, bob):
    """Labels and counts are those of before, and every view and page goes on."""
    labels, counts = ada.concept.standing().labels, ada.concept.counts()
    damage(ada, bob)
    assert ada.concept.standing().labels.items.tolist() == labels.items.tolist()
    assert ada.concept.counts() == counts
    project.set_overlap(3, 1.0)
    label(bob, 3)
    assert len(ada.concept.standing().labels) == len(labels)  # all of these were answered before
    project.set_overlap(1, 0.0)
    label(bob, 3)  # the first of them was in view already
    assert len(ada.concept.standing().labels) == len(labels) + 2
    ada.set_audit_share(1.0)
    label(ada, 4)  # the first of them was in view already
    assert progress(ada)["audit"]["judged"]["answers"] == 3
    review, listed = Review(ada), set()
    for view in VIEWS:
        listed |= {row["item"] for row in review.page(Asked(view=view), UTC)["rows"]}
    assert listed <= set(project.pool.ids.tolist())
    assert take(project, project.decisions(ada), [], ADA)["item"] is None
    assert team(ada, ADA, UTC)["contested"] == 0
    assert offer(ada).problem is None
    grid = card_of(project.grid(ada))
    given = [answer({"item": cell}, "no", session=ada.id) for cell in grid["cells"]]
    assert len(submit(project.grid(ada), given)["acked"]) == len(given)
    similar = project.similar_to(ada)
    similar.look_for(Like())
    assert card_of(similar)["cells"]
    ada.concept.milestones.catch_up(project.pool)
    while ada.concept.milestones.is_computing:
        time.sleep(0.01)
    assert progress(ada)["counts"]["yes"] == ada.concept.counts().yes


def test_a_damaged_log_is_gone_on_with_after_a_restart(tmp_path):
    """An item without a row that was in view last is not shown again."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        ada, bob = project.session(annotator="ada"), project.session(annotator="bob")
        label(ada, 8)
        before, folder = ada.concept.standing().labels, project.folder
        damage(ada, bob)
        shown_to(ada, 10**9)
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(folder.name)
        session = project.session(ada.id)
        assert card_of(session)["item"]["id"] in project.pool.ids
        label(session, 1)
        assert len(session.concept.standing().labels) == len(before) + 1


def test_verify_reports_each_label_without_a_row_and_nothing_else(project, ada, bob):
    """One sentence an answer in force: what was undone is none of them."""
    wrong = damage(ada, bob)
    label(ada, 3)
    result = CliRunner().invoke(main, ["verify", str(project.folder), "--json"])
    problems = json.loads(result.output)["problems"]
    assert result.exit_code == 1
    assert len(problems) == len(wrong)
    for record in wrong:
        (problem,) = [problem for problem in problems if record.id in problem]
        said = "is held out and is never asked about" if record.item < 10**6 else "There is no item"
        assert said in problem
        assert str(record.item) in problem
    for record in wrong:
        undo = answer({"item": {"id": record.item, "selection": None}}, "undo", undoes=record.id)
        taker = project.session(record.session_id)
        assert submit(taker, [undo])["acked"] == [undo["id"]]
    label(ada, 3)
    result = CliRunner().invoke(main, ["verify", str(project.folder), "--json"])
    assert json.loads(result.output)["problems"] == []


def test_a_damaged_log_is_exported_backed_up_and_restored(project, ada, bob, tmp_path):
    """Files and classifier are of the pool's items; tables and log still tell what was said."""
    labels = ada.concept.standing().labels
    damage(ada, bob)
    out = tmp_path / "out"
    out.mkdir()
    for form in ("csv", "jsonl", "parquet", "label-studio"):
        run("export", project.folder, "--format", form, "--out", out / form)
    run("export", project.folder, "--log", "--out", out / "log.csv")
    assert "1000000000" in (out / "log.csv").read_text()
    run("export", project.folder, "--format", "folder", "--out", out / "folder")
    files = [path for path in (out / "folder").rglob("*") if path.is_file()]
    assert len(files) == len(labels)
    run("export-model", project.folder, "--out", out / "model")
    manifest = json.loads((out / "model" / "model.json").read_text())
    assert manifest["labels"]["yes"] + manifest["labels"]["no"] == len(labels)
    backup_labels(project.folder, out / "backup.db", overwrite=False)
    copy = copied(project.folder, tmp_path)
    restore_labels(out / "backup.db", copy, overwrite=True)


def copied(project: Path, beside: Path) -> Path:
    """Another project over the same pool."""
    with open_workspace(beside / "other") as workspace:
        folder = new_project(workspace).folder
    assert folder != project
    return folder


def test_what_is_left_out_is_as_if_nobody_had_said_it():
    """Whatever is answered, undone and corrected about other items; the position goes on all the same."""
    own = [logged(1, "yes", 1), logged(4, "no", 2), logged(6, "no", 1, annotator="Bob")]
    others = [
        logged(2, "yes", 10**9),
        logged(3, "no", 10**9, annotator="Bob"),
        logged(5, "undo", 10**9, undoes="answer-2"),
        logged(7, "no", 10**9, annotator="Bob", corrects="answer-3"),
    ]
    every = sorted([*own, *others], key=lambda record: record.seq)
    among = LabelState(1, lambda item: item < 100).fold(every)
    alone = LabelState(1).fold(own)
    assert among.seq == 7
    assert among.left_out == {10**9}
    assert among.counts == alone.counts
    assert among.labels().items.tolist() == alone.labels().items.tolist()
    assert among.wanted(3, "Cleo").tolist() == alone.wanted(3, "Cleo").tolist()
