"""Labels and predictions in and out over HTTP, while somebody labels."""

from __future__ import annotations

import csv
import io
import json

import numpy as np
import pytest
from PIL import Image

from closecall.app.api.cards import card_of, submit
from closecall.app.display.thumbnails import CARD_SIZE
from closecall.app.verification.verify import verify_project
from tests.projects import answer, label, truth_word


@pytest.fixture
def root(project):
    return f"/projects/{project.key}/concepts/{project.concepts()[0].id}"


def test_labels_that_are_added_train_the_next_answer(api, project, token, root):
    session = project.session()
    card = card_of(session)
    items = [int(item) for item in project.pool.ids[50:90] if item != card["item"]["id"]]
    rows = [{"item": item, "label": truth_word(project, item)} for item in items]
    own = token()
    told = api.post(f"{root}/labels", json={"labels": rows}, headers=own).json()
    assert told == {"new": len(rows), "known": 0, "same": 0, "contested": 0, "unmatched": 0, "examples": []}
    after = submit(session, [answer(card, "no")])
    assert after["notes"]["n_labels"] == len(rows) + 1
    again = api.post(f"{root}/labels", json={"labels": rows}, headers=own).json()
    assert (again["new"], again["same"] + again["known"]) == (0, len(rows))
    listed = api.get(f"{root}/labels", headers=own).json()
    wanted = {row["item"]: row["label"] for row in rows} | {card["item"]["id"]: "no"}
    assert {one["item"]: one["label"] for one in listed["labels"]} == wanted


def test_a_program_may_change_its_mind_and_change_it_back(api, project, token, root):
    """The last request counts, also if an earlier one was the same; a repeated request stores nothing."""
    item, other = (int(item) for item in project.pool.ids[:2])
    own, concept = token(), project.concepts()[0].id
    for word in ("yes", "no", "yes", "no", "yes"):
        for times in range(3):
            rows = [{"item": item, "label": word}]
            told = api.post(f"{root}/labels", json={"labels": rows}, headers=own).json()
            assert told["new"] == (times == 0)
            assert project.log.state(concept).status(item) == word
        rows = [{"item": other, "label": "no"}]  # which changes nothing about the item
        api.post(f"{root}/labels", json={"labels": rows}, headers=own)
    assert [one.answer for one in project.log.answers_after(concept) if one.item == item] == [
        *("yes", "no", "yes", "no", "yes")
    ]
    assert verify_project(project.folder) == 0


def test_labels_are_read_page_by_page_in_the_order_of_items(api, project, token, root):
    label(project.session(), 23)
    read, cursor, more = [], -1, True
    while more:
        page = api.get(f"{root}/labels", params={"after": cursor, "limit": 5}, headers=token("read")).json()
        read += page["labels"]
        cursor, more = page["cursor"], page["more"]
    labels = project.log.labels(project.concepts()[0].id)
    assert [one["item"] for one in read] == labels.items.tolist()
    assert [one["label"] == "yes" for one in read] == labels.yes.tolist()


def test_the_log_is_read_once_by_its_cursor_while_it_grows(api, project, token, root):
    session, read, cursor = project.session(), [], 0
    for _ in range(4):
        label(session, 7)
        more = True
        while more:
            page = api.get(
                f"{root}/answers", params={"after": cursor, "limit": 3}, headers=token("read")
            ).json()
            read += page["answers"]
            cursor, more = page["cursor"], page["more"]
    stored = list(project.log.answers_after(project.concepts()[0].id))
    assert [one["id"] for one in read] == [one.id for one in stored]
    assert [one["item"] for one in read] == [one.item for one in stored]
    assert len(read) == 28


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        ([{"item": "ITEM", "label": "yes"}, {"item": "ITEM", "label": "no"}], "Row 2"),
        ([{"item": "one", "label": "yes"}], "Row 1"),
        ([{"label": "yes"}], "Row 1"),
        ([{"item": "ITEM", "label": "perhaps"}], "perhaps"),
        ([{"item": 10**12, "label": "yes"}], ""),
        ([], ""),
    ],
)
def test_rows_that_contradict_or_cannot_be_read_store_nothing(api, project, token, root, rows, words):
    item = int(project.pool.ids[0])
    rows = [row | ({"item": item} if row.get("item") == "ITEM" else {}) for row in rows]
    refused = api.post(f"{root}/labels", json={"labels": rows}, headers=token())
    assert refused.status_code == 422
    assert refused.headers["content-type"] == "application/problem+json"
    assert words in refused.json()["detail"]
    assert "/tmp" not in refused.json()["detail"]
    assert not list(project.log.answers_after(project.concepts()[0].id))


def test_predictions_replace_those_of_the_same_model(api, project, token, root):
    items, own = project.pool.ids[:20].tolist(), token()
    for shift in (0.0, 0.5):
        rows = [{"item": item, "score": item / 1000 + shift} for item in items]
        told = api.post(f"{root}/predictions", json={"model": "m", "predictions": rows}, headers=own)
        assert told.json()["stored"] == 20
    read = api.get(f"{root}/predictions", params={"model": "m", "limit": 15}, headers=own).json()
    assert read["more"]
    rest = api.get(f"{root}/predictions", params={"model": "m", "after": read["cursor"]}, headers=own).json()
    scores = {row["item"]: row["score"] for row in read["predictions"] + rest["predictions"]}
    assert scores == {item: pytest.approx(item / 1000 + 0.5) for item in items}
    assert api.get(f"{root}/predictions", params={"model": "n"}, headers=own).status_code == 404


def test_an_export_is_the_commands(api, project, token):
    label(project.session(), 9)
    found = api.get(f"/projects/{project.key}/export", headers=token("read"))
    rows = list(csv.DictReader(io.StringIO(found.text)))
    labels = project.log.labels(project.concepts()[0].id)
    assert {int(row["item"]) for row in rows if row["label"]} == set(labels.items.tolist())
    log = api.get(
        f"/projects/{project.key}/export", params={"format": "jsonl", "log": True}, headers=token("read")
    )
    assert len([json.loads(line) for line in log.text.splitlines()]) == 9


def test_a_classifier_scores_as_the_log_says(api, project, token, root):
    assert api.get(f"{root}/model", headers=token("read")).status_code == 409
    session = project.session()
    label(session, 12)
    model = api.get(f"{root}/model", headers=token("read")).json()
    shown = project.log.last_selection(session.id)
    assert model["digest"] == shown.hyperplane_digest
    X = project.pool.rows_of(np.array([shown.item]))
    assert abs(X @ np.array(model["coef"]) + model["intercept"])[0] == pytest.approx(shown.margin, rel=1e-5)


def test_progress_and_people(api, project, token, root):
    label(project.session(annotator="bob"), 11)
    progress = api.get(f"{root}/progress", headers=token("read")).json()
    assert progress["labels"] == 11
    share = api.put(f"{root}/audit", json={"share": 0.2}, headers=token()).json()
    assert share == {"share": 0.2}
    assert project.live_concept(project.concepts()[0].id).audit_share == 0.2
    everybody = api.get(f"{root}/people", headers=token()).json()
    assert [one["name"] for one in everybody["people"]] == ["bob"]
    assert api.get(f"{root}/people", headers=token("read")).json()["people"] == []


def test_a_question_may_be_added_twice_but_not_with_another_meaning(api, project, token):
    place, own = f"/projects/{project.key}/concepts", token()
    first = api.post(place, json={"question": "Is this a 3?"}, headers=own)
    again = api.post(place, json={"question": "Is this  a 3?"}, headers=own)
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json()["id"] == again.json()["id"]
    other = api.post(place, json={"question": "Is it round?", "name": "Is this a 3"}, headers=own)
    assert other.status_code == 409


def test_an_image_is_sent_once(api, project, token):
    item = int(project.pool.ids[3])
    place, read = f"/projects/{project.key}/items/{item}", token("read")
    assert api.get(place, headers=read).json()["image"] == f"{place.removeprefix('/')}/image"
    found = api.get(f"{place}/image", headers=read)
    shown = Image.open(io.BytesIO(found.content))
    wanted = project.pool.source.image(item, CARD_SIZE)
    assert np.abs(np.asarray(shown, dtype=float) - np.asarray(wanted)).mean() < 2  # a JPEG
    assert "immutable" in found.headers["cache-control"]
    again = api.get(f"{place}/image", headers=read | {"If-None-Match": found.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    small = api.get(f"{place}/image", params={"size": "thumbnail"}, headers=read)
    assert small.headers["etag"] != found.headers["etag"]
    exact = Image.open(io.BytesIO(small.content))
    np.testing.assert_array_equal(np.asarray(exact), np.asarray(project.pool.source.image(item, 88)))
    held_out = int(project.pool.held_out.ids[0])
    assert api.get(f"/projects/{project.key}/items/{held_out}/image", headers=read).status_code == 404


def test_items_are_found_by_name(api, project, token):
    found = api.get(
        f"/projects/{project.key}/items", params={"name": "digit 12", "limit": 3}, headers=token("read")
    ).json()
    ids = project.search("digit 12").tolist()
    assert [one["id"] for one in found["items"]] == ids[:3]
    assert found["found"] == len(ids)
