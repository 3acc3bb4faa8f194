"""The routes of the map page, without a server."""

from __future__ import annotations

import json

import pytest

from closecall.app.server import map as map_routes
from closecall.core.errors import InputError
from closecall.storage.errors import StorageError


class Live:
    """A map that returns what it was asked for."""

    def state(self):
        return {"version": 3}

    def tile(self, *spot, theme):
        return None if spot == (0, 0, 1) else f"{spot} {theme}".encode()

    def near(self, x, y, radius):
        return {"x": x, "y": y, "radius": radius}

    def lasso(self, corners):
        if len(corners) < 3:
            raise InputError("a lasso needs at least 3 corners")
        return {"corners": corners}


@pytest.fixture
def ask(monkeypatch):
    """Ask for a name of the routes, of a map with the key `k`; the status, the kind and the content."""
    monkeypatch.setattr(map_routes, "find_map", {"k": Live()}.get)

    def answer(name, **asked):
        response = map_routes._respond(map_routes._ANSWERS[name], {"map": "k", **asked})
        return response.status_code, response.headers.get("content-type"), response.body

    return answer


def test_each_route_passes_on_what_is_asked(ask):
    """JSON, or a picture, or nothing where there is nothing."""
    assert ask("state") == (200, "application/json", b'{"version":3}')
    spot = {"zoom": "2", "column": "1", "row": "3", "theme": "dark"}
    assert ask("tile", **spot) == (200, "image/png", b"(2, 1, 3) dark")
    assert ask("tile", zoom="0", column="0", row="1")[::2] == (204, b"")
    told = json.loads(ask("near", x="0.5", y="-1e-3", radius="2")[2])
    assert told == {"item": {"x": 0.5, "y": -0.001, "radius": 2.0}}
    status, _, body = ask("lasso", corners="0,0,1,0.5,2,0")
    assert (status, json.loads(body)) == (200, {"corners": [[0, 0], [1, 0.5], [2, 0]]})


@pytest.mark.parametrize("name", ["state", "tile", "near", "lasso"])
@pytest.mark.parametrize("key", ["", "digits", "../k", "K", "x" * 5000])
def test_no_other_key_opens_a_map(ask, name, key):
    """The page hands it out, which has asked who is there; any other key is no key."""
    status, _, body = ask(name, map=key)
    assert (status, json.loads(body)) == (404, {"problem": "There is no such map"})


@pytest.mark.parametrize(
    ("name", "asked", "sentence"),
    [
        ("tile", {}, "zoom must be a whole number, got ''"),
        ("tile", {"zoom": "-1"}, "zoom must be a whole number, got '-1'"),
        ("tile", {"zoom": "0", "column": "9" * 5000}, "column must be a whole number, got '99"),
        ("tile", {"zoom": "٣"}, "zoom must be a whole number, got '٣'"),
        ("near", {"x": "0", "y": "north", "radius": "1"}, "y must be a number, got 'north'"),
        ("lasso", {}, "corners must be a number, got ''"),
        ("lasso", {"corners": "0,0,1"}, "corners must be pairs of numbers, got 3 numbers"),
        ("lasso", {"corners": "0,0,1,1"}, "a lasso needs at least 3 corners"),
        ("lasso", {"corners": "[[0,0]]"}, "corners must be a number, got '[[0'"),
    ],
)
def test_what_is_not_understood_is_refused_in_a_sentence(ask, name, asked, sentence):
    status, _, body = ask(name, **asked)
    assert status == 400
    assert json.loads(body)["problem"].startswith(sentence)


def test_trouble_with_the_labels_is_told(ask, monkeypatch):
    """It may pass, so the status says that the page may ask again."""

    def busy(_):
        raise StorageError("the database is busy", "busy")

    monkeypatch.setattr(Live, "state", busy)
    status, _, body = ask("state")
    assert (status, json.loads(body)) == (503, {"problem": "the database is busy"})


def test_nothing_is_kept_by_the_browser(monkeypatch):
    """The next hyperplane has other colours at the same address."""
    monkeypatch.setattr(map_routes, "find_map", lambda _: Live())
    for name, asked in [("state", {}), ("tile", {"zoom": "0", "column": "0", "row": "1"})]:
        response = map_routes._respond(map_routes._ANSWERS[name], asked)
        assert response.headers["cache-control"] == "no-store"


def test_each_route_has_its_address():
    """Of all that is answered here."""
    assert [route.path for route in map_routes.routes()] == [
        "/map/state",
        "/map/tile",
        "/map/near",
        "/map/lasso",
    ]
