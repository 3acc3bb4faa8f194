"""The OpenAPI document against the routes: requests that it allows, and others, are answered as it says."""

from __future__ import annotations

import zlib
from urllib.parse import unquote

import pytest
import schemathesis
from hypothesis import HealthCheck, settings
from schemathesis import GenerationMode
from schemathesis.specs.openapi.checks import (
    ignored_auth,
    missing_required_header,
    negative_data_rejection,
    positive_data_acceptance,
)
from starlette.applications import Starlette
from starlette.routing import Mount
from starlette.testclient import TestClient

from closecall.app.server.http import ROOT, build_api, credentials
from closecall.app.server.http.rates import Rates
from closecall.storage.tokens import Tokens
from tests.projects import label, new_project, open_workspace
from tests.scale import scaled

CREDENTIALS = ("authorization", "x-closecall-page")

EXAMPLES = scaled(quick=4, all=10, long=400)

ELSEWHERE = [ignored_auth, missing_required_header, positive_data_acceptance]
"""What `test_access` checks for each route, and what no document can say, such as names of strategies."""

IN_PARTS = (
    "POST /projects/{project}/answers",
    "POST /projects/{project}/sessions/{session}/card",
    "POST /projects/{project}/concepts/{concept}/labels",
    "POST /projects/{project}/concepts/{concept}/predictions",
)
"""Answers are refused one by one, and rows by the sentences for a file; both are tested elsewhere."""

app = Starlette(routes=[Mount(ROOT, build_api())])
schema = schemathesis.openapi.from_asgi(f"{ROOT}/openapi.json", app)
schema = schema.exclude(path_regex="/events$")  # a stream that does not end by itself


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory):
    """A project with labels, the addresses of what is in it, and a token for everything."""
    with (
        open_workspace(tmp_path_factory.mktemp("schema")) as workspace,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(credentials, "_rates", Rates(1e9, 10**9))
        project = new_project(workspace)
        session = project.session(annotator="ada")
        label(session, 6)
        _, token = Tokens(project.database).create("ada", "own")
        parts = {
            "project": project.key,
            "session": session.id,
            "concept": project.concepts()[0].id,
            "item": int(project.pool.ids[0]),
        }
        yield parts, {"Authorization": f"Bearer {token}"}


@pytest.mark.parametrize("with_token", [True, False], ids=["with a token", "without a token"])
@schema.parametrize()
@settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=list(HealthCheck),
    derandomize=True,
)
def test_requests_are_answered_as_the_document_says(case, place, with_token):
    parts, headers = place
    is_positive = case.meta is None or case.meta.generation.mode is GenerationMode.POSITIVE
    for name, text in (case.path_parameters or {}).items():
        is_real = is_positive and zlib.crc32(str(text).encode()) % 4
        if name in parts and (is_real or "\n" in unquote(str(text))):  # a route never matches a line's end
            case.path_parameters[name] = parts[name]
    others = {name: text for name, text in (case.headers or {}).items() if name.lower() not in CREDENTIALS}
    case.headers = others | (headers if with_token else {})
    excluded = [*ELSEWHERE, negative_data_rejection] if case.operation.label in IN_PARTS else ELSEWHERE
    response = case.call_and_validate(excluded_checks=excluded)
    if not with_token:
        assert response.status_code in (400, 401, 404, 405, 422)


def test_the_document_can_be_read_without_a_token():
    assert TestClient(app).get(f"{ROOT}/openapi.json").status_code == 200
