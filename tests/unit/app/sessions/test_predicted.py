"""Items that another model's predictions choose, compared with the predictions and the hyperplane."""

from __future__ import annotations

import json

import numpy as np
import pytest
from click.testing import CliRunner

from closecall.app.api.cards import card_of, submit
from closecall.app.cli.main import main
from closecall.app.engine import model_predictions
from closecall.app.engine.model_predictions import ORDERS, PAGE, Choosing
from closecall.app.engine.selection_parameters import GROUPS, PREDICTED, PREDICTIONS
from closecall.app.sessions.registry import OpenProject
from closecall.storage.errors import StorageError
from closecall.storage.predictions import Predicted, Predictions
from tests.projects import (
    answer,
    find_groups,
    marks,
    new_project,
    open_workspace,
    session_of,
    shown_to,
    tamper,
    teach,
    truth_word,
)

SEED = 6
MODEL = "resnet"


@pytest.fixture(autouse=True)
def _at_once(monkeypatch):
    monkeypatch.setattr(model_predictions, "CHECK_SECONDS", 0.0)


@pytest.fixture
def project(workspace) -> OpenProject:
    return new_project(workspace)


@pytest.fixture
def session(project):
    return session_of(project, "ada", seed=SEED)


def predict(project, *, model=MODEL, seed=1, scores=True, labels=False, items=None) -> dict[int, Predicted]:
    """Store a noisy model's predictions, two of three right; return them by item."""
    rng = np.random.default_rng(seed)
    made = {}
    for item in project.pool.ids.tolist() if items is None else items:
        is_yes = (truth_word(project, item) == "yes") != (rng.random() < 1 / 3)
        score = round(float((rng.random() + is_yes) / 2), 2) if scores else None
        made[item] = Predicted(item, score, ("yes" if is_yes else "no") if labels else None)
    store(project, made, model=model)
    return made


def store(project, made, *, model=MODEL, digest=None):
    predictions = Predictions(project.database)
    predictions.store(1, model, made.values(), file="scores.csv", digest=digest or f"{hash(str(made))}"[:60])


def look(session, order="doubtful", model=MODEL):
    view = session.project.predicted(session)
    view.choose_by(Choosing(model, order))
    return view


def left(session) -> list[int]:
    with session.concept.lock:
        state = session.concept.catch_up()
        return [item for item in session.project.pool.ids.tolist() if state.status(item) is None]


def score_of(session, item) -> float:
    plane = session.concept.trained(session.project.pool)[1].hyperplane
    x = session.project.pool.rows_of([item])[0].astype(np.float64)
    return float((x * plane.normal).sum() + plane.bias)


def doubtful(session, made, threshold=0.5) -> list[int]:
    items = [item for item in left(session) if item in made and made[item].score is not None]
    return sorted(items, key=lambda item: (abs(made[item].score - threshold), item))


def differing(session, made, threshold=0.5) -> list[int]:
    """Those about which the model and the classifier differ, farthest from the hyperplane first."""
    far = {}
    for item in left(session):
        if item not in made:
            continue
        of_model = made[item].label == "yes" if made[item].label else made[item].score > threshold
        if of_model != ((score := score_of(session, item)) > 0):
            far[item] = -abs(score)
    return sorted(far, key=lambda item: (round(far[item], 12), item))


EXPECTED = {"doubtful": doubtful, "differing": differing}


def ids(card) -> list[int]:
    return [cell["id"] for cell in card["cells"]]


def truly(project, cells):
    return marks(cells, [truth_word(project, cell["id"]) for cell in cells])


def records_of(view):
    return [record for record in view.session.project.log.selections(1) if record.why == "predicted"]


def verified(project) -> dict:
    return json.loads(CliRunner().invoke(main, ["verify", str(project.folder), "--json"]).output)


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("kind", ["scores", "both", "labels"])
def test_the_predictions_choose_and_the_log_says_how(project, session, order, kind):
    """Until no item is left; every page equals a plain reading of the predictions and the hyperplane."""
    teach(session)
    made = predict(project, scores=kind != "labels", labels=kind != "scores")
    view = look(session, order)
    card, pages = card_of(view), 0
    if (order, kind) == ("doubtful", "labels"):
        assert card["cells"] == []
        assert "resnet have no scores" in card["search"]["predicted"]["none"]
        return
    while card["cells"] and pages < 4:
        assert ids(card) == EXPECTED[order](session, made)[:PAGE]
        for cell in card["cells"]:
            its = made[cell["id"]]
            answer = its.label or ("yes" if its.score > 0.5 else "no")
            shown = {name: cell["predicted"][name] for name in ("model", "answer", "score")}
            assert shown == {"model": MODEL, "answer": answer, "score": its.score}
        card, pages = submit(view, truly(project, card["cells"])), pages + 1
    assert pages == 4
    records = records_of(view)
    assert [PREDICTIONS in record.parameters for record in records[:PAGE]] == [True] + [False] * (PAGE - 1)
    about = records[0].parameters[PREDICTIONS]
    assert (about["model"], about["order"]) == (MODEL, order)
    assert [record.parameters[PREDICTED]["place"] for record in records[:PAGE]] == list(range(PAGE))
    assert {record.margin is None for record in records} == {False}
    findings = verified(project)
    assert (findings["problems"], findings["replaced"]) == ([], 0)
    assert findings["choices"] == findings["digests"]


@pytest.mark.parametrize(("scale", "threshold"), [(1.0, 0.5), (4.0, 0.0)])
def test_scores_beyond_one_are_those_of_an_svm(project, session, scale, threshold):
    """Their threshold is 0; probabilities have 0.5."""
    teach(session)
    made = {
        item: its._replace(score=scale * its.score - (0 if scale == 1 else 2))
        for item, its in predict(project).items()
    }
    store(project, made)
    for order, expected in EXPECTED.items():
        assert ids(card_of(look(session, order))) == expected(session, made, threshold)[:PAGE]
    said = card_of(look(session))["search"]["predicted"]["how"]
    assert said == f"Scores of resnet nearest to {threshold:g} first"


def test_without_a_hyperplane_doubt_chooses_and_difference_says_what_it_needs(project, session):
    made = predict(project)
    assert ids(card_of(look(session))) == doubtful(session, made)[:PAGE]
    assert {record.margin for record in records_of(session.project.predicted(session))} == {None}
    card = card_of(look(session, "differing"))
    assert card["cells"] == []
    assert "needs a yes and a no" in card["search"]["predicted"]["none"]
    assert verified(project)["problems"] == []


def test_items_in_another_sessions_view_are_left_out(project, session):
    made = predict(project)
    other = session_of(project, "ben", seed=SEED)
    taken = doubtful(session, made)[:2]
    held = ids(card_of(look(other)))
    assert held[:2] == taken
    assert (
        ids(card_of(look(session))) == [item for item in doubtful(session, made) if item not in held][:PAGE]
    )
    assert verified(project)["problems"] == []


def test_near_duplicates_are_asked_about_once(project, session):
    teach(session)
    find_groups(project, 5)
    made = predict(project)
    groups = session.concept.standing().groups
    first, taken = [], set()
    with session.concept.lock:
        state = session.concept.catch_up()
        for item in project.pool.ids.tolist():
            if state.status(item) is not None:
                taken.update(groups.members(item).tolist())
    for item in doubtful(session, made):
        if item not in taken:
            first.append(item)
            taken.update(groups.members(item).tolist())
    view = look(session)
    assert ids(card_of(view)) == first[:PAGE]
    assert {record.parameters[GROUPS] for record in records_of(view)} == {groups.digest}
    assert verified(project)["problems"] == []


def test_replaced_predictions_choose_from_then_on_and_verify_says_what_it_cant_repeat(project, session):
    """Answers that were given stay; replacing predictions is no disagreement with the log."""
    teach(session)
    predict(project)
    view = look(session)
    card = card_of(view)
    before = verified(project)
    other = predict(project, seed=2)
    after = submit(view, truly(project, card["cells"]))
    assert len(after["acked"]) == PAGE
    assert ids(after) == doubtful(session, other)[:PAGE]
    findings = verified(project)
    assert (findings["problems"], findings["replaced"]) == ([], 1)
    assert findings["choices"] == before["choices"] + 1 - 1
    said = CliRunner().invoke(main, ["verify", str(project.folder)]).output
    assert "1 selection not made again: the predictions have been replaced." in said


def test_predictions_that_are_gone_are_said_in_a_sentence(project, session):
    teach(session)
    predict(project)
    view = look(session)
    card = card_of(view)
    tamper(project.folder, "DELETE FROM predictions")
    tamper(project.folder, "DELETE FROM prediction_sets")
    after = submit(view, truly(project, card["cells"]))
    assert (len(after["acked"]), after["cells"]) == (PAGE, [])
    assert after["search"]["predicted"]["none"] == "There are no predictions of resnet any more"
    assert (verified(project)["problems"], verified(project)["replaced"]) == ([], 1)


@pytest.mark.parametrize(
    ("place", "value", "sentence"),
    [
        ("$.predictions.order", "differing", "the predictions of resnet choose items"),
        ("$.predicted.score", 0.987, "was shown with another prediction"),
        ("$.predictions.model", None, "damaged parameters of a choice by predictions"),
        ("$.predictions", None, "damaged parameters of a choice by predictions"),
    ],
)
def test_verify_notices_another_log(project, session, place, value, sentence):
    """The order, the prediction that the annotator saw, the model, and all of these."""
    teach(session)
    made = predict(project)
    card_of(look(session))
    tamper(
        project.folder,
        f"UPDATE selections SET parameters = json_set(parameters, '{place}', json('{json.dumps(value)}')) "
        f"WHERE why = 'predicted' AND item = {doubtful(session, made)[0]}",
    )
    (problem,) = verified(project)["problems"]
    assert sentence in problem


def test_another_process_goes_on_with_the_page(project, session, tmp_path):
    """The same items with the same predictions, from the log."""
    teach(session)
    predict(project)
    card = card_of(look(session, "differing"))
    key, session_id = project.key, session.id
    project.close()
    with open_workspace(tmp_path) as workspace:
        again = workspace.project(key)
        view = again.predicted(again.session(session_id))
        assert view.by == Choosing(MODEL, "differing")
        back = card_of(view)
        assert [cell["selection"] for cell in back["cells"]] == [cell["selection"] for cell in card["cells"]]
        assert [cell["predicted"] for cell in back["cells"]] == [cell["predicted"] for cell in card["cells"]]


def test_predictions_are_shown_with_items_only_if_wanted(project, session):
    """On the card of one item, in what may follow, and in a grid; an item without a prediction has none."""
    teach(session)
    item = card_of(session)["item"]["id"]
    made = predict(project, items=[item])
    assert "predicted" not in card_of(session)["item"]
    session.shown_model = MODEL
    card = card_of(session)
    answer = "yes" if made[item].score > 0.5 else "no"
    assert card["item"]["predicted"] == {"model": MODEL, "answer": answer, "score": made[item].score}
    assert all("predicted" not in view["item"] for view in card["next"].values())
    cells = card_of(project.grid(session))["cells"]
    assert [cell["id"] for cell in cells if "predicted" in cell] == [item] * (item in ids({"cells": cells}))
    session.shown_model = "another"
    shown_to(session, item)
    assert "predicted" not in (card_of(session)["item"] or {})


def test_predictions_for_items_that_the_pool_lacks_are_ignored(project, session):
    made = predict(project)
    store(project, made | {10**6: Predicted(10**6, 0.5, None)})
    assert ids(card_of(look(session))) == doubtful(session, made)[:PAGE]


def test_the_models_are_known_while_the_database_fails(project, session, monkeypatch):
    """The page lists them beside the card; it must not lose the card for that."""
    known = session.concept.predictions
    assert known.models() == []
    predict(project)
    predict(project, model="another")
    assert known.models() == ["another", MODEL]

    def fail(*_):
        raise StorageError("the disk is gone")

    monkeypatch.setattr(Predictions, "sources", fail)
    assert known.models() == ["another", MODEL]
    with pytest.raises(StorageError, match="the disk is gone"):
        known.of(MODEL)


@pytest.mark.parametrize("shift", [0, 3])
def test_the_list_of_models_compares_labels_with_scores_as_the_pages_show_them(project, session, shift):
    """Probabilities mean yes above 0.5; scores of other ranges above 0. Skipped items are not compared."""
    made = {item: its.score - shift * 0.1 for item, its in predict(project).items()}
    store(project, {item: Predicted(item, score, None) for item, score in made.items()})
    teach(session)
    for word in ("yes", "no", "no", "skip", "yes"):
        shown = session.in_view()
        session.store([answer({"item": {"id": shown.item, "selection": shown.id}}, word)])
    state = session.concept.catch_up()
    given = {item: state.status(item) for item in made}
    compared = [item for item, word in given.items() if word in ("yes", "no")]
    above = 0.5 if min(made.values()) >= 0 else 0.0
    agree = sum((made[item] > above) == (given[item] == "yes") for item in compared)
    (record,) = Predictions(project.database).all()
    assert (record.items, record.labeled, record.agree) == (len(made), len(compared), agree)
    assert 0 < agree < len(compared)
