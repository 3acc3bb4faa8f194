"""Search by words on the Find view; the pair of models is trained in `tests.words_kit`."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
from click.testing import CliRunner

from closecall.app.api.cards import card_of, submit
from closecall.app.cli.main import main
from closecall.app.display.thumbnails import encode
from closecall.app.engine.concept_state import ConceptState
from closecall.app.engine.directions import PAGE, Direction
from closecall.app.engine.selection_parameters import DIRECTION, WORDS
from closecall.app.projects.roles import OPERATOR
from closecall.app.sessions.new_project import NewProject
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.word_search import LONGEST, MOST, WordSession, can_describe
from closecall.app.sessions.workspace import Workspace
from closecall.core.errors import InputError
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.similar.description import Description
from closecall.core.sources import source_from
from closecall.storage import StorageError
from tests.projects import answer, marks, new_project, open_workspace, save_as_found, tamper, wait_for_index
from tests.words_kit import NAMES, Drawing, every_drawing, trained, write_drawings, write_pair

PER_DRAWING = 7
HELD_OUT = 1
"""Seed of drawings that are not those of the training."""


class Drawn(NamedTuple):
    """A pool of drawings, described by the pair in `folder`."""

    pool: Pool
    shown: dict[str, Drawing]
    folder: Path

    def is_a(self, item: int, words: str) -> bool:
        return self.shown[self.pool.source.name(item)].is_a(words)

    def ranked(self, texts: list[str], excluded: list[str] | None = None) -> list[int]:
        """All items by brute force in float64, nearest first."""
        w = Description(texts, excluded or []).direction(self.pool.source.text_model())
        return self.by(w.astype(np.float64))

    def by(self, w: np.ndarray) -> list[int]:
        cosines = np.round(self.pool.rows_of(self.pool.ids).astype(np.float64) @ w, 12)
        return self.pool.ids[np.lexsort((self.pool.ids, -cosines))].tolist()


@pytest.fixture(scope="module")
def drawn(tmp_path_factory) -> Drawn:
    root = tmp_path_factory.mktemp("drawn")
    folder = write_pair(root / "clip", pair=trained(10))
    shown = write_drawings(root / "drawings", list(every_drawing()) * PER_DRAWING, HELD_OUT)
    pool = build(source_from(f"onnx:{folder}:{root / 'drawings'}", use_classes=False), root / "pool")
    return Drawn(pool, shown, folder)


def made(workspace: Workspace, drawn: Drawn) -> OpenProject:
    return workspace.project(workspace.create(NewProject(str(drawn.pool.path), "Is it a seven?")))


@pytest.fixture
def project(workspace, drawn) -> OpenProject:
    return made(workspace, drawn)


@pytest.fixture
def found(project) -> WordSession:
    return project.described(project.session())


def look(found, text, excluded="", first=0):
    found.look_for(text, excluded, first)
    return card_of(found)


def shown(session):
    """The item in view and why it is; nothing is looked ahead, which would lease further items."""
    record = session.in_view()
    return record.item, record.why


def give(session, word):
    """Answer the item in view."""
    record = session.in_view()
    session.store([answer({"item": {"id": record.item, "selection": record.id}}, word)])


def log_of(view):
    return list(view.session.project.log.selections(view.session.concept.record.id))


def test_the_page_shows_what_is_described_and_the_log_says_how_it_was_found(drawn, found):
    """The nearest items in order; the direction, to the last bit, is with the first one alone."""
    card = look(found, "  a seven;a slanted  seven ", "a bold")
    expected = drawn.ranked(["a seven", "a slanted seven"], ["a bold"])
    assert [cell["id"] for cell in card["cells"]] == expected[:PAGE]
    assert np.mean([drawn.is_a(item, "a seven") for item in expected[:24]]) >= 0.9
    assert card["search"] == {
        "text": "a seven;a slanted seven",
        "found": MOST,
        "total": len(drawn.pool),
        "first": 0,
        "page": PAGE,
        "longest": LONGEST,
        "words": {"excluded": "a bold", "problem": None},
    }
    assert card["notes"]["why"] == "words"
    assert card["notes"]["searched"] == "a seven; a slanted seven, but not a bold"
    records = log_of(found)
    assert [record.id for record in records] == [cell["selection"] for cell in card["cells"]]
    assert {(record.why, record.margin) for record in records} == {("words", None)}
    assert [record.parameters[WORDS] for record in records] == [
        {"texts": ["a seven", "a slanted seven"], "excluded": ["a bold"], "place": place}
        for place in range(PAGE)
    ]
    assert [DIRECTION in record.parameters for record in records] == [True] + [False] * (PAGE - 1)
    w = Description(["a seven", "a slanted seven"], ["a bold"]).direction(drawn.pool.source.text_model())
    assert Direction.of(records[0].parameters[DIRECTION]).vector.tobytes() == w.tobytes()


def test_a_hundred_descriptions_are_ranked_as_by_brute_force(drawn, found):
    """In float64, page after page."""
    forms = ["a {}", "a bold {}", "a thin slanted {}", "a small upright {}"]
    texts = [form.format(name) for name in NAMES for form in forms]
    queries = [(text, other) for text in texts for other in ("", "a large")]
    assert len(queries) >= 100
    for text, other in queries:
        found.look_for(text, other)
        expected = drawn.ranked([text], [other] if other else [])
        assert found.found(drawn.pool).tolist() == expected[:MOST]


def test_the_last_page_is_the_last_of_the_nearest(drawn, found):
    """Items further away are not shown; a page that is answered gives way to the next."""
    expected = drawn.ranked(["a seven"])
    card = look(found, "a seven", first=10**6)
    assert (card["search"]["first"], len(drawn.pool) > MOST) == (MOST - PAGE, True)
    assert [cell["id"] for cell in card["cells"]] == expected[MOST - PAGE : MOST]
    card = look(found, "a seven", first=-3)
    after = submit(found, marks(card["cells"], ["no"] * PAGE))
    assert (len(after["acked"]), after["search"]["first"]) == (PAGE, PAGE)
    assert [cell["id"] for cell in after["cells"]] == expected[PAGE : 2 * PAGE]
    assert WORDS in log_of(found)[-1].parameters


def test_labeling_starts_with_what_was_described(drawn, project, found):
    """One by one and in a grid, for everybody, until there is a yes and a no."""
    look(found, "a seven", "a bold")
    session, bob = found.session, project.session(annotator="bob")
    expected = drawn.ranked(["a seven"], ["a bold"])
    for item in expected[:3]:
        assert shown(session) == (item, "description")
        give(session, "yes")
    assert shown(session) == (expected[3], "description")
    assert shown(bob) == (expected[4], "description")
    grid = project.grid(session)
    grid.resize(12)
    card = card_of(grid)
    assert [cell["id"] for cell in card["cells"]] == [expected[3], *expected[5:16]]
    assert (card["notes"]["why"], card["notes"]["searched"]) == ("description", "a seven, but not a bold")
    wait_for_index(project, "exhaustive")
    session.set_strategy("exhaustive")
    give(session, "no")
    assert shown(session)[1] == "strategy"


@pytest.mark.parametrize("name", NAMES)
def test_twenty_answers_find_five_times_as_many_as_at_random(workspace, drawn, name):
    """At 1 % positives: the session begins by words, and goes on at the margin after the first no."""
    positives = [
        item for item in drawn.pool.ids.tolist() if drawn.shown[drawn.pool.source.name(item)].name == name
    ]
    n_kept = round((len(drawn.pool) - len(positives)) / 99)
    project = made(workspace, drawn)
    # Nobody else answers these items, so this session has 1 % positives to choose from.
    project.leases.add("another session", np.random.default_rng(0).permutation(positives)[n_kept:].tolist())
    found = project.described(project.session())
    look(found, f"a {name}")
    session, whys, n_yes = found.session, [], 0
    wait_for_index(project, session.strategy)
    for _ in range(20):
        item, why = shown(session)
        whys.append(why)
        n_yes += item in positives
        give(session, "yes" if item in positives else "no")
    assert (whys[0], whys[-1]) == ("description", "strategy")
    at_random = 20 * n_kept / (len(drawn.pool) - len(positives) + n_kept)
    assert at_random < 0.21
    assert n_yes >= 5 * at_random


def test_labeling_starts_with_a_description_once_the_log_has_it(drawn, project, found, monkeypatch):
    """Not before its page is stored; so it starts in the same way after a restart."""
    look(found, "a seven")
    concept = found.session.concept

    def both():
        again = ConceptState(concept.record, project.log, project.concept_store, lambda: project.pool)
        return [direction.texts for direction in (concept.direction(), again.direction())]

    project.leases.add("another session", drawn.ranked(["a nine"])[:PAGE])
    look(found, "a nine")
    assert (found.shown, both()) == ((), [("a seven",)] * 2)
    project.leases.keep("another session", ())
    with monkeypatch.context() as full:
        full.setattr(project.log, "record_selections", no_room)
        assert look(found, "a nine")["cells"] == []
        assert both() == [("a seven",)] * 2
    card_of(found)
    assert both() == [("a nine",)] * 2


def no_room(records):
    raise StorageError("the disk is full", "full")


def test_labeling_starts_with_one_item_of_each_group(drawn, tmp_path):
    """Near-duplicates of items that were asked are left out of the start, and `verify` repeats it."""
    pool = shutil.copytree(drawn.pool.path, tmp_path / "pool")
    with open_workspace(tmp_path / "projects") as workspace:
        project = workspace.project(workspace.create(NewProject(str(pool), "Is it a seven?")))
        ranked = drawn.ranked(["a seven"])
        leaders, rows = np.arange(len(drawn.pool)), drawn.pool.row_of(ranked[:30])
        leaders[rows] = rows.reshape(10, 3).min(axis=1).repeat(3)
        save_as_found(project, leaders)  # three neighbours in the ranking are a group
        session = project.session()
        look(project.described(session), "a seven")
        for item in ranked[:18:3]:
            assert shown(session) == (item, "description")
            give(session, "yes")
        folder = project.folder
    findings = verified(folder)
    assert findings["problems"] == []
    assert findings["choices"] > 6


def test_labels_outlast_the_description(drawn, project, found):
    """An undone no brings the start back; another description, another start."""
    look(found, "a seven")
    first, second = drawn.ranked(["a seven"])[:2]
    give(found.session, "yes")
    card = card_of(found.session)
    submit(found.session, [given := answer(card, "no")])
    undo = answer(card, "undo", selection=None, undoes=given["id"])
    after = submit(found.session, [undo])
    assert (after["item"]["id"], after["notes"]["why"]) == (second, "undo")
    give(found.session, "skip")
    assert shown(found.session)[1] == "description"
    look(found, "a nine")
    other = drawn.ranked(["a nine"])
    free = [item for item in other if item not in (first, second)]
    assert shown(found.session) == (free[0], "description")


def test_a_withdrawn_description_starts_nothing(drawn, project, found):
    """Before and after the first answers, for everybody; the same words don't bring it back, others do."""
    session, bob = found.session, project.session(annotator="bob")
    look(found, "a seven", "a bold")
    seven = session.concept.last_direction()
    assert shown(session)[1] == shown(bob)[1] == "description"
    session.withdraw_description(seven, by=OPERATOR)
    assert shown(session)[1] == "random-start"
    give(bob, "yes")  # of the description, which was in view
    assert shown(bob)[1] == "random-start"
    assert len(look(found, "a seven", "a bold")["cells"]) == PAGE
    submit(found, marks(card_of(found)["cells"], ["yes"] * 3))
    assert shown(session)[1] == shown(bob)[1] == "random-start"
    look(found, "a nine")
    assert shown(bob)[1] == "random-start"  # it was in view before
    give(bob, "skip")
    assert shown(bob)[1] == "description"
    assert session.concept.last_direction().texts == ("a nine",)
    look(found, "a seven", "a bold")
    assert session.concept.direction() is None
    assert verified(project)["problems"] == []


def test_a_description_can_return(drawn, project, found):
    """As long as there is no hyperplane, labeling starts with it again."""
    look(found, "a seven")
    session, expected = found.session, drawn.ranked(["a seven"])
    assert shown(session) == (expected[0], "description")
    give(session, "yes")
    seven = session.concept.last_direction()
    for withdrawn, why in [(True, "random-start"), (True, "random-start"), (False, "description")]:
        session.withdraw_description(seven, withdrawn, by=OPERATOR)
        assert shown(session)[1] == why
    assert shown(session)[0] == expected[1]
    log = project.concept_store.withdrawn(session.concept.record.id)
    assert log == frozenset()
    assert verified(project)["problems"] == []


def test_a_description_stays_withdrawn_after_a_restart(drawn, tmp_path):
    """And is still known, so that it can return; another question may start with the same words."""
    with open_workspace(tmp_path) as workspace:
        project = made(workspace, drawn)
        session = project.session()
        look(project.described(session), "a seven")
        submit(session, [answer(card_of(session), "yes")])
        session.withdraw_description(session.concept.last_direction(), by=OPERATOR)
        other = project.session(concept_id=project.add_concept("Is it a seven, too?").id)
        look(project.described(other), "a seven")
        assert shown(other)[1] == "description"
        key, folder = project.key, project.folder
    with open_workspace(tmp_path) as workspace:
        session = workspace.project(key).session()
        assert session.concept.last_direction().texts == ("a seven",)
        assert session.concept.direction() is None
        assert card_of(session)["notes"]["why"] == "random-start"
    findings = verified(folder)
    assert (findings["problems"], findings["choices"] > 2) == ([], True)


def test_what_is_chosen_ahead_forgets_a_withdrawn_description(drawn, project, found):
    """The next items of another session that the browser has not shown yet are chosen again."""
    look(found, "a seven")
    bob = project.session(annotator="bob")
    bob.set_strategy("exhaustive")
    wait_for_index(project, "exhaustive")
    card_of(bob)
    bob.item_view.ahead.wait(60)
    ahead = card_of(bob)["next"]["yes"]["notes"]
    assert ahead["why"] == "description"
    found.session.withdraw_description(found.session.concept.last_direction(), by=OPERATOR)
    card_of(bob)
    bob.item_view.ahead.wait(60)
    card = card_of(bob)
    assert card["notes"]["why"] == "description"
    assert {view["notes"]["why"] for view in card["next"].values()} == {"random-start"}


def test_a_description_withdrawn_after_the_hyperplane_matters_once_it_is_gone(drawn, project, found):
    """After an undo that leaves no no, labeling goes on at random."""
    look(found, "a seven")
    session = found.session
    session.set_strategy("exhaustive")
    wait_for_index(project, "exhaustive")
    give(session, "yes")
    given = answer(card_of(session), "no")
    submit(session, [given])
    assert shown(session)[1] == "strategy"
    session.withdraw_description(session.concept.last_direction(), by=OPERATOR)
    assert shown(session)[1] == "strategy"
    submit(session, [answer({"item": {"id": given["item"], "selection": None}}, "undo", undoes=given["id"])])
    give(session, "skip")
    assert shown(session)[1] == "random-start"
    assert verified(project)["problems"] == []


def test_examples_and_a_description_are_averaged(drawn, project, found):
    """An example weighs as much as the description."""
    pool = drawn.pool
    item = drawn.ranked(["a nine"])[0]
    found.session.add_examples([encode(pool.source.image(item, 100))[0]])
    look(found, "a seven")
    (example,) = found.session.concept.examples
    w = Description(["a seven"]).direction(pool.source.text_model())
    expected = drawn.by((example.feature.astype(np.float64) + w) / 2)
    card = card_of(found.session)
    assert (card["item"]["id"], card["notes"]["why"]) == (expected[0], "description")


def test_a_question_has_its_own_start_among_several(drawn, project, found):
    """In Classes, too."""
    other = project.session(concept_id=project.add_concept("Is it a nine?").id)
    for view, text in ((found, "a seven"), (project.described(other), "a nine")):
        look(view, text)
        look(view, "")  # its items are free again
    classes, taken = project.classes(found.session), None
    for text in ("a nine", "a seven"):  # the question after the last one has its turn
        card = card_of(classes)
        assert card["item"]["id"] == next(item for item in drawn.ranked([text]) if item != taken)
        taken = card["item"]["id"]
        concepts = [one["concept"] for one in card["classes"]]
        submit(classes, [answer(card, "skip", concept=None, classes=concepts, next=None)])


def test_a_random_strategy_ignores_the_description(found):
    """It needs no hyperplane, so nothing stands in for it."""
    found.session.set_strategy("random")
    wait_for_index(found.session.project, "random")
    look(found, "a seven")
    assert card_of(found.session)["notes"]["why"] == "strategy"


def test_what_others_have_in_view_is_held(drawn, project, found):
    """It is shown, but can't be answered here."""
    look(project.described(project.session(annotator="bob")), "a seven")
    card = look(found, "a seven")
    assert {cell["stands"] for cell in card["cells"]} == {"held"}
    assert [cell["id"] for cell in card["cells"]] == drawn.ranked(["a seven"])[:PAGE]


@pytest.fixture
def without_text_model(drawn) -> Iterator[None]:
    """The text model is elsewhere for a while."""
    file = drawn.folder / "onnx" / "text_model.onnx"
    elsewhere = file.rename(drawn.folder / "elsewhere.onnx")
    yield
    elsewhere.rename(file)


def test_the_search_and_the_start_survive_a_restart_and_the_text_model(drawn, tmp_path, request):
    """The log has the direction: the same page with the same selections, and the same first item."""
    with open_workspace(tmp_path) as workspace:
        project = made(workspace, drawn)
        found = project.described(project.session())
        before = look(found, "a seven; a thin seven", "a bold", PAGE)
        key, session_id = project.key, found.session.id
    request.getfixturevalue("without_text_model")
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(key)
        found = project.described(project.session(session_id))
        found.go_to("a seven;a thin seven", "a bold")
        assert card_of(found)["cells"] == before["cells"]
        after = submit(found, marks(before["cells"], ["no"]))
        assert after["acked"]
        expected = drawn.by(found.session.concept.direction().vector.astype(np.float64))
        card = card_of(project.session(annotator="bob"))
        free = [item for item in expected if item not in {cell["id"] for cell in before["cells"]}]
        assert (card["item"]["id"], card["notes"]["why"]) == (free[0], "description")


def test_a_moved_text_model_is_said_in_a_sentence(drawn, project, found, without_text_model):
    """The way is still offered, no item is shown, and find by name goes on."""
    assert can_describe(Pool.open(drawn.pool.path))
    card = look(found, "a seven")
    problem = card["search"]["words"]["problem"]
    assert "has no text model: search by words needs text_model.onnx and tokenizer.json" in problem
    assert (card["cells"], card["search"]["found"], log_of(found)) == ([], 0, [])
    names = project.found(found.session)
    names.look_for("00012")
    assert [cell["alt"] for cell in card_of(names)["cells"]] == ["00012.png"]
    assert card_of(found.session)["notes"]["why"] == "random-start"


def test_a_search_goes_on_once_the_text_model_is_back(drawn, project, found, request):
    """Without another word."""
    file = drawn.folder / "onnx" / "text_model.onnx"
    elsewhere = file.rename(drawn.folder / "elsewhere.onnx")
    try:
        assert look(found, "a seven")["cells"] == []
    finally:
        elsewhere.rename(file)
    card = card_of(found)
    assert len(card["cells"]) == PAGE
    assert card["search"]["words"]["problem"] is None


def test_a_damaged_text_model_is_said_in_a_sentence(drawn, project, found):
    """As is one that was replaced."""
    file = drawn.folder / "onnx" / "text_model.onnx"
    whole = file.read_bytes()
    try:
        for damage in (whole[: len(whole) // 2], b""):
            file.write_bytes(damage)
            problem = look(found, f"a seven {len(damage)}")["search"]["words"]["problem"]
            assert str(file) in problem
            assert "\n" not in problem
    finally:
        file.write_bytes(whole)


@pytest.mark.parametrize(
    ("text", "excluded", "problem"),
    [
        (";", "", "A search by words needs a description, got none"),
        ("a seven", "A Seven", "can't be both searched for and excluded"),
        ("a \ud800", "", "must be valid Unicode"),
    ],
)
def test_what_has_no_direction_is_said_in_a_sentence(found, text, excluded, problem):
    """Nothing is logged, and labeling starts at random."""
    card = look(found, text, excluded)
    assert problem in card["search"]["words"]["problem"]
    assert (card["cells"], log_of(found)) == ([], [])
    assert look(found, "a seven")["search"]["words"]["problem"] is None


def test_nothing_is_shown_before_anything_is_described(found):
    """What is excluded alone is no description."""
    for excluded in ("", "a seven"):
        card = look(found, "", excluded)
        assert (card["cells"], card["search"]["words"]) == ([], {"excluded": excluded, "problem": None})
    with pytest.raises(InputError, match=f"at most {LONGEST} characters, got {LONGEST + 1}"):
        found.look_for("x" * (LONGEST + 1))


def test_a_description_that_is_too_long_for_the_model_is_said(found):
    """With the number of tokens that it reads."""
    card = look(found, "a seven " * 12)
    assert "is too long: the model reads 16 tokens" in card["message"]
    assert card["cells"]
    assert look(found, "a seven")["message"] is None


def test_a_browser_is_heard_once(found):
    """What it asked for last comes again with each run of the page."""
    asked = {"id": "a", "text": "a seven", "excluded": "", "first": 0}
    found.ask(asked)
    card = submit(found, marks(card_of(found)["cells"], ["no"] * PAGE))
    found.ask(asked)
    assert card_of(found)["search"]["first"] == card["search"]["first"] == PAGE
    for wrong in ({"id": "c", "text": "x", "first": 0}, {"id": "d", "text": "", "excluded": 7, "first": 0}):
        with pytest.raises(InputError, match="must have text and excluded and first"):
            found.ask(wrong)


def test_a_pool_without_words_is_not_offered_any(workspace):
    """Digits have features of their own."""
    project = new_project(workspace)
    assert not can_describe(project.pool)
    assert not can_describe(None)
    problem = look(project.described(project.session()), "a seven")["search"]["words"]["problem"]
    assert "can't be searched by words" in problem


def test_a_page_stays_while_the_pool_grows(drawn, project, found, monkeypatch):
    """What is in view can still be answered; the next page is chosen among all items."""
    now = [drawn.pool.prefix(400)]
    monkeypatch.setattr(OpenProject, "pool", property(lambda _: now[0]))
    before = look(found, "a seven")
    expected = drawn.ranked(["a seven"])
    assert [cell["id"] for cell in before["cells"]] == [item for item in expected if item < 400][:PAGE]
    now[0] = drawn.pool
    assert card_of(found)["cells"] == before["cells"]
    after = submit(found, marks(before["cells"], ["yes"]))
    assert [cell["id"] for cell in after["cells"]] == expected[:PAGE]
    assert verified(project)["problems"] == []


@pytest.fixture(scope="module")
def labeled(tmp_path_factory, drawn) -> Path:
    """A project labeled by words, before and after the first hyperplane."""
    with open_workspace(tmp_path_factory.mktemp("labeled")) as workspace:
        project = made(workspace, drawn)
        session = project.session()
        found = project.described(session)
        look(found, "a seven; a slanted seven", "a bold")
        session.set_strategy("exhaustive")
        wait_for_index(project, "exhaustive")
        submit(session, [answer(card_of(session), "skip")])
        submit(session, [answer(card_of(session), "unsure")])
        card = submit(session, [answer(card_of(session), "yes")])
        while card["next_is_coming"]:
            card = card_of(session)
        submit(session, [answer(card, "yes", next=card["next"]["yes"]["item"]["selection"])])
        session.revisit_skipped()
        submit(session, [answer(card_of(session), "yes")])
        grid = project.grid(session)
        submit(grid, marks(card_of(grid)["cells"], ["yes", "skip", "yes"]))
        card_of(project.session(annotator="bob"))
        card = look(found, "a seven", "", PAGE)
        last = submit(found, marks(card["cells"], ["no", "yes", "no"]))["last"]
        submit(found, marks(last[:1], ["yes"], corrects=last[0]["answer_id"]))
        card = look(found, "a small nine")
        submit(found, marks(card["cells"], ["no"] * 5))
        submit(session, [answer(card_of(session), "no")])
        whys = {record.why for record in log_of(found)}
        assert whys == {"words", "description", "skipped-again", "strategy"}
    return project.folder


@pytest.fixture
def searched(labeled, tmp_path, without_text_model) -> Path:
    """A copy of it, after the text model is gone."""
    return shutil.copytree(labeled, tmp_path / labeled.name)


def verified(project: OpenProject | Path) -> dict[str, object]:
    folder = project if isinstance(project, Path) else project.folder
    return json.loads(CliRunner().invoke(main, ["verify", str(folder), "--json"]).output)


def test_verify_makes_searches_and_starts_again_without_the_text_model(searched):
    """Every item is found where the log says."""
    findings = verified(searched)
    assert findings["problems"] == []
    assert findings["digests"] == findings["choices"]
    assert not {"words", "description"} & findings["ranks"].keys()


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        (
            "UPDATE selections SET parameters = json_set(parameters, '$.words.place', 3) "
            "WHERE json_extract(parameters, '$.words.place') = 2",
            "at place 3, the log has item",
        ),
        (
            "UPDATE selections SET parameters = json_remove(parameters, '$.direction') WHERE why = 'words'",
            "the log lacks the direction",
        ),
        (
            "UPDATE selections SET parameters = json_set(parameters, '$.direction.vector', 'AAAA') "
            "WHERE why = 'words'",
            "the direction of a description is damaged",
        ),
        (
            "UPDATE selections SET parameters = json_set(parameters, '$.direction.vector', 'AACAPw==') "
            "WHERE why = 'words'",
            "the search by words can't be repeated",
        ),
        (
            "UPDATE selections SET parameters = json_remove(parameters, '$.direction') "
            "WHERE why = 'description'",
            "chooses item",
        ),
        ("UPDATE selections SET leased = json_array(item) WHERE why = 'words'", "another session's view"),
        ("UPDATE selections SET margin = margin + 0.001 WHERE why = 'words'", "wᵀx"),
    ],
)
def test_verify_notices_what_was_not_found_so(searched, statement, complaint):
    """Another place or distance, no direction or another, or an item that was not free."""
    tamper(searched, statement)
    problems = verified(searched)["problems"]
    assert any(complaint in problem for problem in problems)


def test_a_damaged_direction_starts_nothing(tmp_path, drawn):
    """Labeling starts at random, as if nobody had described anything."""
    with open_workspace(tmp_path) as workspace:
        project = made(workspace, drawn)
        look(project.described(project.session()), "a seven")
        folder, key = project.folder, project.key
    tamper(folder, "UPDATE selections SET parameters = json_set(parameters, '$.direction.vector', 'x')")
    with open_workspace(tmp_path) as workspace:
        session = workspace.project(key).session()
        assert card_of(session)["notes"]["why"] == "random-start"
