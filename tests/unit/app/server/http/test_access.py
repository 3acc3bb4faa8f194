"""Who may do what: each route, with each credential."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.testclient import TestClient

from closecall.app.projects.config import ProjectFile
from closecall.app.projects.roles import Person
from closecall.app.server.http import build_api
from closecall.app.server.http.rates import Rates
from closecall.app.server.origin_guard import Guard
from closecall.app.sessions.workspace import Workspace
from closecall.storage.tokens import Tokens
from tests.projects import new_project, open_workspace

OWNER, ANNOTATOR = "ada", "bob"

NEEDED = {
    ("GET", "/projects/{project}"): "read",
    ("GET", "/projects/{project}/concepts"): "read",
    ("POST", "/projects/{project}/concepts"): "own",
    ("GET", "/projects/{project}/concepts/{concept}"): "read",
    ("GET", "/projects/{project}/concepts/{concept}/answers"): "read",
    ("GET", "/projects/{project}/concepts/{concept}/labels"): "read",
    ("POST", "/projects/{project}/concepts/{concept}/labels"): "own",
    ("GET", "/projects/{project}/concepts/{concept}/predictions"): "read",
    ("POST", "/projects/{project}/concepts/{concept}/predictions"): "own",
    ("GET", "/projects/{project}/concepts/{concept}/progress"): "read",
    ("PUT", "/projects/{project}/concepts/{concept}/audit"): "own",
    ("GET", "/projects/{project}/concepts/{concept}/people"): "read",
    ("GET", "/projects/{project}/concepts/{concept}/model"): "read",
    ("GET", "/projects/{project}/export"): "read",
    ("GET", "/projects/{project}/items"): "read",
    ("GET", "/projects/{project}/items/{item}"): "read",
    ("GET", "/projects/{project}/items/{item}/image"): "read",
    ("GET", "/projects/{project}/webhooks"): "own",
    ("POST", "/projects/{project}/webhooks"): "own",
    ("DELETE", "/projects/{project}/webhooks/{webhook}"): "own",
    ("GET", "/projects/{project}/sessions"): "read",
    ("POST", "/projects/{project}/sessions"): "label",
    ("GET", "/projects/{project}/sessions/{session}"): "read",
    ("PATCH", "/projects/{project}/sessions/{session}"): "label",
    ("GET", "/projects/{project}/sessions/{session}/next"): "label",
    ("GET", "/projects/{project}/sessions/{session}/card"): "label",
    ("POST", "/projects/{project}/sessions/{session}/card"): "label",
    ("GET", "/projects/{project}/sessions/{session}/ahead"): "label",
    ("POST", "/projects/{project}/sessions/{session}/leave"): "label",
    ("POST", "/projects/{project}/answers"): "label",
}
"""The scope that each route needs. A new route must be added here."""

ELSEWHERE = {("GET", "/projects"), ("GET", "/projects/{project}/events")}
"""Routes that other tests try: the list of projects, and a stream that does not end by itself."""

NAMES = [" ".join(route) for route in NEEDED]

BODIES: dict[str, Any] = {
    "/projects/{project}/concepts": {"question": "Is this a 3?"},
    "/projects/{project}/concepts/{concept}/labels": {"labels": [{"item": "ITEM", "label": "yes"}]},
    "/projects/{project}/concepts/{concept}/predictions": {
        "model": "m",
        "predictions": [{"item": "ITEM", "score": 0.5}],
    },
    "/projects/{project}/concepts/{concept}/audit": {"share": 0.5},
    "/projects/{project}/webhooks": {"url": "http://127.0.0.1:9/events"},
    "/projects/{project}/sessions": {},
    "/projects/{project}/sessions/{session}": {"include_skipped": True},
    "/projects/{project}/sessions/{session}/card": {},
    "/projects/{project}/answers": {"answers": []},
}
QUERIES = {
    "/projects/{project}/concepts/{concept}/predictions": {"model": "m"},
    "/projects/{project}/items": {"name": "digit"},
    "/projects/{project}/sessions/{session}/ahead": {"selection": "x"},
}
SCOPES = ("read", "label", "own")

EVERYBODYS = {
    ("GET", "/projects/{project}/concepts/{concept}/answers"),
    ("GET", "/projects/{project}/concepts/{concept}/labels"),
    ("GET", "/projects/{project}/export"),
}
"""Routes that tell what others answered: a page's key opens them for owners only."""


@dataclass(frozen=True)
class Place:
    """A project with an owner and an annotator, and what asks about it."""

    workspace: Workspace
    project: Any
    client: TestClient

    def ask(self, method: str, path: str, headers: dict[str, str], person: str = ANNOTATOR) -> int:
        session = self.project.session_of(Person(person)).id
        item = int(self.project.pool.ids[0])
        place = path.format(
            project=self.project.key,
            session=session,
            concept=self.project.concepts()[0].id,
            item=item,
            webhook=7,
        )
        body = BODIES.get(path) if method in ("POST", "PUT", "PATCH") else None
        body = json.loads(json.dumps(body).replace('"ITEM"', str(item)))
        query = QUERIES.get(path, {}) if method == "GET" else {}
        return self.client.request(method, place, json=body, params=query, headers=headers).status_code

    def token(self, name: str, scope: str) -> dict[str, str]:
        _, text = Tokens(self.project.database).create(name, scope)  # type: ignore[arg-type]
        return {"Authorization": f"Bearer {text}"}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("access")
    with open_workspace(folder) as workspace:
        key = new_project(workspace).key
    ProjectFile.change(folder / key, owners=[OWNER], annotators=[ANNOTATOR])
    with open_workspace(folder) as workspace, pytest.MonkeyPatch.context() as patch:
        patch.setattr("closecall.app.server.http.credentials._rates", Rates(1e6, 10**6))
        project = workspace.project(key)
        yield Place(workspace, project, TestClient(build_api(), raise_server_exceptions=False))


def test_every_route_is_in_the_table():
    paths = build_api().openapi()["paths"]
    routes = {(method.upper(), path) for path, methods in paths.items() for method in methods}
    assert routes - ELSEWHERE == NEEDED.keys()


@pytest.mark.parametrize(("method", "path"), NEEDED, ids=NAMES)
def test_a_credential_permits_what_its_scope_and_the_persons_role_permit(place: Place, method, path):
    needed = NEEDED[method, path]
    assert place.ask(method, path, {}) == 401
    assert place.ask(method, path, {"Authorization": "Bearer cc_made_up"}) == 401
    for scope in SCOPES:
        for person in (OWNER, ANNOTATOR):
            status = place.ask(method, path, place.token(person, scope), person)
            may = SCOPES.index(scope) >= SCOPES.index(needed) and (needed != "own" or person == OWNER)
            if may:
                assert status in (200, 201, 204, 404, 409), (scope, person)
            else:
                assert status == 403, (scope, person)
    for person in (OWNER, ANNOTATOR):
        key = {"X-Closecall-Page": place.project.page_keys.make(person)}
        status = place.ask(method, path, key, person)
        may = person == OWNER or (needed != "own" and (method, path) not in EVERYBODYS)
        assert (status != 403) == may, person


@pytest.mark.parametrize(("method", "path"), NEEDED, ids=NAMES)
def test_a_person_who_may_not_enter_the_project_may_do_nothing(place: Place, method, path):
    assert place.ask(method, path, place.token("eve", "own")) == 403
    assert place.ask(method, path, {"X-Closecall-Page": place.project.page_keys.make("eve")}) == 403


def test_a_token_opens_its_project_only(place: Place):
    other = new_project(place.workspace, "Is this a 4?")
    theirs = place.token(OWNER, "own")
    assert place.client.get(f"/projects/{other.key}", headers=theirs).status_code == 401
    listed = place.client.get("/projects", headers=theirs).json()["projects"]
    assert [one["key"] for one in listed] == [place.project.key]
    assert place.client.get("/projects", headers={"Authorization": "Bearer cc_x"}).status_code == 401
    assert place.client.get("/projects/nothing", headers=theirs).status_code == 401


def test_a_token_that_was_revoked_or_has_expired_opens_nothing(place: Place):
    now = 1_000_000
    tokens = Tokens(place.project.database, clock=lambda: now)
    record, text = tokens.create(OWNER, "read", expires=now + 10)
    assert tokens.find(text) == record
    now += 10
    assert tokens.find(text) is None
    headers = place.token(OWNER, "read")
    assert place.ask("GET", "/projects/{project}", headers) == 200
    Tokens(place.project.database).revoke(Tokens(place.project.database).all()[-1].id)
    assert place.ask("GET", "/projects/{project}", headers) == 401


def test_requests_from_pages_of_other_sites_are_refused(place: Place):
    """Even with a valid credential: a browser adds the header Origin, and a page can't change it."""
    from starlette.applications import Starlette
    from starlette.routing import Mount

    guarded = Guard(
        Starlette(routes=[Mount("/api/v1", build_api())]), names={"here"}, sites=["proxy.example.org"]
    )
    client = TestClient(guarded, base_url="http://here:8501")
    path = f"/api/v1/projects/{place.project.key}"
    for headers in (place.token(OWNER, "own"), {"X-Closecall-Page": place.project.page_keys.make(OWNER)}):
        for origin in ("http://evil.example", "http://here:8502", "null", "https://here.evil.example", ""):
            refused = client.get(path, headers=headers | {"Origin": origin})
            assert refused.status_code == 403, origin
            assert refused.headers["content-type"] == "application/problem+json"
        for origin in ("http://here:8501", "https://proxy.example.org"):
            assert client.get(path, headers=headers | {"Origin": origin}).status_code == 200, origin
        assert client.get(path, headers=headers).status_code == 200
        assert client.get(path, headers=headers | {"Host": "evil.example"}).status_code == 421


def test_no_response_permits_other_sites_to_read_it(place: Place):
    answer = place.client.options(
        f"/projects/{place.project.key}",
        headers={"Origin": "http://evil.example", "Access-Control-Request-Method": "GET"},
    )
    assert not [name for name in answer.headers if name.startswith("access-control")]
    assert answer.status_code == 405


def test_too_many_requests_are_told_to_wait(place: Place, monkeypatch: pytest.MonkeyPatch):
    now = 0.0
    monkeypatch.setattr(
        "closecall.app.server.http.credentials._rates", Rates(per_second=2, burst=3, clock=lambda: now)
    )
    one, other = place.token(OWNER, "read"), place.token(OWNER, "read")
    path = "/projects/{project}"
    assert [place.ask("GET", path, one) for _ in range(4)] == [200, 200, 200, 429]
    assert place.ask("GET", path, other) == 200
    now += 0.5
    assert [place.ask("GET", path, one) for _ in range(2)] == [200, 429]
    refused = place.client.get(f"/projects/{place.project.key}", headers=one)
    assert refused.headers["retry-after"] == "1"
