from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from closecall.app.api.cards import card_of, submit
from closecall.app.cli.main import main
from closecall.app.experiments.bench import serving
from closecall.app.experiments.bench.team import card as rules
from closecall.app.experiments.bench.team.card import Card, Queue
from closecall.app.experiments.bench.team.experiment import BEFORE
from closecall.app.experiments.bench.team.inside import Look, growth
from closecall.app.experiments.bench.team.measure import ServedTeam
from closecall.app.experiments.bench.team.outcome import fate, given_twice, leases_returned, waits
from closecall.app.experiments.bench.team.person import Diary, Held, Press
from closecall.app.projects.config import LABELS_FILE
from closecall.app.sessions.registry import OpenProject
from closecall.storage import Database, LabelLog, SelectionRecord
from tests.aside import aside
from tests.folders import ROOT
from tests.projects import digits_pool, new_project, open_workspace, wait_for_index

ADA, BOB = "ada", "bob"


@pytest.fixture
def project(tmp_path) -> OpenProject:
    with open_workspace(tmp_path) as workspace:
        yield new_project(workspace)


class Line:
    """Between a card and its session: what is sent waits, and may get lost, until it is delivered."""

    def __init__(self, session) -> None:
        self.session = session
        self.store: dict[str, str] = {}
        self.sent: list[list[dict[str, Any]]] = []
        self.card = Card(self.store, self.sent.append)
        self.card.update(self.coming())

    def coming(self) -> dict[str, Any]:
        """The card, once what would follow each answer is there."""
        card = card_of(self.session)
        while card["next_is_coming"]:
            card = card_of(self.session)
        return card

    def deliver(self) -> None:
        """The last that was sent arrives, and so does the answer."""
        self.card.update(submit(self.session, json.loads(json.dumps(self.sent[-1]))))

    def reload(self) -> None:
        """Another page over the same store."""
        self.card = Card(self.store, self.sent.append)
        self.card.update(card_of(self.session))

    def stored(self) -> list[tuple[str, int, str]]:
        """What the log has of the session."""
        concept = self.session.concept.record.id
        given = self.session.project.log.answers_after(concept)
        return [(answer.id, answer.item, answer.answer) for answer in given]


@pytest.fixture
def line(project) -> Line:
    session = project.session(annotator=ADA)
    session.set_strategy("exhaustive")
    wait_for_index(project, "exhaustive")
    return Line(session)


def said(given) -> tuple[str, int, str]:
    return given.id, given.item, given.answer


def test_a_card_goes_on_at_once_to_what_was_sent_ahead(line):
    """And the server, once it has heard, shows the same."""
    seen = line.card.item
    following = line.coming()["next"]["yes"]["item"]["id"]
    given, is_followed = line.card.answer("yes", taken_ms=700)
    assert (given.item, is_followed) == (seen.id, True)
    assert line.card.item.id == following
    line.deliver()
    assert (line.card.item.id, line.card.pending, line.store) == (following, [], {})
    assert line.session.shown.item == following
    assert line.stored() == [said(given)]


def test_a_card_takes_one_answer_to_what_is_in_view(line):
    """Where nothing was sent ahead it waits for the server."""
    line.card = Card(line.store, line.sent.append)
    line.card.update({**card_of(line.session), "next": {}, "pictures": {}})
    given, is_followed = line.card.answer("no", taken_ms=700)
    assert not is_followed
    assert not line.card.can_answer
    assert line.card.in_hand == set()
    line.deliver()
    assert line.card.can_answer
    assert line.stored() == [said(given)]


def test_what_the_server_says_changes_no_view_while_answers_are_under_way(line):
    """It doesn't know of them yet."""
    line.card.answer("no", taken_ms=700)
    in_view = line.card.item
    line.card.update(card_of(line.session))
    assert line.card.item == in_view


def test_answers_outlive_lost_messages_and_a_reload(line):
    """They are sent again, in their order, until the server has them; and stored once."""
    given = [line.card.answer("yes", taken_ms=700)[0]]
    line.reload()
    assert line.sent[-1] == line.card.pending != []
    line.deliver()
    line.card.update(line.coming())
    given.append(line.card.answer("no", taken_ms=700)[0])
    submit(line.session, line.sent[-1])  # the answer to this is lost
    line.reload()
    line.deliver()
    line.deliver()
    assert line.store == {}
    assert line.stored() == [said(one) for one in given]


def test_a_refused_answer_is_told_and_forgotten(line):
    """It is none of the log's."""
    given, _ = line.card.answer("yes", taken_ms=700)
    line.sent[-1][0]["item"] += 1
    line.deliver()
    assert list(line.card.refused) == [given.id]
    assert line.store == {}
    assert line.stored() == []


def test_a_store_keeps_the_answers_of_several_sessions_and_projects_apart():
    """What another session of the project left over is sent, too."""
    store: dict[str, str] = {"else": "no entry of ours"}
    one, other, elsewhere = Queue(store, "p", "1"), Queue(store, "p", "2"), Queue(store, "q/", "1")
    for place, queue in enumerate((one, other, elsewhere)):
        queue.add({"id": str(place)})
    assert [answer["id"] for answer in one.pending] == ["0", "1"]
    assert [answer["id"] for answer in other.own] == ["1"]
    assert elsewhere.settle(["0", "2"]) == [{"id": "2", "session": "1"}]
    assert [answer["id"] for answer in other.settle(["0"])] == ["0"]
    assert set(store) == {"else", "closecall/p/2/1"}


RULES = json.loads((ROOT / "tests" / "fixtures" / "card.json").read_text("utf-8"))


class Table:
    """A card, and a server that says what a case of `RULES` says; ``tests/js/card.test.js`` is its like."""

    def __init__(self) -> None:
        self.store: dict[str, str] = {}
        self.given: list[str] = []
        self.load()

    def load(self) -> None:
        """Another page over the same store."""
        self.sent: list[list[dict[str, Any]]] = []
        self.card = Card(self.store, self.sent.append)

    def hear(self, said: dict[str, Any]) -> None:
        """A payload; what a case leaves out is as usual."""
        usual = {"project": "p", "session": "s", "message": None, "waiting": None, "next_is_coming": False}
        item, following = said["item"], said.get("next", {})
        dark = said.get("no_picture", [])
        self.card.update(
            {
                **usual,
                **said,
                "item": None if item is None else {**item_of(item), "src": f"picture {item}"},
                "next": {word: {"item": item_of(number)} for word, number in following.items()},
                "pictures": {
                    str(number): "" if number in dark else f"picture {number}"
                    for number in following.values()
                },
                "acked": [self.given[i] for i in said.get("acked", [])],
                "refused": [{"id": self.given[i], "reason": "No."} for i in said.get("refused", [])],
            }
        )

    def answer(self, word: str) -> bool:
        """Whether the next item was there at once."""
        given, is_followed = self.card.answer(word, taken_ms=700)
        self.given.append(given.id)
        return is_followed

    def look(self) -> dict[str, Any]:
        """What a case may expect."""
        seconds = self.card.poll_seconds
        return {
            "in_view": self.card.item.id if self.card.item else None,
            "open": self.card.can_answer,
            "waiting": [
                [answer["item"], answer["answer"], int(answer["next"][1:]) if answer["next"] else None]
                for answer in self.card.pending
            ],
            "sends": len(self.sent),
            "asks_after": None if seconds is None else 1000 * seconds,
            "store": list(self.store),
        }


def item_of(number: int) -> dict[str, Any]:
    return {"id": number, "selection": f"s{number}", "alt": f"item {number}"}


@pytest.mark.parametrize("case", RULES["cases"], ids=lambda case: case["promise"])
def test_a_simulated_browser_follows_the_pages_rules(case):
    """The same cases hold for `label/flow.js`."""
    table = Table()
    for i, step in enumerate(case["steps"]):
        if "reload" in step:
            table.load()
            continue
        if "server" in step:
            table.hear(step["server"])
        else:
            assert table.answer(step["answer"]) == step.get("followed", False), i
        expected = {name: step[name] for name in step.keys() - {"server", "answer", "followed"}}
        if "store" in expected:
            expected["store"] = [key.format(*table.given) for key in expected["store"]]
        seen = table.look()
        assert {name: seen[name] for name in expected} == expected, i


def test_the_pauses_are_the_pages_own():
    """In milliseconds."""
    assert [1000 * seconds for seconds in rules.RETRY_SECONDS] == RULES["retry_ms"]
    assert RULES["poll_ms"] == 1000 * rules.POLL_SECONDS
    assert RULES["poll_ahead_ms"] == 1000 * rules.POLL_AHEAD_SECONDS


# What the log and the diaries say together


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
    """Whoever had it first."""
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
    """In milliseconds; whoever was never shown another item counts in neither."""
    given = logged[0][0].presses[0].given
    presses = [Press(given, 1.0, 1.0, 1.5), Press(given, 1.0, 2.0, 3.0), Press(given, 1.0)]
    found = waits(presses)
    assert found["waited_share"] == 0.5
    assert found["p50_ms"] == pytest.approx(500)
    assert found["p95_ms"] == pytest.approx(950)
    assert found["saved_p50_ms"] == pytest.approx(1250)
    assert waits([])["p95_ms"] is None


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_cpu_time_that_the_system_does_not_report_stays_unknown(tmp_path, monkeypatch, end):
    """It does not become zero when the server ends, and the sum over later starts is unknown, too."""
    reported = [1.5, None, 2.0]
    monkeypatch.setattr(serving, "_cpu_seconds", lambda _: reported.pop(0))
    server, found = serving.Server(tmp_path), []
    for _ in reported.copy():
        words = [sys.executable, "-c", "import time; time.sleep(60)"]
        server._process = subprocess.Popen(words, start_new_session=True)
        getattr(server, end)()
        found.append(server.cpu_seconds)
    assert found == [1.5, None, None]


def test_an_unknown_cpu_time_is_called_unknown(capsys):
    """Not zero, and not left out."""
    counts = ("annotators", "items", "labels_before", "answers", "lost", "duplicated", "misplaced", "refused")
    others = ("given_twice", "left", "kills", "seconds", "pace_seconds", "labels_per_second")
    row = dict.fromkeys((*counts, *others), 0) | {"database": "sqlite", "p95_ms": None}
    for cpu, said in ((None, "the CPU time of the server is unknown."), (3.2, "each took 3 ms of CPU time")):
        ServedTeam.show(None, [row | {"cpu_ms_per_answer": cpu}])
        assert said in capsys.readouterr().out


# The command


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("--positive", "x"), "positive must be one of the pool's classes .*, got 'x'"),
        (("--annotators", 2, "--leave", 3), "leave must be at most 2, all annotators, got 3"),
        (("--out", "{there}"), "--out must name a new folder, but .* exists already"),
        (("--database", "somewhere"), "Give the address of the database for labels, .*"),
    ],
)
def test_what_can_not_be_measured_gets_one_sentence(tmp_path, words, sentence):
    """Before a server is started."""
    words = [str(word).format(there=tmp_path) for word in words]
    result = CliRunner().invoke(main, ["bench", "team", "--pool", str(digits_pool()), *words])
    assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
    assert re.search(sentence, result.stderr)


@pytest.mark.thorough
@pytest.mark.slow
def test_a_small_team_loses_nothing_though_its_server_is_killed(tmp_path):
    """Three people for some seconds, one of whom leaves; what each did is in the log, once, and it holds."""
    file = tmp_path / "team.json"
    few = ("--annotators", 3, "--minutes", 0.1, "--pace", 0.3, "--leave", 1, "--kills", 1)
    words = map(
        str, ("bench", "team", "--pool", digits_pool(), *few, "--out", tmp_path / "kept", "--json", file)
    )
    result = aside(lambda: CliRunner().invoke(main, list(words)))
    assert result.exit_code == 0, result.output
    row = json.loads(file.read_text())
    assert row["answers"] >= 3
    wrong = ("lost", "duplicated", "misplaced", "given_twice", "refused")
    assert {name: row[name] for name in wrong} == dict.fromkeys(wrong, 0)
    assert (row["annotators"], row["left"], row["kills"], row["database"]) == (3, 1, 1, "sqlite")
    assert row["verify"]["problems"] == []
    assert row["verify"]["answers"] == row["answers"]
    assert 0 <= row["p50_ms"] <= row["p95_ms"]
    assert "The log holds." in result.output
    assert Path(tmp_path / "kept" / "server.log").exists()


def test_a_team_without_pages_answers_what_it_says(tmp_path):
    """Each answer that it counts is in the log, and the processor's time is shared out among its parts."""
    file, kept = tmp_path / "team.json", tmp_path / "kept"
    few = ("--annotators", 2, "--minutes", 0.02, "--pace", 0.1, "--labels", 20, "--persons", 2)
    words = map(
        str, ("bench", "team", "--pool", digits_pool(), "--in-process", *few, "--out", kept, "--json", file)
    )
    result = aside(lambda: CliRunner().invoke(main, list(words)))
    assert result.exit_code == 0, result.output
    row = json.loads(file.read_text())
    with Database.open(kept / LABELS_FILE, read_only=True) as database:
        given = [a for a in LabelLog(database).answers_after(1) if a.annotator != BEFORE]
        shown = {record.why for record in LabelLog(database).selections(1)}
    assert row["answers"] == row["looks"][-1]["answers"] == len(given) - 2 * 2  # two each before it begins
    assert row["refused"] == 0
    assert "overlap" in shown
    names = ("training", "selecting", "remembering", "drawing", "rest")
    parts = [row[f"{name}_ms_per_answer"] for name in names]
    assert sum(parts) == pytest.approx(row["cpu_ms_per_answer"])
    assert min(parts) >= 0


def test_growth_is_the_slope_of_what_came_after_the_caches_had_filled():
    """In 10⁶ bytes an hour, memories of sessions not counted; None where too little is known."""
    looks = [
        Look(minute, minute, 900.0 if minute < 15 else 100 + 4 * minute, 3.0 * minute, 2.0 * minute)
        for minute in range(61)
    ]
    found = growth(looks)
    assert found["memory_mb_per_hour"] == pytest.approx(60)
    assert found["log_mb_per_hour"] == pytest.approx(120)
    assert growth(looks[-2:])["memory_mb_per_hour"] is None
    unknown = [replace(look, log_mb=None) for look in looks]
    assert growth(unknown)["log_mb_per_hour"] is None
