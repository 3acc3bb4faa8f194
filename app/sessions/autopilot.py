"""The autopilot: a simulated annotator, who knows the truth, answers on the page for everybody to see.

The browser drives it: the card gives each answer as if a key had been pressed, at the pace that is set there,
so what is seen is what a person would see, and nothing goes on when the page is closed. The server only says
what the truth is, and only to sessions of the autopilot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from closecall.app.projects.roles import AUTOPILOT
from closecall.core.simulation.oracle import Oracle
from closecall.storage import ConceptRecord

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.app.sessions.registry import OpenProject

_OWN = f" ({AUTOPILOT})"


def can_answer(project: OpenProject, concept: ConceptRecord) -> bool:
    """Whether the truth is known: the pool has classes, and the question asks for one of them."""
    return project.pool is not None and concept.positive_class in project.pool.classes


def is_autopilot(session: LabelingSession) -> bool:
    """Whether the session is the autopilot's."""
    return session.annotator == AUTOPILOT


def own_concept(project: OpenProject, concept: ConceptRecord) -> ConceptRecord:
    """The same question with labels of the autopilot's own; made at first, and never offered to people."""
    if concept.name.endswith(_OWN):
        return concept
    name = concept.name + _OWN
    return project.concept_store.named(name) or project.copy_concept(concept, name, put_away=True)


def peoples_concept(project: OpenProject, concept: ConceptRecord) -> ConceptRecord:
    """The concept that `own_concept` was made for; others are people's themselves."""
    return project.concept_store.named(concept.name.removesuffix(_OWN)) or concept


def answers(session: LabelingSession, card: Mapping[str, Any]) -> dict[str, str] | None:
    """What the autopilot answers to the item in view and to those that may follow, by item.

    What nobody knows the truth of is skipped. None where the session is a person's.
    """
    pool, positive = session.project.pool, session.concept.record.positive_class
    if not is_autopilot(session) or pool is None or positive not in pool.classes:
        return None
    views = [card, *card["next"].values()]
    items = np.unique([view["item"]["id"] for view in views if view["item"]]).astype(np.int64)
    known = items[pool.truth(items) >= 0]
    said = dict.fromkeys(map(str, items), "skip")
    oracle = Oracle(pool.truth, pool.classes.index(positive))
    return said | {str(item): "yes" if yes else "no" for item, yes in zip(known, oracle(known), strict=True)}
