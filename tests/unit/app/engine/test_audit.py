"""Audits in a labeling session: drawn beside what trains, kept apart from it, and drawn again by verify."""

from __future__ import annotations

import json
import math
import shutil
import threading
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from closecall.app.api.cards import card_of, submit
from closecall.app.cli.main import main
from closecall.app.engine.audit import frame_seed, place_of_frame
from closecall.app.engine.exclusion import excluded_items
from closecall.app.engine.selection_parameters import AUDIT, PASSED
from closecall.app.runtime import cores as cores_module
from closecall.app.runtime.cores import Cores, a_core
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.new_project import NewProject
from closecall.core.audit import Frame
from closecall.core.errors import InputError
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.sources import source_from
from closecall.storage import SelectionRecord
from tests.projects import (
    N_ITEMS,
    answer,
    give_answers,
    label,
    new_project,
    open_workspace,
    truth_word,
    wait_for_index,
)
from tests.unit.app.verification.test_verify import tamper
from tests.waiting import until

FEW = 200
"""Items of a pool that audits soon use up."""


@pytest.fixture
def workspace(tmp_path, monkeypatch):
    monkeypatch.setattr("closecall.app.indexes.strategies.CHEAP_SECONDS", math.inf)
    with open_workspace(tmp_path) as workspace:
        yield workspace


@pytest.fixture
def project(workspace):
    return new_project(workspace)


@pytest.fixture
def session(project) -> LabelingSession:
    return begun(project)


def begun(project) -> LabelingSession:
    """Ada's session, with six labels."""
    wait_for_index(project, LabelingSession.DEFAULT)
    session = project.session(project.log.start_session(1, "ada", LabelingSession.DEFAULT, seed=5).id)
    label(session, 6)
    return session


def label_with_new_frames(session, n: int) -> None:
    """Answer n items truly, each when the frame that was due is there."""
    for _ in range(n):
        give_answers(session, 1)
        session.project.background.submit(int).result()
    card_of(session)


def drawn(project) -> list:
    """What the audit drew so far."""
    return [record for record in project.log.selections(1) if record.why == "audit"]


def label_to_an_audit(session) -> dict:
    """The card of the next item that is the audit's."""
    card = card_of(session)
    while card["notes"]["why"] != "audit":
        card = label(session, 1)
    return card


def verify(folder) -> dict:
    result = CliRunner().invoke(main, ["verify", str(folder), "--json"])
    found = json.loads(result.output)
    assert result.exit_code == bool(found["problems"])
    return found


@pytest.fixture(scope="module")
def half_audited(tmp_path_factory):
    """A project with a hundred answers, of which the audit asked for every other; no test changes it."""
    with pytest.MonkeyPatch.context() as patch, open_workspace(tmp_path_factory.mktemp("half")) as workspace:
        patch.setattr("closecall.app.indexes.strategies.CHEAP_SECONDS", math.inf)
        project = new_project(workspace)
        session = begun(project)
        session.set_audit_share(0.5)
        label_with_new_frames(session, 100)
        yield project


def test_a_selection_and_the_first_frame_never_wait_for_each_other(project, session, monkeypatch):
    """A selection may need a frame while it holds the only core, which somebody else's frame waits for."""
    label(session, 20)  # a yes and a no among them
    cores = Cores(1)
    monkeypatch.setattr(cores_module, "_CORES", cores)
    audit, found = session.concept.audit, []

    def frame():
        found.append(audit.frame(project.pool))

    def select():
        with a_core():
            threading.Thread(target=frame, daemon=True).start()
            until(lambda: cores._waiting)
            frame()

    threading.Thread(target=select, daemon=True).start()
    until(lambda: len(found) == 2)
    assert found[0] is found[1] is not None


def test_nothing_is_audited_unless_asked_for(project, session):
    label(session, 20)
    assert not drawn(project)
    assert not len(session.concept.standing().audited)


def test_the_share_asked_for_is_audited_and_trains_nothing(half_audited):
    """Audited answers are stored as such; labels, hyperplane and counts of labels leave them out."""
    answers = list(half_audited.log.answers_after(1))
    audited = [a for a in answers if a.purpose == "audit"]
    selections = {record.id: record for record in half_audited.log.selections(1)}
    assert 30 <= len(audited) <= 70
    assert {selections[a.selection_id].why for a in audited} == {"audit"}
    standing = half_audited.live_concept(1).standing()
    assert set(standing.audited) == {a.item for a in audited}
    assert not np.intersect1d(standing.labels.items, standing.audited).size
    assert len(standing.labels) + len(audited) == len(answers)


def test_no_item_comes_twice(half_audited):
    """Neither from the audit what was selected, nor the other way round."""
    items = [a.item for a in half_audited.log.answers_after(1)]
    assert len(set(items)) == len(items) >= 100


def test_each_draw_tells_its_probability_and_frame(half_audited):
    assert drawn(half_audited)
    for record in drawn(half_audited):
        frame = record.parameters[AUDIT]
        assert record.strategy == AUDIT
        assert 0 < record.probability < 1
        assert frame["seed"] == frame_seed(1, frame["through"])
        assert frame["through"] <= record.trained_through
        assert sum(frame["sizes"]) <= N_ITEMS
        assert record.margin is not None
        assert record.hyperplane_digest is not None


def test_frames_follow_the_labels(half_audited):
    """A quarter more labels, and draws come from strata by a newer classifier."""
    frames = [record.parameters[AUDIT]["through"] for record in drawn(half_audited)]
    assert len(set(frames)) >= 3
    assert frames == sorted(frames)


def test_what_would_be_audited_is_sent_ahead_like_anything_else(project, session):
    """Whatever is answered about an audited item, the same follows: nothing of it trains."""
    session.set_audit_share(0.5)
    card = label_to_an_audit(session)
    while card["next_is_coming"]:
        card = card_of(session)
    assert set(card["next"]) == {"yes", "no", "skip", "unsure"}
    assert len({view["item"]["id"] for view in card["next"].values()}) == 1
    given = answer(card, "yes", next=card["next"]["yes"]["item"]["selection"])
    after = submit(session, [given])
    assert after["item"] == after["item"] | card["next"]["yes"]["item"]
    assert [a.purpose for a in project.log.answers_after(1)][-1] == "audit"


def test_answers_to_what_was_sent_ahead_are_the_audits_even_after_a_restart(tmp_path, session, project):
    """The browser may hand in two answers at once, the second to an item that the server never saw shown."""
    session.set_audit_share(0.5)
    card = card_of(session)
    while True:
        while card["next_is_coming"]:
            card = card_of(session)
        word = truth_word(project, card["item"]["id"])
        if card["next"][word]["notes"]["why"] == "audit":
            break
        card = submit(session, [answer(card, word)])
    following = card["next"][word]["item"]
    session.item_view.ahead = None
    submit(
        session,
        [
            answer(card, word, next=following["selection"]),
            answer({"item": following}, "yes"),
        ],
    )
    assert [a.purpose for a in project.log.answers_after(1)][-1] == "audit"


def test_undone_corrected_and_answered_again_it_stays_the_audits(project, session):
    session.set_audit_share(0.5)
    card = label_to_an_audit(session)
    item, given = card["item"]["id"], answer(card, "yes")
    submit(session, [given])
    card = submit(session, [answer(card, "undo", selection=None, undoes=given["id"])])
    assert card["item"]["id"] == item
    given = answer(card, "no")
    card = submit(session, [given])
    submit(session, [answer({"item": {"id": item, "selection": None}}, "yes", corrects=given["id"])])
    about = [a for a in project.log.answers_after(1) if a.item == item and a.answer != "undo"]
    assert [a.answer for a in about] == ["yes", "no", "yes"]
    assert {a.purpose for a in about} == {"audit"}
    assert item not in session.concept.standing().labels.items


@dataclass(frozen=True)
class Audited:
    """A closed project, and what was known when it was open."""

    folder: Path
    session: str
    selections: list[SelectionRecord]
    items: set[int]
    passed: tuple[int, ...]


@pytest.fixture(scope="module")
def audited(tmp_path_factory) -> Audited:
    """A project many of whose items were audited; whoever changes something changes a copy of it."""
    with open_workspace(tmp_path_factory.mktemp("audited")) as workspace:
        project = new_project(workspace, n_items=FEW)
        session = begun(project)
        session.set_audit_share(0.7)
        label_with_new_frames(session, FEW // 2)
        items, passed = session.concept.standing().audited, session.concept.audit.passed()
        assert passed
        selections = list(project.log.selections(1))
    return Audited(project.folder, session.id, selections, set(items.tolist()), passed)


def test_selections_pass_over_audited_items_and_say_so(audited):
    """Where a strategy comes to an audited item it takes the next one, and the record names the first."""
    selected = [record for record in audited.selections if record.why == "strategy"]
    passed = selected[-1].parameters[PASSED]
    assert passed
    assert set(passed) <= audited.items
    assert not audited.items & {record.item for record in selected}
    assert audited.passed == tuple(passed)


def test_what_was_passed_over_stays_so_though_it_was_skipped(session):
    """A further answer to it would train; other skipped items may be asked about again."""
    standing = session.concept.standing()._replace(
        answered=np.array([3, 5, 7]), skipped=np.array([3, 7]), audited=np.array([3, 5])
    )
    for passed, excluded in (((), []), ((3,), [3]), ((3, 5), [3, 5])):
        assert excluded_items(standing, (), include_skipped=True, passed=passed).tolist() == excluded


def test_what_was_passed_over_is_known_after_a_restart(audited, tmp_path):
    shutil.copytree(audited.folder.parent, tmp_path / "again")
    with open_workspace(tmp_path / "again") as workspace:
        session = workspace.project(audited.folder.name).session(audited.session)
        assert session.concept.audit_share == 0.7
        assert session.concept.audit.passed() == audited.passed


def test_a_log_with_audits_holds(project, session):
    """Every draw and its probability are found again, and so is what passed over audited items."""
    session.set_audit_share(0.5)
    label(session, 40)
    card = label_to_an_audit(session)
    given = answer(card, "yes")
    submit(session, [given])
    card = submit(session, [answer(card, "undo", selection=None, undoes=given["id"])])
    submit(session, [answer(card, "skip")])
    label(session, 10)
    found = verify(project.folder)
    assert found["problems"] == []
    assert found["choices"] >= found["answers"] - 1
    assert AUDIT not in found["ranks"]


@pytest.mark.parametrize(
    ("statement", "complaint"),
    [
        ("UPDATE selections SET probability = probability / 2 WHERE why = 'audit'", "with probability"),
        (
            "UPDATE selections SET parameters = json_set(parameters, '$.audit.sizes[0]', 1)"
            " WHERE why = 'audit'",
            "other strata",
        ),
        (
            "UPDATE selections SET parameters = json_set(parameters, '$.audit.cuts[0]',"
            " json_extract(parameters, '$.audit.cuts[0]') - 0.001) WHERE why = 'audit'",
            "other strata",
        ),
        ("UPDATE selections SET parameters = json_remove(parameters, '$.passed')", "chooses item"),
        ("UPDATE selections SET parameters = '{}' WHERE why = 'audit'", "what it was drawn from"),
        ("UPDATE answers SET purpose = 'train' WHERE purpose = 'audit'", "the labels give hyperplane"),
    ],
)
def test_a_log_whose_audit_was_tampered_with_does_not(audited, tmp_path, statement, complaint):
    folder = shutil.copytree(audited.folder, audited.folder.with_name(tmp_path.name))
    tamper(folder, statement)
    assert any(complaint in problem for problem in verify(folder)["problems"])


@pytest.mark.parametrize("rule", [1, 2])
def test_an_audit_of_identical_items_is_drawn_again(workspace, tmp_path, monkeypatch, rule):
    """Frames of earlier versions follow an earlier rule, which their logs don't name."""
    monkeypatch.setattr("closecall.app.engine.audit.RULE", rule)
    monkeypatch.setattr("closecall.app.engine.audit.Frame", partial(Frame, rule=rule))
    X = np.random.default_rng(2).standard_normal((40, 8)).astype(np.float32)
    copies = np.arange(40) % 4 * 20 + 1
    np.save(tmp_path / "X.npy", np.repeat(X, copies, axis=0))
    classes = np.repeat(np.where(X[:, 0] > 0.5, "7", "1"), copies)
    (tmp_path / "classes.txt").write_text("\n".join(classes))
    pool = build(source_from(f"vectors:{tmp_path}/X.npy,{tmp_path}/classes.txt"), tmp_path / "pool").path
    project = workspace.project(workspace.create(NewProject(str(pool), "Is this a 7?")))
    session = begun(project)
    session.set_audit_share(0.5)
    label_with_new_frames(session, 60)
    frames = {place_of_frame(one): one.parameters[AUDIT] for one in drawn(project) if AUDIT in one.parameters}
    assert len(frames) > 1
    assert {frame["rule"] for frame in frames.values()} == {rule}
    if rule == 1:
        remove = "json_remove(parameters, '$.audit.rule')"
        tamper(project.folder, f"UPDATE selections SET parameters = {remove} WHERE why = 'audit'")
    assert verify(project.folder)["problems"] == []
    other = f"json_set(parameters, '$.audit.rule', {3 - rule})"
    tamper(project.folder, f"UPDATE selections SET parameters = {other} WHERE why = 'audit'")
    assert any("other strata" in problem for problem in verify(project.folder)["problems"])


def test_an_audit_holds_on_a_machine_that_rounds_otherwise(half_audited, monkeypatch):
    """The last bits of the scores that separate the strata depend on the processor."""
    rng, scores = np.random.default_rng(3), Pool.scores

    def otherwise(pool, hyperplane):
        found = scores(pool, hyperplane)
        return (found + rng.uniform(-2e-7, 2e-7, len(found)) * hyperplane.norm).astype(np.float32)

    monkeypatch.setattr(Pool, "scores", otherwise)
    frames = {place_of_frame(record): record.parameters[AUDIT] for record in drawn(half_audited)}
    assert len(frames) > 1
    assert verify(half_audited.folder)["problems"] == []


def test_all_sessions_of_a_question_draw_for_its_audit(project, session):
    """Those that are open when an owner sets the share, and new ones, also after a restart."""
    early = begun(project)
    other = project.session(None, project.add_concept("Is this a 3?").id)
    session.set_audit_share(1.0)
    late = project.session(annotator="bea")
    for one in (early, late):
        label_to_an_audit(one)
    assert other.concept.audit_share == 0
    concept, folder = session.concept.record.id, project.folder
    project.close()
    assert verify(folder)["problems"] == []
    with open_workspace(folder.parent) as again:
        assert again.project(folder.name).live_concept(concept).audit_share == 1


def test_what_is_no_share_is_refused(session):
    with pytest.raises(InputError, match=r"from 0 to 1, got 1\.5"):
        session.set_audit_share(1.5)


def test_an_audit_of_everything_ends_with_the_pool(workspace):
    """Where nothing is left to draw, or to select, the card says so."""
    session = begun(new_project(workspace, n_items=FEW // 2))
    session.set_audit_share(1.0)
    card = label(session, card_of(session)["notes"]["counts"]["left"])
    assert card["item"] is None
    assert card["waiting"]["exhausted"]
