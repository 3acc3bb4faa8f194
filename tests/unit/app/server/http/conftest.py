from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from starlette.testclient import TestClient

from closecall.app.server.http import build_api, credentials
from closecall.app.server.http.rates import Rates
from closecall.app.sessions.registry import OpenProject
from closecall.storage.records import Scope
from closecall.storage.tokens import Tokens


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch) -> Iterator[TestClient]:
    """The HTTP API, without a network."""
    monkeypatch.setattr(credentials, "_rates", Rates(per_second=1e6, burst=10**6))
    with TestClient(build_api(), raise_server_exceptions=False) as client:
        yield client


@pytest.fixture
def token(project: OpenProject) -> Callable[..., dict[str, str]]:
    """Make the header of a new token."""

    def make(scope: Scope = "own", name: str = "ada", **more: Any) -> dict[str, str]:
        return {"Authorization": f"Bearer {Tokens(project.database).create(name, scope, **more)[1]}"}

    return make
