"""The client against the real HTTP API, in this process."""

from __future__ import annotations

import io
import threading
import time
from collections.abc import Callable, Iterator

import numpy as np
import pytest
import uvicorn
from PIL import Image
from starlette.applications import Starlette
from starlette.routing import Mount

from closecall.app.display.thumbnails import CARD_SIZE
from closecall.app.exchange.model import model_of
from closecall.app.server.http import ROOT, build_api, credentials
from closecall.app.server.http.rates import Rates
from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.registry import OpenProject
from closecall.client import Client, Conflict, Forbidden, NotFound, Refused
from closecall.core.pool.build import build
from closecall.core.sources import source_from
from closecall.storage.tokens import Tokens
from tests.browser.served import free_port
from tests.projects import new_project, open_workspace, truth_word

QUESTION = "Is this a 7?"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory):
    with open_workspace(tmp_path_factory.mktemp("projects")) as opened:
        yield opened


@pytest.fixture(scope="module")
def url(workspace) -> Iterator[str]:
    """The API, served on a port."""
    port = free_port()
    app = Starlette(routes=[Mount(ROOT, build_api())])
    server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="warning", lifespan="off"))
    thread = threading.Thread(target=server.run)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(credentials, "_rates", Rates(per_second=1e6, burst=10**6))
        thread.start()
        while not server.started:
            time.sleep(0.01)
        yield f"http://127.0.0.1:{port}"
        server.should_exit = True
        thread.join()


@pytest.fixture
def opened(workspace) -> OpenProject:
    return new_project(workspace)


@pytest.fixture
def client(url, opened) -> Callable[..., Client]:
    """Makes a client with a new token."""

    def make(scope="own") -> Client:
        return Client(url, Tokens(opened.database).create("ada", scope)[1], timeout=5)

    return make


@pytest.fixture
def project(client, opened):
    return client().project(opened.key)


def label(opened, session, n: int) -> list[tuple[str, int, str]]:
    given = []
    for item, number in zip(session, range(n), strict=False):
        if number % 3 == 0:
            session.look_ahead()
        word = truth_word(opened, item.id)
        given.append((session.answer(word, wait=number % 2 == 0), item.id, word))
        if number == n - 1:
            break
    session.flush()
    return given


def test_a_program_labels_as_a_page_does(opened, project):
    """Whether the next item was sent ahead or not: the log has what it gave, in order."""
    session = project.session(strategy="exhaustive")
    given = label(opened, session, 30)
    log = list(project.answers())
    assert [(answer.id, answer.item, answer.answer) for answer in log] == given
    assert {(answer.annotator, answer.session, answer.purpose) for answer in log} == {
        ("ada", session.id, "train")
    }
    assert len({item for _, item, _ in given}) == 30
    frame = project.labels_frame()
    assert dict(zip(frame["item"], frame["label"], strict=True)) == {item: word for _, item, word in given}
    shown = [opened.log.selection(answer.selection) for answer in log]
    assert [record.item for record in shown] == [item for _, item, _ in given]


def test_an_undone_item_comes_again_and_an_answer_can_be_corrected(opened, project):
    session = project.session()
    first = session.next()
    answer = session.answer("yes")
    session.undo(answer)
    assert session.next().id == first.id
    answer = session.answer("no")
    session.correct(answer, "unsure")
    assert [entry.answer for entry in project.answers()] == ["yes", "undo", "no", "unsure"]
    assert project.concept().counts["unsure"] == 1
    with pytest.raises(Refused, match="was undone already"):
        session.undo(next(project.answers()))
    assert session.next().id != first.id


def test_the_session_goes_on_in_another_process(opened, project):
    """With the item that was in view."""
    session = project.session(QUESTION, strategy="random")
    label(opened, session, 3)
    item = session.next()
    resumed = project.session(id=session.id)
    assert resumed.next() == item
    assert (resumed.strategy, resumed.annotator, resumed.concept) == ("random", "ada", 1)
    resumed.use(strategy="margin-index", include_skipped=True)
    assert [one.strategy for one in project.sessions()] == ["margin-index"]
    with pytest.raises(NotFound):
        project.session(id="11111111-aaaa")


def test_the_model_gives_the_hyperplanes_scores(opened, project):
    with pytest.raises(Conflict):
        project.model()
    label(opened, project.session(), 40)
    model = project.model()
    its = opened.concepts()[0]
    plane = model_of(opened.concept_store, opened.log, opened.pool, its).hyperplane
    rows = opened.pool.rows(np.arange(50))
    expected = rows @ plane.normal + plane.bias
    np.testing.assert_allclose(model.scores(rows), expected, rtol=1e-4, atol=1e-5)
    assert len(set(expected > 0)) == 2
    assert model.about["labels"]


def test_labels_and_predictions_go_in_while_the_project_is_served(opened, project):
    ids = opened.pool.ids[:30].tolist()
    words = {item: truth_word(opened, item) for item in ids}
    outcome = project.add_labels(None, {**words, 10**9: "yes"}, annotator="bob")
    assert (outcome["new"], outcome["unmatched"]) == (30, 1)
    assert project.add_labels(None, words, annotator="bob")["new"] == 0
    assert {label.item: label.label for label in project.labels()} == words
    assert {answer.annotator for answer in project.answers()} == {"bob"}
    scores = {item: item / 100 for item in ids}
    assert project.add_predictions(QUESTION, "resnet", scores)["stored"] == 30
    back = project.predictions_frame(QUESTION, "resnet")
    assert dict(zip(back["item"], back["score"], strict=True)) == scores
    with pytest.raises(NotFound, match="no predictions of 'other'"):
        project.predictions(QUESTION, "other")


def test_items_exports_and_progress(opened, project, tmp_path):
    session = project.session()
    label(opened, session, 5)
    item = session.next()
    assert Image.open(io.BytesIO(item.image())).size == (CARD_SIZE, CARD_SIZE)
    assert Image.open(io.BytesIO(project.image(item.id, "thumbnail"))).size == (88, 88)
    assert item.text() is None
    assert item.id in {found.id for found in project.search(item.name)}
    lines = project.export(tmp_path / "labels.csv").read_text("utf-8").splitlines()
    assert len(lines) == 6
    log = project.export(tmp_path / "log.jsonl", "jsonl", concept=QUESTION, log=True)
    assert len(log.read_text("utf-8").splitlines()) == 5
    assert project.progress()
    assert project.about()["is_complete"]


def test_a_scope_limits_a_program(opened, client):
    with pytest.raises(Forbidden, match="may only read"):
        client("read").project(opened.key).session()
    with pytest.raises(Forbidden, match="may only read and label"):
        client("label").project(opened.key).add_concept("Is it a 3?")
    added = client().project(opened.key).add_concept("Is it a 3?", guideline="Three.")
    assert added.guideline == "Three."
    assert client("read").project(opened.key).concept("Is it a 3?") == added
    with pytest.raises(Forbidden, match="unknown"):
        client().project("another")


def test_texts_are_read(workspace, url, tmp_path):
    folder = tmp_path / "texts"
    folder.mkdir()
    for number in range(120):
        (folder / f"{number}.txt").write_text(f"text number {number} about foxes and number {number % 7}")
    build(source_from(f"texts:{folder}"), tmp_path / "pool")
    opened = workspace.project(workspace.create(NewProject(str(tmp_path / "pool"), "Is it about foxes?")))
    client = Client(url, Tokens(opened.database).create("ada", "label")[1], timeout=5)
    item = client.project(opened.key).session().next()
    assert item.text() == (folder / item.name).read_text()
