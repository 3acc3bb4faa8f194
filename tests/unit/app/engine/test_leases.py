from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from closecall.app.api.cards import card_of, submit
from closecall.app.engine.leases import LEASE_SECONDS, Leases
from closecall.app.engine.shared_leases import SharedLeases
from closecall.app.projects.config import PROJECT_FILE, ProjectFile
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.workspace import Workspace
from closecall.core.errors import InputError
from closecall.storage import Database, LeaseTable
from tests.projects import answer, label, new_project, open_workspace, wait_for_index
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


STEPS = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.sampled_from(["ask", "take", "answer", "wait"]),
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
    """Let sessions ask, take and answer in this order; nobody gets what another has or has answered."""
    answered: set[int] = set()
    asked: dict[str, tuple] = {}
    has: dict[str, set[int]] = {name: set() for name in "abcd"}
    for who, step, items in steps:
        clock.now += 0.1
        if step == "ask":
            asked[who] = (leases.others(who), set(answered))
        elif step == "take" and who in asked:
            others, known = asked[who]
            wanted = items - known - set(others.items)
            if not others.take(wanted):
                assert not wanted & answered - has[who]
                assert all(not wanted & has[other] for other in has if other != who)
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
