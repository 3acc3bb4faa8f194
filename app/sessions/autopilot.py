"""The autopilot: a simulated annotator that knows the truth and answers on the page, for demonstrations.

The autopilot runs in the browser. The card gives each answer as if a key had been pressed, at the pace set on
the page. Viewers therefore see what an annotator would see, and nothing runs after the page is closed. The
server supplies only the true classes, and only if the session belongs to the autopilot.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from closecall.app.projects.questions import copy_concept
from closecall.app.projects.roles import AUTOPILOT
from closecall.core.simulation.oracle import Oracle
from closecall.storage import ConceptRecord

if TYPE_CHECKING:
    from closecall.app.sessions.registry import OpenProject
    from closecall.app.sessions.session_state import SessionState

_OWN = f" ({AUTOPILOT})"


def can_answer(project: OpenProject, concept: ConceptRecord) -> bool:
    """Return whether the true answers are known: the question's positive class is a class of the pool."""
    return concept.positive_class in project.class_names


def is_autopilot(session: SessionState) -> bool:
    """Return whether the session belongs to the autopilot."""
    return session.annotator == AUTOPILOT


def own_concept(project: OpenProject, concept: ConceptRecord) -> ConceptRecord:
    """Return the autopilot's copy of the question, which has its own labels.

    The copy is created once. It is archived, so that people can't choose it.
    """
    if concept.name.endswith(_OWN):
        return concept
    name = concept.name + _OWN
    concepts = project.concept_store
    return concepts.named(name) or copy_concept(concepts, concept, name, archived=True)


def peoples_concept(project: OpenProject, concept: ConceptRecord) -> ConceptRecord:
    """Return the original question if `concept` is the autopilot's copy; otherwise, return `concept`."""
    return project.concept_store.named(concept.name.removesuffix(_OWN)) or concept


def answers(session: SessionState, card: Mapping[str, Any]) -> dict[str, str] | None:
    """Return the autopilot's answers by item, for the item in view and the items that may follow it.

    The answer about an item whose true class is unknown is "skip". The result is None in a person's session,
    and if the question's positive class is not a class of the pool.
    """
    pool, positive = session.project.pool, session.concept.record.positive_class
    if not is_autopilot(session) or pool is None or positive not in pool.classes:
        return None
    views = [card, *card["next"].values()]
    items = np.unique([view["item"]["id"] for view in views if view["item"]]).astype(np.int64)
    known = items[pool.truth(items) >= 0]
    answers = dict.fromkeys(map(str, items), "skip")
    oracle = Oracle(pool.truth, pool.classes.index(positive))
    truth = zip(known, oracle(known), strict=True)
    return answers | {str(item): "yes" if yes else "no" for item, yes in truth}
