"""Sessions, items in view and answers over HTTP."""

from __future__ import annotations

import time
import uuid

import pytest

from closecall.app.projects.roles import Person
from tests.projects import new_project, truth_word


@pytest.fixture
def session(api, project, token):
    made = api.post(f"/projects/{project.key}/sessions", json={}, headers=token("label"))
    assert made.status_code == 201
    return made.json()


@pytest.fixture
def ada(token):
    return token("label")


def given(session, item, word, **changes):
    return {
        "id": str(uuid.uuid4()),
        "session": session["id"],
        "item": item["id"],
        "selection": item["selection"],
        "answer": word,
        "browser_time": int(time.time() * 1000),
    } | changes


def stored(project):
    return [
        (a.id, a.item, a.answer, a.annotator) for a in project.log.answers_after(project.concepts()[0].id)
    ]


def test_a_session_is_the_persons_own_and_says_which_token_started_it(api, project, session, ada):
    assert session["annotator"] == "ada"
    assert [
        one["id"] for one in api.get(f"/projects/{project.key}/sessions", headers=ada).json()["sessions"]
    ] == [session["id"]]
    record = project.log.session(session["id"])
    assert record.parameters["by"] == "token 1"


def test_what_follows_an_answer_is_what_was_foreseen(api, project, session, ada):
    place = f"/projects/{project.key}/sessions/{session['id']}"
    for _ in range(12):
        shown = api.get(f"{place}/next", headers=ada).json()
        while shown["is_coming"]:
            shown = api.get(f"{place}/next", headers=ada).json()
        word = truth_word(project, shown["item"]["id"])
        foreseen = shown["after"][word]
        answer = given(session, shown["item"], word, next=foreseen["selection"])
        told = api.post(f"/projects/{project.key}/answers", json={"answers": [answer]}, headers=ada).json()
        assert told == {"acked": [answer["id"]], "refused": [], "message": None}
        following = api.get(f"{place}/next", headers=ada).json()
        assert following["item"]["selection"] == foreseen["selection"]
        assert following["item"]["id"] == foreseen["id"]
    assert len(stored(project)) == 12


def test_an_answer_that_is_sent_again_is_acknowledged_again_and_stored_once(api, project, session, ada):
    shown = api.get(f"/projects/{project.key}/sessions/{session['id']}/next", headers=ada).json()
    answer = given(session, shown["item"], "yes")
    for _ in range(3):
        told = api.post(f"/projects/{project.key}/answers", json={"answers": [answer]}, headers=ada)
        assert told.json()["acked"] == [answer["id"]]
    assert stored(project) == [(answer["id"], shown["item"]["id"], "yes", "ada")]


def test_one_malformed_answer_refuses_no_other(api, project, session, ada):
    shown = api.get(f"/projects/{project.key}/sessions/{session['id']}/next", headers=ada).json()
    good = given(session, shown["item"], "no")
    bad = given(session, shown["item"], "perhaps")
    told = api.post(f"/projects/{project.key}/answers", json={"answers": [bad, good]}, headers=ada).json()
    assert told["acked"] == [good["id"]]
    assert [refusal["id"] for refusal in told["refused"]] == [bad["id"]]


def test_an_answer_in_another_persons_session_is_refused(api, project, session, ada, token):
    shown = api.get(f"/projects/{project.key}/sessions/{session['id']}/next", headers=ada).json()
    answer = given(session, shown["item"], "yes")
    told = api.post(
        f"/projects/{project.key}/answers", json={"answers": [answer]}, headers=token("label", "bob")
    ).json()
    assert told["acked"] == []
    assert told["refused"][0]["id"] == answer["id"]
    assert stored(project) == []
    place = f"/projects/{project.key}/sessions/{session['id']}"
    for path in ("", "/next", "/card", "/ahead?selection=x"):
        assert api.get(place + path, headers=token("own", "bob")).status_code == 404


def test_undo_and_correction(api, project, session, ada):
    place = f"/projects/{project.key}/sessions/{session['id']}"
    first = api.get(f"{place}/next", headers=ada).json()["item"]
    answer = given(session, first, "yes")
    correction = given(session, first, "no", corrects=answer["id"], selection=None)
    undo = given(session, first, "undo", undoes=correction["id"], selection=None)
    for one in (answer, correction, undo):
        told = api.post(f"/projects/{project.key}/answers", json={"answers": [one]}, headers=ada).json()
        assert told["acked"] == [one["id"]]
    counts = api.get(f"{place}/next", headers=ada).json()["counts"]
    assert (counts["yes"], counts["no"]) == (1, 0)


def test_a_card_over_http_is_the_pages(api, project, session, ada):
    place = f"/projects/{project.key}/sessions/{session['id']}/card"
    card = api.get(place, headers=ada).json()
    assert card["item"]["src"].startswith("data:image/")
    answer = given(session, card["item"], "yes")
    after = api.post(place, json={"answers": [answer], "wait": 0}, headers=ada).json()
    assert after["acked"] == [answer["id"]]
    assert after["item"]["id"] != card["item"]["id"]
    assert after["stamp"]["number"] > card["stamp"]["number"]


def test_what_follows_can_be_waited_for(api, project, session, ada):
    place = f"/projects/{project.key}/sessions/{session['id']}"
    card = api.get(f"{place}/card", headers=ada).json()
    selection = card["item"]["selection"]
    ahead = {"next": {}, "next_is_coming": True}
    while ahead["next_is_coming"]:
        query = {"selection": selection, "known": len(ahead["next"])}
        later = api.get(f"{place}/ahead", params=query, headers=ada).json()
        assert ahead["next"].items() <= later["next"].items()
        ahead = later
    assert set(ahead["next"]) == {"yes", "no", "skip", "unsure"}
    assert ahead["selection"] == selection
    assert api.get(f"{place}/ahead", params={"selection": "another"}, headers=ada).json()["next"] == {}


def test_a_grid_over_http(api, project, session, ada):
    place = f"/projects/{project.key}/sessions/{session['id']}/card"
    grid = api.get(place, params={"view": "grid", "size": 12}, headers=ada).json()
    assert len(grid["cells"]) == 12
    answers = [given(session, {"id": c["id"], "selection": c["selection"]}, "no") for c in grid["cells"][:5]]
    after = api.post(place, json={"view": "grid", "size": 12, "answers": answers}, headers=ada).json()
    assert sorted(after["acked"]) == sorted(answer["id"] for answer in answers)
    assert len(after["last"]) == 12


def test_classes_need_several_questions(api, project, session, ada):
    place = f"/projects/{project.key}/sessions/{session['id']}/card"
    assert api.get(place, params={"view": "classes"}, headers=ada).status_code == 422
    project.add_concept("Is this a 3?")
    card = api.get(place, params={"view": "classes"}, headers=ada).json()
    press = given(session, card["item"], "yes") | {
        "classes": [one["concept"] for one in card["classes"]],
        "concept": card["classes"][0]["concept"],
    }
    after = api.post(place, json={"view": "classes", "answers": [press]}, headers=ada).json()
    assert after["acked"] == [press["id"]]


def test_a_full_scan_of_classes_is_followed(api, project, session, ada):
    """Whichever question chose the item, a request without `check` has the result of the latest one."""
    place = f"/projects/{project.key}/sessions/{session['id']}/card"
    project.add_concept("Is this a 3?")
    card = api.get(place, params={"view": "classes"}, headers=ada).json()
    checked = set()
    for turn in range(16):
        selection = card["item"]["selection"]
        if (record := project.log.selection(selection)).hyperplane_digest is not None:
            card = api.post(place, json={"view": "classes", "check": selection}, headers=ada).json()
            while card["check"]["is_coming"]:
                card = api.post(place, json={"view": "classes"}, headers=ada).json()
            assert card["check"]["selection"] == selection
            assert card["check"]["rank"] == 0
            checked.add(record.concept_id)
        concepts = [one["concept"] for one in card["classes"]]
        press = {"classes": concepts, "concept": concepts[turn % 2]}
        answer = given(session, card["item"], "yes") | press
        card = api.post(place, json={"view": "classes", "answers": [answer]}, headers=ada).json()
    assert len(checked) == 2


def test_deciding_is_for_owners(api, project, session, ada, token):
    place = f"/projects/{project.key}/sessions/{session['id']}/card"
    assert api.get(place, params={"view": "decide"}, headers=ada).status_code == 403
    card = api.get(place, params={"view": "decide"}, headers=token("own")).json()
    assert card["item"] is None


def test_a_strategy_is_changed(api, project, session, ada):
    place = f"/projects/{project.key}/sessions/{session['id']}"
    told = api.patch(place, json={"strategy": "exhaustive", "include_skipped": True}, headers=ada).json()
    assert (told["strategy"], told["include_skipped"]) == ("exhaustive", True)
    refused = api.patch(place, json={"strategy": "best"}, headers=ada)
    assert refused.status_code == 422
    assert refused.headers["content-type"] == "application/problem+json"
    assert "best" in refused.json()["detail"]


def test_a_page_may_use_its_key_in_its_project_only(api, project, workspace):
    session = project.session_of(Person("ada", is_owner=True))
    key = {"X-Closecall-Page": project.page_keys.make("ada")}
    place = f"/projects/{project.key}/sessions/{session.id}/card"
    assert api.get(place, headers=key).status_code == 200
    other = new_project(workspace, "Is this a 4?")
    assert api.get(f"/projects/{other.key}", headers=key).status_code == 401
    assert api.get(place, headers={"X-Closecall-Page": "made up"}).status_code == 401
    assert api.get(place, headers=key | {"Sec-Fetch-Site": "cross-site"}).status_code == 403
    assert api.get(place, headers=key | {"Sec-Fetch-Site": "same-origin"}).status_code == 200
