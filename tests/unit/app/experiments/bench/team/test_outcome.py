from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from closecall.app.experiments.bench.team.outcome import fate, given_twice, leases_returned, waits
from closecall.app.experiments.bench.team.person import Diary, Held, Press
from closecall.storage import SelectionRecord

ADA, BOB = "ada", "bob"


@pytest.fixture
def logged(line) -> tuple[list[Diary], list, dict[str, SelectionRecord]]:
    """Four answers of Ada's, as she and the log know them."""
    presses = []
    for word in ("yes", "no", "no", "yes"):
        presses.append(Press(line.card.answer(word, taken_ms=700)[0], 10.0))
        line.deliver()
        line.card.update(line.coming())
    log, concept = line.session.project.log, line.session.concept.record.id
    selections = {record.id: record for record in log.selections(concept)}
    return [Diary(ADA, presses)], list(log.answers_after(concept)), selections


def test_what_is_stored_as_given_is_neither_lost_nor_doubled_nor_misplaced(logged):
    """Nothing to complain of."""
    assert fate(*logged) == {"answers": 4, "lost": 0, "duplicated": 0, "misplaced": 0}


@pytest.mark.parametrize("wrong", [{"item": 10_000}, {"answer": "skip"}, {"annotator": BOB}])
def test_what_is_stored_otherwise_than_given_is_misplaced(logged, wrong):
    """With another item, word or name."""
    diaries, answers, selections = logged
    found = fate(diaries, [replace(answers[0], **wrong), *answers[1:]], selections)
    assert found == {"answers": 4, "lost": 0, "duplicated": 0, "misplaced": 1}


def test_what_is_missing_doubled_or_from_nowhere_is_counted(logged):
    """One of each."""
    diaries, answers, selections = logged
    assert fate(diaries, answers[1:], selections)["lost"] == 1
    again = replace(answers[0], id="00000000-0000-4000-8000-000000000000")
    found = fate(diaries, [*answers, again], selections)
    assert (found["lost"], found["duplicated"], found["misplaced"]) == (0, 1, 1)


def shown(
    session: str, created: float, item: int = 0, leased: tuple[int, ...] = (), round_number: int = 1
) -> SelectionRecord:
    return SelectionRecord(
        session_id=session,
        concept_id=1,
        round=round_number,
        item=item,
        why="strategy",
        strategy="exhaustive",
        seed=0,
        pool_version=1,
        items_total=9,
        leased=leased,
        created=int(1000 * created),
    )


def held(name: str, *hands: Held, **more: Any) -> Diary:
    return Diary(name, held=list(hands), session=f"{name}'s", **more)


@pytest.mark.parametrize(
    ("ada", "bob", "found"),
    [
        ((0, 5, True), (5, 9, False), []),  # what was sent ahead, and seen by nobody, is another's then
        ((0, 5, True), (5, 9, True), [3]),
        ((0, 5, False), (4, 9, False), [3]),
        ((0, 5, False), (6, 9, True), []),
    ],
)
def test_an_item_is_given_twice_if_two_have_it_at_once_or_both_see_it(ada, bob, found):
    """The person who had it first."""
    one, other = held(ADA, Held(3, *ada), heard_at=[0.0]), held(BOB, Held(3, *bob), heard_at=[0.0])
    assert given_twice([one, other], 60) == given_twice([other, one], 60) == found
    assert given_twice([held(ADA, Held(3, *ada), Held(3, *bob), heard_at=[0.0])], 60) == []


@pytest.mark.parametrize(("since", "found"), [(58, [3]), (61, [])])
@pytest.mark.parametrize("stays", [True, False])
def test_what_somebody_has_may_be_anothers_once_the_lease_is_over(stays, since, found):
    """Sixty seconds, less the slack, after they were heard of last, whether they left or not."""
    left = {} if stays else {"left": 9.0, "left_with": frozenset({3})}
    ada = held(ADA, Held(3, 5, 200 if stays else 9, in_view=True), heard_at=[1.0, 5.0, 180.0], **left)
    bob = held(BOB, Held(3, since, 99, in_view=True), heard_at=[float(since)])
    assert given_twice([ada, bob], 60) == found


def test_who_comes_back_after_the_lease_has_not_been_given_what_the_page_still_held():
    """The page may show an item that it held in advance; another has got it meanwhile."""
    ada = held(ADA, Held(3, 5, 80, in_view=False), Held(3, 80, 82, in_view=True), heard_at=[4.9, 80.0])
    bob = held(BOB, Held(3, 79, 81, in_view=False), heard_at=[40.0, 78.9])
    assert given_twice([ada, bob], 60) == given_twice([bob, ada], 60) == []
    assert given_twice([ada, bob], 90) == [3]


@pytest.mark.parametrize(("asked", "found"), [(77.0, []), (76.0, []), (74.0, [3])])
def test_who_is_heard_of_again_while_another_gets_the_item_was_too_late(asked, found):
    """Bob asked at 75, and has it at 78; what Ada asks in between may come after it was selected for him."""
    ada = held(ADA, Held(3, 5, 9, in_view=True), heard_at=[4.9, asked])
    bob = held(BOB, Held(3, 78, 81, in_view=True), heard_at=[75.0])
    assert given_twice([ada, bob], 60) == found


def test_two_who_ask_at_once_must_not_get_the_same():
    """Even if the first of them asks a moment later."""
    ada = held(ADA, Held(3, 50, 70, in_view=True), heard_at=[45.0])
    bob = held(BOB, Held(3, 55, 70, in_view=True), heard_at=[44.9])
    assert given_twice([ada, bob], 60) == given_twice([bob, ada], 60) == [3]


def test_leases_have_returned_where_others_could_choose_the_items_again():
    """Told by the last selection that was made long enough after, or by who has them now."""
    ada = held(ADA, left=9.0, left_with=frozenset({3, 4, 5}))
    bob = held(BOB, Held(3, 80, 90, in_view=False))
    late = shown("bob's", 90, leased=(3, 4))
    assert leases_returned([ada, bob], [late], 60) == {"leases_abandoned": 3, "leases_returned": 2}
    early = shown("bob's", 70)
    assert leases_returned([ada, bob], [early], 60) == {"leases_abandoned": 0, "leases_returned": 0}


def test_a_lease_has_not_returned_because_a_round_shows_several_items():
    """Only the first selection of a round records what is leased; the others leave it out."""
    ada = held(ADA, left=9.0, left_with=frozenset({3, 4, 5}))
    earlier = [shown("bob's", 80, leased=(3, 4, 5), round_number=1)]
    batch = [shown("bob's", 90, 6, (3, 4), 2), *(shown("bob's", 90, item, (), 2) for item in (7, 8))]
    found = leases_returned([ada, held(BOB)], earlier + batch, 60)
    assert found == {"leases_abandoned": 3, "leases_returned": 1}


@pytest.mark.parametrize(("since", "until", "returned"), [(1, 4, 0), (20, 99, 0), (63, 99, 0), (65, 99, 1)])
def test_a_lease_has_returned_to_those_who_got_the_item_after_it_expired(since, until, returned):
    """Neither to somebody who had the item before, nor to one who was given it too early."""
    ada = held(ADA, left=9.0, left_with=frozenset({3}), heard_at=[5.0, 9.0])
    bob = held(BOB, Held(3, since, until, in_view=False))
    found = leases_returned([ada, bob], [shown("bob's", 90, leased=(3,))], 60)
    assert found == {"leases_abandoned": 1, "leases_returned": returned}


def test_waits_are_those_for_the_next_item_and_for_the_acknowledgement(logged):
    """In milliseconds; a person who was never shown another item counts in neither."""
    given = logged[0][0].presses[0].given
    presses = [Press(given, 1.0, 1.0, 1.5), Press(given, 1.0, 2.0, 3.0), Press(given, 1.0)]
    found = waits(presses)
    assert found["waited_share"] == 0.5
    assert found["p50_ms"] == pytest.approx(500)
    assert found["p95_ms"] == pytest.approx(950)
    assert found["saved_p50_ms"] == pytest.approx(1250)
    assert waits([])["p95_ms"] is None
