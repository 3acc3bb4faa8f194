from __future__ import annotations

import json
from typing import Any

import pytest

from closecall.app.api.cards import card_of, submit
from closecall.app.experiments.bench.team.card import Card
from closecall.app.sessions.registry import OpenProject
from tests.projects import new_project, open_workspace, wait_for_index


@pytest.fixture
def project(tmp_path) -> OpenProject:
    with open_workspace(tmp_path) as workspace:
        yield new_project(workspace)


class Line:
    """Between a card and its session: what is sent waits, and may get lost, until it is delivered."""

    def __init__(self, session) -> None:
        self.session = session
        self.store: dict[str, str] = {}
        self.sent: list[list[dict[str, Any]]] = []
        self.card = Card(self.store, self.sent.append)
        self.card.update(self.coming())

    def coming(self) -> dict[str, Any]:
        """The card, once what would follow each answer is there."""
        card = card_of(self.session)
        while card["next_is_coming"]:
            card = card_of(self.session)
        return card

    def deliver(self) -> None:
        """The last that was sent arrives, and so does the answer."""
        self.card.update(submit(self.session, json.loads(json.dumps(self.sent[-1]))))

    def reload(self) -> None:
        """Another page over the same store."""
        self.card = Card(self.store, self.sent.append)
        self.card.update(card_of(self.session))

    def stored(self) -> list[tuple[str, int, str]]:
        """What the log has of the session."""
        concept = self.session.concept.record.id
        given = self.session.project.log.answers_after(concept)
        return [(answer.id, answer.item, answer.answer) for answer in given]


@pytest.fixture
def line(project) -> Line:
    session = project.session(annotator="ada")
    session.set_strategy("exhaustive")
    wait_for_index(project, "exhaustive")
    return Line(session)
