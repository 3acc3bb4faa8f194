from __future__ import annotations

import pickle
import random

import pytest

from closecall.client import ConnectionLost, Refused
from tests.api_kit import FAULTS
from tests.scale import examples


def oracle(item) -> str:
    return "yes" if item.id % 3 == 0 else "no"


def stored(server) -> list[tuple[str, int, str]]:
    return [(entry["id"], entry["item"], entry["answer"]) for entry in server.log]


def test_a_program_labels_every_item_once(server, project):
    """The loop of the documentation."""
    given = []
    with project.session() as session:
        for item in session:
            given.append((session.answer(oracle(item)), item.id, oracle(item)))
    assert stored(server) == given
    assert [item for _, item, _ in given] == list(range(50))


@pytest.mark.parametrize("seed", range(examples(12)))
@pytest.mark.parametrize("is_waiting", [True, False])
def test_no_answer_is_lost_or_doubled_whatever_happens_to_requests(server, project, seed, is_waiting):
    """Half of the requests fail, in each of the ways."""
    rng, given = random.Random(seed), []
    with project.session() as session:
        server.faults.extend(rng.choice(FAULTS) if rng.random() < 0.5 else "" for _ in range(2000))
        for item in session:
            given.append((session.answer(oracle(item), wait=is_waiting), item.id, oracle(item)))
            if rng.random() < 0.2:
                session.look_ahead()
    assert stored(server) == given
    assert len(given) == 50
    assert len(server.faults) < 2000 - 50
    assert session.pending == []


@pytest.mark.parametrize("fault", FAULTS)
def test_an_answer_is_stored_before_answer_returns(server, project, fault):
    """Unless the program says that it doesn't wait."""
    session = project.session()
    session.next()
    server.faults.extend([fault] * 3)
    answer = session.answer("yes")
    assert stored(server) == [(answer, 0, "yes")]
    session.next()
    later = session.answer("no", wait=False)
    assert [pending["id"] for pending in session.pending] == [later]
    assert len(server.log) == 1
    session.flush()
    assert stored(server) == [(answer, 0, "yes"), (later, 1, "no")]


def test_the_item_that_follows_is_there_at_once(server, project):
    """The server hears which one it was."""
    session = project.session()
    session.next()
    before = len(server.asked)
    session.answer("yes", wait=False)
    assert session.next().id == 1
    assert len(server.asked) == before
    session.answer("no", wait=False)  # what follows this one is not known
    assert session.next().id == 2
    assert [line.rpartition("/")[2] for line in server.asked[before:]] == ["answers", "next"]
    first, second = server.sent[before]["answers"]
    assert first["next"] == second["selection"]
    assert second["next"] is None


def test_looking_ahead_fetches_what_may_follow(server, project):
    """A program calls it while a person looks at the item in view; the answers before are sent first."""
    server.looks_ahead = False
    session = project.session()
    session.next()
    session.answer("yes", wait=False)
    session.next()
    server.looks_ahead, server.coming_later = True, ["skip", "unsure", "no"]
    session.look_ahead()
    assert server.count("/ahead") == 3
    before = len(server.asked)
    session.answer("no", wait=False)
    assert session.next().id == 2
    session.look_ahead()
    session.look_ahead()  # there is nothing more to fetch
    assert [line.rpartition("/")[2] for line in server.asked[before:]] == ["answers", "next"]
    assert session.next().id == 2


def test_the_iterator_waits_while_the_pool_grows(server, project, clock):
    """And ends when it is complete."""
    server.available, server.total, seen = 2, 4, []
    sleep = clock.sleep

    def grow(seconds: float) -> None:
        sleep(seconds)
        server.available = min(server.available + 1, server.total)

    clock.sleep = grow
    session = project.session()
    for item in session:
        seen.append(item.id)
        session.answer("no")
    assert seen == [0, 1, 2, 3]
    assert clock.slept == [0.7, 0.7]


def test_a_problem_of_the_pool_ends_the_wait(server, project):
    """Its sentence is the error's, when the time limit has passed."""
    server.available, server.total, server.message = 0, 4, "The disk is full"
    with pytest.raises(ConnectionLost, match="The disk is full"):
        next(project.session())


def test_an_item_that_is_not_answered_does_not_come_for_ever(project):
    """A forgotten answer is an error; a new loop begins with this item."""
    session = project.session()
    item = next(session)
    with pytest.raises(ValueError, match="Answer item 0 before"):
        next(session)
    assert session.next() is item
    assert next(iter(session)) is item
    with pytest.raises(ValueError, match="no item in view"):
        project.session().answer("yes")


def test_an_earlier_item_can_be_answered(server, project):
    """The item in view stays."""
    session = project.session()
    first = session.next()
    session.answer("skip")
    second = session.next()
    answer = session.answer("yes", first)
    assert stored(server)[-1] == (answer, 0, "yes")
    assert session.next() is second


def test_an_undone_item_comes_again(server, project):
    """And a correction replaces an answer; both work with entries of the log."""
    session = project.session()
    session.next()
    first = session.answer("yes")
    session.next()
    undo = session.undo(first)
    assert session.next().id == 0
    again = session.answer("no")
    correction = session.correct(again, "unsure")
    assert stored(server) == [
        (first, 0, "yes"),
        (undo, 0, "undo"),
        (again, 0, "no"),
        (correction, 0, "unsure"),
    ]
    assert [entry["undoes"] for entry in server.log] == [None, first, None, None]
    assert [entry["corrects"] for entry in server.log] == [None, None, None, again]
    entry = list(project.answers())[-1]
    session.undo(entry)
    assert server.log[-1]["undoes"] == correction
    with pytest.raises(ValueError, match="was not given here"):
        session.undo("somebody-elses")


def test_a_refused_answer_is_an_error_and_all_others_are_stored(server, project):
    """The error has the reason; the session goes on."""
    server.refused_items = {1}
    session = project.session()
    session.next()
    first = session.answer("yes", wait=False)
    session.next()
    second = session.answer("yes", wait=False)
    with pytest.raises(Refused, match=r"^item 1 is held out$") as caught:
        session.next()
    assert caught.value.reasons == {second: "item 1 is held out"}
    assert stored(server) == [(first, 0, "yes")]
    assert session.pending == []
    server.refused_items = set()
    assert next(session).id == 1


def test_refused_answers_are_told_after_a_lost_connection(server, project):
    """Although they left the queue before it."""
    server.refused_items = {0}
    session = project.session()
    session.next()
    session.answer("yes", wait=False)
    session.next()
    session.answer("yes", wait=False)
    take = server.take

    def take_the_first(body, *words):
        locked = {"acked": [], "refused": [], "message": "The database is locked"}
        return take({"answers": body["answers"][:1]}, *words) if len(body["answers"]) > 1 else locked

    server.take = take_the_first
    with pytest.raises(ConnectionLost, match=r"1 answer is not stored: The database is locked") as caught:
        session.flush()
    assert [answer["item"] for answer in caught.value.answers] == [1]
    server.take = take
    with pytest.raises(Refused, match="item 0 is held out"):
        session.flush()
    assert [entry["item"] for entry in server.log] == [1]


@pytest.mark.parametrize("fault", ["cut", "503", "kept"])
def test_after_the_time_limit_the_unsent_answers_are_in_the_error(server, project, fault, clock):
    """They stay in the queue, too; another process can take them over."""
    session = project.session()
    session.next()
    server.faults.extend([fault] * 200)
    with pytest.raises(ConnectionLost) as caught:
        session.answer("yes")
    assert 30 <= clock.now < 35
    assert caught.value.answers == session.pending
    (left,) = pickle.loads(pickle.dumps(caught.value)).answers
    server.faults.clear()
    resumed = project.session(id=session.id)
    resumed.restore([left])
    session.flush()
    assert stored(server) == [(left["id"], 0, "yes")]
    assert resumed.next().id == 1


def test_many_answers_go_in_several_requests(server, project):
    """In their order."""
    server.available = server.total = 2500
    session = project.session()
    server.looks_ahead = False
    item = session.next()
    for number in range(2500):
        made = {**server.item(session.id, number)}
        session.answer("no", type(item)(made["id"], made["selection"], made["name"]), wait=False)
    session.flush()
    assert [entry["item"] for entry in server.log] == list(range(2500))
    assert server.count("POST /api/v1/projects/digits/answers") == 3


def test_time_taken_begins_when_the_item_is_returned(server, project, clock):
    """Not when it was fetched."""
    session = project.session()
    clock.now += 100
    session.next()
    clock.now += 1.5
    session.answer("yes")
    session.next()
    session.answer("no", time_taken_ms=77)
    assert [entry["time_taken_ms"] for entry in server.log] == [1500, 77]


def test_an_item_shows_itself(project):
    item = project.session(strategy="random").next()
    assert (item.name, item.margin) == ("digit 0", 0.0)
    assert item.text() == "text 0"
    assert item.image() == b"0 card"
    assert item.image("original") == b"0 original"


def test_a_session_can_be_changed_and_resumed(server, project):
    session = project.session(strategy="random")
    session.use(strategy="exhaustive", include_skipped=True)
    assert session.strategy == "exhaustive"
    assert server.sessions[session.id]["include_skipped"] is True
    assert project.session(id=session.id, strategy="random").strategy == "random"
    assert [one.id for one in project.sessions()] == [session.id]


def test_a_with_block_sends_what_is_left(server, project):
    """Unless an error ends it."""
    with project.session() as session:
        session.next()
        session.answer("yes", wait=False)
    assert len(server.log) == 1
    session.next()
    session.answer("yes", wait=False)
    with pytest.raises(ZeroDivisionError), session:
        raise ZeroDivisionError
    assert len(server.log) == 1
