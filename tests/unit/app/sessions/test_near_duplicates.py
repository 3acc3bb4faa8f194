"""The queue asks about one item of each group of near-duplicates."""

from __future__ import annotations

import io
from contextlib import contextmanager

import numpy as np
import pytest
from click.testing import CliRunner

from closecall.app.api.cards import card_of, submit
from closecall.app.cli.main import main
from closecall.app.engine.leases import LEASE_SECONDS, Leases
from closecall.app.engine.selection_parameters import GROUP_RULE, GROUPS
from closecall.app.projects.roles import Person
from closecall.app.sessions.full_scan_check import compare
from closecall.app.sessions.similar.query import Like
from closecall.core.duplicates import folder_of
from closecall.core.errors import InputError
from closecall.core.selection.files import MANIFEST
from tests.projects import (
    answer,
    find_groups,
    give_answers,
    label,
    new_project,
    open_workspace,
    save_as_found,
    shown_to,
    tamper,
    truth_word,
    verified,
    wait_for_index,
)


def repeated(project, items):
    """Every item that is in a group with one of these, by definition."""
    groups = project.duplicates.current
    return {member for item in items for member in groups.members(item).tolist()}


def require_one_each(project, items):
    """No two of the items are in one group."""
    groups = project.duplicates.current
    assert len(set(items)) == len(items)
    assert len(repeated(project, items)) == sum(len(groups.members(item)) for item in items)


@contextmanager
def former_rule(monkeypatch):
    """Select by version 1 of the rule of `GROUP_RULE`."""
    with monkeypatch.context() as former:
        for module in ("occasion", "selection"):
            former.setattr(f"closecall.app.engine.{module}.RULE", 1)
        yield


def chosen(project, concept=1):
    """The items that the queue chose, in the log's order."""
    return [record.item for record in project.log.selections(concept)]


@pytest.fixture
def grouped(project):
    """A project whose pool has groups of six."""
    wait_for_index(project, "margin-index")
    find_groups(project, 6)
    return project


def session_of(project, name="ada", strategy="margin-index"):
    wait_for_index(project, strategy)
    return project.session(project.log.start_session(1, name, strategy, seed=5).id)


@pytest.mark.parametrize("strategy", ["margin-index", "exhaustive", "random", "likely-positive", "mixture"])
def test_no_strategy_asks_twice(grouped, strategy):
    """From the first item on, with the look-ahead and without it; the log replays exactly."""
    session = session_of(grouped, strategy=strategy)
    for _ in range(3):
        give_answers(session, 4)
        label(session, 1)
    items = chosen(grouped)
    assert len(items) > 15
    require_one_each(grouped, items)
    assert verified(grouped)["choices"] == len(items)
    assert compare(session, session.shown.id).items == len(grouped.pool) - len(repeated(grouped, items[:-1]))


def test_after_example_images_a_group_is_asked_about_once(grouped):
    """The items that are most similar to the examples are often near-duplicates of each other."""
    session = session_of(grouped)
    shown = io.BytesIO()
    grouped.pool.source.image(int(grouped.pool.ids[0]), 64).save(shown, "PNG")
    session.add_examples([shown.getvalue()])
    for _ in range(6):
        submit(session, [answer(card_of(session), "yes")])
    records = list(grouped.log.selections(1))
    assert [record.why for record in records[-6:]] == ["example"] * 6
    require_one_each(grouped, chosen(grouped))
    verified(grouped)


def test_what_is_chosen_ahead_leaves_out_the_near_duplicates_of_the_item_in_view(grouped):
    """For every possible answer, a skip among them."""
    session = session_of(grouped)
    label(session, 3)
    for word in ("yes", "no", "skip", "unsure") * 2:
        card = card_of(session)
        session.item_view.ahead.wait(60)
        card = card_of(session)
        own = repeated(grouped, [card["item"]["id"]])
        assert len(card["next"]) == 4
        assert all(view["item"]["id"] not in own for view in card["next"].values())
        view = card["next"][word]
        submit(session, [answer(card, word, next=view["item"]["selection"])])
        assert session.shown.item == view["item"]["id"]
    require_one_each(grouped, chosen(grouped))
    verified(grouped)


def left_of(session):
    """The items that the queue may still ask about, as the card says; they must be so by definition."""
    left, project = card_of(session)["notes"]["counts"]["left"], session.project
    answered = session.concept.standing().answered.tolist()
    assert left == len(project.pool) - len(set(answered) | repeated(project, answered))
    return left


def test_what_is_left_is_what_the_queue_may_still_ask(grouped):
    """Also in what is chosen ahead, after an undo, and at the end; without groups, all items count."""
    find_groups(grouped, 40)
    session = session_of(grouped)
    before, card = left_of(session), card_of(session)
    given = answer(card, "yes")
    submit(session, [given])
    assert left_of(session) == before - len(repeated(grouped, [given["item"]]))
    submit(session, [answer(card, "undo", selection=None, undoes=given["id"])])
    assert left_of(session) == before
    while session.in_view() is not None:
        card_of(session)
        session.item_view.ahead.wait(60)
        card = card_of(session)
        submit(session, [answer(card, "no")])
        if foreseen := card["next"].get("no"):
            assert foreseen["notes"]["counts"]["left"] == left_of(session)
    assert left_of(session) == 0
    grouped.set_ask_once(False)
    n_answered = len(session.concept.standing().answered)
    assert card_of(session)["notes"]["counts"]["left"] == len(grouped.pool) - n_answered


def test_a_grid_has_one_item_of_each_group(grouped):
    """It has fewer items than asked for only where there are fewer groups."""
    find_groups(grouped, 40)
    session = session_of(grouped)
    grid = grouped.grid(session)
    grid.resize(28)
    seen = set()
    for _ in range(2):
        card = card_of(grid)
        items = [cell["id"] for cell in card["cells"]]
        left = set(grouped.pool.ids.tolist()) - repeated(grouped, seen)
        assert len(items) == len({min(repeated(grouped, [item])) for item in left}) < 28
        require_one_each(grouped, items)
        assert not repeated(grouped, items) & repeated(grouped, seen)
        seen.update(items[:5])
        cells = [cell for cell in card["cells"] if cell["id"] in seen]
        submit(
            grid,
            [
                answer({"item": {"id": c["id"], "selection": c["selection"]}}, truth_word(grouped, c["id"]))
                for c in cells
            ],
        )
    verified(grouped)


@pytest.fixture
def burst(tmp_path):
    """A session that starts with an example image, and the items by similarity; the first 30 are a burst."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        session, pool = session_of(project), project.pool
        shown = io.BytesIO()
        pool.source.image(int(pool.ids[0]), 64).save(shown, "PNG")
        session.add_examples([shown.getvalue()])
        (example,) = session.concept.examples
        cosines = pool.rows_of(pool.ids).astype(np.float64) @ example.feature.astype(np.float64)
        ranked = pool.ids[np.lexsort((pool.ids, -np.round(cosines, 12)))].tolist()
        leaders, rows = np.arange(len(pool)), pool.row_of(ranked[:30])
        leaders[rows] = rows.min()
        save_as_found(project, leaders, "bursts")
        yield session, ranked


def test_a_grid_is_full_although_it_starts_with_a_burst(burst):
    """The nearest item of the burst, and the items nearest after the burst."""
    session, ranked = burst
    grid = session.project.grid(session)
    grid.resize(12)
    cells = card_of(grid)["cells"]
    assert [cell["id"] for cell in cells] == [ranked[0], *ranked[30:41]]
    verified(session.project)


def test_a_grid_that_was_chosen_by_the_former_rule_is_repeated_by_it(burst, monkeypatch):
    """A burst left a single item of it then."""
    session, ranked = burst
    grid = session.project.grid(session)
    with former_rule(monkeypatch):
        assert [cell["id"] for cell in card_of(grid)["cells"]] == ranked[:1]
    verified(session.project)


def test_an_undo_lets_the_group_be_asked_about_again(grouped):
    """And a correction does not; nor does the undo of one of two answers to a group."""
    session = session_of(grouped)
    label(session, 3)
    given = answer(card_of(session), "yes")
    card = submit(session, [given])
    group = repeated(grouped, [given["item"]])
    assert group <= set(session.concept.standing().repeats.tolist())
    submit(session, [answer(card, "no", selection=None, item=given["item"], corrects=given["id"])])
    assert group <= set(session.concept.standing().repeats.tolist())
    correction = grouped.log.recent_answers(1, 1)[0]
    submit(session, [answer(card, "undo", selection=None, item=given["item"], undoes=correction.id)])
    assert group <= set(session.concept.standing().repeats.tolist())
    submit(session, [answer(card, "undo", selection=None, item=given["item"], undoes=given["id"])])
    assert not group & set(session.concept.standing().repeats.tolist())
    label(session, 2)
    verified(grouped)


def test_two_people_are_not_shown_one_group(grouped):
    """The near-duplicates of an item in another person's view are left out, too, as in the replay."""
    sessions = [session_of(grouped, name, "exhaustive") for name in ("ada", "bob", "cleo")]
    for _ in range(5):
        for session in sessions:
            card = card_of(session)
            submit(session, [answer(card, truth_word(grouped, card["item"]["id"]))])
        in_view = [session.in_view().item for session in sessions]
        require_one_each(grouped, in_view)
    verified(grouped)


def test_skipped_items_come_back_without_their_near_duplicates(grouped):
    """Only the skipped items themselves, until they have an answer."""
    session = session_of(grouped, strategy="exhaustive")
    label(session, 4)
    skipped = []
    for _ in range(3):
        card = card_of(session)
        skipped.append(card["item"]["id"])
        submit(session, [answer(card, "skip")])
    known = repeated(grouped, chosen(grouped)[:7])
    session.revisit_skipped()
    session.item_view.choose()
    free = set(grouped.pool.ids.tolist())
    free -= set(session.occasion(grouped.pool).excluded(session.concept.standing()).tolist())
    assert free & known == set(skipped)
    label(session, 8)
    assert set(chosen(grouped)[8:]) & known <= set(skipped)
    verified(grouped)


class Clock:
    """Time that passes when a test says so."""

    now = 1000.0

    def __call__(self):
        return self.now


@pytest.fixture
def of_one_group(grouped):
    """Ada and Bob, who were shown items of one group, since Ada's lease has expired; and the two items."""
    clock = Clock()
    grouped.leases = Leases(clock=clock)
    ada, bob = session_of(grouped, "ada", "exhaustive"), session_of(grouped, "bob", "exhaustive")
    item = ada.in_view().item
    clock.now += LEASE_SECONDS + 1
    group = set(grouped.duplicates.current.members(item).tolist())
    grouped.leases.add("another session", set(grouped.pool.ids.tolist()) - group)
    theirs = bob.in_view().item
    assert theirs in group - {item}
    grouped.leases.keep("another session", ())
    clock.now += 1
    return ada, bob, item, theirs


def test_who_comes_back_late_is_not_asked_about_a_group_that_another_has(of_one_group):
    """Neither in the same process nor after a restart; what the browser still sends is stored."""
    ada, bob, item, theirs = of_one_group
    before = ada.shown
    ada.item_view.resume()
    assert ada.shown is None
    assert bob.in_view().item == theirs
    assert not repeated(ada.project, [ada.in_view().item]) & repeated(ada.project, [theirs])
    late = answer({"item": {"id": item, "selection": before.id}}, "no")
    assert submit(ada, [late])["acked"] == [late["id"]]


def test_who_comes_back_late_is_shown_another_item_without_a_restart(of_one_group):
    """Even before the other has answered."""
    ada, _, item, _ = of_one_group
    assert not repeated(ada.project, [ada.in_view().item]) & repeated(ada.project, [item])


@pytest.mark.parametrize("word", ["yes", "skip"])
def test_an_item_that_repeats_an_answered_one_is_not_shown_again(of_one_group, word):
    """When a session is opened again, even if nobody has the group any more."""
    ada, bob, item, theirs = of_one_group
    submit(bob, [answer(card_of(bob), word)])
    bob.project.leases.keep(bob.id, ())
    ada.item_view.resume()
    assert ada.shown is None
    assert not repeated(ada.project, [ada.in_view().item]) & repeated(ada.project, [item, theirs])
    verified(ada.project)


def test_an_undone_item_is_shown_again_although_its_group_has_answers(grouped):
    """As when one press answered the whole group, and only the answer about the item in view is undone."""
    session = session_of(grouped)
    card = card_of(session)
    others = sorted(repeated(grouped, [card["item"]["id"]]) - {card["item"]["id"]})
    given = answer(card, "no", group=others)
    submit(session, [given])
    undo = answer(card, "undo", selection=None, undoes=given["id"])
    after = submit(session, [undo])["item"]
    assert after["id"] == card["item"]["id"]
    session.item_view.resume()
    assert session.shown.id == after["selection"]


def skip_a_group(session):
    """Skip the item in view and all near-duplicates of it; the group, the item first."""
    item, groups = session.in_view().item, session.project.duplicates.current
    others = [member for member in groups.members(item).tolist() if member != item]
    card = card_of(session)
    submit(session, [answer(card, "skip", group=others)])
    return [item, *others]


def free(session):
    """The items that the queue may choose next."""
    pool = session.project.pool
    excluded = session.occasion(pool).excluded(session.concept.standing())
    return set(pool.ids.tolist()) - set(excluded.tolist())


def test_of_a_skipped_group_one_item_comes_back(grouped):
    """All may, until one of them has an answer; an undo of this answer, or another skip, frees the others."""
    session = session_of(grouped, strategy="exhaustive")
    label(session, 4)
    group = skip_a_group(session)
    assert not free(session) & set(group)
    session.revisit_skipped()
    assert free(session) >= set(group)
    again = shown_to(session, group[1])
    given = answer({"item": {"id": group[1], "selection": again}}, "no")
    submit(session, [given])
    assert not free(session) & set(group)
    submit(session, [answer(card_of(session), "undo", selection=None, item=group[1], undoes=given["id"])])
    assert free(session) >= set(group)
    label(session, 8)
    assert len([item for item in chosen(grouped)[5:] if item in group]) <= 2
    verified(grouped)


@pytest.mark.parametrize("word", ["yes", "no", "unsure", "skip"])
def test_what_follows_an_answer_to_a_skipped_item_is_known_ahead(grouped, word):
    """The selections made ahead leave out the rest of its group, except after another skip."""
    session = session_of(grouped, strategy="exhaustive")
    label(session, 4)
    group = skip_a_group(session)
    with session.concept.lock:
        ahead = session.concept.catch_up().supposing(group[0], "ada", word)
    session.revisit_skipped()
    excluded = set(session.occasion(grouped.pool).excluded(ahead).tolist())
    assert excluded & set(group) == (set() if word == "skip" else set(group))


def test_skips_that_were_chosen_again_by_the_former_rule_are_repeated_by_it(tmp_path, monkeypatch):
    """Every skipped item of a group came back then, even after one of them had an answer."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        find_groups(project, 6)
        session = session_of(project, strategy="exhaustive")
        label(session, 4)
        group = skip_a_group(session)
        again = shown_to(session, group[1])
        submit(session, [answer({"item": {"id": group[1], "selection": again}}, "no")])
        session.revisit_skipped()
        project.leases.add("another session", set(project.pool.ids.tolist()) - set(group))
        with former_rule(monkeypatch):
            session.item_view.choose()
        item = session.shown.item
        assert item in group
        session.item_view.choose()
        assert session.shown is None
    in_log = "UPDATE selections SET parameters = {} WHERE parameters LIKE '%\"groups\"%'"
    tamper(project.folder, in_log.format(f"json_remove(parameters, '$.{GROUP_RULE}')"))
    verified(project)
    tamper(project.folder, in_log.format(f"json_set(parameters, '$.{GROUP_RULE}', 2)"))
    result = CliRunner().invoke(main, ["verify", str(project.folder)])
    assert f"the log has item {item}" in result.output


def test_the_audit_draws_near_duplicates_and_does_not_count(grouped):
    """It estimates what holds for all items, so it leaves out none, and it changes nothing for the queue."""
    session = session_of(grouped)
    label(session, 6)
    session.set_audit_share(0.5)
    label(session, 24)
    records = list(grouped.log.selections(1))
    drawn = [record for record in records if record.why == "audit"]
    assert len(drawn) > 5
    assert all(GROUPS not in record.parameters for record in drawn)
    standing = session.concept.standing()
    trained = set(standing.answered.tolist()) - set(standing.audited.tolist())
    assert set(standing.repeats.tolist()) == repeated(grouped, trained)
    queued = [record.item for record in records if record.why != "audit"]
    require_one_each(grouped, queued)
    verified(grouped)


def test_several_people_an_item_are_asked_about_that_item(grouped):
    """Another opinion is about the item that has the first one, not about another one of its group."""
    ada, bob = session_of(grouped, "ada"), session_of(grouped, "bob")
    label(ada, 8)
    grouped.set_overlap(2, 1.0)
    label(bob, 5)
    items = [record.item for record in grouped.log.selections(1, bob.id)][1:]
    assert set(items) <= {a.item for a in grouped.log.answers_after(1) if a.annotator == "ada"}
    verified(grouped)


def test_each_question_has_its_own_queue(grouped):
    """An answer of one question says nothing about the others, unless one press answers all of them."""
    other = grouped.add_concept("Is it a 4?")
    session = session_of(grouped)
    label(session, 5)
    theirs = grouped.live_concept(other.id).standing()
    assert not len(theirs.repeats)
    view = grouped.classes(session)
    concepts = [concept.id for concept in grouped.concepts()]
    for _ in range(6):
        card = card_of(view)
        submit(view, [answer(card, "no", classes=concepts)])
    for concept in concepts:
        require_one_each(grouped, chosen(grouped, concept))
    verified(grouped)


def test_the_setting_turns_it_off_and_on(grouped):
    """For the next selection of every session, and the log says with which setting each was made."""
    session = session_of(grouped, strategy="exhaustive")
    label(session, 6)
    with pytest.raises(InputError, match="owner"):
        grouped.set_ask_once(False, by=Person("bob"))
    grouped.set_ask_once(False)
    assert not len(session.concept.standing().repeats)
    label(session, 6)
    grouped.set_ask_once(True)
    label(session, 6)
    digests = [GROUPS in record.parameters for record in grouped.log.selections(1)]
    assert digests[1:4] == [True] * 3
    assert digests[8:12] == [False] * 4
    assert digests[-4:] == [True] * 4
    answered = [a.item for a in grouped.log.answers_after(1)]
    assert repeated(grouped, answered) == set(session.concept.standing().repeats.tolist())
    verified(grouped)


def test_groups_may_be_found_late_and_again(project):
    """Answers from before count, and what was chosen with former groups is repeated with those."""
    session = session_of(project, strategy="exhaustive")
    label(session, 8)
    find_groups(project, 5)
    label(session, 5)
    find_groups(project, 9, "bursts", shift=2)
    label(session, 5)
    both = project.duplicates.current
    answered = session.concept.standing().answered
    assert set(session.concept.standing().repeats.tolist()) == set(both.members_of(answered).tolist())
    find_groups(project, 7)
    label(session, 5)
    digests = [record.parameters.get(GROUPS) for record in project.log.selections(1)]
    assert len(set(digests)) == 4
    verified(project)


def test_a_pool_without_groups_writes_down_nothing(project):
    """Logs look as before, and so do replays."""
    session = session_of(project)
    label(session, 4)
    assert all(GROUPS not in record.parameters for record in project.log.selections(1))
    assert session.concept.standing().groups is None
    verified(project)


def test_groups_are_read_again_once_they_have_changed(grouped):
    """Damaged ones are reported, and the former ones stay in use."""
    grouped.duplicates.close()  # it would look by itself, between two steps of this test
    before = grouped.duplicates.current
    manifest = folder_of(grouped.pool.path, "near") / MANIFEST
    content = manifest.read_bytes()
    manifest.write_bytes(content[:-30])
    grouped.duplicates.read()
    assert grouped.duplicates.current is before
    assert "run closecall pool duplicates again" in grouped.problem()
    manifest.unlink()
    grouped.duplicates.read()
    assert (grouped.duplicates.current, grouped.problem()) == (None, None)
    manifest.write_bytes(content)
    grouped.duplicates.read()
    assert grouped.duplicates.current is before
    assert grouped.problem() is None


def test_verify_says_in_a_sentence_that_groups_are_gone_or_others(tmp_path):
    """A log that leaves out other items than its groups say is noticed."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        wait_for_index(project, "exhaustive")
        session = session_of(project, strategy="exhaustive")
        find_groups(project, 60)
        label(session, 6)
        digest = project.duplicates.current.digest
    folder = project.folder
    tamper(folder, "UPDATE groupings SET content = x'00'")
    result = CliRunner().invoke(main, ["verify", str(folder)])
    assert result.exit_code == 1
    assert f"can't be repeated: the groups of near-duplicates {digest} are damaged" in result.output
    tamper(folder, "DELETE FROM groupings")
    result = CliRunner().invoke(main, ["verify", str(folder)])
    assert f"the database has no groups of near-duplicates {digest}" in result.output
    tamper(folder, "UPDATE selections SET parameters = json_remove(parameters, '$.groups')")
    result = CliRunner().invoke(main, ["verify", str(folder)])
    assert "chooses item" in result.output


def test_where_only_near_duplicates_are_left_the_card_says_so(grouped):
    """Not that every item has an answer."""
    find_groups(grouped, 300)
    session = session_of(grouped)
    for _ in range(2):
        card = card_of(session)
        submit(session, [answer(card, truth_word(grouped, card["item"]["id"]))])
    card = card_of(session)
    assert card["item"] is None
    assert "near-duplicate" in card["waiting"]["message"]
    grouped.set_ask_once(False)
    assert card_of(session)["item"] is not None


def test_a_card_shows_near_duplicates_as_such(grouped):
    """The item in view, those that may follow, and the cells of a grid; a burst is called a burst."""
    session = session_of(grouped)
    label(session, 3)
    session.item_view.ahead.wait(60)
    card = card_of(session)
    assert card["item"]["alike"] == "One of 6 near-duplicates"
    assert all(view["item"]["alike"] == "One of 6 near-duplicates" for view in card["next"].values())
    grid = card_of(grouped.grid(session))
    assert {(cell["alike"], cell["n_alike"]) for cell in grid["cells"]} == {("One of 6 near-duplicates", 6)}
    find_groups(grouped, 7, "bursts")
    grouped.set_ask_once(False)
    n = len(grouped.duplicates.current.group(card["item"]["id"])[1])
    assert card_of(session)["item"]["alike"] == f"One of {n} shots of a burst"


def test_items_found_by_a_search_are_marked_as_near_duplicates(grouped):
    """By name and by likeness, whether they can be answered or have an answer."""
    session = session_of(grouped)
    label(session, 3)
    found = grouped.found(session)
    found.look_for("digit", 0)
    named = card_of(found)["cells"]
    similar = grouped.similar_to(session)
    similar.look_for(Like.of(str(named[0]["id"])), 0)
    for cells in (named, card_of(similar)["cells"]):
        assert cells
        assert {(cell["alike"], cell["n_alike"]) for cell in cells} == {("One of 6 near-duplicates", 6)}
    assert {bool(cell["selection"]) for cell in named} == {True, False}
