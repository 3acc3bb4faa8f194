"""Logs of projects that were labeled while their pool grew."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from click.testing import CliRunner

from closecall.app.api.cards import card_of, submit
from closecall.app.cli.main import main
from closecall.app.engine.audit import frames_then, place_of_frame
from closecall.app.engine.selection_parameters import AUDIT
from closecall.app.sessions.full_scan_check import compare
from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.similar.query import Like
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.sources import source_from
from closecall.storage import AnswerRecord, LabelLog
from tests.pools import small_parts
from tests.projects import digits_pool, give_answers, marks, open_workspace, tamper, verified
from tests.similar import answer_truly, settled

WORD = "digits:600"
YOUNG = 100


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project on a pool whose build stopped after its first segment, of 100 items; nobody serves it."""
    small_parts(monkeypatch, first=YOUNG, segment=150, chunk=50)
    stop, path = threading.Event(), tmp_path / "pool"
    build(source_from(WORD), path, progress=lambda made: stop.set() if made.rows else None, stop=stop)
    assert len(Pool.open(path)) == YOUNG
    with open_workspace(tmp_path / "projects") as workspace:
        return workspace.project(workspace.create(NewProject(str(path), "Is this a 7?"))).folder


@pytest.fixture
def project(folder: Path) -> Iterator[OpenProject]:
    """The same project, which is being served."""
    with open_workspace(folder.parent) as workspace:
        yield workspace.project(folder.name)


def grow(project: OpenProject) -> None:
    """Finish the pool, as another process does."""
    n_rows = len(build(source_from(WORD), project.pool_path))
    while project.pool is None or len(project.pool) < n_rows:
        time.sleep(0.01)


def test_a_search_for_an_item_that_is_newer_than_the_index_is_repeated(project, monkeypatch):
    """The index has the first items only; the query's features are those of the newest pool."""
    monkeypatch.setattr("closecall.app.indexes.similar.is_due", lambda *_: False)
    similar = project.similar_to(project.session())
    similar.set_method("scan")
    similar.look_for(Like(item=int(project.pool.ids[0])), 0)
    settled(similar)
    grow(project)
    newest = int(project.pool.ids[-1])
    similar.look_for(Like(item=newest), 0)
    answer_truly(similar, settled(similar), 3)
    records = [one for one in project.log.selections(1) if one.parameters["similar"]["like"] == str(newest)]
    assert {(one.parameters["similar"]["method"], one.items_total) for one in records} == {("scan", 100)}
    assert verified(project)["choices"] >= 2


@pytest.fixture
def imported(folder: Path, tmp_path: Path) -> list[int]:
    """The items of a file of labels, imported into the project; the pool has few of them yet."""
    pool = digits_pool(600)
    items = Pool.open(pool).ids[::6]
    truth = Pool.open(pool).truth(items)
    lines = [f"{item},{'yes' if index == 7 else 'no'}" for item, index in zip(items, truth, strict=True)]
    (tmp_path / "labels.csv").write_text("\n".join(["item,label", *lines]))
    words = ["import", str(folder), str(tmp_path / "labels.csv"), "--annotator", "ada"]
    result = CliRunner().invoke(main, words)
    assert result.exit_code == 0, result.output
    return [int(item) for item in items]


def test_imported_labels_count_as_soon_as_the_pool_has_their_items(imported, project):
    """Selections, audits and the check against a full scan are repeated with the labels that counted."""
    young = set(project.pool.ids.tolist())
    assert 5 < len(young.intersection(imported)) < len(imported) / 2
    session = project.session()
    session.set_audit_share(0.5)
    give_answers(session, 12)
    verified(project)
    early = list(project.log.selections(1))
    assert max(record.n_labels for record in early) < len(imported) / 2
    grow(project)
    give_answers(session, 12)
    late = list(project.log.selections(1))[len(early) :]
    assert min(record.n_labels for record in late[1:]) >= len(imported)
    verified(project)
    audited = [one for one in early if one.why == "audit"]
    then = frames_then(
        project.pool, session.concept.store, session.concept.record, project.log.answers_after(1), audited
    )
    assert then
    for one in audited:
        hyperplane = then[place_of_frame(one)].hyperplane
        assert hyperplane is not None
        assert hyperplane.digest == one.parameters[AUDIT]["digest"]
    (first,) = [one for one in early if one.hyperplane_digest and one.why == "strategy"][:1]
    assert compare(session, first.id).items <= YOUNG


def test_a_metric_learned_from_imported_labels_is_learned_again(imported, project):
    """From the labels that counted when it was learned."""
    similar, ids = project.similar_to(project.session()), project.pool.ids
    for item, word in ((ids[0], "yes"), (ids[1], "no")):
        similar.look_for(Like(item=int(item)), 0)
        submit(similar, marks([cell for cell in settled(similar)["cells"] if cell["selection"]], [word] * 8))
        assert similar.learning.wait(600)
    similar.set_view("learned")
    similar.look_for(Like(item=int(ids[2])), 0)
    answer_truly(similar, settled(similar), 2)
    assert any(one.parameters["similar"]["metric"] for one in project.log.selections(1))
    grow(project)
    verified(project)


def test_a_pool_that_was_built_again_has_other_segments(imported, project, monkeypatch):
    """The number of items that a selection was made from says that the labels counted."""
    grow(project)
    give_answers(project.session(), 6)
    path = project.pool_path
    project.close()
    shutil.rmtree(path)
    small_parts(monkeypatch, first=20, segment=50)
    assert build(source_from(WORD), path).version > 5
    verified(project)


@contextmanager
def meanwhile(
    monkeypatch: pytest.MonkeyPatch, act: Callable[[], None], *, moment: str = "answers"
) -> Iterator[None]:
    """Do something in the served project whenever verify has read its answers or its position."""

    class Busy(LabelLog):
        def position(self) -> int:
            found = super().position()
            if moment == "position":
                act()
            return found

        def answers_after(
            self, concept_id: int, seq: int = 0, through: int | None = None
        ) -> Iterator[AnswerRecord]:
            yield from super().answers_after(concept_id, seq, through)
            if moment == "answers":
                act()

    with monkeypatch.context() as patch:
        patch.setattr("closecall.app.verification.verify.LabelLog", Busy)
        yield


@pytest.mark.parametrize("moment", ["position", "answers"])
def test_a_log_holds_while_it_grows(project, monkeypatch, moment):
    """Answers and selections that come while the log is read are not replayed."""
    grow(project)
    session = project.session()
    give_answers(session, 12)
    with meanwhile(monkeypatch, lambda: give_answers(session, 3), moment=moment):
        found = verified(project)
    assert len(list(project.log.answers_after(1))) == 15
    assert (found["answers"], found["digests"]) == (12, found["selections"])
    found = verified(project)
    assert found["answers"] == 15


def test_a_log_holds_while_the_pool_grows(project, monkeypatch):
    """Another question is labeled with the new items before its part of the log is read."""
    first, second = project.session(), project.session(None, project.add_concept("Is this a 3?").id)
    for session in (first, second):
        give_answers(session, 6)
    third = project.session(None, project.add_concept("Is this a 4?").id)
    acts = iter([True])

    def label_new_items() -> None:
        if next(acts, False):
            grow(project)
            give_answers(second, 3)
            card_of(third)

    with meanwhile(monkeypatch, label_new_items):
        found = verified(project)
    assert next(acts, "done") == "done"
    assert found["answers"] == 12
    sizes = {one.items_total for concept in (2, 3) for one in project.log.selections(concept)}
    assert {YOUNG, len(project.pool)} <= sizes
    assert verified(project)["answers"] == 15


def test_selections_from_more_items_than_the_pool_has_are_reported(project):
    """In one sentence; all else is replayed."""
    give_answers(project.session(), 8)
    folder, selections = project.folder, list(project.log.selections(1))
    project.close()
    tamper(folder, f"UPDATE selections SET items_total = 4000 WHERE seq = {selections[-1].seq}")
    result = CliRunner().invoke(main, ["verify", str(folder), "--json"])
    assert result.exit_code == 1
    found = json.loads(result.output)
    assert found["problems"] == ["1 selection from 4,000 items can't be repeated: the pool has 100"]
    assert (found["digests"], found["choices"]) == (len(selections), len(selections) - 1)
