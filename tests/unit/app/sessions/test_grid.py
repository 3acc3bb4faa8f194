from __future__ import annotations

import json
import math

import pytest
from click.testing import CliRunner

from closecall.app.api.cards import card_of, submit
from closecall.app.cli.main import main
from closecall.app.sessions.grid import MOST, GridSession
from closecall.app.sessions.review import Review
from closecall.core.errors import InputError
from closecall.core.linear.hyperplane import Hyperplane
from closecall.storage import AnswerRecord, StorageError
from tests.projects import (
    answer,
    correct,
    label,
    new_project,
    open_workspace,
    truth_word,
    wait_for_index,
)

SIZE = 12


@pytest.fixture
def grid(project) -> GridSession:
    return small_grid(project, project.session())


def small_grid(project, session, size=SIZE) -> GridSession:
    grid = project.grid(session)
    grid.resize(size)
    return grid


def marks(card, words, **changes):
    """The browser's answers: a word for each item, None for those that are left open."""
    cells = [(cell, word) for cell, word in zip(card["cells"], words, strict=False) if word]
    return [answer({"item": {"id": c["id"], "selection": c["selection"]}}, w, **changes) for c, w in cells]


def truly(grid, card):
    return marks(card, [truth_word(grid.session.project, cell["id"]) for cell in card["cells"]])


def submit_truly(grid, n=1):
    """Submit n grids, truly answered; returns the next."""
    card = card_of(grid)
    for _ in range(n):
        card = submit(grid, truly(grid, card))
    return card


def items(card):
    return [cell["id"] for cell in card["cells"]]


def log_of(grid):
    return list(grid.session.project.log.selections(grid.session.concept.record.id))


def stored(grid):
    concept = grid.session.concept.record.id
    return [(a.item, a.answer) for a in grid.session.project.log.answers_after(concept)]


def test_a_submission_is_one_round(grid):
    """All its answers are stored, each with its own selection; one hyperplane follows, and one query."""
    card = submit_truly(grid, 2)
    given = truly(grid, card)
    after = submit(grid, given)
    assert after["acked"] == [one["id"] for one in given]
    assert after["round"] == card["round"] + 1
    assert len(stored(grid)) == 3 * SIZE
    new = log_of(grid)[-SIZE:]
    assert {record.round for record in new} == {after["round"]}
    assert len({record.hyperplane_digest for record in new}) == 1
    assert new[0].hyperplane_digest not in {None, *(r.hyperplane_digest for r in log_of(grid)[:-SIZE])}
    assert [record.id for record in new] == [cell["selection"] for cell in after["cells"]]
    assert not set(items(after)) & {item for item, _ in stored(grid)}


def test_the_grid_holds_the_items_nearest_to_the_hyperplane(grid, monkeypatch):
    """In their order, nearest first; what is too like one of them is passed over."""
    wait_for_index(grid.session.project, "exhaustive")
    grid.session.set_strategy("exhaustive")
    monkeypatch.setattr("closecall.app.sessions.grid.DIVERSITY", 0.0)
    card = submit_truly(grid, 2)
    pool, record = grid.session.project.pool, log_of(grid)[-1]
    standing = grid.session.concept.standing()
    hyperplane = grid.session.concept.train(pool, standing).hyperplane
    assert isinstance(hyperplane, Hyperplane)
    assert hyperplane.digest == record.hyperplane_digest
    margins = abs(hyperplane.scores(pool.rows_of(pool.ids)))
    free = [i for i in pool.ids[margins.argsort(kind="stable")] if i not in standing.answered]
    assert items(card) == free[:SIZE]


def test_open_items_are_not_answered_and_may_come_again(grid):
    """Only what is marked goes into the log."""
    submit_truly(grid, 2)
    card = card_of(grid)
    given = marks(card, ["no", None, "skip", None, "yes"])
    after = submit(grid, given)
    assert stored(grid)[-3:] == [(one["item"], one["answer"]) for one in given]
    left_open = set(items(card)) - {one["item"] for one in given}
    assert not left_open & set(grid.session.concept.standing().answered.tolist())
    assert left_open & set(items(after))


def test_a_submission_sent_again_is_stored_once_and_moves_nothing(grid):
    """The browser may send its queue as often as it likes."""
    given = truly(grid, card_of(grid))
    first = submit(grid, given)
    again = submit(grid, [*given, *given])
    assert set(again["acked"]) == {one["id"] for one in given}
    assert len(stored(grid)) == SIZE
    assert again["cells"] == first["cells"]


def test_the_last_grid_is_corrected_in_one_go(grid):
    """It comes with the answers that stand; what is changed replaces them, what was open can be answered."""
    card = submit_truly(grid, 1)
    card = submit(grid, marks(card, ["no"] * (SIZE - 2)))
    last = card["last"]
    assert [cell["answer"] for cell in last] == ["no"] * (SIZE - 2) + [None] * 2
    changed = [
        *marks({"cells": last[:1]}, ["yes"], corrects=last[0]["answer_id"]),
        *marks({"cells": last[-1:]}, ["skip"]),
    ]
    after = submit(grid, changed)
    assert after["refused"] == []
    assert after["round"] == card["round"] + 1
    assert [cell["answer"] for cell in after["last"]] == ["yes"] + ["no"] * (SIZE - 3) + [None, "skip"]
    assert grid.session.concept.catch_up().status(last[0]["id"]) == "yes"
    digests = {record.hyperplane_digest for record in log_of(grid) if record.round > card["round"] - 1}
    assert len(digests) == 2


def test_before_there_is_a_hyperplane_a_grid_is_drawn_or_like_the_examples(grid):
    """Several at once, either way."""
    card = card_of(grid)
    assert card["notes"]["why"] == "random-start"
    assert len(set(items(card))) == SIZE
    project = grid.session.project
    seven = next(int(i) for i in project.pool.ids if truth_word(project, int(i)) == "yes")
    grid.session.add_examples([_png(project, seven)])
    card = card_of(grid)
    assert card["notes"]["why"] == "example"
    assert items(card)[0] == seven
    truths = [truth_word(project, item) for item in items(card)]
    assert truths.count("yes") >= SIZE // 3


def _png(project, item):
    import io

    raw = io.BytesIO()
    project.pool.source.image(item, 200).save(raw, "PNG")
    return raw.getvalue()


def test_card_and_grid_take_turns(grid):
    """Each chooses anew when its turn comes; rounds go on, and no answered item comes back."""
    session = grid.session
    label(session, 3)
    card = card_of(grid)
    assert card["round"] > 3
    after = submit(grid, truly(grid, card))
    one = card_of(session)
    assert one["round"] == after["round"] + 1
    assert one["item"]["id"] not in {item for item, _ in stored(grid)}
    label(session, 2)
    back = card_of(grid)
    assert back["round"] == one["round"] + 3
    assert back["last"] == []
    assert not set(items(back)) & {item for item, _ in stored(grid)}


def test_the_strategy_and_the_size_can_be_changed(grid):
    """The grid follows at once."""
    submit_truly(grid, 2)
    wait_for_index(grid.session.project, "random")
    grid.session.set_strategy("random")
    assert card_of(grid)["notes"]["strategy"] == "random"
    grid.resize(20)
    card = card_of(grid)
    assert len(card["cells"]) == 20
    grid.resize(20)
    assert card_of(grid)["cells"] == card["cells"]
    for wrong in (0, 11, MOST + 1):
        with pytest.raises(InputError, match=f"from 12 to {MOST} items, got {wrong}"):
            grid.resize(wrong)


def test_nobody_else_is_shown_what_is_in_the_grid(project, grid):
    """Neither a card nor another grid."""
    grid.resize(MOST)
    own = set(items(card_of(grid)))
    other = small_grid(project, project.session(annotator="bob"), MOST)
    assert own.isdisjoint(items(card_of(other)))
    assert card_of(project.session(annotator="eve"))["item"]["id"] not in own


@pytest.mark.parametrize("page", ["Review", "Compare"])
def test_answers_from_another_page_leave_the_grid_as_it_is(project, grid, page):
    """Its items stay leased, and nothing is selected."""
    session, other = grid.session, project.session(annotator="bob")
    label(session, 8)
    label(other, 2)
    item = other.history[0].item
    before = card_of(grid)
    newest = project.log.last_selection(session.id)
    given = answer({"item": {"id": item, "selection": None}}, "yes", session=session.id)
    if page == "Review":
        assert correct(Review(session), [given])["acked"] == [given["id"]]
    else:
        record = AnswerRecord(
            id=given["id"],
            concept_id=1,
            session_id=session.id,
            annotator=session.annotator,
            item=item,
            answer="yes",
            browser_time=1,
        )
        session.take_over([record])
    assert project.log.answer(given["id"]) is not None
    assert project.log.last_selection(session.id) == newest
    assert set(items(before)) <= set(project.leases.held(but_for=[other.id]))
    after = card_of(grid)
    assert [cell["selection"] for cell in after["cells"]] == [cell["selection"] for cell in before["cells"]]
    label(session, 1)
    assert item not in items(card_of(grid))


def test_the_grid_is_shown_again_after_a_restart(tmp_path):
    """The same items, and the last grid can be corrected still; an answered grid is followed by the next."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        grid = small_grid(project, project.session())
        before = submit_truly(grid, 2)
        key, session_id = project.key, grid.session.id
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(key)
        grid = small_grid(project, project.session(session_id))
        after = card_of(grid)
        assert (after["cells"], after["last"]) == (before["cells"], before["last"])
        assert after["history"] == before["history"]
        given = truly(grid, after)
        from closecall.app.sessions.answers import parse_answers

        presses, _ = parse_answers(given, session=grid.session)
        project.log.append_answers([record for press in presses for record in press.records])
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(key)
        grid = small_grid(project, project.session(session_id))
        card = card_of(grid)
        assert [cell["id"] for cell in card["last"]] == items(after)
        assert not set(items(card)) & set(items(after))
        assert submit(grid, given)["cells"] == card["cells"]


def test_answers_are_acknowledged_although_the_next_grid_cannot_be_written(grid, monkeypatch):
    """A disk that fills up loses nothing; work goes on when there is room."""
    given = truly(grid, card_of(grid))

    def refuse(records):
        raise StorageError("the disk is full", "full")

    with monkeypatch.context() as full:
        full.setattr(grid.session.project.log, "record_selections", refuse)
        card = submit(grid, given)
        assert len(card["acked"]) == SIZE
        assert card["cells"] == []
        assert "full" in card["message"]
    card = card_of(grid)
    assert len(card["cells"]) == SIZE
    assert card["message"] is None


def test_an_exhausted_pool_gives_what_is_left_and_then_says_so(workspace):
    """The last grid is smaller."""
    project = new_project(workspace, n_items=110)
    grid = small_grid(project, project.session(), 40)
    sizes = []
    card = card_of(grid)
    while card["cells"]:
        sizes.append(len(card["cells"]))
        assert card_of(grid)["cells"] == card["cells"]
        card = submit(grid, marks(card, ["no"] * 40))
    assert sizes == [40, 40, 30]
    assert card["waiting"]["exhausted"]


def test_verify_replays_grids(tmp_path, monkeypatch):
    """Of every kind, before and after the first hyperplane, with skips, corrections and a change of mode."""
    monkeypatch.setattr("closecall.app.indexes.strategies.CHEAP_SECONDS", math.inf)
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        grid = small_grid(project, project.session())
        card = card_of(grid)
        card = submit(grid, marks(card, ["skip", "unsure", None, "no"]))
        submit_truly(grid, 3)
        for strategy in ("exhaustive", "subsample", "bh-hash-weighted", "random", "margin-index", "mixture"):
            wait_for_index(project, strategy)
            grid.session.set_strategy(strategy)
            card = submit_truly(grid, 2)
        last = card["last"][0]
        other = "no" if last["answer"] == "yes" else "yes"
        submit(grid, marks({"cells": [last]}, [other], corrects=last["answer_id"]))
        label(grid.session, 2)
        grid.session.revisit_skipped()
        submit_truly(grid, 1)
        folder, n_grids = project.folder, len({r.round for r in log_of(grid) if "batch" in r.parameters})
    result = CliRunner().invoke(main, ["verify", str(folder), "--json"])
    findings = json.loads(result.output)
    assert findings["problems"] == []
    assert findings["choices"] == findings["digests"] > n_grids > 14
    assert findings["ranks"]["exhaustive"]["selections"] >= 2 * SIZE


def test_what_others_have_is_written_once_a_grid(project):
    """Its first row says it for all, and a replay excludes it."""
    ada = project.session(annotator="Ada")
    label(ada, 12)
    assert ada.item_view.ahead.wait(60)
    first, other = project.session(annotator="Bob"), project.session(annotator="Cleo")
    theirs = set(project.leases.held(but_for={other.id}))
    assert first.in_view() is not None
    theirs |= set(project.leases.held(but_for={other.id}))
    card = card_of(small_grid(project, other))
    rows = list(project.log.selections(session_id=other.id))
    assert len(rows) == len(card["cells"]) == SIZE
    assert set(rows[0].leased) == theirs
    assert all(row.leased == () for row in rows[1:])
    result = CliRunner().invoke(main, ["verify", str(project.folder), "--json"])
    assert result.exit_code == 0, result.output
    assert json.loads(result.stdout)["problems"] == []


def test_the_label_page_goes_on_when_a_grids_answer_about_its_item_arrives(project):
    """The answer waited in the browser, and the server has selected the item once more meanwhile."""
    label(project.session(annotator="ada"), 8)
    session = project.session(annotator="bob")
    grid = small_grid(project, session, size=24)
    card, label_card = card_of(grid), card_of(session)
    assert label_card["item"]["id"] in items(card)
    assert label_card["item"]["selection"] not in {cell["selection"] for cell in card["cells"]}
    given = truly(grid, card)
    after = submit(session, given)
    assert set(after["acked"]) == {each["id"] for each in given}
    assert after["item"]["id"] not in items(card)
