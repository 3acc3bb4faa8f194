from __future__ import annotations

import io
import json
import re
import time
from datetime import UTC, datetime

import numpy as np
import pytest
from click.testing import CliRunner

from closecall.app.api.cards import card_of, submit
from closecall.app.api.people import PAUSE_MS, team, work_of
from closecall.app.api.submit import take
from closecall.app.cli.main import main
from closecall.app.engine.annotator_agreement import pairs_of, together_of
from closecall.app.projects.config import ProjectFile
from closecall.app.projects.roles import Person
from closecall.app.sessions.registry import OpenProject
from closecall.core.errors import InputError
from closecall.storage.review import AnswerTable
from tests.projects import answer, label, new_project, open_workspace, truth_word, wait_for_index
from tests.unit.storage.test_fold import answer as logged

ADA, BOB = Person("ada", is_owner=True), Person("bob")


@pytest.fixture
def project(tmp_path) -> OpenProject:
    with open_workspace(tmp_path) as workspace:
        yield new_project(workspace)


def table(*given):
    """The columns of a log."""
    return AnswerTable(1).fold(given).answers()


def disagree(project: OpenProject, n: int = 3) -> list[int]:
    """Ada says yes of n items, and Bob no; returns them."""
    ada, bob = project.session(annotator="ada"), project.session(annotator="bob")
    items = []
    for _ in range(n):
        card = card_of(ada)
        items.append(card["item"]["id"])
        submit(ada, [answer(card, "yes")])
        bob.store([answer(card, "no", selection=None)])
    return items


def verified(project: OpenProject) -> dict:
    """What a replay of the log finds."""
    result = CliRunner().invoke(main, ["verify", str(project.folder), "--json"])
    return json.loads(result.output)


def test_a_card_has_the_labels_of_its_selection_and_those_of_now(project):
    """Labels of other people come after the selection; the next is trained on them, and on example images."""
    ada, bob = project.session(annotator="ada"), project.session(annotator="bob")
    card = card_of(ada)
    assert (card["notes"]["n_labels"], card["notes"]["now"]["labels"]) == (0, 0)
    label(bob, 6)
    card = card_of(ada)
    assert (card["notes"]["n_labels"], card["notes"]["now"]["labels"]) == (0, 6)
    assert card["notes"]["now"]["items"] == len(project.pool)
    notes = submit(ada, [answer(card, "no")])["notes"]
    assert (notes["n_labels"], notes["now"]["labels"]) == (7, 7)
    shown = io.BytesIO()
    project.pool.source.image(0, 64).save(shown, "PNG")
    ada.add_examples([shown.getvalue()], by=ADA)
    notes = card_of(ada)["notes"]
    assert (notes["n_labels"], notes["now"]["labels"]) == (8, 8)


def test_pauses_are_no_active_time():
    """Ten answers ten seconds apart, an hour's pause, one more: 360 an hour."""
    times = [1000 * 10 * n for n in range(10)] + [90_000 + 3_600_000]
    answers = table(
        *(logged(n + 1, "yes", n, browser_time=t, time_taken_ms=900) for n, t in enumerate(times))
    )
    work = work_of(answers, "Ada", midnight=times[-1])
    assert work == {
        "name": "Ada",
        "given": 11,
        "items": 11,
        "today": 1,
        "per_hour": 360.0,
        "seconds": 0.9,
    }
    assert PAUSE_MS < 3_600_000


def test_agreement_is_that_of_votes_in_force_without_decisions():
    """Corrected and decided answers change no annotator's word but their own."""
    answers = table(
        logged(1, "yes", 1),
        logged(2, "no", 2),
        logged(3, "yes", 1, annotator="Bob"),
        logged(4, "yes", 2, annotator="Bob"),
        logged(5, "no", 1, annotator="Cleo", purpose="decision"),
        logged(6, "no", 2, annotator="Bob", corrects="answer-4"),
        logged(7, "skip", 3),
        logged(8, "yes", 3, annotator="Bob"),
    )
    (pair,) = pairs_of(answers)
    assert pair == {"names": ["Ada", "Bob"], "items": 2, "kappa": 1.0}
    together = together_of(answers)
    assert together.pop("interval").low < 0.5  # two items tell little
    assert together == {"alpha": 1.0, "items": 2, "fleiss": 1.0, "fleiss_items": 2, "voices": 2}
    assert pairs_of(answers, intervals=True)[0]["interval"].low < 0.5
    assert together_of(table(logged(1, "yes", 1))) is None
    assert together_of(table()) is None


def test_owners_see_everybody_and_others_themselves(project):
    """Names, numbers and disagreements of others are an owner's."""
    disagree(project)
    session = project.session(annotator="ada")
    everybody, own = team(session, ADA, UTC), team(session, BOB, UTC)
    assert [row["name"] for row in everybody["people"]] == ["ada", "bob"]
    assert (everybody["contested"], everybody["pairs"][0]["items"]) == (3, 3)
    assert [row["name"] for row in own["people"]] == ["bob"]
    assert (own["contested"], own["pairs"], own["together"]) == (0, [], None)
    assert "ada" not in re.sub("[0-9a-f-]{36}", "", json.dumps(own))  # an id may have these letters
    assert own["people"][0]["today"] == (3 if datetime.now(UTC).hour else own["people"][0]["today"])


def test_decisions_are_asked_one_by_one_and_train(project):
    """Who said what stands above the item; what is decided outranks the votes, can be undone, and replays."""
    items = disagree(project)
    session = project.session(annotator="cleo")
    cleo, decisions = Person("cleo", is_owner=True), project.decisions(session)
    card = take(project, decisions, [], cleo)
    assert card["item"]["id"] == items[0]
    assert card["concept"]["guideline"] == "no: bob · yes: ada"
    assert card["notes"]["waiting"] == 3
    first = answer(card, "yes", session=session.id)
    card = take(project, decisions, [first], cleo)
    assert (card["acked"], card["item"]["id"]) == ([first["id"]], items[1])
    state = session.concept.catch_up()
    assert (state.status(items[0]), state.status(items[1])) == ("yes", "tied")
    assert state.labels().items.tolist() == [items[0]]
    assert state.votes(items[0]) == {"ada": "yes", "bob": "no"}

    card = take(project, decisions, [answer(card, "skip", session=session.id)], cleo)
    assert card["item"]["id"] == items[2]
    card = take(project, decisions, [answer(card, "no", session=session.id)], cleo)
    assert card["item"]["id"] == items[1]
    undo = answer(card, "undo", session=session.id, selection=None, undoes=first["id"]) | {"item": items[0]}
    shown = card["item"]["selection"]
    card = take(project, decisions, [undo], cleo)
    assert card["acked"] == [undo["id"]]
    assert session.concept.catch_up().status(items[0]) == "tied"
    assert [entry["item"] for entry in card["strip"]] == [items[2]]
    card = take(project, decisions, [], cleo)
    assert card["item"]["selection"] != shown
    for _ in range(2):
        card = take(project, decisions, [answer(card, "no", session=session.id)], cleo)
    assert card["item"] is None
    assert "nothing to decide" in card["waiting"]["message"]
    label(session, 12)
    project.close()
    assert verified(project)["problems"] == []


def test_each_owner_has_the_strip_of_their_own_decisions(project):
    """However many others have decided since."""
    disagree(project, 17)  # each owner has two items in view or ahead
    decided: dict[str, list[int]] = {"cleo": [], "dora": []}
    views = {name: project.decisions(project.session(annotator=name)) for name in decided}
    for name, number in (("cleo", 2), ("dora", 13)):
        for _ in range(number):
            card = take(project, views[name], [], Person(name, is_owner=True))
            decided[name].append(card["item"]["id"])
            submit(views[name], [answer(card, "no", session=views[name].id)], Person(name, is_owner=True))
    strips = {name: [entry["item"] for entry in card_of(view)["strip"]] for name, view in views.items()}
    assert strips == {"cleo": decided["cleo"], "dora": decided["dora"][-12:]}


def test_decisions_are_read_like_other_answers(project):
    """A browser's clock may measure fractions of a millisecond; what is no id is refused in one sentence."""
    disagree(project, 1)
    session = project.session(annotator="ada")
    decisions = project.decisions(session)
    card = take(project, decisions, [], ADA)
    other = answer(card, "yes", session=session.id, corrects=["no", "id"])
    (refusal,) = take(project, decisions, [other], ADA)["refused"]
    assert refusal == {
        "id": other["id"],
        "reason": f"The answer {other['id']} can't be read: corrects must be an id, got ['no', 'id']",
    }
    given = answer(card, "yes", session=session.id, time_taken_ms=1234.5)
    assert take(project, decisions, [given], ADA)["acked"] == [given["id"]]
    stored = project.log.answer(given["id"])
    assert (stored.time_taken_ms, stored.purpose, stored.selection_id) == (1234, "decision", None)


def test_a_decision_is_corrected_from_wherever_it_is_shown(project):
    """To another decision; a skip is none, and is refused instead of lost. Its menu does not offer it."""
    (first,) = disagree(project, 1)
    session = project.session(annotator="ada")
    decisions = project.decisions(session)
    card = take(project, decisions, [], ADA)
    assert card["item"]["id"] == first
    given = answer(card, "yes", session=session.id)
    own = [entry["decides"] for entry in take(project, decisions, [given], ADA)["strip"]]
    assert own == [True]
    shown = answer(card_of(session), "no", session=session.id)
    strip = take(project, session, [shown], ADA)["strip"]
    assert [(entry["answer_id"], entry["decides"]) for entry in strip] == [
        (given["id"], True),
        (shown["id"], False),
    ]
    about = {"session": session.id, "selection": None}
    for view in (decisions, session):
        later = answer(card, "skip", **about, corrects=given["id"]) | {"item": first}
        settled = take(project, view, [later], ADA)
        assert settled["acked"] == []
        assert [refusal["reason"] for refusal in settled["refused"]] == [
            "A decision is yes, no or unsure: it can't become a skip"
        ]
        assert project.log.answer(later["id"]) is None
    odd = answer(card, "skip", **about, undoes=given["id"]) | {"item": first}
    assert [refusal["id"] for refusal in take(project, session, [odd], ADA)["refused"]] == [odd["id"]]
    other = answer(card, "no", **about, corrects=given["id"]) | {"item": first}
    assert take(project, session, [other], ADA)["acked"] == [other["id"]]
    assert project.log.answer(other["id"]).purpose == "decision"
    assert session.concept.catch_up().status(first) == "no"


def test_a_decision_and_its_correction_may_arrive_together(project):
    """As after a break of the connection: both decide, and neither is a vote."""
    (item,) = disagree(project, 1)
    session = project.session(annotator="cleo")
    decisions, cleo = project.decisions(session), Person("cleo", is_owner=True)
    card = take(project, decisions, [], cleo)
    given = answer(card, "yes", session=session.id)
    about = {"session": session.id, "selection": None, "corrects": given["id"]}
    corrected = answer(card, "no", **about) | {"item": item}
    settled = take(project, decisions, [given, corrected], cleo)
    assert settled["acked"] == [given["id"], corrected["id"]]
    assert [project.log.answer(name).purpose for name in settled["acked"]] == ["decision", "decision"]
    state = session.concept.catch_up()
    assert (state.status(item), state.votes(item)) == ("no", {"ada": "yes", "bob": "no"})


def test_what_follows_a_decision_is_sent_ahead(project):
    """With who said what of it, its picture, and how many wait; and the browser need not load it again."""
    items = disagree(project)
    session = project.session(annotator="ada")
    decisions = project.decisions(session)
    card = take(project, decisions, [], ADA)
    assert sorted(card["next"]) == ["no", "skip", "unsure", "yes"]
    for word, waiting in (("yes", 2), ("skip", 3)):
        view = card["next"][word]
        assert (view["item"]["id"], view["notes"]["waiting"]) == (items[1], waiting)
        assert view["concept"]["guideline"] == "no: bob · yes: ada"
        assert card["pictures"][str(items[1])].startswith(("data:", "/"))
    for word in ("yes", "skip", "no"):
        following = card["next"][word]
        card = take(project, decisions, [answer(card, word, session=session.id)], ADA)
        assert card["item"]["selection"] == following["item"]["selection"]
        assert card["notes"]["waiting"] == following["notes"]["waiting"]
    assert (card["item"]["id"], list(card["next"])) == (items[1], ["skip"])
    asked = card["item"]["selection"]
    again = card["next"]["skip"]["item"]
    assert again["id"] == items[1]
    assert again["selection"] != asked
    card = take(project, decisions, [answer(card, "skip", session=session.id)], ADA)
    assert card["item"]["selection"] == again["selection"]


def test_two_owners_are_not_asked_to_decide_the_same_item(project):
    """What one has in view, and what follows it, the other is not shown; nor what was decided meanwhile."""
    items = disagree(project, 5)
    cleo, dora = (Person(name, is_owner=True) for name in ("cleo", "dora"))
    sessions = {person: project.session(annotator=person.name) for person in (cleo, dora)}
    cards = {person: take(project, project.decisions(sessions[person]), [], person) for person in sessions}
    assert [card["item"]["id"] for card in cards.values()] == [items[0], items[2]]
    asked = []
    for person in (cleo, dora, dora, cleo, cleo):
        given = answer(cards[person], "yes", session=sessions[person].id)
        asked.append(given["item"])
        cards[person] = take(project, project.decisions(sessions[person]), [given], person)
    assert sorted(asked) == sorted(items)
    assert [card["item"] for card in cards.values()] == [None, None]


def test_what_another_owner_has_in_view_is_told_and_comes_back(project):
    """A single item left: the second owner is told where it is, and has it once the first one put it off."""
    items = disagree(project, 1)
    cleo, dora = (Person(name, is_owner=True) for name in ("cleo", "dora"))
    first, second = (project.decisions(project.session(annotator=name)) for name in ("cleo", "dora"))
    assert take(project, first, [], cleo)["item"]["id"] == items[0]
    card = take(project, second, [], dora)
    assert card["item"] is None
    assert card["waiting"]["message"] == "Other owners are looking at the remaining items."
    first.leases.keep(first.id, ())
    assert take(project, second, [], dora)["item"]["id"] == items[0]


def test_an_owners_tabs_decide_about_different_items_until_none_is_left(project):
    """Then they show the same; no other owner is said to look at it, and a second decision is refused."""
    items = disagree(project, 3)
    sessions = [project.session(project.log.start_session(1, "ada", "random").id) for _ in range(2)]
    views = [project.decisions(session) for session in sessions]
    cards = [take(project, view, [], ADA) for view in views]
    assert [card["item"]["id"] for card in cards] == [items[0], items[2]]

    def decide(tab: int) -> tuple[dict, dict]:
        given = answer(cards[tab], "yes", session=sessions[tab].id)
        cards[tab] = take(project, views[tab], [given], ADA)
        return given, cards[tab]

    given, card = decide(1)
    assert card["acked"] == [given["id"]]
    for first, second, item in ((0, 1, items[0]), (1, 0, items[1])):
        assert [card["item"]["id"] for card in cards] == [item, item]
        given, card = decide(first)
        assert card["acked"] == [given["id"]]
        late, card = decide(second)
        reason = "Your decision was not stored: its item was decided already, perhaps in another window"
        assert card["refused"] == [{"id": late["id"], "reason": reason}]
        again = take(project, views[first], [given], ADA)
        assert again["acked"] == [given["id"]], "what is sent again is taken again"
    assert [card["item"] for card in cards] == [None, None]
    assert {card["waiting"]["message"] for card in cards} == {
        "There is nothing to decide: no item has both yes and no answers."
    }
    assert sum(given.purpose == "decision" for given in project.log.answers_after(1)) == 3


def test_a_decision_left_in_the_queue_is_settled_by_another_view(project):
    """The labeling page, say: it knows by what stands in the selection's place."""
    items = disagree(project, 1)
    session = project.session(annotator="ada")
    card = take(project, project.decisions(session), [], ADA)
    given = answer(card, "no", session=session.id)
    assert given["id"] in take(project, session, [given], ADA)["acked"]
    assert session.concept.catch_up().status(items[0]) == "no"


def test_a_project_asks_several_people_about_an_item(project):
    """Drawn alike from all that fewer have labeled, never the same person twice; the log replays."""
    ada, bob = project.session(annotator="ada"), project.session(annotator="bob")
    for session in (ada, bob):
        session.set_strategy("exhaustive")
    wait_for_index(project, "exhaustive")
    label(ada, 20)
    label(bob, 5)
    assert all(record.why != "overlap" for record in project.log.selections(1))
    project.set_overlap(2, 0.5)
    label(bob, 30)
    label(ada, 10)
    label(bob, 1)
    drawn = [record for record in project.log.selections(1) if record.why == "overlap"]
    assert 8 < len(drawn) < 32
    said: dict[int, list[str]] = {}
    for given in project.log.answers_after(1):
        said.setdefault(given.item, []).append(given.annotator)
    assert all(len(set(who)) == len(who) <= 2 for who in said.values())
    assert sum(len(who) == 2 for who in said.values()) >= len(drawn) - 2
    for record in drawn:
        assert 0 < record.probability <= 1
        assert 1 / record.probability == pytest.approx(round(1 / record.probability))
    project.close()
    found = verified(project)
    assert found["problems"] == []
    assert found["selections"] > 60


def test_every_item_that_wants_another_answer_is_equally_likely():
    """Over many rounds' seeds the draw is uniform: each of five items about a fifth of 1,000 times."""
    from closecall.app.engine.choosing import draw_wanted
    from closecall.storage import LabelState

    state = LabelState(1).fold([logged(n + 1, "yes", 10 * n) for n in range(6)])
    standing = state.standing("Bob", 2)
    drawn = [draw_wanted(standing, (20,), seed=seed) for seed in range(1000)]
    assert {chance for _, chance in drawn} == {1 / 5}
    items, counts = np.unique([item for item, _ in drawn], return_counts=True)
    assert items.tolist() == [0, 10, 30, 40, 50]
    assert ((counts - 200) ** 2 / 200).sum() < 18.5  # chi-square with 4 degrees of freedom, p = 0.001
    pairs = [draw_wanted(standing, (20,), seed=seed, n=2) for seed in range(1000)]
    assert {chance for _, chance in pairs} == {2 / 5}
    ordered, counts = np.unique([found for found, _ in pairs], axis=0, return_counts=True)
    assert len(ordered) == 5 * 4  # never the same item twice
    assert ((counts - 50) ** 2 / 50).sum() < 43.8  # 19 degrees of freedom, p = 0.001
    everything, chance = draw_wanted(standing, (), seed=1, n=28)
    assert (sorted(everything.tolist()), chance) == ([0, 10, 20, 30, 40, 50], 1)


def test_a_grid_asks_for_further_answers_too(project):
    """In overlap's rounds all its items are others', as many as there are; then the strategy goes on."""
    ada, bob = project.session(annotator="ada"), project.session(annotator="bob")
    label(ada, 20)
    said = items_of(project, "ada")
    project.set_overlap(2, 1.0)
    grid = project.grid(bob)
    grid.resize(12)
    shown: list[set[int]] = []
    for size in (12, 8):
        card = card_of(grid)
        assert (card["notes"]["why"], len(card["cells"])) == ("overlap", size)
        shown.append({cell["id"] for cell in card["cells"]})
        records = [project.log.selection(cell["selection"]) for cell in card["cells"]]
        assert {record.probability for record in records} == {size / (20 if size == 12 else 8)}
        words = [truth_word(project, cell["id"]) for cell in card["cells"]]
        cells = zip(card["cells"], words, strict=True)
        submit(grid, [answer({"item": cell_of(cell)}, word) for cell, word in cells])
    assert shown[0] | shown[1] == said
    card = card_of(grid)
    assert (card["notes"]["why"], len(card["cells"])) == ("strategy", 12)
    assert said.isdisjoint(cell["id"] for cell in card["cells"])
    project.close()
    found = verified(project)
    assert found["problems"] == []


def test_classes_ask_for_further_answers_too(project):
    """Each concept in its turn draws what another person has given a class; looked ahead like any item."""
    project.add_concept("Is this a 3?")
    ada, bob = (project.classes(project.session(annotator=name)) for name in ("ada", "bob"))
    for turn in range(8):
        submit(ada, [press(card_of(ada), "yes" if turn % 2 else "no")])
    said = items_of(project, "ada")
    assert len(said) == 8
    project.set_overlap(2, 1.0)
    seen: list[int] = []
    for _ in range(8):
        card = coming(bob)
        assert card["notes"]["why"] == "overlap"
        seen.append(card["item"]["id"])
        given = press(card, "no")
        following = card["next"].get("no")
        card = submit(bob, [given | {"next": following["item"]["selection"] if following else None}])
        assert given["id"] in card["acked"]
    assert (set(seen), len(seen)) == (said, 8)
    assert coming(bob)["notes"]["why"] != "overlap"
    project.close()
    assert verified(project)["problems"] == []


def items_of(project: OpenProject, annotator: str) -> set[int]:
    return {given.item for given in project.log.answers_after(1) if given.annotator == annotator}


def cell_of(cell: dict) -> dict:
    return {"id": cell["id"], "selection": cell["selection"]}


def press(card: dict, word: str) -> dict:
    """The browser's press on the first class, or on none of them."""
    concepts = [choice["concept"] for choice in card["classes"]]
    return answer(card, word, concept=concepts[0] if word == "yes" else None, classes=concepts, next=None)


def coming(view) -> dict:
    """The card, once what would follow each answer is there."""
    while (card := card_of(view))["next_is_coming"]:
        time.sleep(0.01)
    return card


def test_a_tampered_overlap_is_found(project):
    """A replay draws again, and says what does not agree."""
    import sqlite3

    ada, bob = project.session(annotator="ada"), project.session(annotator="bob")
    label(ada, 12)
    project.set_overlap(2, 1.0)
    label(bob, 4)
    assert [r.why for r in project.log.selections(1, bob.id)][-2:] == ["overlap", "overlap"]
    project.close()
    assert verified(project)["problems"] == []
    with sqlite3.connect(project.folder / "labels.db") as connection:
        connection.execute("DROP TRIGGER selections_never_change")
        connection.execute("UPDATE selections SET probability = 0.5 WHERE why = 'overlap'")
    assert any("a further person" in problem for problem in verified(project)["problems"])


def test_overlap_is_kept_in_the_project_file(project):
    """It survives a restart; what can't be is refused."""
    project.set_overlap(3, 0.2)
    file = ProjectFile.read(project.folder)
    assert (file.overlap, file.overlap_share) == (3, 0.2)
    for persons, share in ((0, 0.1), (10, 0.1), (2, 1.5), (2, -0.1)):
        with pytest.raises(InputError, match="overlap"):
            project.set_overlap(persons, share)
