"""Classes: one press is a yes for one concept and a no for the others; the concepts take turns to choose."""

from __future__ import annotations

import json
import shutil
import time
import uuid

import pytest

from closecall.app.api.cards import card_of, submit
from closecall.app.api.submit import take
from closecall.app.projects.roles import SOMEBODY, Person
from closecall.app.sessions.classes import MOST, ClassSession, can_choose, labels_of
from closecall.app.sessions.presses import answer_id
from closecall.app.sessions.review import Review
from closecall.app.verification.verify import verify_project
from closecall.core.selection.margin import index as margin
from closecall.storage import AnswerRecord, StorageError
from tests.projects import (
    answer,
    correct,
    label,
    new_project,
    open_workspace,
    shown_to,
    tamper,
    wait_for_index,
)
from tests.scale import thorough

DIGITS = ("7", "3", "1")
ME = Person(SOMEBODY, is_owner=True)


@pytest.fixture
def project(workspace):
    return with_classes(new_project(workspace))


@pytest.fixture
def classes(project) -> ClassSession:
    wait_for_index(project, "margin-index")
    return project.classes(project.session())


def with_classes(project):
    for digit in DIGITS[1:]:
        project.add_concept(f"Is this a {digit}?")
    return project


def press(card, given, **changes):
    """The browser's answer: a class by its name, or none, skip or unsure; by what the browser shows next."""
    chosen = next((c["concept"] for c in card["classes"] if c["name"] == given), None)
    word = "yes" if chosen else {"none": "no"}.get(given, given)
    shown = [c["concept"] for c in card["classes"]]
    return answer(card, word, concept=chosen, classes=shown, next=None) | changes


def follow(card, given):
    """The press, by a browser that shows at once what was sent ahead; and the view that it shows."""
    made = press(card, given)
    view = card["next"][word_for(card["turn"]["concept"], made)]
    return made | {"next": view["item"]["selection"]}, view


def word_for(concept, made):
    """What a press says to a concept."""
    return "no" if made["answer"] == "yes" and made["concept"] != concept else made["answer"]


def truth(project, item):
    """The class of an item, where there is a concept for it."""
    digit = project.pool.classes[int(project.pool.truth([item])[0])]
    return digit if digit in DIGITS else "none"


def truly(classes, n=1, *, ahead=False):
    """Press the true class of n items; returns the next card."""
    card = coming(classes) if ahead else card_of(classes)
    for _ in range(n):
        given = truth(classes.project, card["item"]["id"])
        card = submit(classes, [follow(card, given)[0] if ahead else press(card, given)])
        card = coming(classes) if ahead else card
    return card


def begin(classes):
    """Give one item of each class, and one of none, its class: from now on all concepts have a hyperplane."""
    card, project = card_of(classes), classes.project
    items = [int(item) for item in project.pool.ids if int(item) != card["item"]["id"]]
    first = {given: next(i for i in items if truth(project, i) == given) for given in (*DIGITS, "none")}
    given = [
        press(card, word, item=item, selection=shown_to(classes.session, item))
        for word, item in first.items()
    ]
    assert len(submit(classes, given)["acked"]) == 4
    card = card_of(classes)
    return submit(classes, [press(card, truth(project, card["item"]["id"]))])


def coming(classes):
    """The card, as soon as it has what follows."""
    card = card_of(classes)
    while card["next_is_coming"]:
        card = card_of(classes)
    return card


def stored(project) -> dict[int, list[AnswerRecord]]:
    """The answers in the log, by concept."""
    return {concept.id: list(project.log.answers_after(concept.id)) for concept in project.concepts()}


def said(project, item):
    """What is said of an item now, by concept, in the order of the keys."""
    return [project.live_concept(concept.id).catch_up().status(item) for concept in project.concepts()]


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("7", ["yes", "no", "no"]),
        ("1", ["no", "no", "yes"]),
        ("none", ["no", "no", "no"]),
        ("skip", ["skip"] * 3),
        ("unsure", ["unsure"] * 3),
    ],
)
def test_a_press_is_an_answer_for_each_concept(classes, project, given, expected):
    """A yes for the class that was chosen, a no for the others; none, skip and unsure are for all."""
    card = card_of(classes)
    made = press(card, given)
    after = submit(classes, [made])
    assert after["acked"] == [made["id"]]
    assert after["refused"] == []
    assert said(project, made["item"]) == expected
    assert all(len(answers) == 1 for answers in stored(project).values())
    assert after["item"]["id"] != made["item"]
    entry = after["strip"][-1]
    assert (entry["item"], entry["answer"]) == (made["item"], made["answer"])
    assert entry["concept"] == made["concept"]


@pytest.mark.parametrize("is_queued", [False, True])
def test_an_undo_beside_one_question_undoes_the_whole_press(classes, project, is_queued):
    """All its answers, also if both wait in the same queue; an answer to one question is undone alone."""
    session = classes.session
    first = press(card_of(classes), "3", session=session.id)
    if not is_queued:
        assert take(project, classes, [first], ME)["acked"] == [first["id"]]
    card = card_of(session)
    undo = answer(card, "undo", item=first["item"], selection=None, undoes=first["id"], session=session.id)
    after = take(project, session, [first, undo] if is_queued else [undo], ME)
    assert (undo["id"] in after["acked"], after["refused"]) == (True, [])
    assert said(project, first["item"]) == [None] * 3
    assert first["item"] not in [entry["item"] for entry in after["strip"]]
    alone = answer(after, "no", session=session.id)
    after = take(project, session, [alone], ME)
    before = {concept: len(given) for concept, given in stored(project).items()}
    undo = answer(after, "undo", item=alone["item"], selection=None, undoes=alone["id"], session=session.id)
    after = take(project, session, [undo], ME)
    assert undo["id"] in after["acked"]
    assert after["item"]["id"] == alone["item"]
    grown = {concept: len(given) - before[concept] for concept, given in stored(project).items()}
    assert list(grown.values()) == [1, 0, 0]


@pytest.mark.parametrize("n_before", [0, 1])
def test_what_an_undo_beside_one_question_brings_back(classes, project, n_before):
    """The item, if this question's strategy chose it; else another one, and the classes show it again."""
    session = classes.session
    for _ in range(n_before):
        truly(classes)
    made = press(card_of(classes), "3", session=session.id)
    its_own = project.log.selection(made["selection"]).session_id == session.id
    take(project, classes, [made], ME)
    card = card_of(session)
    undo = answer(card, "undo", item=made["item"], selection=None, undoes=made["id"], session=session.id)
    after = take(project, session, [undo], ME)
    assert its_own is (n_before == 0)
    assert (after["item"]["id"] == made["item"]) is its_own
    assert card_of(classes)["item"] is not None


def test_on_review_an_answer_of_a_press_is_undone_alone(classes, project):
    """Review is about one question."""
    session = classes.session
    made = press(card_of(classes), "3", session=session.id)
    take(project, classes, [made], ME)
    undo = answer(
        {"item": {"id": made["item"], "selection": None}}, "undo", undoes=made["id"], session=session.id
    )
    assert correct(Review(session), [undo])["acked"] == [undo["id"]]
    assert said(project, made["item"]) == [None, "yes", "no"]


def test_only_the_concept_that_chose_an_item_names_its_selection(classes, project):
    """Each answer is in its own concept's session, and the press's own id is the leading one's."""
    card = card_of(classes)
    made = press(card, "3")
    card = submit(classes, [made])
    second = press(card, "7")
    submit(classes, [second])
    first, other, third = stored(project).values()
    assert [record.selection_id for record in first] == [made["selection"], None]
    assert [record.selection_id for record in other] == [None, second["selection"]]
    assert [record.selection_id for record in third] == [None, None]
    assert [record.id for record in first] == [made["id"], second["id"]]
    assert {len({record.session_id for record in answers}) for answers in (first, other, third)} == {1}
    assert len({answers[0].session_id for answers in (first, other, third)}) == 3


def test_quick_presses_that_wait_get_hurried_selections(classes, project, monkeypatch):
    """Whichever concept selects next; an undo, or a press that takes longer, ends this."""
    monkeypatch.setattr(margin, "THRIFTY_BUDGET", 60)
    monkeypatch.setattr(margin, "LEAST_BUDGET", 10)
    card = begin(classes)

    def is_hurried_after(taken: int) -> bool:
        nonlocal card
        card = submit(classes, [press(card, truth(project, card["item"]["id"]), time_taken_ms=taken)])
        return "hurried" in classes.shown.parameters

    assert not is_hurried_after(700)
    assert all(is_hurried_after(50) for _ in DIGITS)
    assert not is_hurried_after(700)
    made = press(card, truth(project, card["item"]["id"]), time_taken_ms=50)
    card = submit(classes, [made])
    assert "hurried" in classes.shown.parameters
    undo = press(card, "undo", item=made["item"], selection=None, undoes=made["id"], time_taken_ms=None)
    card = submit(classes, [undo])
    assert card["item"]["id"] == made["item"]
    assert not is_hurried_after(700)
    assert verify_project(project.folder) == 0


def test_the_concepts_take_turns(classes):
    """In the order of their keys, whatever is answered; the card says whose turn comes next."""
    card, asked, announced = card_of(classes), [], []
    for given in ["7", "none", "skip", "3", "unsure", "1", "none"]:
        asked.append(card["notes"]["asked"])
        announced.append(card["turn"]["concept"])
        card = submit(classes, [press(card, given)])
    questions = [f"Is this a {digit}?" for digit in DIGITS]
    assert asked == (questions * 3)[:7]
    ids = [concept.id for concept in classes.concepts]
    assert announced == [ids[(n + 1) % 3] for n in range(7)]
    assert card["round"] == 8


def test_each_press_is_a_retrain_and_a_query(classes, project):
    """By the hyperplane of the concept whose turn it is, trained with that press."""
    begin(classes)
    truly(classes, 2)
    before = list(project.log.selections())
    truly(classes, 9)
    new = list(project.log.selections())[len(before) :]
    assert len(new) == 9
    assert [record.concept_id for record in new] == [2, 3, 1] * 3
    assert [record.n_labels for record in new] == list(range(8, 17))
    assert len({record.hyperplane_digest for record in new} - {None}) == 9
    assert len({record.round for record in before + new}) == len(before + new)


@pytest.mark.parametrize("given", ["7", thorough("3"), thorough("1"), thorough("none"), "skip", "unsure"])
def test_what_was_sent_ahead_is_what_would_be_chosen(workspace, given):
    """The same item by the same hyperplane as where the browser has to wait for it."""
    found = []
    for ahead in (True, False):
        project = with_classes(new_project(workspace))
        wait_for_index(project, "margin-index")
        session = project.session(project.log.start_session(1, "ada", "margin-index", seed=3).id)
        classes = project.classes(session)
        begin(classes)
        truly(classes, 5, ahead=ahead)
        card = coming(classes)
        submit(classes, [follow(card, given)[0] if ahead else press(card, given)])
        shown = classes.shown
        assert shown.hyperplane_digest is not None
        found.append((shown.concept_id, shown.item, shown.hyperplane_digest, shown.margin, shown.round))
    assert found[0] == found[1]


def test_the_card_after_a_press_is_the_view_that_was_sent_ahead(classes):
    """Its numbers, too: nothing on the page changes when the server catches up."""
    begin(classes)
    while classes.project.indexes.full_scan_ms is None:
        time.sleep(0.01)
    for given in ["7", "3", "none", "skip", "1", "unsure"]:
        card = coming(classes)
        made, view = follow(card, given)
        after = submit(classes, [made])
        assert after["acked"] == [made["id"]]
        assert {name: after[name] for name in ("round", "notes")} == {k: view[k] for k in ("round", "notes")}
        assert after["item"] == view["item"] | {"src": card["pictures"][str(view["item"]["id"])]}
        course = {name: [*past, view["notes"][name]] for name, past in card["turn"]["history"].items()}
        assert after["history"] == course


def test_a_press_sent_again_is_stored_once_and_moves_nothing(classes, project):
    """The browser may send its queue as often as it likes; what says something else is refused."""
    truly(classes, 4)
    made = press(card_of(classes), "7")
    first = submit(classes, [made])
    again = submit(classes, [made])
    assert again["acked"] == [made["id"]]
    assert again["item"] == first["item"]
    assert [len(answers) for answers in stored(project).values()] == [5, 5, 5]
    other = submit(classes, [press(first, "3") | {k: made[k] for k in ("id", "item", "selection")}])
    assert [refusal["id"] for refusal in other["refused"]] == [made["id"]]
    assert said(project, made["item"]) == ["yes", "no", "no"]
    about_this = submit(classes, [press(first, "3") | {"id": made["id"]}])
    assert [refusal["id"] for refusal in about_this["refused"]] == [made["id"]]
    assert about_this["item"] == first["item"]


def test_a_queue_of_presses_is_taken_in_its_order(classes, project):
    """Two answers that wait for the server, the second about an item that came ahead of the first."""
    begin(classes)
    card = coming(classes)
    first, view = follow(card, "3")
    second = press(view | {"classes": card["classes"]}, "none")
    undo = press(card, "undo", item=second["item"], selection=None, undoes=second["id"])
    after = submit(classes, [first, second, undo])
    assert after["acked"] == [first["id"], second["id"], undo["id"]]
    assert said(project, first["item"]) == ["no", "yes", "no"]
    assert said(project, second["item"]) == [None] * 3
    assert after["item"]["id"] == second["item"]


def test_nothing_of_a_press_is_stored_where_one_answer_can_not_be(classes, project):
    """Another item's selection, another session's, one that was answered, or a class that isn't there."""
    other = project.classes(project.session(project.log.start_session(1, "bob", "margin-index").id))
    theirs, card = card_of(other), card_of(classes)
    wrong = [
        press(card, "7", item=card["item"]["id"] + 1),
        press(card, "7", selection=theirs["item"]["selection"], item=theirs["item"]["id"]),
        press(card, "7", selection="no-such-selection"),
        press(card, "7", concept=99),
        press(card, "7", classes=[1, 99]),
        press(card, "7", classes=[2, 3]),
        press(card, "undo", undoes=str(uuid.uuid4()), selection=None),
        press(card, "7", corrects=str(uuid.uuid4()), selection=None),
    ]
    after = submit(classes, wrong)
    assert [refusal["id"] for refusal in after["refused"]] == [made["id"] for made in wrong]
    assert after["acked"] == []
    assert after["item"] == card["item"]
    submit(classes, [press(card, "7")])
    after = submit(classes, [press(card, "3")])
    assert "answered already" in after["refused"][0]["reason"]
    assert {len(answers) for answers in stored(project).values()} == {1}


def test_a_press_is_stored_as_a_whole_or_not_at_all(classes, project, monkeypatch):
    """All its answers go into the log in one transaction."""
    made = press(card_of(classes), "7")
    calls = []
    append = type(project.log).append_answers

    def full(self, answers, **more):
        calls.append(sorted(record.concept_id for record in answers))
        raise StorageError("the disk is full", "full")

    monkeypatch.setattr(type(project.log), "append_answers", full)
    with pytest.raises(StorageError):
        submit(classes, [made])
    assert calls == [[1, 2, 3]]
    assert said(project, made["item"]) == [None] * 3
    monkeypatch.setattr(type(project.log), "append_answers", append)
    assert submit(classes, [made])["acked"] == [made["id"]]
    assert said(project, made["item"]) == ["yes", "no", "no"]


def test_undo_takes_back_all_answers_of_a_press(classes, project):
    """The item is back, for the concept that had chosen it; the same turn follows."""
    card = begin(classes)
    made = press(card, "3")
    after = submit(classes, [made])
    undo = press(after, "undo", item=made["item"], selection=None, undoes=made["id"])
    back = submit(classes, [undo])
    assert back["acked"] == [undo["id"]]
    assert said(project, made["item"]) == [None] * 3
    assert back["item"]["id"] == made["item"]
    assert back["notes"]["why"] == "undo"
    assert back["notes"]["asked"] == card["notes"]["asked"]
    assert back["turn"]["concept"] == card["turn"]["concept"]
    assert [entry["item"] for entry in back["strip"]] == [entry["item"] for entry in card["strip"]]
    assert submit(classes, [undo])["acked"] == [undo["id"]]
    again = submit(classes, [press(back, "7")])
    assert said(project, made["item"]) == ["yes", "no", "no"]
    assert again["item"]["id"] != made["item"]


def test_an_undo_that_is_sent_again_leaves_what_is_in_view(classes):
    """Its item came back and was answered again; a browser that missed the reply sends the undo again."""
    begin(classes)
    card = card_of(classes)
    made = press(card, "7")
    undo = press(submit(classes, [made]), "undo", item=made["item"], selection=None, undoes=made["id"])
    after = submit(classes, [press(submit(classes, [undo]), "3")])
    assert after["item"]["id"] != made["item"]
    again = submit(classes, [undo])
    assert again["acked"] == [undo["id"]]
    assert again["item"] == after["item"]


def test_a_correction_gives_another_class(classes, project):
    """For all concepts; it can be corrected and undone itself, and what is in view stays."""
    made = press(card_of(classes), "7")
    card = submit(classes, [made])
    about = {"item": made["item"], "selection": None}
    first = press(card, "3", corrects=made["id"], **about)
    after = submit(classes, [first])
    assert after["item"] == card["item"]
    assert said(project, made["item"]) == ["no", "yes", "no"]
    assert (after["strip"][-1]["answer_id"], after["strip"][-1]["concept"]) == (first["id"], 2)
    second = press(card, "skip", corrects=first["id"], **about)
    submit(classes, [second])
    assert said(project, made["item"]) == ["skip"] * 3
    submit(classes, [press(card, "undo", undoes=second["id"], **about)])
    assert said(project, made["item"]) == ["no", "yes", "no"]
    assert all(
        [record.corrects for record in answers[1:3]]
        == [answer_id(made["id"], concept, own=1), answer_id(first["id"], concept, own=1)]
        for concept, answers in stored(project).items()
    )


def test_a_press_changes_no_decision(classes, project):
    """A decision is about one question: the strip leaves it out, and no class corrects or undoes it."""
    card = card_of(classes)
    given = press(card, "7")
    submit(classes, [given])
    bobs = project.session(annotator="bob")
    bobs.store([answer(card, "no", selection=None)])
    decisions = project.decisions(classes.session)
    decided = answer(card_of(decisions), "no")
    assert submit(decisions, [decided])["acked"] == [decided["id"]]
    assert card_of(classes)["strip"] == []
    for word, changes in (("1", {"corrects": decided["id"]}), ("undo", {"undoes": decided["id"]})):
        (refusal,) = submit(classes, [press(card, word, selection=None, **changes)])["refused"]
        assert refusal["reason"] == f"Item {given['item']} was decided: change the decision on Review"
    state = classes.session.concept.catch_up()
    assert (state.status(given["item"]), state.votes(given["item"])["annotator"]) == ("no", "yes")


def test_what_was_answered_for_one_concept_alone_may_come_again(classes, project):
    """Of all, the last word counts; the strip leaves out what has no class."""
    session = classes.session
    label(session, 3)
    alone = [record.item for record in stored(project)[1]]
    card = card_of(classes)
    assert card["strip"] == []
    made = press(card, "3", item=alone[0], selection=None)
    after = submit(classes, [made])
    assert said(project, alone[0]) == ["no", "yes", "no"]
    assert [entry["item"] for entry in after["strip"]] == [alone[0]]
    corrected = press(after, "7", item=alone[1], selection=None, corrects=stored(project)[1][1].id)
    assert submit(classes, [corrected])["refused"] == []
    assert said(project, alone[1]) == ["yes", "no", "no"]


def test_nobody_else_is_shown_what_is_in_view_or_sent_ahead(classes, project):
    """In no session of any of the concepts; and they may choose what nobody has in view."""
    truly(classes, 6)
    card = coming(classes)
    mine = {card["item"]["id"], *(view["item"]["id"] for view in card["next"].values())}
    for concept in project.concepts():
        other = project.session(project.log.start_session(concept.id, "bob", "margin-index", seed=3).id)
        assert mine <= set(project.leases.held(but_for={other.id}))
        assert card_of(other)["item"]["id"] not in mine
        assert other.item_view.ahead.wait(60)
    theirs = set(project.leases.held(but_for={classes.id}))
    for _ in range(9):
        truly(classes)
        coming(classes)
    assert set(classes.shown.leased) == theirs
    assert set(project.leases.held(but_for=())) - theirs == {classes.shown.item, *classes.ahead.items}


def test_card_grid_and_classes_take_turns(classes, project):
    """Each chooses anew when its turn comes, and no answered item comes back."""
    begin(classes)
    session, grid = classes.session, project.grid(classes.session)
    grid.resize(12)
    cells = card_of(grid)["cells"]
    answered = {record.item for answers in stored(project).values() for record in answers}
    assert answered.isdisjoint(cell["id"] for cell in cells)
    card = card_of(classes)
    assert card["item"]["id"] not in answered
    submit(classes, [press(card, "none")])
    answered.add(card["item"]["id"])
    assert answered.isdisjoint(cell["id"] for cell in card_of(grid)["cells"])
    one = card_of(session)
    assert project.log.selection(one["item"]["selection"]).session_id == session.id
    after = submit(session, [answer(one, "yes")])
    assert card_of(classes)["item"]["id"] not in {*answered, one["item"]["id"]}
    assert after["item"]["id"] not in answered


def test_the_strategy_is_everybodys(classes, project):
    """It chooses at once, and for each concept at its turn."""
    begin(classes)
    wait_for_index(project, "exhaustive")
    classes.session.set_strategy("exhaustive")
    assert card_of(classes)["notes"]["strategy"] == "exhaustive"
    card = card_of(classes)
    for _ in range(3):
        card = submit(classes, [press(card, "none")])
        assert card["notes"]["strategy"] == "exhaustive"


def test_it_is_all_there_after_a_restart(tmp_path):
    """The same item in view, the same strip and the same turn; no other sessions are begun."""
    with open_workspace(tmp_path) as workspace:
        project = with_classes(new_project(workspace))
        classes = project.classes(project.session())
        before = begin(classes)
        n_sessions, made = len(project.log.sessions()), press(before, "3")
    for _ in range(2):
        with open_workspace(tmp_path) as workspace:
            project = workspace.project(project.key)
            classes = project.classes(project.session(classes.id))
            after = card_of(classes)
            for part in ("item", "strip", "turn", "classes", "history", "round"):
                assert after[part] == before[part], part
            assert len(project.log.sessions()) == n_sessions == 3
            before = submit(classes, [made])
            assert before["acked"] == [made["id"]]


def test_a_concept_more_or_less_changes_the_keys(classes, project):
    """What the person saw is what is stored; the first nine have keys, and one alone is no choice."""
    card = truly(classes, 4)
    waiting = press(card, "3")
    added = project.add_concept("Is this a 9?", name="nine")
    after = submit(classes, [waiting])
    assert [c["name"] for c in after["classes"]] == ["1", "3", "7", "9"]
    assert list(project.log.answers_after(added.id)) == []
    project.archive.add(2)
    after = submit(classes, [press(after, "9")])
    assert [(c["key"], c["concept"]) for c in after["classes"]] == [("1", 3), ("7", 1), ("9", added.id)]
    assert said(project, after["strip"][-1]["item"]) == ["no", "no", "yes"]
    for digit in "02456899":
        project.add_concept(f"Is this a {digit}?", name=f"digit {digit} {uuid.uuid4()}")
    assert len(card_of(classes)["classes"]) == MOST
    tenth = project.session(None, project.concepts()[-1].id)
    assert not can_choose(tenth)
    assert can_choose(classes.session)


def test_one_question_is_no_choice(workspace):
    """Neither is it where the others are put away."""
    project = new_project(workspace)
    assert not can_choose(project.session())
    other = project.add_concept("Is this a 3?")
    assert can_choose(project.session())
    project.archive.add(other.id)
    assert not can_choose(project.session())


def test_classes_are_called_by_their_own_names(project):
    """Where two would be called alike, by the concepts' names."""
    store = project.concept_store
    asked = [
        store.create("Is it a sea horse", "Is it a sea horse?"),
        store.create("chimney", "Does it show a chimney on the roof?"),
        store.create("Does it rain", "Does it rain?"),
        store.create("first", "Is it an owl?", positive_class="owl"),
        store.create("second", "Is this an owl?", positive_class="owl"),
    ]
    names = [choice["name"] for choice in labels_of(asked)]
    assert names == ["sea horse", "chimney", "Does it rain", "first", "second"]
    assert [choice["key"] for choice in labels_of(asked)] == ["1", "2", "3", "4", "5"]


def test_digits_are_their_own_keys(project):
    """In their order; among other names they have numbers like these."""
    zero, owl = project.add_concept("Is this a 0?"), project.add_concept("Is it an owl?")
    digits = [*project.concepts()[:3], zero]
    assert [(choice["key"], choice["name"]) for choice in labels_of(digits)] == [(d, d) for d in "0137"]
    keys = [(choice["key"], choice["name"]) for choice in labels_of([*digits[:2], owl])]
    assert keys == [("1", "7"), ("2", "3"), ("3", "owl")]


def test_what_belongs_to_an_audit_does_not_train_its_concept(classes, project):
    """No round of the classes is the audit's; what was drawn before, for one concept, trains the others."""
    session = classes.session
    begin(classes)
    session.set_audit_share(1.0)
    wait_for_index(project, "exhaustive")
    session.set_strategy("exhaustive")
    first = card_of(session)
    second = submit(session, [answer(first, "no")])
    assert [card["notes"]["why"] for card in (first, second)] == ["audit", "audit"]
    card = card_of(classes)
    assert card["item"]["selection"] == second["item"]["selection"]
    card = submit(classes, [press(card, "7"), press(card, "3", item=first["item"]["id"], selection=None)])
    items = [second["item"]["id"], first["item"]["id"]]
    for concept, answers in stored(project).items():
        expected = "audit" if concept == 1 else "train"
        assert [(record.item, record.purpose) for record in answers[-2:]] == [(i, expected) for i in items]
        labels = project.live_concept(concept).standing().labels.items
        assert set(items).isdisjoint(labels) if concept == 1 else set(items) <= set(labels.tolist())
    for _ in range(4):
        assert card["notes"]["why"] == "strategy"
        card = submit(classes, [press(card, "none")])
    assert verify_project(project.folder) == 0


def test_a_spent_pool_is_told(workspace):
    """Where nothing follows a press, nothing is sent for it."""
    project = with_classes(new_project(workspace, n_items=110))
    wait_for_index(project, "margin-index")
    classes = project.classes(project.session())
    card = begin(classes)
    rest = [int(item) for item in project.pool.ids if said(project, int(item))[0] is None]
    rest.remove(card["item"]["id"])
    submit(
        classes,
        [press(card, "none", item=item, selection=shown_to(classes.session, item)) for item in rest[1:]],
    )
    card = submit(classes, [press(card, "none")])
    assert coming(classes)["next"] == {}
    after = submit(classes, [press(card, "7")])
    assert after["item"] is None
    assert after["waiting"]["exhausted"]


@pytest.fixture(scope="module")
def labeled_once(tmp_path_factory):
    """A project labeled in every way, and closed."""
    with open_workspace(tmp_path_factory.mktemp("classes")) as workspace:
        project = with_classes(new_project(workspace))
        project.memories.worthwhile_seconds = 0.0
        wait_for_index(project, "margin-index")
        classes = project.classes(project.session())
        begin(classes)
        truly(classes, 5, ahead=True)
        for given in ["skip", "unsure", "none", "7", "skip"]:
            made, _ = follow(coming(classes), given)
            card = submit(classes, [made])
        about = {"item": made["item"], "selection": None}
        changed = press(card, "3", corrects=made["id"], **about)
        submit(classes, [changed])
        submit(classes, [press(card, "undo", undoes=changed["id"], **about)])
        truly(classes, 4, ahead=True)
        label(classes.session, 3)
        classes.session.revisit_skipped()
        for strategy in ("exhaustive", "mixture", "margin-index"):
            wait_for_index(project, strategy)
            classes.session.set_strategy(strategy)
            truly(classes, 4, ahead=True)
    return project.folder


@pytest.fixture
def labeled(labeled_once, tmp_path):
    """A copy of it."""
    return shutil.copytree(labeled_once, tmp_path / labeled_once.name)


def test_the_log_can_be_replayed(labeled, capsys):
    """Every digest and choice of every concept, although what it followed was another one's item."""
    assert verify_project(labeled, as_json=True) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["problems"] == []
    assert found["choices"] == found["digests"] > 30
    assert found["answers"] > 3 * 30
    assert set(found["ranks"]) >= {"exhaustive", "mixture", "margin-index"}


TAMPERED = {
    "answer": "UPDATE answers SET answer = 'no' WHERE answer = 'yes' AND concept_id = {concept} AND seq < 17",
    "margin": """UPDATE selections SET margin = margin + 0.001
           WHERE margin IS NOT NULL AND concept_id = {concept}""",
    "supposed": """UPDATE selections SET parameters = json_replace(parameters, '$.supposed.answer', 'yes')
           WHERE json_extract(parameters, '$.supposed.answer') = 'no' AND concept_id = {concept}""",
}


@pytest.mark.parametrize(
    ("concept", "what"),
    [
        (concept, what) if concept == number else thorough(concept, what)
        for number, what in enumerate(TAMPERED, 1)
        for concept in (1, 2, 3)
    ],
)
def test_a_tampered_log_does_not_hold(labeled, what, concept, capsys):
    """Whichever concept's part of it was changed."""
    tamper(labeled, TAMPERED[what].format(concept=concept))
    assert verify_project(labeled, as_json=True) == 1
    assert json.loads(capsys.readouterr().out)["problems"]
