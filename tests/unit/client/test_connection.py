from __future__ import annotations

import pytest

from closecall.client import ApiError, ConnectionLost, NotFound
from closecall.client.connection import REPEATED, Connection
from tests.api_kit import TOKEN


@pytest.fixture
def connection(server):
    return Connection(server.url, TOKEN, timeout=30)


def test_a_request_that_is_made_once_returns_json(server, connection):
    """With parameters, or with a body."""
    assert connection.once("GET", "/projects/digits")["key"] == "digits"
    session = connection.once("POST", "/projects/digits/sessions", body={"concept": 1})
    view = connection.once("GET", f"/projects/digits/sessions/{session['id']}/next", query={"wait": 0})
    assert view["item"]["id"] == 0
    assert server.asked[-1].startswith("GET")


@pytest.mark.parametrize("fault", ["503", "500", "429"])
def test_a_status_is_an_error_at_once(server, connection, clock, fault):
    server.faults.append(fault)
    with pytest.raises(ApiError) as raised:
        connection.once("GET", "/projects/digits")
    assert raised.value.status == int(fault)
    assert raised.value.status in REPEATED
    assert (len(server.asked), clock.slept) == (1, [])


@pytest.mark.parametrize("fault", ["cut", "lost", "half"])
def test_so_is_a_lost_connection(server, connection, clock, fault):
    server.faults.append(fault)
    with pytest.raises(ConnectionLost, match="did not do the request"):
        connection.once("GET", "/projects/digits")
    assert (len(server.asked), clock.slept) == (1, [])


def test_a_wrong_address_is_the_same_error_as_otherwise(connection):
    with pytest.raises(NotFound):
        connection.once("GET", "/projects/digits/nothing")
