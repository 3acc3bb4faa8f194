"""Several servers of one project, over PostgreSQL: here two in one process, each with its own objects."""

from __future__ import annotations

import io
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner
from PIL import Image

from closecall.app.api.cards import card_of, submit
from closecall.app.cli.main import main
from closecall.app.projects.roles import Person
from closecall.app.sessions.registry import OpenProject
from closecall.app.sessions.workspace import Workspace
from closecall.core.errors import InputError
from closecall.storage import Database, StorageError
from tests import postgres
from tests.projects import answer, marks, new_project, open_workspace, truth_word, verified, wait_for_index

ADA = Person("ada", is_owner=True)
PATIENCE = 60.0


@pytest.fixture
def folder(server: postgres.Server, tmp_path: Path) -> Path:
    """A project whose labels are in PostgreSQL."""
    with Workspace(tmp_path, database=server.schema()) as workspace:
        return new_project(workspace).folder


@pytest.fixture
def servers(folder: Path) -> Iterator[tuple[OpenProject, OpenProject]]:
    """Two servers of it."""
    with closing(OpenProject(folder, shared=True)) as one, closing(OpenProject(folder, shared=True)) as two:
        yield one, two


def soon(is_so: Callable[[], object]) -> None:
    """Wait until something is so, which takes a moment."""
    until = time.monotonic() + PATIENCE
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.01)


def rounds_of(project: OpenProject, session: str) -> list[int]:
    """The numbers of the session's rounds, in the order of the log."""
    return [record.round for record in project.log.selections(session_id=session)]


def coming(session: Any) -> dict[str, Any]:
    """The card, once what would follow each answer is there."""
    card = card_of(session)
    while card["next_is_coming"]:
        card = card_of(session)
    return card


# Who may serve


def test_a_server_alone_and_servers_together_keep_each_other_out(folder: Path) -> None:
    """In either order; and so do commands that need the labels for themselves."""
    with closing(OpenProject(folder, shared=True)), closing(OpenProject(folder, shared=True)):
        with pytest.raises(InputError, match="already being served by another process"):
            OpenProject(folder)
        result = CliRunner().invoke(main, ["import", str(folder), __file__, "--format", "csv"])
        assert result.exit_code == 2
        assert "already being served by another process" in result.output
    with closing(OpenProject(folder)), pytest.raises(InputError, match="already being served alone"):
        OpenProject(folder, shared=True)


def test_several_servers_need_postgresql(tmp_path: Path) -> None:
    """One sentence says so, and how to move the labels; projects are created only with a database."""
    with open_workspace(tmp_path) as workspace:
        folder = new_project(workspace).folder
    with pytest.raises(InputError, match=r"PostgreSQL.*closecall backup"):
        OpenProject(folder, shared=True)
    with pytest.raises(StorageError, match="only one server"):
        Database.open(folder / "labels.db", shared=True)
    result = CliRunner().invoke(main, ["serve", str(folder), "--shared", "--headless", "--port", "58501"])
    assert (result.exit_code, result.output.count("\n")) == (2, 1)
    with Workspace(tmp_path, shared=True) as workspace:
        assert not workspace.can_create
        with pytest.raises(InputError, match="--database"):
            new_project(workspace)
        (summary,) = workspace.projects()
        assert "0 yes" in summary.status or "No labels" in summary.status
    with Workspace(tmp_path / "others", shared=True, database="postgresql://host/labels") as workspace:
        assert workspace.can_create


# One session


def test_a_session_goes_on_at_whichever_server_is_asked(servers: tuple[OpenProject, OpenProject]) -> None:
    """Each answer at another server than the one before: no round and no answer is doubled or lost."""
    one, _ = servers
    name, given, asked = one.session(annotator="ada").id, [], []
    for number in range(16):
        project = servers[number % 2]
        session = project.session(name)
        card = coming(session)
        assert not asked or card["item"]["id"] == asked[-1]
        word = truth_word(project, card["item"]["id"])
        following = card["next"][word]["item"]
        sent = answer(card, word, next=following["selection"])
        other = servers[(number + 1) % 2]
        settled = submit(other.session(name), [sent])
        assert settled["acked"] == [sent["id"]]
        assert settled["item"]["id"] == following["id"]
        given.append(sent["id"])
        asked.append(following["id"])
    assert [stored.id for stored in one.log.answers_after(1)] == given
    rounds = rounds_of(one, name)
    assert len(set(rounds)) == len(rounds) == 17
    assert len(set(asked)) == 16
    verified(one)


def test_an_answer_may_be_repeated_at_another_server(servers: tuple[OpenProject, OpenProject]) -> None:
    """Its acknowledgement was lost; the other server knows it, and shows what follows."""
    one, two = servers
    card = card_of(one.session(annotator="ada"))
    sent = answer(card, "no")
    first = submit(one.session(card["session"]), [sent])
    second = submit(two.session(card["session"]), [sent])
    assert (first["acked"], second["acked"]) == ([sent["id"]], [sent["id"]])
    assert second["item"]["selection"] == first["item"]["selection"]
    assert len(list(one.log.answers_after(1))) == 1


def test_an_object_that_a_page_holds_notices_that_it_was_left(
    servers: tuple[OpenProject, OpenProject],
) -> None:
    """It goes on from the log: strategy, rounds, what is in view, and whether skipped items return."""
    one, two = servers
    held = one.session(annotator="ada")
    card = card_of(held)
    elsewhere = two.session(held.id)
    elsewhere.set_strategy("exhaustive")
    elsewhere.revisit_skipped()
    after = submit(elsewhere, [answer(card_of(elsewhere), "no")])
    now = card_of(held)
    assert now["item"] == after["item"] != card["item"]
    assert (held.strategy, held.include_skipped) == ("exhaustive", True)
    assert held.last_round == elsewhere.last_round
    soon(lambda: held.id not in two._sessions._asked)


def test_the_log_refuses_what_a_server_writes_that_was_left(
    servers: tuple[OpenProject, OpenProject],
) -> None:
    """In the transaction itself: a selection, what is foreseen, and an answer; then the session goes on."""
    one, two = servers
    held = one.session(annotator="ada")
    shown = held.in_view()
    assert shown is not None
    with held.lock:  # in the middle of a request
        elsewhere = two.session(held.id)
        after = submit(elsewhere, [answer(card_of(elsewhere), "no")])
        for write in (
            lambda: one.log.record_selection(shown),
            lambda: one.log.foresee([shown]),
            lambda: one.intake.store(
                [next(one.log.answers_after(1))],
            ),
        ):
            with pytest.raises(StorageError) as caught:
                write()
            assert (caught.value.kind, caught.value.passes) == ("moved", True)
        held.item_view.choose()  # takes the session back, and keeps what the other server shows
        assert held.shown is not None
        assert held.shown.id == after["item"]["selection"]
        settled = held.store([answer(after, "yes")])
        assert not settled.refused
    rounds = rounds_of(one, held.id)
    assert rounds == [1, 2, 3]


def test_a_grid_and_the_classes_go_on_at_another_server(servers: tuple[OpenProject, OpenProject]) -> None:
    """With the items that are in view, as far as the log has them."""
    one, _ = servers
    one.add_concept("Is this a 3?")
    name = one.session(annotator="ada").id
    for number in range(6):
        here, there = (servers[(number + k) % 2] for k in range(2))
        card = card_of(here.grid(here.session(name)))
        again = card_of(there.grid(there.session(name)))
        assert [cell["id"] for cell in again["cells"]] == [cell["id"] for cell in card["cells"]]
        words = [truth_word(there, cell["id"]) for cell in card["cells"][:5]]
        given = marks(card["cells"], words)
        assert submit(there.grid(there.session(name)), given)["acked"] == [one["id"] for one in given]
    for number in range(6):
        here, there = (servers[(number + k) % 2] for k in range(2))
        card = card_of(here.classes(here.session(name)))
        press = answer(card, "skip", classes=[1, 2])
        assert submit(there.classes(there.session(name)), [press])["acked"] == [press["id"]]
    rounds = Counter(
        (record.session_id, record.round, bool(record.parameters.get("batch")))
        for record in one.log.selections()
        if not record.parameters.get("batch")
    )
    assert set(rounds.values()) == {1}
    verified(one)


def test_a_session_that_is_in_use_elsewhere_is_not_resumed_by_a_new_page(folder: Path) -> None:
    """A page that names no session gets another one, until the other server is gone."""
    with closing(OpenProject(folder, shared=True)) as two:
        with closing(OpenProject(folder, shared=True)) as one:
            name = one.session(annotator="ada").id
            other = two.session(annotator="ada").id
            assert other != name
            assert two.session(name, annotator="ada").id == name
            one.session(other)
        soon(lambda: not two.claims.is_attended(other, 600))
        assert two.session(annotator="ada").id == two.sittings()[-1].id


# Several people


def test_people_at_two_servers_are_never_given_the_same(servers: tuple[OpenProject, OpenProject]) -> None:
    """Three at each, as fast as they can; what browsers have in hand is never another's."""
    for project in servers:
        wait_for_index(project, "exhaustive")
    troubles: list[BaseException] = []

    def sit(number: int) -> None:
        try:
            project = servers[number % 2]
            session = project.session(annotator=f"person {number}")
            session.set_strategy("exhaustive")
            card = coming(session)
            for _ in range(6):
                word = "no" if number % 3 else truth_word(project, card["item"]["id"])
                following = card["next"].get(word)
                card = submit(
                    session,
                    [answer(card, word, next=following["item"]["selection"] if following else None)],
                )
                card = coming(session)
        except BaseException as error:
            troubles.append(error)
            raise

    threads = [threading.Thread(target=sit, args=(number,)) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not troubles
    items = Counter(given.item for given in servers[0].log.answers_after(1))
    assert set(items.values()) == {1}
    assert items.total() == 36
    for project in servers:
        assert project.live_concept(1).counts().answered == 36
    verified(servers[0])


def test_what_was_answered_elsewhere_a_moment_ago_is_not_given_again(
    servers: tuple[OpenProject, OpenProject], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Even if no notice of it has arrived: a server that reads the leases learns how far the log has come."""
    one, two = servers
    ada, bob = one.session(annotator="ada"), two.session(annotator="bob")
    soon(lambda: two.database.is_told)
    monkeypatch.setattr(two.database._listening, "_heard", lambda _: None)
    for _ in range(4):
        card = card_of(ada)
        submit(ada, [answer(card, "no")])
        bob.occasion(two.pool)
        assert bob.concept.catch_up().status(card["item"]["id"]) == "no"


def test_contested_items_are_decided_by_one_owner_each(servers: tuple[OpenProject, OpenProject]) -> None:
    """Owners at two servers have other items in view."""
    one, two = servers
    ada, bob = one.session(annotator="ada"), two.session(annotator="bob")
    for _ in range(5):
        card = card_of(ada)
        submit(ada, [answer(card, "yes")])
        bob.store([answer(card, "no", selection=None)])
    mine, theirs = card_of(one.decisions(ada)), card_of(two.decisions(bob))
    assert mine["item"]["id"] != theirs["item"]["id"]
    decided = answer(mine, "yes")
    assert submit(one.decisions(ada), [decided], ADA)["acked"] == [decided["id"]]


def test_a_persons_tabs_on_two_servers_share_items(servers: tuple[OpenProject, OpenProject]) -> None:
    """What one shows can be answered in a search in the other, but only once; other people have to wait."""
    one, two = servers
    first, second, bob = (
        project.session(annotator=name) for project, name in ((one, "ada"), (two, "ada"), (two, "bob"))
    )
    assert first is not second
    grid = one.grid(first)
    grid.attend()
    items = [record.item for record in grid.shown]
    assert card_of(second)["item"]["id"] not in items
    assert set(two.found(second).standing_of(items).values()) == {""}
    assert set(two.found(bob).standing_of(items).values()) == {"held"}
    found = two.found(second)
    found.look_for(f"digit {items[0]}")
    (cell,) = [cell for cell in card_of(found)["cells"] if cell["id"] == items[0]]
    assert submit(found, marks([cell], ["yes"]))["acked"]
    late = marks(card_of(grid)["cells"][:2], ["no", "no"])
    assert [late[0]["item"], late[1]["item"]] == items[:2]
    card = submit(grid, late)
    assert (card["acked"], [refusal["id"] for refusal in card["refused"]]) == (
        [late[1]["id"]],
        [late[0]["id"]],
    )
    assert one.live_concept(1).catch_up().votes(items[0]) == {"ada": "yes"}
    verified(one)


# What else another server changes


def test_changes_by_another_server_are_noticed(servers: tuple[OpenProject, OpenProject]) -> None:
    """Examples, the audit's share, items that were passed over, settings, and questions."""
    one, two = servers
    here, there = one.session(annotator="ada"), two.session(annotator="bob")
    heard: list[tuple[str, dict[str, Any]]] = []
    two.news.subscribe(lambda kind, data: heard.append((kind, dict(data))))
    soon(lambda: one.database.is_told and two.database.is_told)
    here.set_audit_share(0.2)
    soon(lambda: there.concept.audit_share == 0.2)
    Image.new("L", (28, 28), 200).save(image := io.BytesIO(), "PNG")
    here.add_examples([image.getvalue()])
    soon(lambda: len(there.concept.examples) == 1)
    here._pass_over([5, 7])
    soon(lambda: there.concept.audit.passed() == (5, 7))
    one.set_overlap(3, 0.5)
    soon(lambda: (two.file.overlap, two.file.overlap_share) == (3, 0.5))
    added = one.add_concept("Is this a 3?")
    whose = {"concept": added.id, "elsewhere": True}
    soon(lambda: any(kind == "concept" and whose.items() <= data.items() for kind, data in heard))
    assert [concept.id for concept in two.concepts()] == [1, added.id]
    one.archive.add(added.id)
    assert [concept.id for concept in two.concepts()] == [1]
    submit(here, [sent := answer(card_of(here), "no")])
    told = ("answers", {"concept": 1, "items": [sent["item"]], "elsewhere": True})
    soon(lambda: told in heard)


def test_what_is_missed_while_the_connection_is_lost_is_read_again(
    server: postgres.Server, servers: tuple[OpenProject, OpenProject]
) -> None:
    """Until it is back, each reading of the labels asks the database."""
    one, two = servers
    here, there = one.session(annotator="ada"), two.session(annotator="bob")
    soon(lambda: two.database.is_told)
    before = two.log.newest
    assert before is two.log.newest
    listening = two.database._listening
    connect, is_cut = listening._connect, threading.Event()

    def refused() -> Any:
        if is_cut.is_set():
            raise psycopg.OperationalError("no connection now")
        return connect()

    listening._connect = refused
    is_cut.set()
    with psycopg.connect(server.address, autocommit=True) as connection:
        connection.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE %s",
            (f'LISTEN "{two.database.place.channel}"',),
        )
    soon(lambda: not two.database.is_told)
    assert two.log.newest is not two.log.newest
    card = card_of(here)
    submit(here, [answer(card, "no")])
    here.set_audit_share(0.3)
    assert there.concept.counts().no == 1
    is_cut.clear()
    soon(lambda: two.database.is_told)
    assert two.log.newest is two.log.newest is not before
    soon(lambda: there.concept.audit_share == 0.3)


def test_another_description_is_used_by_all_servers(folder: Path, tmp_path: Path) -> None:
    """As soon as one has put it to use; sessions go on under it."""
    result = CliRunner().invoke(main, ["describe", str(folder), "--by", "edges", "--quiet"])
    assert result.exit_code == 0, result.output
    with ExitStack() as opened:
        one, two = (opened.enter_context(Workspace(tmp_path, shared=True)) for _ in range(2))
        name = one.project(folder.name).session(annotator="ada").id
        card = card_of(two.project(folder.name).session(name))
        before = two.project(folder.name)
        soon(lambda: before.database.is_told)
        one.use_description(folder.name, "edges")
        soon(lambda: two.project(folder.name).description == "edges")
        assert before.is_superseded
        after = submit(two.project(folder.name).session(name), [answer(card, "no")])
        assert len(after["acked"]) == 1
        assert one.project(folder.name).session(name).concept.description == "edges"


def test_news_is_told_at_once(folder: Path) -> None:
    """What happens here, in this server: the index, the pool, answers, the look-ahead, and the end."""
    heard: list[tuple[str, dict[str, Any]]] = []
    with closing(OpenProject(folder, shared=True)) as project:
        end = project.news.subscribe(lambda kind, data: heard.append((kind, dict(data))))
        wait_for_index(project, "random")
        session = project.session(annotator="ada")
        card = coming(session)
        submit(session, [answer(card, "no")])
        soon(lambda: ("index", {"strategy": "random"}) in heard)
        soon(lambda: any(kind == "ahead" for kind, _ in heard))
        about = {"session": session.id, "selection": card["item"]["selection"]}
        assert ("ahead", about) in heard
        told = {"concept": 1, "items": [card["item"]["id"]], "elsewhere": False}
        assert ("answers", told) in heard
        ended: list[str] = []
        project.news.subscribe(lambda kind, _: ended.append(kind))
        end()
    assert ended == ["closed"]
    assert "closed" not in [kind for kind, _ in heard]


def test_one_server_at_a_time_leads(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In one thing; once it is gone, another does."""
    monkeypatch.setattr("closecall.storage.leading.CHECK_SECONDS", 0.0)
    with closing(OpenProject(folder, shared=True)) as two:
        with closing(OpenProject(folder, shared=True)) as one, one.database.leads("reports") as lead:
            other = two.database.leads("reports")
            assert [lead.is_held(), other.is_held(), lead.is_held()] == [True, False, True]
            assert two.database.leads("backups").is_held()
        soon(other.is_held)
        other.close()
