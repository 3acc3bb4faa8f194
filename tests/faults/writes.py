"""Every kind of write that a person or a page makes, in each view, and what must be true afterwards."""

from __future__ import annotations

import io
import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from closecall.app.engine.directions import Direction
from closecall.app.engine.selection_parameters import AUDIT, OVERLAP
from closecall.app.exchange.importing import import_labels
from closecall.app.exchange.predicted import import_predictions
from closecall.app.projects.roles import Person
from closecall.app.projects.webhooks.deliveries import Deliveries, Pauses
from closecall.app.sessions import autopilot
from closecall.app.sessions import reset as afresh
from closecall.app.sessions.blind import begin as blind_begin
from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.workspace import Workspace
from closecall.storage import StorageError, Webhooks
from closecall.storage.secret import shared_secret
from closecall.storage.tokens import Tokens
from tests.faults.browser import (
    Alike,
    Batch,
    Blind,
    Classes,
    Decide,
    Found,
    Page,
    Plain,
    Reviewing,
    Similar,
    pairs,
)
from tests.faults.world import ADA, BOB, World, tell, truth

CLEO = Person("cleo", is_owner=True)
"""Somebody who was never here before."""

FOX = Direction(("a fox",), (), np.eye(1, 8, dtype=np.float32)[0])


@dataclass(frozen=True)
class Write:
    """One kind of write in one view.

    Parameters
    ----------
    name : str
        The view, and what is done there.
    prepare : callable
        Makes the page, before anything fails.
    act : callable
        What the person does, again and again until it is done.
    check : callable
        What must be true then, and still after a restart, beside what is true of every page.
    shows : callable
        What must be true of the page at once.
    """

    name: str
    prepare: Callable[[World], Any]
    act: Callable[[Any], Any]
    check: Callable[[Any], None] = lambda _: None
    shows: Callable[[Any], None] = lambda _: None


WRITES: list[Write] = []


def _add(name: str, prepare: Any, act: Any, check: Any = lambda _: None, **more: Any) -> None:
    WRITES.append(Write(name, prepare, act, check, **more))


def _shown(kind: type[Page], *, answers: int = 0, **more: Any) -> Callable[[World], Page]:
    """A page of this kind after some answers, with what follows the next one at hand."""

    def prepare(world: World) -> Page:
        page = kind(world, **more)
        page.settle()
        for _ in range(answers):
            page.answer()
            page.settle()
        return page

    return prepare


def _coming(page: Page) -> None:
    """Wait until what would follow is there."""
    for _ in range(40):
        if page.card and not page.card.get("next_is_coming"):
            return
        page.ask()


# Answers


def _answer(page: Page) -> None:
    page.answer()
    page.settle()


def _answer_ahead(page: Page) -> None:
    page.answer_ahead()
    page.settle()


def _answer_two(page: Page) -> None:
    page.answer_ahead()
    page.answer()
    page.settle()


def _skip(page: Page) -> None:
    page.answer("skip")
    page.settle()


def _undo(page: Page) -> None:
    page.undo(page.given[-1])
    page.settle()


def _undo_at_once(page: Page) -> None:
    page.undo(page.answer())
    page.settle()


def _correct(page: Page) -> None:
    given = page.given[0]
    page.correct(given, "no" if given["answer"] == "yes" else "yes")
    page.settle()


def _is_back(page: Page) -> None:
    """What was undone is what the page asks for next; not where a plain button's press died with the server.

    Nobody sends such an undo again. It is stored, and its item can be chosen, but does not come back at once.
    """
    if isinstance(page, Plain) and page.is_lost:
        return
    assert page.given[-1]["item"] in page.in_view()


def _correct_last(page: Any) -> None:
    page.correct_last()
    page.settle()


def _ahead(kind: type[Page], **more: Any) -> Callable[[World], Page]:
    def prepare(world: World) -> Page:
        page = _shown(kind, **more)(world)
        for _ in range(10):
            _coming(page)
            assert page.card is not None
            if {"yes", "no"} <= page.card["next"].keys():
                return page
            page.answer()
            page.settle()
        raise AssertionError("nothing is sent ahead")

    return prepare


for kind, view in ((Page, "One"), (Classes, "Classes"), (Blind, "Blind")):
    begun: Any = (
        (lambda prepare: lambda world: prepare(_begun(world))) if kind is Blind else lambda prepare: prepare
    )
    _add(f"{view}: answer", begun(_shown(kind)), _answer)
    _add(f"{view}: answer, and go on to what was sent ahead", begun(_ahead(kind)), _answer_ahead)
    _add(f"{view}: two answers, the first gone on from", begun(_ahead(kind)), _answer_two)
    _add(f"{view}: skip", begun(_shown(kind)), _skip)
    _add(f"{view}: undo", begun(_shown(kind, answers=2)), _undo, shows=_is_back)
    _add(f"{view}: answer and undo it at once", begun(_shown(kind)), _undo_at_once, shows=_is_back)
    _add(f"{view}: correct", begun(_shown(kind, answers=2)), _correct)


def _grouped(world: World, *, answers: int = 0) -> Page:
    world.project.duplicates.kept.keep(pairs(world))
    return _shown(Alike, answers=answers)(world)


_add("Near-duplicates: answer", _grouped, _answer)
_add("Near-duplicates: undo", lambda world: _grouped(world, answers=2), _undo, shows=_is_back)
_add("Near-duplicates: answer and undo it at once", _grouped, _undo_at_once, shows=_is_back)

_add("Plain: answer", _shown(Plain), _answer)
_add("Plain: undo", _shown(Plain, answers=2), _undo, shows=_is_back)

for kind, view in ((Batch, "Grid"), (Found, "Find"), (Similar, "Find similar")):
    _add(f"{view}: send", _shown(kind), _answer)
    if kind is not Similar:  # which shows no last ones
        _add(f"{view}: correct the last", _shown(kind, answers=1), _correct_last)

_add("Decide: decide", _shown(Decide), _answer)
_add("Decide: decide, and go on to what was sent ahead", _shown(Decide), _answer_two)
_add("Decide: skip", _shown(Decide), _skip)
_add("Decide: undo", _shown(Decide, answers=1), _undo)
_add("Decide: correct", _shown(Decide, answers=1), _correct)

_add("Review: correct", _shown(Reviewing), _answer)
_add("Review: undo", _shown(Reviewing, answers=1), _undo)


# Answers for the audit, and of further people


def _auditing(world: World) -> Page:
    page = _shown(Page)(world)
    page.session().set_audit_share(1.0, by=ADA)
    page.answer()
    page.settle()
    assert AUDIT in page.session().shown.parameters
    return page


def _is_audit(page: Page) -> None:
    purposes = {row.id: row.purpose for row in page.world.answers()}
    assert {purposes[given["id"]] for given in page.new} == {"audit"}


def _overlapping(world: World) -> Page:
    session = world.project.session_of(BOB, None, 1)
    tell(session, {item: truth(world.project, item) for item in range(20, 30)})
    world.project.set_overlap(2, 1.0, by=ADA)
    page = _shown(Page)(world)
    assert OVERLAP in page.session().shown.parameters
    return page


_add("One: answer for the audit", _auditing, _answer, shows=_is_audit)
_add("One: undo for the audit", lambda world: _answered(_auditing(world)), _undo, shows=_is_back)
_add("One: answer as a further person", _overlapping, _answer)


def _answered(page: Page) -> Page:
    page.answer()
    page.settle()
    return page


# First cards


def _first(kind: type[Page]) -> Callable[[World], Page]:
    return lambda world: kind(world, CLEO)


def _has_one_session(page: Page) -> None:
    own = [record for record in page.world.project.log.sessions() if record.annotator == CLEO.name]
    concepts = [record.concept_id for record in own]
    assert len(set(concepts)) == len(concepts), "a session was begun twice"


for kind, view in (
    (Page, "One"),
    (Batch, "Grid"),
    (Classes, "Classes"),
    (Found, "Find"),
    (Similar, "Find similar"),
):
    _add(f"{view}: sit down", _first(kind), lambda page: page.settle(), _has_one_session)
_add("Plain: sit down", _first(Plain), lambda page: page.settle(), _has_one_session)


# Settings


def _insisting(change: Callable[[Page], Any]) -> Callable[[Page], None]:
    """Repeat the change until the page says nothing against it, and look at the page."""

    def act(page: Page) -> None:
        page.world.insist(lambda: change(page))
        page.settle()

    return act


def _has_strategy(page: Page) -> None:
    assert page.session().strategy == "random"
    record = page.world.project.log.session(page.session().id)
    assert record is not None
    assert record.strategy == "random"


def _has_share(page: Page) -> None:
    concept = page.session().concept
    assert concept.audit_share == page.world.project.concept_store.audit_share(concept.record.id) == 0.5


_add(
    "One: choose a strategy",
    _shown(Page),
    _insisting(lambda page: page.session().set_strategy("random")),
    _has_strategy,
)
_add(
    "Classes: take over a strategy",
    lambda world: _changed_strategy(_shown(Classes)(world)),
    lambda page: page.settle(),
)
_add(
    "One: set the audit's share",
    _shown(Page),
    _insisting(lambda page: page.session().set_audit_share(0.5, by=ADA)),
    _has_share,
)


def _changed_strategy(page: Page) -> Page:
    page.session().set_strategy("random")
    return page


# Questions


def _unless_there(make: Callable[[], Any]) -> Any:
    """A person to whom the page says that there is one of that name has what they wanted."""
    try:
        return make()
    except StorageError as error:
        if error.kind != "exists":
            raise
        return None


def _questions(world: World) -> list[str]:
    return [concept.question for concept in world.project.concepts()]


def _add_question(page: Page) -> None:
    page.world.insist(lambda: _unless_there(lambda: page.world.project.add_concept("Is it a fox?", by=ADA)))
    page.settle()


def _has_question(page: Page) -> None:
    assert _questions(page.world) == ["Is it a cat?", "Is it a dog?", "Is it a bird?", "Is it a fox?"]


def _afresh(page: Page) -> None:
    project = lambda: page.world.project  # noqa: E731
    page.world.insist(lambda: afresh.start_afresh(project(), project().concept_store.get(1), by=ADA))
    page.settle()


def _is_afresh(page: Page) -> None:
    assert sorted(_questions(page.world)) == ["Is it a bird?", "Is it a cat?", "Is it a dog?"]
    assert 1 not in {concept.id for concept in page.world.project.concepts()}


def _own_concept(page: Page) -> None:
    project = lambda: page.world.project  # noqa: E731
    page.world.insist(lambda: autopilot.own_concept(project(), project().concept_store.get(1)))
    page.settle()


def _has_own(page: Page) -> None:
    assert len(_questions(page.world)) == 3
    names = [concept.name for concept in page.world.project.concepts(archived=True)]
    assert names.count("Is it a cat (autopilot)") == 1


_add("Settings: another question", _shown(Page), _add_question, _has_question)
_add("Demo: start afresh", _shown(Page), _afresh, _is_afresh)
_add("Demo: the autopilot's question", _shown(Page), _own_concept, _has_own)


# Examples


def _pictures() -> list[bytes]:
    return [_png(10), _png(200)]


def _png(shade: int) -> bytes:
    file = io.BytesIO()
    Image.new("RGB", (8, 8), (shade, 0, 0)).save(file, "PNG")
    return file.getvalue()


def _add_examples(page: Page) -> None:
    page.world.insist(lambda: page.session().add_examples(_pictures(), positive=True, by=ADA))
    page.settle()


def _has_examples(page: Page) -> None:
    assert len(page.world.project.concept_store.examples(1)) == 2
    assert len(page.session().concept.example_pictures()) == 2


def _withdraw(page: Page) -> None:
    (first,) = page.world.project.concept_store.examples(1)
    page.world.insist(lambda: page.world.project.concept_store.withdraw_example(first.id))


def _with_example(world: World) -> Page:
    feature = np.full(8, 0.3, dtype=np.float32)
    world.project.concept_store.add_example(1, _pictures()[0], True, feature)
    return _shown(Page)(world)


def _is_withdrawn(page: Page) -> None:
    assert page.world.project.concept_store.examples(1) == []
    assert len(page.world.rows("examples")) == 2


def _withdraw_words(page: Page) -> None:
    page.world.insist(lambda: page.session().withdraw_description(FOX, by=CLEO))


def _words_are_withdrawn(page: Page) -> None:
    assert page.world.project.concept_store.withdrawn(1) == {FOX.digest}


def _describe(page: Page) -> None:
    store = page.world.project.concept_store.under("clip")
    page.world.insist(lambda: store.describe_example(1, np.full(3, 0.5, dtype=np.float32)))


def _is_described(page: Page) -> None:
    (example,) = page.world.project.concept_store.under("clip").examples(1)
    assert example.feature is not None
    assert example.feature.tolist() == [0.5, 0.5, 0.5]


def _rename(page: Page) -> None:
    page.world.insist(lambda: page.world.project.concept_store.update(2, name="hound"))


_add("Settings: examples", _shown(Page), _add_examples, _has_examples)
_add("Storage: withdraw an example", _with_example, _withdraw, _is_withdrawn)
_add("Settings: withdraw a description in words", _shown(Page), _withdraw_words, _words_are_withdrawn)
_add("Storage: describe an example again", _with_example, _describe, _is_described)
_add(
    "Storage: put a question away",
    _shown(Page),
    lambda page: page.world.insist(lambda: page.world.project.archive.add(3) or True),
    lambda page: _same(_questions(page.world), ["Is it a cat?", "Is it a dog?"]),
)
_add(
    "Storage: rename a question",
    _shown(Page),
    _rename,
    lambda page: _same(page.world.project.concept_store.get(2).name, "hound"),
)


def _same(one: object, other: object) -> None:
    assert one == other


# Near-duplicates


def _has_groups(page: Page) -> None:
    digest = pairs(page.world).digest
    assert [row["digest"] for row in page.world.rows("groupings")] == [digest]
    project = page.world.project
    named = project.duplicates.kept.named(digest)
    assert named is not None
    assert project.pool is not None
    one, other = project.pool.ids[2:4].tolist()
    assert other in named.members(one).tolist()
    assert named.to_bytes() == pairs(page.world).to_bytes()


_add(
    "Storage: keep groups of near-duplicates",
    _shown(Page),
    lambda page: page.world.insist(lambda: page.world.project.duplicates.kept.keep(pairs(page.world))),
    _has_groups,
)


# Blind comparisons


def _begun(world: World) -> World:
    session = world.project.session_of(ADA, None, 1)
    blind_begin.begin(session, ["exhaustive", "random"])
    return world


def _begin(page: Page) -> None:
    world = page.world

    def begin() -> None:
        blind_begin.begin(page.session(), ["exhaustive", "random"])

    if world.once(begin) is None:
        begun = blind_begin.current(page.session())
        if begun is None:
            world.insist(begin)
        else:
            _begins_alike(page)


def _begins_alike(page: Page) -> None:
    begun = blind_begin.current(page.session())
    assert begun is not None
    assert len(_questions(page.world)) == 3, f"offered: {_questions(page.world)}"
    for side in begun.rivals:
        state = page.world.project.log.state(side.concept.record.id)
        assert set(state.answered_items().tolist()) == set(begun.begun_with)
        assert begun.begun_with


def _told(page: Blind) -> None:
    page.world.insist(lambda: page.view().tell())


def _is_told(page: Blind) -> None:
    assert page.view().is_told
    record = page.world.project.log.session(page.view().id)
    assert record is not None
    assert record.parameters["blind"]["told"]


def _to_question(page: Blind) -> None:
    page.world.insist(lambda: page.view().add_to_question(page.session()))


def _are_added(page: Blind) -> None:
    state = page.world.project.log.state(1)
    for item, word in page.view().labels().items():
        assert state.votes(item) == {page.person.name: word}
    added = [
        row.item for row in page.world.answers() if row.concept_id == 1 and row.item in page.view().labels()
    ]
    assert len(added) == len(set(added))


_add("Blind: begin", _shown(Page), _begin, _begins_alike)
_add("Blind: tell", lambda world: _shown(Blind, answers=8)(_begun(world)), _told, _is_told)
_add(
    "Blind: add to the question",
    lambda world: _shown(Blind, answers=2)(_begun(world)),
    _to_question,
    shows=_are_added,
)


# From the command line, while nobody serves the project


def _imported(page: Page) -> None:
    file = _file(page, "label")
    page.world.while_closed(
        lambda: import_labels(page.world.folder, file, form=None, concept="Is it a cat", annotator="file")
    )
    page.settle()


def _file(page: Page, column: str) -> Path:
    file = page.world.folder / "given.csv"
    lines = [f"{item},{'yes' if item % 2 else 'no'}" for item in range(40, 46)]
    file.write_text("\n".join([f"item,{column}", *lines]) + "\n")
    return file


def _has_imported(page: Page) -> None:
    said = {row.item: row.answer for row in page.world.answers() if row.annotator == "file"}
    assert said == {item: "yes" if item % 2 else "no" for item in range(40, 46)}
    assert sum(row.annotator == "file" for row in page.world.answers()) == 6


def _predicted(page: Page) -> None:
    file = _file(page, "predicted")
    page.world.while_closed(
        lambda: import_predictions(page.world.folder, file, form=None, concept="Is it a cat", model="other")
    )


def _has_predicted(page: Page) -> None:
    assert len(page.world.rows("prediction_sets")) == 1
    assert len(page.world.rows("predictions")) == 6


_add("Command line: import labels", _shown(Page), _imported, _has_imported)
_add("Command line: import predictions", _shown(Page), _predicted, _has_predicted)


# Webhooks

URL = "http://127.0.0.1:9/hook"
SENT: dict[Path, list[str]] = {}
"""Ids of the events that the receiver of a world's webhook has got, with repetitions."""


def _webhooks(page: Page) -> Webhooks:
    return page.world.project.store.sender.webhooks


def _hooked(world: World) -> Page:
    """A page of a project with a webhook that the server itself leaves alone."""
    page = _shown(Page, answers=2)(world)
    webhook = _webhooks(page).add(URL, ["label", "decision"], created_by="ada", from_start=True)
    _webhooks(page).pause(webhook.id, True)
    return page


def _add_webhook(page: Page) -> None:
    page.world.insist(lambda: _webhooks(page).all() or _webhooks(page).add(URL, created_by="ada"))


def _remove_webhook(page: Page) -> None:
    page.world.insist(lambda: [_webhooks(page).remove(one.id) for one in _webhooks(page).all()])


def _deliver(page: Page) -> None:
    """Send the backlog in this thread, to a receiver that fails at first."""
    sent = SENT[page.world.folder] = list[str]()
    failures = [1]

    def post(_: str, body: bytes, __: object) -> str | None:
        sent.extend(event["id"] for event in json.loads(body)["events"])
        return "The receiver answered with status 500" if failures and failures.pop() else None

    def send() -> None:
        webhooks = _webhooks(page)
        (webhook,) = webhooks.all()
        pauses = Pauses(gather=0.0, look=0.0, first=0.001, longest=0.001)
        troubles = page.world.project.troubles
        Deliveries(webhook, "p", webhooks, lambda: True, pauses, post, troubles)._send_backlog()

    page.world.insist(send)


def _is_delivered(page: Page) -> None:
    """Everything arrived in order, and the database knows."""
    (webhook,) = _webhooks(page).all()
    ids = [answer.id for answer in page.world.answers() if answer.seq <= webhook.answers_through]
    assert len(ids) > 20
    assert list(dict.fromkeys(SENT[page.world.folder])) == ids


_add("Webhooks: add", _shown(Page), _add_webhook, lambda page: _same(len(_webhooks(page).all()), 1))
_add("Webhooks: remove", _hooked, _remove_webhook, lambda page: _same(_webhooks(page).all(), []))
_add(
    "Webhooks: resume",
    _hooked,
    lambda page: page.world.insist(lambda: _webhooks(page).pause(1, False)),
    lambda page: _same([one.is_paused for one in _webhooks(page).all()], [False]),
)
_add("Webhooks: deliver", _hooked, _deliver, _is_delivered)


# Programs


def _tokens(page: Page) -> Tokens:
    return Tokens(page.world.project.database)


def _create_token(page: Page) -> None:
    page.world.insist(lambda: _tokens(page).all() or _tokens(page).create("ada", "own"))


def _with_a_token(world: World) -> Page:
    page = _shown(Page)(world)
    _tokens(page).create("ada", "own")
    return page


def _is_revoked(page: Page) -> None:
    (token,) = _tokens(page).all()
    assert token.revoked is not None


def _need_secret(page: Page) -> None:
    page.world.insist(lambda: shared_secret(page.world.project.database, "test"))


def _is_one_secret(page: Page) -> None:
    one, other = (shared_secret(page.world.project.database, "test") for _ in range(2))
    assert len(one) == 32
    assert one == other


_add("Programs: create a token", _shown(Page), _create_token, lambda page: _same(len(_tokens(page).all()), 1))
_add(
    "Programs: revoke a token",
    _with_a_token,
    lambda page: page.world.insist(lambda: _tokens(page).revoke(1) or True),
    _is_revoked,
)
_add("Pages: a secret that servers share", _shown(Page), _need_secret, _is_one_secret)


def _new_project(page: Page) -> None:
    folder = page.world.folder.with_name("new")
    shutil.rmtree(folder, ignore_errors=True)
    made = NewProject(str(page.world.project.pool_path), "Is it an owl?")
    with Workspace(folder) as workspace:
        page.world.insist(lambda: workspace.served_keys() or workspace.create(made, by=ADA))


def _has_project(page: Page) -> None:
    with Workspace(page.world.folder.with_name("new")) as workspace:
        (key,) = workspace.served_keys()
        assert [concept.question for concept in workspace.project(key).concepts()] == ["Is it an owl?"]


_add("Start: a new project", _shown(Page), _new_project, _has_project)
