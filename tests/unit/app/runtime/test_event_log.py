"""Events on stderr: each line is one, and no secret is in any."""

from __future__ import annotations

import io
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from closecall.app.api.cards import submit
from closecall.app.runtime import event_log as events
from closecall.app.runtime.event_log import HIDDEN, LONGEST, Redaction, known_secrets, route_of
from tests.browser.served import free_port
from tests.projects import answer, label, new_project, open_workspace


@pytest.fixture
def heard(monkeypatch):
    """What is told from now on, as a function that gives the events so far."""
    stream, logger = io.StringIO(), logging.getLogger("closecall")
    before = (logger.handlers[:], logger.level, logger.propagate)
    monkeypatch.setattr(sys, "stderr", sys.stderr)
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(threading, "excepthook", threading.excepthook)
    events.begin(Redaction({"hunter22"}), stream)
    yield lambda: [json.loads(line) for line in stream.getvalue().splitlines()]
    logger.handlers, logger.propagate = before[0], before[2]
    logger.setLevel(before[1])


def test_what_is_printed_becomes_an_event_a_line(heard, monkeypatch):
    """Of other libraries, too; several lines that come at once stay together."""
    monkeypatch.setattr(sys, "stderr", events.StderrEvents())
    print("One line", file=sys.stderr)
    print("Traceback:\n  a\n  b", file=sys.stderr)
    print("\n", file=sys.stderr)
    other = logging.Logger("another.library")
    other.addHandler(logging.StreamHandler())
    other.warning("It is odd")
    events.emit("seen", count=3)
    told = heard()
    said = [event.get("message") for event in told[:-1]]
    assert said == ["One line", "Traceback:\n  a\n  b", "It is odd"]
    assert told[-1] == {"time": told[-1]["time"], "level": "info", "event": "seen", "count": 3}


def test_without_the_json_format_there_are_no_events():
    """Not even warnings, which Python would otherwise print without their fields."""
    told = "from closecall.app.runtime.event_log import emit; emit('problem shown', 30, kind='input')"
    ran = subprocess.run([sys.executable, "-c", told], capture_output=True, text=True, check=True)
    assert ran.stderr == ""


def test_a_crash_is_one_event_without_secrets(heard):
    """Of the main program and of threads; with where it was, without what must not be told."""

    def fail() -> None:
        raise RuntimeError("connecting to postgresql://ada:hunter22@db/labels?password=hunter22 failed")

    thread = threading.Thread(target=fail)
    thread.start()
    thread.join()
    (told,) = heard()
    assert (told["event"], told["level"], told["error"]) == ("crash", "critical", "RuntimeError")
    assert "in fail" in told["trace"]
    assert "hunter22" not in str(told)


SECRET = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=4, max_size=40)


@given(secret=SECRET, before=st.text(max_size=20), after=st.text(max_size=20))
def test_a_secret_that_is_known_is_never_told(secret, before, after):
    """Wherever it stands; only what hides it may happen to look alike."""
    cleaned = Redaction([secret]).clean({"a": [f"{before}{secret}{after}"], before + secret: 1})
    told = "\n".join([*cleaned, *cleaned["a"]])
    assert HIDDEN in told
    assert secret not in re.sub(r"\*{3,}", " ", told)  # no secret has a space


@pytest.mark.parametrize(
    "text",
    [
        "postgresql://ada:{}@db.example.org/labels",
        "postgresql+psycopg://ada:{}@/labels?host=/tmp",
        "connection to postgresql://db/labels?user=ada&password={} failed",
        "GET /oauth2callback?code={}&state=1 HTTP/1.1",
        "https://login.example.org/token?client_secret={}",
        "host=db password={} dbname=labels",
        "password = '{} with a space'",
        '{{"client_secret": "{}"}}',
        "{{'cookie_secret': '{}'}}",
        "Authorization: Bearer {}",
        "authorization='Basic {}'",
        "Cookie: _streamlit_user={}; a=b",
        "_streamlit_xsrf={}; Path=/",
        "Set-Cookie: x={}",
        "api_key={}",
        "token:{}",
        "id token eyJ{0}.eyJ{0}.{0}",
    ],
)
def test_what_looks_like_a_secret_is_not_told(text):
    """Nobody has to know it beforehand."""
    assert "s3cr3tV4lu3" not in Redaction()(text.format("s3cr3tV4lu3"))


def test_what_is_no_secret_stays():
    """And nothing is endless."""
    for text in ("/home/ada/labels.db: the disk is full", "Is it a 7? No", "3 of 4 items", "12:30:15"):
        assert Redaction()(text) == text
    assert len(Redaction()("a" * 10 * LONGEST)) == LONGEST + 1


def test_a_request_is_told_by_its_route_alone():
    """What stands below may be a key; what is none of ours is nobody's business."""
    assert route_of("/race") == "/race"
    assert route_of("/_stcore/upload_file/session/file") == "/_stcore/upload_file/…"
    assert route_of("/modules/0123456789abcdef/label/card.js") == "/modules/…"
    assert route_of("/media/4711.png") == "/media/…"
    assert route_of("/wp-admin/s3cr3t") == "other"


def test_secrets_are_found_where_they_are_kept(tmp_path):
    """All that secrets.toml has but what everybody may know; and the database's password."""
    file = tmp_path / "secrets.toml"
    file.write_text(
        '[auth]\nclient_secret = "abcd1"\ncookie_secret = "abcd2"\nclient_id = "open"\n'
        'redirect_uri = "http://x/oauth2callback"\n[auth.other]\nclient_secret = "abcd3"\n[smtp]\n'
        'key = "abcd4"\n'
    )
    known = known_secrets({"PGPASSWORD": "abcd5"}, [file, tmp_path / "none.toml"])
    assert known == {"abcd1", "abcd2", "abcd3", "abcd4", "abcd5"}


def test_answers_are_counted_not_told(tmp_path, heard):
    """How many were stored and refused, and why; slow selections too."""
    with open_workspace(tmp_path) as workspace:
        session = new_project(workspace).session(annotator="hunter22")
        card = label(session, 1)
        given = answer(card, "yes")
        submit(session, [given])
        submit(session, [given, given | {"answer": "no"}, answer(card, "no"), {"id": "?"}])
    told = [event for event in heard() if event["event"].startswith("answers")]
    assert [event["stored"] for event in told if event["event"] == "answers"] == [1, 1, 0]
    assert told[0]["sessions"] == [session.id]
    assert told[-1]["kinds"] == {"conflict": 2, "malformed": 1}
    assert not {"yes", "no", given["id"], "hunter22"} & {str(value) for e in told for value in e.values()}


def test_a_slow_selection_is_told(tmp_path, heard, monkeypatch):
    """With what it did, for whoever wonders why a page waits."""
    monkeypatch.setattr("closecall.app.sessions.session_state.SLOW_MS", -1.0)
    with open_workspace(tmp_path) as workspace:
        label(new_project(workspace).session(), 1)
    slow = [event for event in heard() if event["event"] == "slow selection"]
    assert {"session", "strategy", "labels", "scored", "retrain_ms", "selection_ms"} <= set(slow[0])


SECRETS = """
[auth]
redirect_uri = "http://127.0.0.1/oauth2callback"
cookie_secret = "c00kie-secret-of-the-test-and-long-enough"
client_id = "closecall"
client_secret = "cl1ent-secret-of-the-test"
server_metadata_url = "http://127.0.0.1:9/.well-known/openid-configuration"
"""


@pytest.mark.slow
def test_a_server_s_log_has_no_secrets(tmp_path):
    """The real one, asked with secrets in every place where a request may have some."""
    with open_workspace(tmp_path / "projects") as workspace:
        key = new_project(workspace).key
    (tmp_path / ".streamlit").mkdir()
    (tmp_path / ".streamlit" / "secrets.toml").write_text(SECRETS)
    port = free_port()
    environment = {**os.environ, "HOME": str(tmp_path), "PGPASSWORD": "pg-secret-of-the-test"}
    command = [
        sys.executable,
        "-m",
        "closecall.app.cli",
        "serve",
        str(tmp_path / "projects" / key),
        "--headless",
    ]
    with (tmp_path / "stderr").open("wb") as said:
        server = subprocess.Popen(
            [*command, "--port", str(port), "--log-format", "json"],
            stdout=subprocess.PIPE,
            stderr=said,
            env=environment,
        )
    try:
        _wait_for(tmp_path / "stderr", '"serving"')
        for path in (
            "/healthz?token=t0ken-of-the-test",
            "/race?race=t0ken-of-the-test&since=0",
            "/oauth2callback?code=t0ken-of-the-test&state=t0ken-of-the-test",
            "/auth/login?next=t0ken-of-the-test",
            "/_stcore/upload_file/t0ken-of-the-test/1",
            "/media/t0ken-of-the-test.png",
            "/t0ken-of-the-test",
        ):
            asked = urllib.request.Request(
                f"http://127.0.0.1:{port}{path}",
                headers={
                    "Cookie": "_streamlit_user=t0ken-of-the-test; _streamlit_xsrf=t0ken-of-the-test",
                    "Authorization": "Bearer t0ken-of-the-test",
                    "Referer": "http://x/?t0ken-of-the-test",
                },
            )
            try:
                urllib.request.urlopen(asked, timeout=120).close()
            except urllib.error.HTTPError as error:
                error.close()
        server.send_signal(signal.SIGTERM)
        out, _ = server.communicate(timeout=300)
    finally:
        server.kill()
        server.wait()
    lines = (tmp_path / "stderr").read_text("utf-8").splitlines()
    told = [json.loads(line) for line in lines]
    assert {event["event"] for event in told} >= {"serving", "request"}
    routes = {event["route"] for event in told if event["event"] == "request"}
    assert routes >= {"/healthz", "/race", "/oauth2callback", "/media/…", "other"}
    assert "of-the-test" not in "".join(lines) + out.decode()


def _wait_for(file: Path, word: str) -> None:
    import time

    until = time.monotonic() + 120
    while word not in file.read_text("utf-8"):
        assert time.monotonic() < until, file.read_text("utf-8")
        time.sleep(0.1)
