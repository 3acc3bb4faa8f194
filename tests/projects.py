"""Real projects on small digit pools, made once a test run and copied for each test."""

from __future__ import annotations

import json
import shutil
import sqlite3
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner
from numpy.typing import NDArray

from closecall.app.api.cards import card_of
from closecall.app.api.submit import settle
from closecall.app.cli.main import main
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.review import Review
from closecall.app.sessions.workspace import Workspace
from closecall.core.duplicates import Groups, Rule, folder_of, save_groups
from closecall.core.duplicates.files import Kind
from closecall.core.pool.build import build
from closecall.core.sources import source_from
from closecall.storage import SelectionRecord, StorageError
from tests.folders import made_once

N_ITEMS = 600


def digits_pool(n_items: int = N_ITEMS) -> Path:
    """A finished pool of a few hundred digits; do not change it."""
    return made_once(f"pool-{n_items}", lambda path: build(source_from(f"digits:{n_items}"), path))


@contextmanager
def open_workspace(folder: Path, **options: Any) -> Iterator[Workspace]:
    with Workspace(folder, **options) as workspace:
        yield workspace


def new_project(
    workspace: Workspace, question: str = "Is this a 7?", *, n_items: int = N_ITEMS
) -> OpenProject:
    """A project of its own on a copy of a digits pool."""
    pool = workspace.folder / "pools" / uuid.uuid4().hex
    shutil.copytree(digits_pool(n_items), pool)
    return workspace.project(workspace.create(NewProject(str(pool), question)))


def answer(card: dict[str, Any], word: str, **changes: Any) -> dict[str, Any]:
    """The browser's answer about the item in view."""
    return {
        "id": str(uuid.uuid4()),
        "item": card["item"]["id"],
        "selection": card["item"]["selection"],
        "answer": word,
        "undoes": None,
        "corrects": None,
        "browser_time": int(time.time() * 1000),
        "time_taken_ms": 700,
    } | changes


def marks(
    cells: Sequence[dict[str, Any]], words: Iterable[str | None], **changes: Any
) -> list[dict[str, Any]]:
    """The browser's answers: a word for each item, None for those that are left open."""
    both = zip(cells, words, strict=False)
    return [
        answer({"item": {"id": cell["id"], "selection": cell["selection"]}}, word, **changes)
        for cell, word in both
        if word
    ]


@contextmanager
def reply_lost(project: OpenProject, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """What is appended to the log within is stored, but the connection breaks before the reply."""
    append = project.log.append_answers

    def broken(*words: Any, **more: Any) -> None:
        append(*words, **more)
        raise StorageError("the server does not answer", "unreachable")

    with monkeypatch.context() as lost:
        lost.setattr(project.log, "append_answers", broken)
        with pytest.raises(StorageError):
            yield


def shown_to(session: LabelingSession, item: int) -> str:
    """The selection of an item that a session was shown, although no strategy chose it."""
    return session.project.log.record_selection(
        SelectionRecord(
            session_id=session.id,
            concept_id=session.concept.record.id,
            round=-1 - item,  # no session counts so: each is a round of its own
            item=item,
            why="undo",
            strategy="random",
            seed=0,
            pool_version=0,
            items_total=0,
        )
    ).id


def truth_word(project: OpenProject, item: int, positive: str = "7") -> str:
    """What somebody who knows the digit would answer."""
    assert project.pool is not None
    index = int(project.pool.truth([item])[0])
    return "yes" if project.pool.classes[index] == positive else "no"


def correct(review: Review, answers: list[dict[str, Any]]) -> dict[str, Any]:
    """Send answers from Review, as its page does."""
    project = review.project
    assert isinstance(project, OpenProject)
    return settle(project, review, answers, review.person)


def give_answers(session: LabelingSession, n: int) -> None:
    """Answer n items truly; no card is drawn, and nothing is looked ahead."""
    for _ in range(n):
        shown = session.in_view()
        assert shown is not None
        item = {"item": {"id": shown.item, "selection": shown.id}}
        session.store([answer(item, truth_word(session.project, shown.item))])


def teach(session: LabelingSession) -> None:
    """Answer until there is a hyperplane."""
    while (counts := session.concept.counts()).yes == 0 or counts.no == 0:
        give_answers(session, 1)


def session_of(project: OpenProject, name: str, *, seed: int) -> LabelingSession:
    """A new session of an annotator, who gets the item nearest to the hyperplane."""
    wait_for_index(project, "exhaustive")
    return project.session(project.log.start_session(1, name, "exhaustive", seed=seed).id)


def label(session: LabelingSession, n: int) -> dict[str, Any]:
    """Answer n items truly; returns the card after that, and looks ahead from there only."""
    give_answers(session, n)
    return card_of(session)


def labeled(project: OpenProject, n: int) -> LabelingSession:
    """A new session of Ada's that answered until there was a hyperplane, and then n items more."""
    session = project.session(project.log.start_session(1, "ada", LabelingSession.DEFAULT, seed=5).id)
    while (counts := session.concept.counts()).yes == 0 or counts.no == 0:
        give_answers(session, 1)
    label(session, n)
    return session


def label_with_memory(session: LabelingSession, n: int) -> None:
    """Answer n items truly, each time when the session remembers what it selected last.

    Where an index is replaced meanwhile, by the one that was saved, what was remembered of it is gone.
    """
    memories = session.project.memories
    memories.worthwhile_seconds = 0.0
    wait_for_index(session.project, session.strategy)
    for _ in range(n):
        label(session, 1)
        index, shown = session.project.indexes.get(session.strategy), session.shown
        assert index is not None
        assert shown is not None
        patience = time.monotonic() + 120
        while shown.strategy == session.strategy:
            remembered = memories.newest(session.id, index)
            if remembered and remembered.digest == shown.hyperplane_digest:
                break
            assert time.monotonic() < patience
            time.sleep(0.001)


def find_groups(project: OpenProject, size: int, kind: Kind = "near", *, shift: int = 0) -> None:
    """Save groups of `size` rows in a row, as if they had been found, and let the project read them."""
    pool = project.pool
    assert pool is not None
    rows = np.arange(len(pool))
    save_as_found(project, np.maximum((rows + shift) // size * size - shift, 0), kind)


def save_as_found(project: OpenProject, leaders: NDArray[np.int64], kind: Kind = "near") -> None:
    """Save groups, given by the leader of each row, and let the project read them."""
    pool = project.pool
    assert pool is not None
    groups = Groups(leaders, np.zeros(len(leaders), dtype=np.float32))
    save_groups(folder_of(pool.path, kind), pool, Rule(kind, 0.1), groups)
    project.duplicates.read()


def wait_for_index(project: OpenProject, strategy: str) -> None:
    """Until the strategy answers for itself: before that an exhaustive scan stands in for it."""
    project.indexes.want(strategy)
    while project.indexes.get(strategy) is None:
        time.sleep(0.01)


def verified(project: OpenProject) -> dict[str, Any]:
    """Replay the project's log; what ``closecall verify`` says, which must be that all is well."""
    result = CliRunner().invoke(main, ["verify", str(project.folder), "--json"])
    assert result.exit_code == 0, result.output
    findings: dict[str, Any] = json.loads(result.output)
    assert findings["problems"] == []
    return findings


def tamper(folder: Path, statement: str) -> None:
    """Change the log of a project behind the program's back, which keeps it append-only by triggers."""
    with closing(sqlite3.connect(folder / "labels.db")) as database:
        for (name,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'trigger'").fetchall():
            database.execute(f"DROP TRIGGER {name}")
        assert database.execute(statement).rowcount
        database.commit()
