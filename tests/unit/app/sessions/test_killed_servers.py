"""Two server processes of one project, one of which is killed again and again."""

from __future__ import annotations

import http.client
import json
import random
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from closecall.app.cli.main import main
from closecall.app.exchange.offline_project import open_labels
from closecall.app.sessions.workspace import Workspace
from closecall.storage import LabelLog
from tests import postgres
from tests.folders import ROOT
from tests.projects import new_project
from tests.scale import scaled

KILLS = scaled(quick=1, all=3, long=20)
PEOPLE = 3
BETWEEN = scaled(quick=12, all=20)
"""Answers that are stored between two kills."""


class Browsers:
    """People whose browsers ask one server or another, and send again what was not acknowledged."""

    def __init__(self, ports: dict[int, int]) -> None:
        self.ports = ports
        self.sent: list[str] = []
        self.acked: list[str] = []
        self.troubles: list[str] = []
        self.is_over = threading.Event()

    def ask(self, place: int, asked: dict[str, Any]) -> dict[str, Any] | None:
        """The reply of the server at that place, or None if it is down or can't store anything now."""
        try:
            connection = http.client.HTTPConnection("127.0.0.1", self.ports[place], timeout=60)
            connection.request("POST", "/", json.dumps(asked))
            answered = connection.getresponse()
            read = json.loads(answered.read())
            return read if answered.status == 200 else None
        except (OSError, http.client.HTTPException, ValueError):
            return None
        finally:
            connection.close()

    def insist(self, asked: dict[str, Any], rng: random.Random, *, wanders: bool) -> dict[str, Any]:
        """The reply of the first server that gives one; a browser that wanders asks any of them first."""
        place = rng.randrange(2) if wanders else asked["home"]
        while (found := self.ask(place, asked)) is None:
            place = 1 - place
            time.sleep(0.05)
        return found

    def sit(self, number: int) -> None:
        """Label until it is over: the first person's requests go to one server as to the other."""
        rng, wanders = random.Random(number), number == 0
        asked: dict[str, Any] = {"session": None, "annotator": f"person {number}", "home": number % 2}
        card = self.insist({**asked, "answers": []}, rng, wanders=wanders)
        asked["session"] = card["session"]
        while not self.is_over.is_set():
            if rng.random() < 0.6:
                until = time.monotonic() + 1
                while card["is_coming"] and time.monotonic() < until:
                    card = self.insist({**asked, "answers": []}, rng, wanders=wanders)
            item, word = card["item"], rng.choice(["yes", "no", "skip"])
            following = card["next"].get(word) if rng.random() < 0.6 else None
            given = {
                "id": str(uuid.uuid4()),
                "item": item["id"],
                "selection": item["selection"],
                "answer": word,
                "undoes": None,
                "corrects": None,
                "browser_time": int(time.time() * 1000),
                "time_taken_ms": 700,
                "next": following["selection"] if following else None,
            }
            self.sent.append(given["id"])
            while True:
                card = self.insist({**asked, "answers": [given]}, rng, wanders=wanders)
                if given["id"] in card["acked"]:
                    break
                if card["refused"]:
                    self.troubles.append(f"{number}: {card['refused']}")
                    return
            self.acked.append(given["id"])
            while card["item"] is None:  # another server had the session a moment ago
                card = self.insist({**asked, "answers": []}, rng, wanders=wanders)
            if following and card["item"] != following:
                self.troubles.append(f"{number} sees {following}, but the server shows {card['item']}")


@contextmanager
def started(folder: Path) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A server process, and its port."""
    words = [sys.executable, "-m", "tests.one_of_servers", str(folder)]
    with subprocess.Popen(words, cwd=ROOT, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield process, int(process.stdout.readline())
        finally:
            process.kill()


def test_a_killed_server_loses_nothing_and_gives_nothing_to_two(
    server: postgres.Server, tmp_path: Path
) -> None:
    """Its people go on at the other server; every answer is there once, and the log can be replayed."""
    with Workspace(tmp_path, database=server.schema()) as workspace:
        folder = new_project(workspace).folder
    ports: dict[int, int] = {}
    browsers = Browsers(ports)
    people = [threading.Thread(target=browsers.sit, args=(number,)) for number in range(PEOPLE)]
    with started(folder) as (_, ports[0]):
        for kill in range(KILLS):
            with started(folder) as (process, ports[1]):
                if not kill:
                    for person in people:
                        person.start()
                wait_for_more(browsers)
                process.kill()
            wait_for_more(browsers)
        browsers.is_over.set()
        for person in people:
            person.join()
    assert not browsers.troubles
    with open_labels(folder) as database:
        log = LabelLog(database)
        stored, selections = list(log.answers_after(1)), list(log.selections(1))
    assert sorted(answer.id for answer in stored) == sorted(browsers.sent) == sorted(browsers.acked)
    whose: dict[int, set[str]] = {}
    for selection in selections:
        whose.setdefault(selection.item, set()).add(selection.session_id)
    skipped = {answer.item for answer in stored if answer.answer == "skip"}
    assert all(len(sessions) == 1 for item, sessions in whose.items() if item not in skipped)
    assert max(Counter(answer.item for answer in stored if answer.item not in skipped).values()) == 1
    rounds = Counter((selection.session_id, selection.round) for selection in selections)
    assert set(rounds.values()) == {1}
    result = CliRunner().invoke(main, ["verify", str(folder), "--json"])
    assert result.exit_code == 0, result.output


def wait_for_more(browsers: Browsers) -> None:
    """Until some more answers are stored."""
    before, until = len(browsers.acked), time.monotonic() + 180
    while len(browsers.acked) < before + BETWEEN:
        assert not browsers.troubles
        assert time.monotonic() < until
        time.sleep(0.02)
