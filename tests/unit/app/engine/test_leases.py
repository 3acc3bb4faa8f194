from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from closecall.app.api.cards import card_of, submit
from closecall.app.api.sessions import started
from closecall.app.engine.leases import LEASE_SECONDS, Leases
from closecall.app.engine.shared_leases import SharedLeases
from closecall.app.projects.config import PROJECT_FILE, ProjectFile
from closecall.app.projects.roles import AUTOPILOT, SOMEBODY, Person
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.workspace import Workspace
from closecall.core.errors import InputError
from closecall.storage import Activity, Database, LeaseTable, StorageError
from closecall.storage.rows import now_ms
from tests.projects import answer, label, marks, new_project, open_workspace, verified, wait_for_index
from tests.scale import scaled
from tests.storage_kit import ENGINES

ROUNDS = scaled(quick=6, all=15)
SHARED_EXAMPLES = scaled(quick=8, all=60)


class Clock:
    """Time that passes when it is told to."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


KINDS = ("memory", *ENGINES)
"""Where leases are: in this process, or in a database that several servers share."""


@contextmanager
def leases_in(kind: str, where: Path | str, clock: Clock) -> Iterator[Leases]:
    """Leases that follow this clock; two servers have them, if they are in a database."""
    if kind == "memory":
        yield Leases(clock=clock)
        return
    with Database.open(where, create=True) as database:
        yield TwoServers(*(shared_leases(database, clock) for _ in range(2)))


def shared_leases(database: Database, clock: Clock, scope: str = "label") -> SharedLeases:
    table = LeaseTable(database, scope, lambda _: round(1000 * clock()))
    return SharedLeases(table, LEASE_SECONDS, clock=clock)


class TwoServers:
    """The leases of two servers: each session is on one of them, by its name."""

    def __init__(self, *servers: SharedLeases) -> None:
        self._servers = servers

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*args: Any, **kwargs: Any) -> Any:
            whose = args[0].session if method == "take" else args[0] if args else ""
            server = self._servers[sum(map(ord, whose)) % 2 if isinstance(whose, str) else 0]
            return getattr(server, method)(*args, **kwargs)

        return call


@pytest.fixture(params=KINDS)
def leases(request, clock, tmp_path) -> Leases:
    where = request.getfixturevalue("server").schema() if request.param == "postgresql" else tmp_path / "db"
    with leases_in(request.param, where, clock) as made:
        yield made


@pytest.fixture
def project(tmp_path) -> OpenProject:
    with open_workspace(tmp_path) as workspace:
        yield new_project(workspace, n_items=110)


def at(project: OpenProject, clock: Clock) -> None:
    """Let the project's leases follow this clock."""
    project.leases = Leases(clock=clock)


def coming(session) -> dict:
    """The card, once what would follow each answer is there."""
    card = card_of(session)
    while card["next_is_coming"]:
        card = card_of(session)
    return card


def in_hand(card: dict) -> set[int]:
    """What a browser has: the item in view, and those that may follow."""
    return {card["item"]["id"], *(view["item"]["id"] for view in card["next"].values())}


def test_what_one_has_another_does_not_get(leases):
    """All or none; and others see it as leased."""
    others = leases.others("bob")
    leases.keep("ada", {3, 4})
    assert others.take([4, 5]) == {4}
    assert leases.held(but_for={"ada"}) == ()
    assert not others.take([5, 6])
    assert leases.held(but_for={"ada"}) == (5, 6)


def test_what_another_had_since_one_asked_is_lost_too(leases, clock):
    """It may have been answered, which the labels that were read meanwhile need not tell."""
    leases.keep("ada", {3})
    clock.now += 1
    others = leases.others("bob")
    clock.now += 1
    leases.keep("ada", {4})
    assert others.take([3]) == {3}
    assert 3 in others.again({3}).items
    clock.now += 1
    assert not leases.others("bob").take([3])


def test_what_must_stay_apart_is_lost_to_another_but_not_leased(leases, clock):
    """Such as the near-duplicates of an item: held by another now, or answered since one asked."""
    others = leases.others("bob")
    leases.keep("ada", {3})
    assert others.take([5, 6], apart=[2, 3, 4]) == {3}
    clock.now += 1
    leases.keep("ada", {8})
    assert others.take([5], apart=[3]) == {3}
    clock.now += 1
    assert not leases.others("bob").take([5], apart=[3, 4, 5])
    assert leases.held(but_for={"ada"}) == (5,)


def test_who_comes_back_late_has_lost_what_another_keeps_apart_too(leases, clock):
    """Such as a near-duplicate of what the other has leased; a lease that has not expired stays."""
    leases.keep("ada", {3, 4, 9})
    clock.now += LEASE_SECONDS + 1
    leases.keep("cleo", {7})
    assert not leases.others("bob").take([5], apart=[3, 4, 5])
    assert leases.others("bob").take([6], apart=[7]) == {7}
    leases.renew("ada")
    assert [leases.has("ada", item) for item in (3, 4, 9)] == [False, False, True]
    assert leases.has("cleo", 7)
    assert leases.held(but_for={"bob"}) == (7, 9)


def test_a_lease_ends_when_its_session_is_not_heard_of(leases, clock):
    """Until then it is renewed by whatever the browser sends."""
    leases.keep("ada", {3})
    clock.now += LEASE_SECONDS
    leases.renew("ada")
    clock.now += LEASE_SECONDS
    assert leases.held() == (3,)
    clock.now += 1
    assert leases.held() == ()
    assert leases.has("ada", 3)
    assert not leases.others("bob").take([3])
    leases.renew("ada")
    assert not leases.has("ada", 3)
    assert leases.held(but_for={"bob"}) == ()


def test_who_comes_back_late_still_has_what_nobody_took(leases, clock):
    """So a long look at one image costs nobody their work."""
    leases.keep("ada", {3, 4})
    clock.now += 2 * LEASE_SECONDS
    assert not leases.others("bob").take([4])
    leases.renew("ada")
    assert leases.held(but_for={"bob"}) == (3,)


def test_who_leaves_lets_others_have_the_items_at_once(leases, clock):
    """Who comes back still has what nobody took meanwhile."""
    leases.keep("ada", {3, 4})
    leases.keep("cleo", {5})
    leases.leave("ada")
    assert leases.held() == (5,)
    assert not leases.others("bob").take([4])
    leases.renew("ada")
    assert leases.held(but_for={"bob"}) == (3, 5)
    leases.leave("dora")  # who has none


def test_what_a_closed_page_selects_in_advance_holds_up_nobody(leases):
    """It was under way when the page was closed; the next activity makes it the session's."""
    leases.keep("ada", {3})
    others = leases.others("ada")
    leases.leave("ada")
    assert not others.take([4])
    assert leases.held() == ()
    leases.renew("ada")
    assert leases.held() == (3, 4)


def test_what_nobody_needs_is_forgotten(leases, clock):
    """Leases that have expired, but not those of sessions that are open."""
    leases.keep("ada", {3})
    leases.keep("bob", {4})
    clock.now += LEASE_SECONDS + 1
    leases.keep("cleo", {5})
    leases.forget({"bob"})
    assert [leases.has(name, item) for name, item in (("ada", 3), ("bob", 4), ("cleo", 5))] == [
        False,
        True,
        True,
    ]


def test_leases_of_an_earlier_process_are_given_back(leases, clock):
    """To each session its own."""
    leases.restore([("ada", 3), ("ada", 4), ("bob", 5)])
    assert leases.held() == (3, 4, 5)
    assert leases.others("cleo").take([4]) == {4}
    assert leases.has("bob", 5)
    assert not leases.has("bob", 4)


def test_sides_of_a_comparison_may_have_the_same(leases):
    """They are one person's."""
    leases.keep("side a", {3})
    assert not leases.others("side b", beside={"side a"}).take([3])
    assert leases.others("ada").take([3]) == {3}


def test_a_persons_sessions_share_items_only_when_they_ask_to(leases):
    """Not those of other people, who get a shared item only when both sessions have let it go."""
    leases.keep("ada", {3, 4})
    leases.keep("bob", {5})
    others = leases.others("ada too", own=lambda: {"ada", "ada too"})
    assert others.items == (3, 4, 5)
    assert others.take([3]) == {3}
    shared = others.sharing_own()
    assert shared.items == (5,)
    assert shared.take([3, 5]) == {5}
    assert not shared.take([3])
    assert leases.has("ada", 3)
    assert leases.has("ada too", 3)
    leases.keep("ada", ())
    assert leases.others("bob").take([3]) == {3}
    leases.keep("ada too", ())
    assert leases.held(but_for={"bob"}) == ()


def test_what_a_person_answered_in_another_session_since_one_asked_is_lost(leases, clock):
    """It is no longer to be answered, although it was the person's own."""
    leases.keep("ada", {3, 6})
    clock.now += 1
    shared = leases.others("ada too", own=lambda: {"ada"}).sharing_own()
    clock.now += 1
    leases.keep("ada", {4})
    assert shared.take([3, 4]) == {3}
    again = shared.again({3})
    assert again.items == (3,)
    assert not again.take([4])


OWN = {"a": "ab", "b": "ab", "c": "c", "d": "d"}
"""The sessions of each session's person: the first two are one person's."""

STEPS = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.sampled_from(["ask", "take", "share", "answer", "wait"]),
        st.sets(st.integers(0, 6), min_size=1, max_size=3),
    ),
    max_size=60,
)


@given(steps=STEPS)
def test_nobody_is_given_what_another_has_or_answered(steps):
    """However asking, reading the labels, taking and answering of several sessions interleave."""
    clock = Clock()
    interleave(Leases(clock=clock), clock, steps)


@pytest.mark.parametrize("kind", ENGINES)
def test_nobody_is_given_what_another_server_gave(kind, request, tmp_path):
    """The same with two servers."""
    where = request.getfixturevalue("server").schema() if kind == "postgresql" else tmp_path / "db"
    with Database.open(where, create=True) as database:
        number = count()

        @settings(max_examples=SHARED_EXAMPLES, deadline=None)
        @given(steps=STEPS)
        def hold(steps):
            clock, scope = Clock(), f"example {next(number)}"
            interleave(TwoServers(*(shared_leases(database, clock, scope) for _ in range(2))), clock, steps)

        hold()


def interleave(leases, clock: Clock, steps) -> None:
    """Let sessions ask, take and answer in this order; nobody gets what another has or has answered.

    A person's sessions may share what they have, but not what one of them has answered.
    """
    answered: set[int] = set()
    asked: dict[str, tuple] = {}
    has: dict[str, set[int]] = {name: set() for name in "abcd"}
    for who, step, items in steps:
        clock.now += 0.1
        if step == "ask":
            asked[who] = (leases.others(who, own=partial(set, OWN[who])), set(answered))
        elif step in ("take", "share") and who in asked:
            others, known = asked[who]
            others = others.sharing_own() if step == "share" else others
            wanted = items - known - set(others.items)
            if not others.take(wanted):
                assert not wanted & answered - has[who]
                together = OWN[who] if step == "share" else who
                assert all(not wanted & has[other] for other in has if other not in together)
                has[who] |= wanted
        elif step == "answer" and has[who]:
            answered.add(min(has[who]))
            asked.pop(who, None)  # it reads the labels anew after its own answer
            has[who] = set()
            leases.keep(who, ())


def test_an_abandoned_item_comes_back_to_the_others(project):
    """After the lease has ended; what its session answers then is stored all the same, as overlap."""
    clock = Clock()
    at(project, clock)
    ada, bob = project.session(annotator="ada"), project.session(annotator="bob")
    for session in (ada, bob):
        session.set_strategy("exhaustive")
    wait_for_index(project, "exhaustive")
    label(ada, 12)
    left = coming(ada)
    theirs = coming(bob)
    assert not in_hand(left) & in_hand(theirs)
    clock.now += LEASE_SECONDS + 1
    bob.touch()
    seen = set()
    while left["item"]["id"] not in seen:
        seen.add(theirs["item"]["id"])
        theirs = submit(bob, [answer(theirs, "no")])
        clock.now += 1
    late = answer(left, "yes")
    assert submit(ada, [late])["acked"] == [late["id"]]
    votes = ada.concept.catch_up().votes(left["item"]["id"])
    assert votes == {"ada": "yes", "bob": "no"}
    assert ada.concept.catch_up().status(left["item"]["id"]) == "tied"


def test_a_person_goes_on_in_the_session_whose_page_was_closed(project):
    """With the same item in view; while a page is open, another page gets a session of its own."""
    first = project.session(annotator="ada")
    item = coming(first)["item"]["id"]
    second = project.session(annotator="ada")
    assert second is not first
    assert coming(second)["item"]["id"] != item
    project.close_page(second)
    project.close_page(first)
    assert project.leases.held() == ()
    again = project.session(annotator="ada")
    assert again is second
    assert project.session(first.id) is first
    assert coming(first)["item"]["id"] == item


def test_the_last_items_are_in_others_views(project):
    """Which is not the end: they come when the other page is closed."""
    ada, bob = (project.session(annotator=name) for name in ("ada", "bob"))
    grid = project.grid(ada)
    grid.resize(24)
    grid.attend()
    while (card := card_of(bob))["item"]:
        submit(bob, [answer(card, "no")])
    assert card["waiting"]["exhausted"]
    assert card["waiting"]["held"] == len(grid.shown) == 24
    project.close_page(ada)
    assert card_of(bob)["item"]["id"] in {record.item for record in grid.shown}


def test_tabs_of_a_person_are_asked_about_different_items_until_none_is_left(project):
    """Then both show the last ones; each is answered once, and in the end it is said that all are."""
    tabs = [project.session(project.log.start_session(1, "ada", "random").id) for _ in range(2)]
    items = project.pool.ids.tolist()
    answered: list[int] = []
    refused: list[str] = []
    cards = [coming(tab) for tab in tabs]
    while any(card["item"] for card in cards):
        shown = [card["item"]["id"] for card in cards if card["item"]]
        if len(items) - len(answered) > 20:
            assert not in_hand(cards[0]) & in_hand(cards[1])
        for tab, card in zip(tabs, cards, strict=True):
            if card["item"] is not None:
                settled = submit(tab, [answer(card, "no")])
                answered += [card["item"]["id"]] * len(settled["acked"])
                refused += [refusal["reason"] for refusal in settled["refused"]]
        cards = [coming(tab) for tab in tabs]
    assert len(set(shown)) == 1, "the last item was in both tabs, or in one"
    assert all(card["waiting"]["exhausted"] for card in cards)
    assert [card["waiting"]["held"] for card in cards] == [0, 0]
    assert sorted(answered) == sorted(items)
    assert [given.item for given in project.log.answers_after(1)] == answered
    told = "Your answer was not stored: its item was answered already, perhaps in another window"
    assert set(refused) <= {told}
    verified(project)


def test_a_crashed_tab_leaves_its_person_everything(project):
    """A grid is full again, all that is found can be answered; other people still have to wait."""
    crashed, ada, bob = (
        project.session(project.log.start_session(1, name, "random").id) for name in ("ada", "ada", "bob")
    )
    gone = project.grid(crashed)
    gone.resize(60)
    gone.attend()
    items = {record.item for record in gone.shown}
    grid = project.grid(ada)
    grid.resize(60)
    grid.attend()
    assert len(grid.shown) == 60
    assert items & {record.item for record in grid.shown}
    for session, word in ((ada, ""), (bob, "held")):
        assert set(project.found(session).standing_of(items).values()) == {word}
    found = project.found(ada)
    found.look_for("digit")
    assert len(card_of(found)["cells"]) == 60
    assert {cell["selection"] is None for cell in card_of(found)["cells"]} == {False}
    theirs = card_of(bob)
    assert theirs["item"]["id"] not in items | {record.item for record in found.shown}
    verified(project)


def test_what_is_shown_twice_is_answered_once(project):
    """In a grid, too: the second answer is refused, and the view goes on to other items."""
    tabs = [project.session(project.log.start_session(1, "ada", "random").id) for _ in range(2)]
    first, second = (project.found(tab) for tab in tabs)
    for view in (first, second):
        view.look_for("digit")
    cards = [card_of(view) for view in (first, second)]
    assert [cell["id"] for cell in cards[0]["cells"]] == [cell["id"] for cell in cards[1]["cells"]]
    given, late = marks(cards[0]["cells"], ["yes"]), marks(cards[1]["cells"], ["no", "no"])
    assert submit(first, given)["acked"] == [given[0]["id"]]
    card = submit(second, late)
    assert card["acked"] == [late[1]["id"]]
    assert [refusal["id"] for refusal in card["refused"]] == [late[0]["id"]]
    state = tabs[0].concept.catch_up()
    assert [state.votes(one["item"]) for one in late] == [{"ada": "yes"}, {"ada": "no"}]
    assert submit(second, late[:1])["refused"]
    assert submit(first, given)["acked"] == [given[0]["id"]], "what is sent again is taken again"
    verified(project)


def test_a_grid_whose_items_were_answered_elsewhere_is_replaced(project):
    """Whether it is drawn again, or an answer of it is refused."""
    tabs = [project.session(project.log.start_session(1, "ada", "random").id) for _ in range(2)]
    grids = [project.grid(tab) for tab in tabs]
    for grid in grids:
        grid.resize(60)
    cards = [card_of(grid) for grid in grids]
    both = {cell["id"] for cell in cards[0]["cells"]} & {cell["id"] for cell in cards[1]["cells"]}
    submit(grids[0], marks(cards[0]["cells"], ["no"] * 60))
    mine = [cell for cell in cards[1]["cells"] if cell["id"] in both]
    card = submit(grids[1], marks(mine[:1], ["yes"]))
    assert len(card["refused"]) == 1
    assert not both & {cell["id"] for cell in card["cells"]}
    submit(grids[0], marks(card_of(grids[0])["cells"], ["no"] * 60))
    assert card_of(grids[1])["cells"] == []
    assert card_of(grids[1])["waiting"]["held"] == 0
    verified(project)


def test_people_without_a_name_are_told_apart_by_their_browsers(tmp_path):
    """Also after a restart. Without a browser, each session is a person of its own."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace, n_items=110)
        key = project.key
        ids = [project.log.start_session(1, SOMEBODY, "random").id for _ in range(5)]
        for name, browser in zip(ids, ("here", "here", "there", None, None), strict=True):
            project.session(name).use_in(browser)
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(key)
        crashed, here, *others = (project.session(name) for name in ids)
        assert crashed.own_sessions() == here.own_sessions() == set(ids[:2])
        assert [other.own_sessions() for other in others] == [{name} for name in ids[2:]]
        grid = project.grid(crashed)
        grid.attend()
        items = [record.item for record in grid.shown]
        assert set(project.found(here).standing_of(items).values()) == {""}
        for other in others:
            assert set(project.found(other).standing_of(items).values()) == {"held"}
        here.use_in("there")
        assert here.own_sessions() == {ids[1], ids[2]}


@pytest.mark.parametrize("annotator", [SOMEBODY, AUTOPILOT])
def test_nobody_without_a_name_continues_another_browsers_session(project, annotator):
    """It is continued in its own browser only, even if its page is closed."""
    person = Person(annotator, is_owner=True)
    first = project.session_of(person, browser="here")
    first.use_in("here")
    label(first, 2)
    project.close_page(first)
    other = project.session_of(person, browser="there")
    other.use_in("there")
    assert other is not first
    assert project.session_of(person, browser="here") is first
    project.close_page(other)
    assert project.session_of(person, browser="there") is other
    assert first.own_sessions() == {first.id}


def test_a_named_persons_session_is_continued_in_any_browser(project):
    """The name is enough."""
    session = project.session_of(Person("ada"), browser="here")
    session.use_in("here")
    project.close_page(session)
    assert project.session_of(Person("ada"), browser="there") is session


def test_the_sessions_of_a_persons_programs_share_nothing(project):
    """A program would not know what became of an item that it was given."""
    program, other = (
        started(project, Person("ada"), concept_id=None, strategy="random", by="token 1") for _ in range(2)
    )
    page = project.session(project.log.start_session(1, "ada", "random").id)
    assert [one.own_sessions() for one in (program, other, page)] == [{program.id}, {other.id}, {page.id}]


def test_a_sessions_classes_are_the_persons_own(project):
    """Each of the other questions has a session of its own, which nobody else's tab is."""
    project.add_concept("Is this a 3?")
    session = project.session(project.log.start_session(1, SOMEBODY, "random").id)
    session.use_in("here")
    card = card_of(project.classes(session))
    assert card["item"]
    assert len(session.own_sessions()) == 2


def test_who_comes_back_to_what_another_took_is_shown_something_else(project):
    """Nobody begins an item twice knowingly."""
    clock = Clock()
    at(project, clock)
    ada, bob = project.session(annotator="ada"), project.session(annotator="bob")
    before = coming(ada)
    clock.now += LEASE_SECONDS + 1
    project.leases.keep(bob.id, {before["item"]["id"]})
    assert card_of(ada)["item"]["id"] != before["item"]["id"]


def test_sessions_that_choose_at_the_same_time_share_no_item(tmp_path):
    """Six threads label as fast as they can; what their browsers have in hand is never another's."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        sessions = [project.session(annotator=f"person {n}") for n in range(6)]
        for session in sessions:
            session.set_strategy("exhaustive")
        wait_for_index(project, "exhaustive")
        troubles: list[str] = []

        def sit(number: int) -> None:
            rng, session = random.Random(number), sessions[number]
            card = coming(session)
            for _ in range(ROUNDS):
                word = rng.choice(["yes", "no", "skip"])
                following = card["next"].get(word)
                next_ = following["item"]["selection"] if following and rng.random() < 0.7 else None
                card = submit(session, [answer(card, word, next=next_)])
                if next_ and card["item"]["selection"] != next_:
                    troubles.append(f"{session.id} does not show what its browser shows")
                if rng.random() < 0.5:
                    card = coming(session)

        threads = [threading.Thread(target=sit, args=(number,)) for number in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not troubles
        items = Counter(given.item for given in project.log.answers_after(1))
        assert set(items.values()) == {1}
        assert items.total() == 6 * ROUNDS


def test_what_browsers_have_in_hand_stays_theirs_over_a_restart(tmp_path):
    """A server that was killed knows from the log what it had sent; nobody else is given that."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        ada = project.session(annotator="ada")
        label(ada, 8)
        card = coming(ada)
        key, session = project.key, ada.id
    with open_workspace(tmp_path) as workspace:
        project = Workspace.project(workspace, key)
        assert in_hand(card) <= set(project.leases.held())
        bob = coming(project.session(annotator="bob"))
        assert not in_hand(card) & in_hand(bob)
        again = project.session(session)
        assert in_hand(card) <= set(project.leases.held(but_for={project.session(annotator="bob").id}))
        after = submit(again, [answer(card, "yes", next=card["next"]["yes"]["item"]["selection"])])
        assert after["item"]["id"] == card["next"]["yes"]["item"]["id"]


def test_what_follows_in_classes_stays_theirs_over_a_restart(tmp_path):
    """There, each of two sessions selects what follows the other's item."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        project.add_concept("Is this a 3?")
        ada = project.session(annotator="ada")
        label(ada, 4)
        card = coming(project.classes(ada))
        key, session = project.key, ada.id
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(key)
        assert in_hand(card) <= set(project.leases.held())
        assert not in_hand(card) & in_hand(coming(project.session(annotator="bob")))
        assert coming(project.classes(project.session(session)))["item"] == card["item"]


def test_no_lease_ends_while_no_server_is_there(tmp_path):
    """Nobody could be heard of: what browsers show is theirs, however long the server was away."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        replace(project.file, lease_seconds=1.0).write(project.folder)
        key = project.key
    with open_workspace(tmp_path) as workspace:
        card = coming(workspace.project(key).session(annotator="ada"))
    time.sleep(1.1)
    with open_workspace(tmp_path) as workspace:
        assert in_hand(card) <= set(workspace.project(key).leases.held())


@pytest.mark.parametrize("view", ["card", "grid"])
def test_a_page_that_was_active_stays_active_over_a_restart(tmp_path, view):
    """Although it began no round for longer than a lease lasts: the next server knows what this one heard."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace, n_items=110)
        replace(project.file, lease_seconds=2.0).write(project.folder)
        key = project.key
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(key)
        ada, bob = project.session(annotator="ada"), project.session(annotator="bob")
        if view == "grid":
            grid = project.grid(ada)
            grid.resize(24)
            grid.attend()
            shown = {record.item for record in grid.shown}
            assert len(shown) == 24
        else:
            shown = in_hand(coming(ada))
        other = coming(bob)
        for _ in range(5):
            time.sleep(0.5)
            ada.touch()
            other = submit(bob, [answer(other, "no")])
        assert not shown & in_hand(other)
    with open_workspace(tmp_path) as workspace:
        assert shown <= set(workspace.project(key).leases.held())


def test_a_closed_page_has_nothing_after_a_restart(tmp_path):
    """Others may have its items at once, as before; who comes back still has what nobody took."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace, n_items=110)
        ada, bob = project.session(annotator="ada"), project.session(annotator="bob")
        card, other = coming(ada), coming(bob)
        project.close_page(ada)
        key, session = project.key, ada.id
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(key)
        assert set(project.leases.held()) == in_hand(other)
        assert coming(project.session(session))["item"] == card["item"]
        assert card["item"]["id"] in project.leases.held()


def test_no_request_waits_until_activity_is_stored(tmp_path, monkeypatch):
    """Another program may have locked the file; the thread that stores activity is the only one to wait."""
    asked, may_write, store = threading.Event(), threading.Event(), Activity.store

    def store_later(activity: Activity) -> None:
        asked.set()
        may_write.wait()
        store(activity)

    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        replace(project.file, lease_seconds=1.0).write(project.folder)
        key = project.key
    monkeypatch.setattr(Activity, "store", store_later)
    with open_workspace(tmp_path) as workspace:
        project = workspace.project(key)
        ada = project.session(annotator="ada")
        coming(ada)
        ada.touch()
        assert asked.wait(60)
        ada.touch()
        project.close_page(ada)
        assert project.store.activity.times() == {}
        may_write.set()
    with open_workspace(tmp_path) as workspace:
        assert workspace.project(key).store.activity.times()[ada.id] < 0


def test_a_page_that_is_back_is_known_to_be_back_at_once(tmp_path):
    """The server may be killed before the next regular store; then its items are still its own."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        ada = project.session(annotator="ada")
        coming(ada)
        activity, patience = project.store.activity, time.monotonic() + 60
        for act, sign in ((ada.touch, 1), (partial(project.close_page, ada), -1), (ada.touch, 1)):
            act()
            while activity.times().get(ada.id, 0) * sign <= 0:
                assert time.monotonic() < patience
                time.sleep(0.001)


def test_activity_is_stored_again_some_time_after_the_disk_was_full(tmp_path, monkeypatch):
    """Not each few seconds: a try may wait for a lock that answers need. The last try is made at the end."""
    tries, store = [], Activity.store

    def fail(activity: Activity) -> None:
        tries.append(activity)
        raise StorageError("the disk is full", "full")

    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        ada = project.session(annotator="ada")
        with monkeypatch.context() as full:
            full.setattr(Activity, "store", fail)
            patience = time.monotonic() + 60
            while not tries:
                project.close_page(ada)
                ada.touch()
                assert time.monotonic() < patience
            n_tries = len(tries)
            for _ in range(5):
                project.close_page(ada)
                ada.touch()
                time.sleep(0.02)
            assert len(tries) == n_tries
        assert Activity.store is store
        key = project.key
    with open_workspace(tmp_path) as workspace:
        assert workspace.project(key).store.activity.times()[ada.id] > 0


def test_a_clock_that_is_behind_wakes_no_old_session(tmp_path, monkeypatch):
    """As that of a machine that has just started: what closed pages had stays free."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace, n_items=110)
        key = project.key
        for name in ("bob", "cleo"):
            session = project.session(annotator=name)
            coming(session)
            project.close_page(session)
        card = coming(project.session(annotator="ada"))
    monkeypatch.setattr("closecall.app.projects.project_store.now_ms", lambda: 10**9)
    with open_workspace(tmp_path) as workspace:
        assert set(workspace.project(key).leases.held()) == in_hand(card)


def test_a_clock_that_was_once_ahead_ends_no_lease(tmp_path):
    """What was stored then is later than now; that must not make the rest look old."""
    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace)
        ada, bob = project.session(annotator="ada"), project.session(annotator="bob")
        card = coming(ada)
        ahead = Activity(project.store.database, lambda: now_ms() + 10**7)
        ahead.note(bob.id)
        ahead.store()
        key = project.key
    with open_workspace(tmp_path) as workspace:
        assert in_hand(card) <= set(workspace.project(key).leases.held())


def test_a_project_opens_although_old_activity_cannot_be_deleted(tmp_path, monkeypatch):
    """As on a full disk: active sessions keep their items, and labeling can go on when there is room."""

    def fail(*_: object) -> None:
        raise StorageError("the disk is full", "full")

    with open_workspace(tmp_path) as workspace:
        project = new_project(workspace, n_items=110)
        card = coming(project.session(annotator="ada"))
        key = project.key
    monkeypatch.setattr(Activity, "forget", fail)
    with open_workspace(tmp_path) as workspace:
        assert in_hand(card) <= set(workspace.project(key).leases.held())


def test_a_project_says_how_long_its_leases_last(tmp_path):
    """In its file, if it is not the usual time; nonsense is refused."""
    with open_workspace(tmp_path) as workspace:
        folder, file = (project := new_project(workspace)).folder, project.file
    assert "lease_seconds" not in (folder / PROJECT_FILE).read_text()
    replace(file, lease_seconds=20).write(folder)
    assert ProjectFile.read(folder).lease_seconds == 20
    for wrong in (0, -1, "long"):
        replace(file, lease_seconds=wrong).write(folder)
        with pytest.raises(InputError, match="lease_seconds must be more than 0"):
            ProjectFile.read(folder)
