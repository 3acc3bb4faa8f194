from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from closecall.client import Client, Project
from tests.api_kit import TOKEN, FakeServer, fake_server

TIMEOUT = 30.0


class Clock:
    """A clock on which nobody waits: to sleep moves it forward."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        return self.now

    def time(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


@pytest.fixture(autouse=True)
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    """The client's clock in each test."""
    made = Clock()
    for module in ("patience", "session"):
        monkeypatch.setattr(f"closecall.client.{module}.time", made)
    return made


@pytest.fixture
def server() -> Iterator[FakeServer]:
    with fake_server() as made:
        yield made


@pytest.fixture
def client(server: FakeServer) -> Iterator[Client]:
    with Client(server.url, TOKEN, timeout=TIMEOUT) as made:
        yield made


@pytest.fixture
def project(client: Client) -> Project:
    return client.project("digits")
