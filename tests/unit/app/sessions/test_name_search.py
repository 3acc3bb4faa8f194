from __future__ import annotations

import json

import pytest
from click.testing import CliRunner

from closecall.app.api.cards import card_of, submit
from closecall.app.cli.main import main
from closecall.app.engine.leases import LEASE_SECONDS, Leases
from closecall.app.engine.selection_parameters import SEARCH
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.name_search import LONGEST, PAGE, FoundSession
from closecall.app.verification.verify import verify_project
from closecall.core.errors import InputError
from tests.projects import (
    answer,
    label,
    marks,
    new_project,
    open_workspace,
    tamper,
    truth_word,
    wait_for_index,
)


@pytest.fixture
def found(project) -> FoundSession:
    return project.found(project.session())


def look(found, text, first=0):
    found.look_for(text, first)
    return card_of(found)


def called(project, *words):
    """The ids of the items whose names contain all words."""
    names = {int(item): project.pool.source.name(int(item)) for item in project.pool.ids}
    return [item for item, name in names.items() if all(word in name for word in words)]


def truly(found, card):
    free = [cell for cell in card["cells"] if cell["selection"]]
    return marks(free, [truth_word(found.session.project, cell["id"]) for cell in free])


def log_of(found):
    return list(found.session.project.log.selections(found.session.concept.record.id))


def test_items_are_found_by_parts_of_their_names(found):
    """The first page of them, with what they are called; each has a selection that says so."""
    project = found.session.project
    card = look(found, "  dig   41 ")
    expected = called(project, "digit", "41")
    assert [cell["id"] for cell in card["cells"]] == expected
    assert [cell["alt"] for cell in card["cells"]] == [f"digit {item}" for item in expected]
    assert card["search"] == {
        "text": "dig 41",
        "found": len(expected),
        "total": len(project.pool),
        "first": 0,
        "page": PAGE,
        "longest": LONGEST,
        "like": project.pool.source.name(int(project.pool.ids[0])),
    }
    assert card["notes"]["why"] == "search"
    assert card["notes"]["searched"] == "dig 41"
    records = log_of(found)
    assert [record.id for record in records] == [cell["selection"] for cell in card["cells"]]
    assert {record.why for record in records} == {"search"}
    assert [r.parameters["search"] for r in records] == [
        {"text": "dig 41", "place": place} for place in range(len(expected))
    ]
    assert {(record.margin, record.items_scored) for record in records} == {(None, 0)}


def test_a_snapshot_is_searched_as_it_was(project):
    """Items that came since are not found in it, although their names are known by then."""
    everything, earlier = project.search("digit"), project.pool.prefix(100)
    assert project.search("digit", earlier).tolist() == everything[:100].tolist()
    assert len(everything) == len(project.pool)


def test_nothing_is_shown_where_nothing_is_found_or_looked_for(found):
    """Neither is a round; the log has no word of it."""
    for text in ("", "truck"):
        card = look(found, text)
        assert (card["cells"], card["search"]["text"], card["search"]["found"]) == ([], text, 0)
        assert card["waiting"] is None
    assert log_of(found) == []
    with pytest.raises(InputError, match=f"at most {LONGEST} characters, got {LONGEST + 1}"):
        found.look_for("x" * (LONGEST + 1))


def test_what_is_answered_trains_at_once_and_stays_in_view_as_answered(found):
    """The page stays; its answered items can't be answered again, and the next round knows their labels."""
    card = look(found, "41")
    words = ["yes", "no", None, "skip"]
    after = submit(found, given := marks(card["cells"], words))
    assert after["acked"] == [one["id"] for one in given]
    assert after["round"] == card["round"] + 1
    assert [cell["id"] for cell in after["cells"]] == [cell["id"] for cell in card["cells"]]
    assert [cell.get("stands") for cell in after["cells"]][:4] == words
    assert [cell["selection"] is None for cell in after["cells"]][:4] == [True, True, False, True]
    record = log_of(found)[-1]
    assert (record.n_labels, record.margin is None) == (2, False)
    assert record.hyperplane_digest is not None
    assert [cell["answer"] for cell in after["last"]][:4] == words


def test_the_usual_selection_goes_on_after_a_search(found):
    """By the hyperplane of the answers given there."""
    card = look(found, "41")
    submit(found, truly(found, card))
    found.session.project.indexes.want("exhaustive")
    wait_for_index(found.session.project, "exhaustive")
    found.session.set_strategy("exhaustive")
    after = card_of(found.session)
    assert (after["notes"]["why"], after["notes"]["n_labels"]) == ("strategy", len(card["cells"]))
    assert after["round"] > card["round"]
    back = look(found, "42")
    assert back["round"] > after["round"]
    assert found.session.shown is None


def test_more_than_a_page_is_paged_through(found):
    """Forth and back; behind the last page there is none. A page that is answered gives way to the next."""
    everything = called(found.session.project, "digit")
    assert len(everything) > 3 * PAGE
    card = look(found, "digit", PAGE + 5)
    assert [cell["id"] for cell in card["cells"]] == everything[PAGE : 2 * PAGE]
    assert log_of(found)[0].parameters["search"]["place"] == PAGE
    after = submit(found, marks(card["cells"], ["no"] * PAGE))
    assert len(after["acked"]) == PAGE
    assert (after["search"]["first"], after["refused"]) == (2 * PAGE, [])
    assert [cell["id"] for cell in after["cells"]] == everything[2 * PAGE : 3 * PAGE]
    back = look(found, "digit", PAGE)
    assert {cell["stands"] for cell in back["cells"]} == {"no"}
    assert look(found, "digit", 10**6)["search"]["first"] == (len(everything) - 1) // PAGE * PAGE
    assert look(found, "digit", -3)["search"]["first"] == 0


def test_what_others_have_in_view_is_held(project, found):
    """It is shown, but can't be answered twice at the same time; what is found here nobody else is shown."""
    other = project.session(annotator="bob")
    theirs = card_of(other)["item"]["id"]
    card = look(found, f"digit {theirs}")
    cell = next(cell for cell in card["cells"] if cell["id"] == theirs)
    assert (cell["stands"], cell["selection"]) == ("held", None)
    look(found, "digit")
    assert set(project.leases.held(but_for={other.id})) == {
        cell["id"] for cell in card_of(found)["cells"]
    } - {theirs}


def test_who_left_holds_nothing(project, found):
    """Items that were shown to somebody who was not at it for long are free again."""
    now = [0.0]
    project.leases = Leases(clock=lambda: now[0])
    other = project.session(annotator="bob")
    theirs = card_of(other)["item"]["id"]
    assert look(found, f"digit {theirs}")["cells"][0]["stands"] == "held"
    assert other.item_view.ahead.wait(60)  # what looks ahead renews leases
    now[0] = LEASE_SECONDS + 1
    assert look(found, f" {theirs}")["cells"][0]["selection"]


def test_skipped_items_can_be_answered_where_they_are_shown_again(found):
    """As in any other view."""
    card = look(found, "41")
    submit(found, marks(card["cells"], ["skip"]))
    found.session.revisit_skipped()
    card = look(found, "41 digit")
    assert card["cells"][0]["selection"]
    submit(found, marks(card["cells"], ["yes"]))
    assert found.session.concept.catch_up().status(card["cells"][0]["id"]) == "yes"


def test_the_last_answers_are_corrected_in_one_go(found):
    """As in a grid."""
    card = look(found, "41")
    last = submit(found, marks(card["cells"], ["no", "no"]))["last"]
    changed = marks(last[:1], ["yes"], corrects=last[0]["answer_id"])
    after = submit(found, changed)
    assert after["refused"] == []
    assert [cell.get("stands") for cell in after["cells"]][:2] == ["yes", "no"]


def test_a_browser_is_heard_once(found):
    """What it asked for last comes again with each run of the page, also after the next page has come."""
    asked = {"id": "a", "text": "digit", "first": 0}
    found.ask(asked)
    card = submit(found, marks(card_of(found)["cells"], ["no"] * PAGE))
    assert card["search"]["first"] == PAGE
    found.ask(asked)
    assert card_of(found)["search"]["first"] == PAGE
    found.ask({**asked, "id": "b", "first": 2 * PAGE})
    assert card_of(found)["search"]["first"] == 2 * PAGE
    found.ask(None)
    for wrong in ({"id": "c"}, {"id": "d", "text": 7, "first": 0}, {"id": "e", "text": "x", "first": "y"}):
        with pytest.raises(InputError, match="must have text and first"):
            found.ask(wrong)


def test_the_search_is_there_again_after_a_restart(tmp_path):
    """The same page with the same selections; an answered one can be corrected still."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        found = project.found(project.session())
        before = look(found, "digit", PAGE)
        key, session_id = project.key, found.session.id
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(key)
        found = project.found(project.session(session_id))
        found.go_to("digit")
        assert card_of(found)["cells"] == before["cells"]
        assert set(project.leases.held(but_for=())) == {cell["id"] for cell in before["cells"]}
        after = submit(found, marks(before["cells"], ["no"]))
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(key)
        session = project.session(session_id)
        found = project.found(session)
        assert card_of(found)["cells"] == after["cells"]
        assert card_of(project.grid(session))["notes"]["why"] == "random-start"
        assert card_of(session)["item"] is not None
        assert look(found, "41")["search"]["text"] == "41"


def test_grid_and_search_take_turns(project, found):
    """Each chooses anew: no item that was answered in the other comes back as open."""
    grid = project.grid(found.session)
    grid.resize(12)
    before = card_of(grid)
    item = before["cells"][0]["id"]
    card = look(found, f"digit {item}")
    cell = next(cell for cell in card["cells"] if cell["id"] == item)
    submit(found, marks([cell], ["no"]))
    assert item not in {cell["id"] for cell in card_of(grid)["cells"]}


@pytest.fixture
def searched(tmp_path):
    """A project labeled by searches, before and after the first hyperplane, and by other means between."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        session = project.session()
        found = project.found(session)
        card_of(project.session(annotator="bob"))
        card = look(found, "41")
        last = submit(found, truly(found, card))["last"]
        word = "no" if last[0]["answer"] == "yes" else "yes"
        submit(found, marks(last[:1], [word], corrects=last[0]["answer_id"]))
        label(session, 6)
        card = look(found, "digit", PAGE)
        card = submit(found, marks(card["cells"], ["skip", "no", "unsure"]))
        session.revisit_skipped()
        card = look(found, "digit 1")
        submit(found, truly(found, card))
        label(session, 3)
        return project.folder


def two_searches(project):
    """A search, an answer that was sent ahead before it, and a search again: by one session, three rounds."""
    wait_for_index(project, LabelingSession.DEFAULT)
    session = project.session()
    label(session, 6)
    card = card_of(session)
    while card["next_is_coming"]:
        card = card_of(session)
    found = project.found(session)
    searched = look(found, "digit 4")
    submit(found, truly(found, searched)[:3])
    submit(session, [answer(card, "yes", next=card["next"]["yes"]["item"]["selection"])])
    project.leases.keep(session.id, ())
    found.shown = ()
    submit(found, truly(found, card_of(found))[:3])
    return {record.round: record.trained_through for record in log_of(found) if SEARCH in record.parameters}


def test_each_search_is_a_round_of_its_own(project):
    """What was foreseen keeps its number, though a search began a round meanwhile; the next has a new one."""
    assert len(two_searches(project)) >= 3
    assert verify_project(project.folder, as_json=True) == 0


def test_verify_takes_two_searches_of_one_number_for_two(project):
    """Logs have them from before rounds were counted so."""
    rounds = two_searches(project)
    tamper(project.folder, f"UPDATE selections SET round = {min(rounds)} WHERE round = {max(rounds)}")
    assert verify_project(project.folder, as_json=True) == 0


def test_verify_makes_searches_again(searched):
    """Every item is found where the log says, with the hyperplane that it says."""
    result = CliRunner().invoke(main, ["verify", str(searched), "--json"])
    findings = json.loads(result.output)
    assert findings["problems"] == []
    assert findings["digests"] == findings["choices"]
    assert "search" not in findings["ranks"]


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        (
            "UPDATE selections SET parameters = json_set(parameters, '$.search.text', 'truck') "
            "WHERE why = 'search'",
            "the search for 'truck' finds no item",
        ),
        (
            "UPDATE selections SET parameters = json_set(parameters, '$.search.place', 3) "
            "WHERE json_extract(parameters, '$.search.place') = 2",
            "at place 3, the log has",
        ),
        ("UPDATE selections SET margin = margin + 0.001 WHERE why = 'search'", "wᵀx"),
        ("UPDATE selections SET n_labels = 1, hyperplane_digest = 'x' WHERE why = 'search'", "hyperplane"),
        ("UPDATE selections SET leased = json_array(item) WHERE why = 'search'", "another session's view"),
    ],
)
def test_verify_notices_what_was_not_found_so(searched, statement, complaint):
    """Another text, place, distance or hyperplane, or an item that was not free."""
    tamper(searched, statement)
    result = CliRunner().invoke(main, ["verify", str(searched), "--json"])
    assert result.exit_code == 1
    assert any(complaint in problem for problem in json.loads(result.output)["problems"])
