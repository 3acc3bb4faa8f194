"""Every address that the server answers: none of them leads to another project, to a file, or to a right."""

from __future__ import annotations

import http.client
import json
import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image

from closecall.app.api.cards import card_of
from closecall.app.api.compare.race import LiveRace, find_race
from closecall.app.api.submit import take
from closecall.app.components.modules import FOLDER, address_of, digest
from closecall.app.projects.roles import Person, Roles
from closecall.app.server.asgi import LARGEST_UPLOAD_MB, server_config
from closecall.app.sessions.workspace import Workspace
from closecall.core.errors import InputError
from closecall.core.selection import make_strategy
from closecall.core.sources import source_from
from tests.browser.served import free_port
from tests.projects import answer, label, new_project, open_workspace

pytestmark = pytest.mark.slow

SECRET = "nobody-is-to-read-this"


@pytest.fixture(scope="module")
def port(tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """``closecall serve`` for one of two projects, its environment set to open doors."""
    folder = tmp_path_factory.mktemp("routes")
    with open_workspace(folder / "projects") as workspace:
        mine, other = new_project(workspace), new_project(workspace, f"Is it {SECRET}?")
        label(other.session(annotator=SECRET), 3)
        key = mine.key
    (folder / "projects" / "secret.txt").write_text(SECRET)
    port = free_port()
    doors = {
        "STREAMLIT_SERVER_ENABLE_AGENT_API": "true",
        "STREAMLIT_SERVER_ENABLE_STATIC_SERVING": "true",
        "STREAMLIT_SERVER_ENABLE_CORS": "false",
        "STREAMLIT_SERVER_ENABLE_XSRF_PROTECTION": "false",
        "STREAMLIT_SERVER_TRUSTED_USER_HEADERS": '{"x-user": "email"}',
    }
    command = ["serve", str(folder / "projects" / key), "--owner", "ada", "--headless", "--port", str(port)]
    process = subprocess.Popen(
        [sys.executable, "-m", "closecall.app.cli", *command],
        env={**os.environ, **doors},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    until = time.monotonic() + 180
    while True:
        try:
            if ask(port, "GET", "/healthz")[0] == 200:
                break
        except OSError:
            time.sleep(0.1)
        assert process.poll() is None
        assert time.monotonic() < until
    yield port
    process.terminate()
    process.wait(timeout=60)


def ask(
    port: int, method: str, path: str, body: bytes = b"", **headers: str
) -> tuple[int, bytes, dict[str, str]]:
    """A request as it is: paths are not tidied up."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, path, body, named)
        answer = connection.getresponse()
        return answer.status, answer.read(), {name.lower(): value for name, value in answer.getheaders()}
    finally:
        connection.close()


ANYWHERE = ("/", "/projects", "/review", "/people", "/media/", "/static/", "/component/", "/app/static/")
FILES = (
    "etc/passwd",
    "labels.db",
    "project.json",
    "pool/pool.json",
    "secret.txt",
    "../secret.txt",
    "..%2f..%2fsecret.txt",
    "%2e%2e/%2e%2e/secret.txt",
    "..\\..\\secret.txt",
    "....//secret.txt",
    "/etc/passwd",
    "%00secret.txt",
    "main.py",
)


@pytest.mark.parametrize(
    "folder",
    [*ANYWHERE, "/modules/", f"/modules/{digest()}/", "/_stcore/bidi-components/", "/_stcore/", "//"],
)
def test_no_file_is_read_through_the_server(port, folder):
    """Neither of a project nor of the machine nor of the program, however the path is written."""
    for file in FILES:
        status, body, _ = ask(port, "GET", folder + file)
        assert SECRET.encode() not in body
        assert b"root:" not in body
        assert b"SQLite format" not in body
        assert b"st.set_page_config" not in body
        assert status in (200, 301, 302, 307, 400, 403, 404), (folder + file, status)
        if status == 200:  # a page's address, whichever: it is the same for all
            assert b"<!doctype html>" in body.lower()


def test_modules_are_kept_for_good_and_nothing_else_is_there(port):
    """Another version's modules have other addresses; beside them there are only 404s."""
    status, body, headers = ask(port, "GET", f"/{address_of('label/card.js')}")
    assert (status, body) == (200, (FOLDER / "label" / "card.js").read_bytes())
    assert headers["content-type"].startswith("text/javascript")
    assert "immutable" in headers["cache-control"]
    here = f"/modules/{digest()}"
    for path in (f"{here}/label/card.html", f"{here}/__init__.py", f"{here}/"):
        status, body, headers = ask(port, "GET", path)
        assert (status, body) == (404, b"There is no such module"), path
        assert "cache-control" not in headers
    assert ask(port, "GET", f"/modules/{'0' * 16}/label/card.js")[0] == 404


def test_health_names_nothing(port):
    """Whoever asks learns how many, not which."""
    status, body, _ = ask(port, "GET", "/healthz")
    assert status == 200
    assert set(json.loads(body)) == {
        "status",
        "version",
        "projects",
        "databases",
        "pools",
        "device",
        "load",
        "uptime_seconds",
    }
    assert json.loads(body)["projects"] == 1
    assert ask(port, "POST", "/healthz")[0] == 405


@pytest.mark.parametrize("since", ["", "0", "-1", "1e3", "9" * 5000, "٣", "a"])
@pytest.mark.parametrize("race", ["", "digits", "1", "../x", "%00", "x" * 5000])
def test_a_race_is_seen_by_whoever_knows_its_key(port, race, since):
    """What is no key, and what is no number, get the same answer."""
    from urllib.parse import quote

    status, body, headers = ask(port, "GET", f"/race?race={race}&since={quote(since)}&pictures=1")
    assert (status, json.loads(body)) == (404, {"problem": "There is no such race"})
    assert "access-control-allow-origin" not in headers


@pytest.mark.parametrize("name", ["state", "tile", "near", "lasso"])
def test_a_map_needs_its_key(port, name):
    """What is no key gets the same answer, whatever else is asked."""
    for key in ("", "digits", "../x", "%00", "K", "x" * 5000):
        status, body, headers = ask(port, "GET", f"/map/{name}?map={key}&zoom=0&corners=1")
        assert (status, json.loads(body)) == (404, {"problem": "There is no such map"})
        assert "access-control-allow-origin" not in headers
    assert ask(port, "POST", f"/map/{name}")[0] == 405


def test_keys_of_races_can_t_be_guessed(tmp_path):
    """128 bits and more of chance; a race that is gone is gone."""
    with open_workspace(tmp_path) as workspace:
        session = new_project(workspace).session()
        pool = session.project.pool
        strategies = {"random": make_strategy("random").fit(pool)}
        keys = set()
        for _ in range(3):
            race = LiveRace(session, strategies, n_first=1)
            assert find_race(race.key) is race
            keys.add(race.key)
        assert len(keys) == 3
        assert all(len(key) >= 22 for key in keys)
        key = race.key
        del race
        assert find_race(key) is None


def test_nothing_is_driven_without_a_page(port):
    """Streamlit's interface for programs is off, whatever the environment says."""
    for name in ("interact", "mcp", "openapi.json"):
        for method in ("GET", "POST"):
            body = b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"}'
            path = f"/_stcore/agent/{name}"
            status, said, _ = ask(port, method, path, body, Content_Type="application/json")
            is_off = status in (400, 403, 404, 405, 501) or b"enableAgentApi" in said
            assert is_off, (path, method, said)
            assert SECRET.encode() not in said


def test_uploads_need_a_page_and_its_token(port):
    """Without a session nothing is taken; without the token that only our own pages can read neither."""
    for session in ("nobody", "../../x", "1"):
        path = f"/_stcore/upload_file/{session}/1"
        assert ask(port, "PUT", path, b"x" * 100)[0] in (400, 403)
        assert ask(port, "DELETE", path)[0] in (400, 403, 404)
        status, body, _ = ask(port, "GET", path)
        assert status in (400, 404, 405) or b"<!doctype html>" in body.lower()
    assert server_config("127.0.0.1", 1)["server.maxUploadSize"] == LARGEST_UPLOAD_MB


def test_nobody_is_told_about_the_people_who_use_the_pages(port):
    """Streamlit's metrics are closed, however their address is written."""
    assert ask(port, "GET", "/_stcore/health")[0] == 200
    for path in ("/_stcore/metrics", "/_stcore/metrics/", "/_stcore/metrics?families=session_duration"):
        for method in ("GET", "HEAD", "POST", "OPTIONS"):
            assert ask(port, method, path)[0] == 404, (method, path)
    for path in ("//_stcore/metrics", "/_stcore/./metrics", "/_stcore//metrics", "/_stcore/%6detrics"):
        _, said, headers = ask(port, "GET", path)
        assert "openmetrics" not in headers.get("content-type", ""), path
        assert b"cache_memory" not in said, path


def test_other_sites_get_no_leave_to_read(port):
    """No answer says that a page from elsewhere may read it."""
    module = f"/{address_of('label/card.js')}"
    streamlits = ("/_stcore/health", "/_stcore/host-config", "/_stcore/metrics")
    for path in ("/", "/healthz", "/race", "/map/state", module, *streamlits):
        _, body, headers = ask(port, "GET", path, Origin="http://evil.example")
        assert headers.get("access-control-allow-origin") in (None, f"http://127.0.0.1:{port}"), path
        assert SECRET.encode() not in body


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/review",
        "/healthz",
        "/race",
        "/map/tile",
        "/_stcore/health",
        "/static/none.js",
        "/media/none",
        "/favicon.png",
    ],
)
def test_no_other_site_may_frame_what_the_server_sends(port, path):
    """Pages, static files and what is missing alike: a click in a frame would be an answer."""
    _, _, headers = ask(port, "GET", path)
    assert "frame-ancestors 'self'" in headers["content-security-policy"]
    assert headers["x-frame-options"] == "SAMEORIGIN"


def test_a_connection_is_refused_to_other_sites(port):
    """And to what asks for this machine by another's name."""
    own = f"127.0.0.1:{port}"
    assert _upgrade(port, own, f"http://{own}") == 101
    assert _upgrade(port, own, "http://evil.example") == 403
    assert _upgrade(port, own, "http://localhost:3000") == 403
    assert _upgrade(port, "evil.example", "http://evil.example") == 403
    assert ask(port, "GET", "/", Host="evil.example")[0] == 421


def _upgrade(port: int, host: str, origin: str) -> int:
    """The status of a request to open the page's connection."""
    with socket.create_connection(("127.0.0.1", port), timeout=60) as asked:
        lines = [
            "GET /_stcore/stream HTTP/1.1",
            f"Host: {host}",
            f"Origin: {origin}",
            "Upgrade: websocket",
            "Connection: Upgrade",
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
            "Sec-WebSocket-Version: 13",
        ]
        asked.sendall("\r\n".join([*lines, "", ""]).encode())
        return int(asked.recv(100).split()[1])


def test_a_session_of_one_project_means_nothing_in_another(tmp_path):
    """Its id opens a new one, its answers are not stored, what it was shown can't be answered."""
    with open_workspace(tmp_path) as workspace:
        mine, other = new_project(workspace), new_project(workspace)
        bob = Person("bob")
        theirs, own = other.session(annotator="bob"), mine.session(annotator="bob")
        shown = card_of(theirs)
        assert mine.known_session(theirs.id, bob) is None
        assert mine.session_of(bob, theirs.id).id != theirs.id
        card = take(mine, own, [answer(shown, "yes", session=theirs.id)], bob)
        assert (card["acked"], card["refused"]) == ([], [])
        card = take(mine, own, [answer(shown, "yes", session=own.id)], bob)
        assert card["acked"] == []
        assert "no selection" in card["refused"][0]["reason"]
        assert (mine.log.position(), other.log.position()) == (0, 0)


def test_what_a_browser_says_makes_nobody_an_owner(tmp_path):
    """Purposes, names and decisions in an answer are not taken at its word."""
    with Workspace(tmp_path, roles=Roles.of(["ada"])) as workspace:
        project = new_project(workspace)
        bob = project.roles.person("bob")
        session = project.session(annotator="bob")
        claims = {"annotator": "ada", "purpose": "decision", "is_owner": True, "name": "ada"}
        with_claims = answer(card_of(session), "yes", session=session.id, **claims)
        take(project, session, [with_claims], bob)
        for row in project.log.log_rows():
            assert (row.answer.annotator, row.answer.purpose) == ("bob", "train")
        decided = answer(card_of(session), "yes", session=session.id, purpose="decision", decision=True)
        for view in (session, project.decisions(session)):
            try:
                card = take(project, view, [decided], bob)
            except InputError:
                continue
            assert "decision" not in {row.answer.purpose for row in project.log.log_rows()}
            assert card["concept"]["id"] == session.concept.record.id


def test_every_route_is_known():
    """A route that joins Streamlit's or ours has to be looked at, and tried above."""
    from closecall.app.server.asgi import build_app

    ours = {route.path for route in build_app()._user_routes}
    maps = {f"/map/{name}" for name in ("state", "tile", "near", "lasso")}
    assert ours == {"/api/v1", "/healthz", "/image", "/race", "/modules/{digest}/{name:path}", *maps}


def test_a_link_in_a_folder_of_images_shows_no_other_file(tmp_path):
    """Links are not followed, and a file that became one later is not shown."""
    outside, images = tmp_path / "outside.png", tmp_path / "images"
    images.mkdir()
    Image.new("RGB", (8, 8), "red").save(outside)
    for name in ("a.png", "b.png"):
        Image.new("RGB", (8, 8), "blue").save(images / name)
    (images / "link.png").symlink_to(outside)
    (images / "linked").symlink_to(tmp_path)
    source = source_from(str(images))
    assert sorted(source.name(item) for item in range(len(source))) == ["a.png", "b.png"]
    item = next(item for item in range(2) if source.name(item) == "a.png")
    (images / "a.png").unlink()
    (images / "a.png").symlink_to(outside)
    with pytest.raises(InputError, match="leads outside the folder"):
        source.image(item, 8)
    with pytest.raises(InputError, match="leads outside the folder"):
        source.original(item)
    named = tmp_path / "images" / "list.txt"
    np_file = tmp_path / "features.npy"
    np.save(np_file, np.eye(1, 4, dtype=np.float32))
    for line in ("../outside.png", str(outside), "link.png"):
        named.write_text(line + "\n")
        with pytest.raises(InputError):
            source_from(f"arrays:{np_file},{named}").image(0, 8)
