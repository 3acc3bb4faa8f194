"""What tests do on Find similar."""

from __future__ import annotations

import time
from typing import Any

from closecall.app.api.cards import card_of, submit
from closecall.app.sessions.similar.session import SimilarSession
from tests.projects import answer, truth_word


def settled(similar: SimilarSession) -> dict[str, Any]:
    """The card as soon as nothing is being prepared any more."""
    patience = time.monotonic() + 600
    while (card := card_of(similar))["similar"]["pending"]:
        assert time.monotonic() < patience
        time.sleep(0.01)
    return card


def answer_truly(similar: SimilarSession, card: dict[str, Any], n: int) -> None:
    """Answer the first n items on the card that are free."""
    free = [cell for cell in card["cells"] if cell["selection"]][:n]
    project = similar.session.project
    given = [
        answer({"item": {"id": cell["id"], "selection": cell["selection"]}}, truth_word(project, cell["id"]))
        for cell in free
    ]
    submit(similar, given)
