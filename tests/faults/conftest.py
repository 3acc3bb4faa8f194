from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from unittest import mock

import pytest

from tests.faults.injection import Faults
from tests.faults.world import Servers, World, made, template
from tests.unit.conftest import server

__all__ = ["server"]


@pytest.fixture(autouse=True)
def quick_and_repeatable(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is drawn is the same each time, what is waited for is there, and nobody is too fast."""
    monkeypatch.setattr("secrets.randbelow", lambda _: 3)
    monkeypatch.setattr("closecall.app.sessions.labeling.LabelingSession.DEFAULT", "exhaustive")
    monkeypatch.setattr("closecall.app.sessions.item_view.AHEAD_SECONDS", 10.0)
    monkeypatch.setattr("closecall.app.api.plain.SETTLE_SECONDS", 0.0)
    monkeypatch.setattr("closecall.app.sessions.blind.comparison.LEAST_TURNS", 1)
    monkeypatch.setattr("closecall.app.projects.uploaded_images.why_none", lambda *_: None)
    monkeypatch.setattr("closecall.app.projects.uploaded_images.why_not_described", lambda *_: None)
    monkeypatch.setattr("closecall.core.features.of_image", lambda *_: [0.3] * 8)


@pytest.fixture
def faults(monkeypatch: pytest.MonkeyPatch) -> Faults:
    """At which commit something fails."""
    return Faults(monkeypatch)


@pytest.fixture(scope="session")
def servers(request: pytest.FixtureRequest) -> Servers:
    """The template's labels on PostgreSQL."""
    return Servers(request.getfixturevalue("server").address)


Making = Callable[[str], AbstractContextManager[World]]


@pytest.fixture
def making(request: pytest.FixtureRequest, faults: Faults, tmp_path: Path) -> Making:
    """Makes a world on a database, which is gone with the block."""

    @contextmanager
    def make(engine: str) -> Iterator[World]:
        template()  # its ids are others
        chance = random.Random(1)

        def repeatable() -> uuid.UUID:
            """Where all else is equal, order is by ids."""
            return uuid.UUID(int=chance.getrandbits(128), version=4)

        with ExitStack() as opened:
            opened.enter_context(mock.patch("uuid.uuid4", repeatable))
            address = None
            if engine == "postgresql":
                address = opened.enter_context(request.getfixturevalue("servers").copy())
            yield opened.enter_context(made(faults, tmp_path / "project", address))

    return make
