"""Blind comparisons: turns, what is shared, what is kept apart, and that nothing tells whose turn it is."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import numpy as np
import pytest
from click.testing import CliRunner

from closecall.app.api.cards import card_of, submit
from closecall.app.api.verdict import verdict
from closecall.app.cli.main import main
from closecall.app.sessions.blind.begin import begin, current, offer
from closecall.app.sessions.blind.comparison import LEAST_TURNS
from closecall.app.sessions.labeling import LabelingSession
from closecall.core.errors import InputError
from tests.projects import (
    answer,
    label,
    new_project,
    open_workspace,
    reply_lost,
    save_as_found,
    truth_word,
    wait_for_index,
)


@pytest.fixture
def project(workspace):
    return new_project(workspace)


@pytest.fixture
def session(project) -> LabelingSession:
    wait_for_index(project, "margin-index")
    return project.session(project.log.start_session(1, "ada", "margin-index", seed=5).id)


@pytest.fixture
def judged(session, monkeypatch):
    """A pool whose truth nobody knows."""
    monkeypatch.setattr(
        "closecall.app.sessions.blind.begin.offer", lambda session: type(offer(session))(None, False, 0)
    )
    return session


def give(blind, n: int, says=truth_word) -> list[int]:
    """Answer n items truly; returns them."""
    items = []
    card = card_of(blind)
    for _ in range(n):
        items.append(card["item"]["id"])
        card = submit(blind, [answer(card, says(blind.project, items[-1]))])
    return items


def is_even(project, item: int) -> str:
    """A question to which half of the answers are yes."""
    return "no" if int(project.pool.truth([item])[0]) % 2 else "yes"


def answered(side) -> dict[int, str]:
    state = side.concept.catch_up()
    return {item: state.votes(item)["ada"] for item in state.answered_items().tolist()}


def test_each_side_learns_from_its_own_choices(session):
    """Who answers sees each item once; a side knows what it chose, and chose what it knows."""
    blind = begin(session, ["exhaustive", "random"])
    items = give(blind, 30)
    assert len(set(items)) == 30
    one, other = (answered(side) for side in blind.rivals)
    assert set(one) | set(other) == set(items)
    for side in blind.sides:
        shown = {record.item for record in blind.project.log.selections(side.concept.record.id)}
        assert set(answered(side)) <= shown
    assert abs(len(one) - len(other)) <= 10
    assert session.concept.counts().answered == 0


def test_turns_are_drawn_in_blocks(session):
    """In each pair of turns both sides have one, and who is first is not always the same."""
    blind = begin(session, ["exhaustive", "random"])
    turns = [blind.sides.index(blind.turn(number)) for number in range(60)]
    assert all(set(turns[n : n + 2]) == {0, 1} for n in range(0, 60, 2))
    assert {0, 1} == set(turns[::2])


def test_an_item_that_both_choose_is_asked_once(session):
    """Two names of one strategy choose alike: every answer serves both, and their labels stay the same."""
    blind = begin(session, ["exhaustive", "margin-index:confidence=0.999999"])
    give(blind, 20)
    one, other = (answered(side) for side in blind.rivals)
    assert len(one.keys() & other.keys()) >= 15
    assert all(one[item] == other[item] for item in one.keys() & other.keys())
    assert blind.turns == 20


def test_what_was_sent_ahead_to_another_window_reaches_the_side_that_chose_it(session):
    """Its answer is stored although the one before it came too late."""
    blind = begin(session, ["exhaustive", "random"])
    card = card_of(blind)
    while not (blind.turn(blind.turns) is blind.turn(blind.turns + 1) is blind.sides[1]):
        give(blind, 1)
    card = card_of(blind)
    while card["next_is_coming"]:
        card = card_of(blind)
    ahead = card["next"]["no"]["item"]
    submit(blind, [answer(card, "skip")])
    late = answer(card, "no", next=ahead["selection"])
    given = answer(card, "no", item=ahead["id"], selection=ahead["selection"])
    settled = submit(blind, [late, given])
    assert settled["acked"] == [given["id"]]
    assert answered(blind.sides[1])[ahead["id"]] == "no"


def test_undo_and_correction_reach_all_who_share_the_answer(session):
    blind = begin(session, ["exhaustive", "margin-index:confidence=0.999999"])
    give(blind, 20)
    card = card_of(blind)
    last, entry = card["strip"][-1], card["strip"][-3]
    undo = answer(card, "undo", item=last["item"], selection=None, undoes=last["answer_id"])
    card = submit(blind, [undo])
    assert card["acked"] == [undo["id"]]
    assert card["item"]["id"] == last["item"]
    assert blind.turns == 19
    assert all(last["item"] not in answered(side) for side in blind.sides)
    corrected = answer(card, "unsure", item=entry["item"], selection=None, corrects=entry["answer_id"])
    card = submit(blind, [corrected])
    assert card["acked"] == [corrected["id"]]
    said = [answered(side).get(entry["item"]) for side in blind.sides]
    assert set(said) - {None} == {"unsure"}
    assert submit(blind, [undo, corrected])["acked"] == [undo["id"], corrected["id"]]
    assert blind.turns == 19


def test_nothing_tells_whose_turn_it_is(session):
    """The cards of both sides have the same parts, and no strategy, time or margin."""
    blind = begin(session, ["exhaustive", "random"])
    shapes = set()
    for _ in range(10):
        card = card_of(blind)
        text = json.dumps({**card, "pictures": {}, "strip": [], "item": None})
        for word in ("exhaustive", "random-start", "margin-index", "Random", "Exhaustive"):
            assert word not in text
        assert card["notes"]["selection_ms"] is card["notes"]["margin"] is None
        shapes.add(tuple(sorted(card["item"])))
        submit(blind, [answer(card, truth_word(blind.project, card["item"]["id"]))])
    assert len(shapes) == 1


def test_what_follows_is_sent_ahead(session):
    """An item of the other side can't depend on the answer."""
    blind = begin(session, ["exhaustive", "random"])
    give(blind, 10)
    ahead = 0
    for _ in range(12):
        card = with_what_follows(blind)
        word = truth_word(blind.project, card["item"]["id"])
        coming = card["next"].get(word)
        after = submit(blind, [answer(card, word, next=coming["item"]["selection"] if coming else None)])
        if coming:
            ahead += 1
            assert after["item"]["selection"] == coming["item"]["selection"]
            assert card["pictures"][str(coming["item"]["id"])] == after["item"]["src"]
    assert ahead >= 6


def test_what_was_gone_on_to_unheard_is_asked_once(session, monkeypatch):
    """The reply to an answer is lost, and the browser goes on: what it shows stays what was foreseen."""
    blind = begin(session, ["exhaustive", "random"])
    log, gone_on = blind.project.log, 0
    give(blind, 10)
    while gone_on < 4:
        card = with_what_follows(blind)
        word = truth_word(blind.project, card["item"]["id"])
        coming = card["next"].get(word)
        if coming is None or log.foreseen(coming["item"]["selection"]) is None:
            submit(blind, [answer(card, word)])
            continue
        first = answer(card, word, next=coming["item"]["selection"])
        with reply_lost(blind.project, monkeypatch):
            submit(blind, [first])
        second = answer(coming, truth_word(blind.project, coming["item"]["id"]))
        assert set(submit(blind, [first, second])["acked"]) == {first["id"], second["id"]}
        gone_on += 1
    for side in blind.sides:
        lines = [row.answer.item for row in log.log_rows() if row.answer.session_id == side.id]
        assert len(lines) == len(set(lines))


def with_what_follows(blind) -> dict:
    """The card with everything that can be sent ahead."""
    until = time.monotonic() + 120
    while (card := card_of(blind))["next_is_coming"] and time.monotonic() < until:
        blind.turn(blind.turns).attend()
    return card


def test_it_goes_on_after_a_restart(tmp_path):
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        session = project.session(annotator="ada")
        blind = begin(session, ["exhaustive", "random"])
        give(blind, 15)
        before, folder = card_of(blind), project.folder
    with open_workspace(tmp_path) as workspace:
        again = current(workspace.project(folder.name).session(annotator="ada"))
        assert again is not None
        card = card_of(again)
        assert card["item"] == before["item"]
        assert [entry["item"] for entry in card["strip"]] == [entry["item"] for entry in before["strip"]]
        assert again.turns == 15


def test_both_begin_with_the_questions_labels(session):
    """Five of each kind, the same for both, and they are no turns."""
    label(session, 60)
    labels = session.concept.standing().labels
    blind = begin(session, ["exhaustive", "random"])
    one, other = (answered(side) for side in blind.rivals)
    assert one == other
    assert sorted(one.values()) == ["no"] * 5 + ["yes"] * 5
    assert set(one) <= set(labels.items.tolist())
    assert blind.turns == 0


def test_its_sides_are_offered_to_nobody(session, project):
    begin(session, ["exhaustive", "random"])
    assert [concept.id for concept in project.concepts()] == [1]


def test_nothing_is_told_too_early(session):
    label(session, 60)
    blind = begin(session, ["exhaustive", "random"])
    give(blind, 2 * LEAST_TURNS - 1)
    with pytest.raises(InputError, match="1 more answer before"):
        blind.tell()
    give(blind, 1)
    blind.tell()
    assert current(session).is_told


def test_the_verdict_is_that_of_the_classifiers(session, project):
    """AUROC on the held-out items, by hand; a line each, and who found how many."""
    blind = begin(session, ["exhaustive", "random"])
    give(blind, 2 * LEAST_TURNS)
    found = verdict(blind)
    assert {side["strategy"] for side in found["sides"]} == {"exhaustive", "random"}
    held_out = project.pool.held_out
    y = held_out.truth == project.pool.classes.index("7")
    for side, told in zip(blind.rivals, found["sides"], strict=True):
        assert told["strategy"] == side.strategy
        trained = side.concept.train(project.pool, side.concept.standing())
        scores = held_out.X @ trained.hyperplane.normal
        pairs = scores[y][:, None] - scores[~y][None, :]
        assert told["auroc"] == pytest.approx(((pairs > 0) + 0.5 * (pairs == 0)).mean(), abs=2e-5)
        assert told["yes"] == list(answered(side).values()).count("yes")
        assert told["labels"] == len(answered(side))
        assert [n for n, _ in told["curve"]] == list(range(told["curve"][0][0], told["labels"] + 1))
    difference = 100 * (found["sides"][0]["auroc"] - found["sides"][1]["auroc"])
    assert found["difference"]["mean"] == pytest.approx(difference, abs=0.01)
    assert found["difference"]["low"] < found["difference"]["mean"] < found["difference"]["high"]
    json.dumps(found, allow_nan=False)


def test_where_truth_is_unknown_a_judge_draws(judged, monkeypatch):
    """Its items are a random sample that trains nobody; what a rival learned from is no test of it."""
    monkeypatch.setattr("closecall.app.api.verdict.LEAST_OF_EACH", 2)
    blind = begin(judged, ["exhaustive", "random"])
    give(blind, 60, is_even)
    judge = set(answered(blind.judge))
    assert 16 <= len(judge) <= 24
    found = verdict(blind)
    trained = set().union(*(answered(side) for side in blind.rivals))
    assert f"{len(judge - trained)} items drawn at random" in found["about"]
    assert found["difference"] is not None


def test_the_judge_draws_near_duplicates_too(judged, project):
    """Items of a large group are drawn as often as others; the two strategies ask about one of them."""
    leaders = np.arange(len(project.pool))
    leaders[:500] = 0
    save_as_found(project, leaders)
    group = set(project.pool.ids[:500].tolist())
    blind = begin(judged, ["exhaustive", "random"])
    give(blind, 36, is_even)
    assert len(group.intersection(answered(blind.judge))) > 2
    assert all(len(group.intersection(answered(side))) <= 1 for side in blind.rivals)
    result = CliRunner().invoke(main, ["verify", str(project.folder), "--json"])
    assert json.loads(result.output)["problems"] == []


def test_where_nothing_can_be_told_it_says_so(judged):
    """Thirty answers bring hardly five yes to the judge."""
    blind = begin(judged, ["exhaustive", "random"])
    give(blind, 30)
    found = verdict(blind)
    assert found["difference"] is None
    assert found["headline"] == "Too early to say whether Random or Exhaustive chose better"
    assert "at least 5 of each are needed" in found["about"]


def test_what_comes_at_random_before_there_are_both_kinds_is_no_choice(session):
    blind = begin(session, ["exhaustive", "random"])
    card = card_of(blind)
    for _ in range(30):
        card = submit(blind, [answer(card, "no")])
    assert blind.wanted == LEAST_TURNS
    assert blind.needs.endswith("Answers count for a strategy once it has a yes and a no.")


def test_each_strategy_is_asked_about_as_many_items_as_announced(session):
    """No matter how many of them both choose: the number that one strategy still needs is announced."""
    label(session, 60)
    for strategies in (["exhaustive", "margin-index"], ["exhaustive", "random"]):
        blind = begin(session, strategies)
        given = len(answered(blind.sides[0]))
        while wanted := blind.wanted:
            told = LEAST_TURNS - min(len(answered(side)) - given for side in blind.rivals)
            assert wanted == told
            plural = "" if told == 1 else "s"
            assert blind.needs == f"Each strategy needs up to {told} more answer{plural} before we can tell."
            with pytest.raises(InputError, match=f"up to {told} more"):
                blind.tell()
            give(blind, 1)
        blind.tell()


def test_its_labels_can_be_added_to_the_question(session, project):
    """Once; what the question knew already stays as it was."""
    label(session, 30)
    before = answered(session)
    blind = begin(session, ["exhaustive", "random"])
    items = give(blind, 40)
    new = set(items) - set(before)
    assert blind.add_to_question(session) == len(new)
    after = answered(session)
    assert set(after) == set(before) | set(items)
    assert {item: after[item] for item in before} == before
    assert blind.add_to_question(session) == 0
    assert card_of(session)["item"]["id"] not in after


def test_a_label_that_was_undone_can_be_added_again(session):
    label(session, 30)
    blind = begin(session, ["exhaustive", "random"])
    give(blind, 10)
    blind.add_to_question(session)
    last = card_of(session)["strip"][-1]
    undo = answer(card_of(session), "undo", item=last["item"], selection=None, undoes=last["answer_id"])
    assert submit(session, [undo])["acked"] == [undo["id"]]
    assert last["item"] not in answered(session)
    assert blind.add_to_question(session) == 1
    assert answered(session)[last["item"]] == last["answer"]


def test_its_log_holds(session, project):
    """Every side's selections are found again."""
    blind = begin(session, ["exhaustive", "random"])
    give(blind, 40)
    blind.add_to_question(session)
    label(session, 5)
    result = CliRunner().invoke(main, ["verify", str(project.folder), "--json"])
    found = json.loads(result.output)
    assert found["problems"] == []
    assert found["choices"] >= 40


def test_what_makes_no_comparison_is_refused(session):
    with pytest.raises(InputError, match="two different strategies"):
        begin(session, ["random", "random"])


def test_offers_say_who_judges(session):
    """The digits' truth is known; so there is no judge."""
    offered = offer(session)
    assert (offered.problem, offered.is_judged_by_truth, offered.first) == (None, True, 0)
    assert begin(session, ["exhaustive", "random"]).judge is None


@pytest.mark.parametrize(
    ("yes", "no", "are_enough"), [(50, 0, False), (50, 4, False), (4, 50, False), (5, 5, True)]
)
def test_held_out_items_judge_only_with_enough_of_each_class(session, monkeypatch, yes, no, are_enough):
    """Otherwise the result could never be shown, since their number never grows."""
    pool = session.project.pool
    held_out, index = pool.held_out, pool.classes.index("7")
    truth = np.full(len(held_out), -1, dtype=np.int16)
    truth[:yes], truth[yes : yes + no] = index, (index + 1) % len(pool.classes)
    monkeypatch.setattr(type(pool), "held_out", replace(held_out, truth=truth))
    assert offer(session).is_judged_by_truth is are_enough
