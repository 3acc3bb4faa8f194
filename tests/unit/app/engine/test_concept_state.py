"""The models of a concept: training starts from the most similar one, and gives the same hyperplane."""

from __future__ import annotations

import numpy as np
import pytest

from closecall.app.api.cards import card_of, submit
from closecall.app.engine import training
from closecall.app.engine.concept_state import COMPARED, _Model, _nearest_dual
from closecall.core.linear.svm import Dual
from closecall.storage import Labels
from tests.projects import answer, give_answers, label, new_project, truth_word


@pytest.fixture
def project(workspace):
    return new_project(workspace)


@pytest.fixture
def begun(monkeypatch):
    """What each training starts from."""
    starts: list[Dual | None] = []
    learn = training.learner.learn_rows

    def watched(*given, start=None, **how):
        starts.append(start)
        trained = learn(*given, start=start, **how)
        cold = learn(*given, **how)
        assert (trained.hyperplane and trained.hyperplane.digest) == (
            cold.hyperplane and cold.hyperplane.digest
        )
        return trained

    monkeypatch.setattr(training.learner, "learn_rows", watched)
    return starts


def test_each_training_starts_from_the_last_and_gives_the_same(project, begun):
    """In the foreground and ahead, after answers, corrections and undos."""
    session = project.session()
    while not (session.concept.counts().yes and session.concept.counts().no):
        give_answers(session, 1)
    label(session, 4)
    begun.clear()
    card = card_of(session)
    for word in ("yes", "no", "yes"):
        given = answer(card, word)
        submit(session, [given])
        assert session.item_view.ahead.wait(60)
        card = card_of(session)
    submit(session, [answer(card, "no", selection=None, item=given["item"], corrects=given["id"])])
    again = answer(card_of(session), truth_word(project, card["item"]["id"]))
    card = submit(session, [again])
    submit(session, [answer(card, "undo", selection=None, item=again["item"], undoes=again["id"])])
    assert session.item_view.ahead.wait(60)
    assert len(begun) > 6
    assert all(start is not None and len(start.ids) for start in begun)


def test_examples_keep_their_weight(project, begun):
    """Their ids are negative."""
    session = project.session()
    give_answers(session, 4)
    shown = project.pool.source.image(int(project.pool.ids[0]), 64)
    path = project.folder / "seven.png"
    shown.save(path)
    for positive in (True, False):
        session.add_examples([path.read_bytes()], positive=positive)
    give_answers(session, 3)
    assert any(start is not None and (start.ids < 0).any() for start in begun)


def labels(items: list[int], yes: list[bool]) -> Labels:
    return Labels(np.array(items, dtype=np.int64), np.array(yes), through=len(items))


class Trained:
    """As much of a model as matters here."""

    examples_through = 0

    def __init__(self) -> None:
        self.dual = Dual(np.arange(1), np.ones(1, dtype=bool), np.ones(1))


def model(pool: object, items: list[int], yes: list[bool]) -> _Model:
    return _Model(pool, labels(items, yes), Trained())


def test_the_model_with_the_most_similar_labels_is_taken():
    """A flipped label counts twice, since it must be removed and added; other pools don't count."""
    pool, now = object(), labels([2, 5, 9], [True, False, True])
    flipped = model(pool, [2, 5, 9], [True, True, True])
    before = model(pool, [2, 9], [True, True])
    far = model(pool, [1, 2, 3], [True, True, True])
    elsewhere = model(object(), [2, 5, 9], [True, False, True])
    empty = model(pool, [], [])
    assert [one.changes_to(now) for one in (flipped, before, far, elsewhere, empty)] == [2, 1, 4, 0, 3]
    assert _nearest_dual([elsewhere, far, flipped, before], pool, now) is before.trained.dual
    assert _nearest_dual([elsewhere, far, flipped], pool, now) is flipped.trained.dual
    assert _nearest_dual([elsewhere], pool, now) is None
    assert _nearest_dual([far] * COMPARED + [before], pool, now) is far.trained.dual
    untrained = model(pool, [2, 5], [True, False])
    untrained.trained.dual = None
    assert _nearest_dual([untrained, far], pool, now) is far.trained.dual


def test_the_newest_hyperplane_tells_which_answer_is_likelier(project):
    """No hyperplane leans to no."""
    session = project.session()
    item = int(project.pool.ids[0])
    assert not session.concept.leans_to_yes(project.pool, item)
    give_answers(session, 20)
    plane = session.concept.trained(project.pool)[1].hyperplane
    for item in project.pool.ids[:40].tolist():
        score = plane.scores(project.pool.rows_of([item]))[0]
        assert session.concept.leans_to_yes(project.pool, item) == (score > 0)
    assert not session.concept.leans_to_yes(project.pool.prefix(40), item)
