"""Start a blind comparison, or find the comparison in progress."""

from __future__ import annotations

import secrets
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from closecall.app.projects.questions import copy_concept
from closecall.app.sessions.blind.comparison import (
    BEGUN_WITH,
    HAS_JUDGE,
    LEAST_OF_EACH,
    QUESTION,
    SEED,
    SIDES,
    TOLD,
    BlindComparison,
)
from closecall.app.sessions.labeling import LabelingSession
from closecall.app.sessions.session_state import BLIND
from closecall.core.duplicates import unrepeated_held_out
from closecall.core.errors import InputError
from closecall.storage import AnswerRecord, ConceptRecord, SessionRecord, new_id
from closecall.storage.imports import store

if TYPE_CHECKING:
    from closecall.app.projects.project import Project

FIRST = 5
"""Maximum number of yes labels, and of no labels, that each side gets from the question at the start."""

JUDGE = "random"
"""Strategy of the judge, the side that draws the items on which the two strategies are compared."""


@dataclass(frozen=True)
class Offer:
    """Conditions for starting a blind comparison, or the reason why it can't start.

    Parameters
    ----------
    problem : str or None
        A sentence that says why no comparison can start; None if a comparison can start.
    is_judged_by_truth : bool
        Whether the strategies are compared on held-out items whose true class is known. If not, they are
        compared on random items. A third side, the judge, draws these items between the strategies' turns.
    first : int
        Number of yes labels that each strategy starts with. The number of no labels is the same.
    """

    problem: str | None
    is_judged_by_truth: bool
    first: int


def offer(session: LabelingSession) -> Offer:
    """Return the conditions for a comparison about the session's question."""
    pool, labels = session.project.pool, session.concept.standing().labels
    if pool is None:
        return Offer("The pool has no items yet", False, 0)
    positive = session.concept.record.positive_class
    judged = False
    if positive in pool.classes:
        truth = unrepeated_held_out(pool).truth
        n_yes = np.count_nonzero(truth == pool.classes.index(positive))
        judged = bool(min(n_yes, np.count_nonzero(truth >= 0) - n_yes) >= LEAST_OF_EACH)
    first = min(FIRST, int(labels.yes.sum()), int((~labels.yes).sum()))
    return Offer(None, judged, first)


def begin(session: LabelingSession, strategies: Sequence[str]) -> BlindComparison:
    """Start a comparison of two strategies.

    Each strategy, and the judge if there is one, gets a copy of the question, a session, and the same first
    labels.

    Parameters
    ----------
    session : LabelingSession
        Session of the annotator.
    strategies : sequence of str
        The two strategies. One of them, drawn at random, becomes side A.

    Raises
    ------
    InputError
        If the two strategies are equal, or there is no pool.
    """
    project, question = session.project, session.concept.record
    offered = offer(session)
    if offered.problem:
        raise InputError(offered.problem)
    if len(set(strategies)) != 2 or len(strategies) != 2:
        raise InputError(f"A blind comparison needs two different strategies, got {' and '.join(strategies)}")
    seed = secrets.randbelow(2**31)
    rng = np.random.default_rng(seed)
    words = [strategies[place] for place in rng.permutation(2)]
    if not offered.is_judged_by_truth:
        words.append(JUDGE)
    labels = session.concept.standing().labels
    chosen = [
        rng.choice(np.flatnonzero(kind), offered.first, replace=False) for kind in (labels.yes, ~labels.yes)
    ]
    first = np.sort(np.concatenate(chosen)).astype(np.intp)
    ids = [new_id() for _ in words]
    about = {
        QUESTION: question.id,
        SIDES: ids,
        HAS_JUDGE: not offered.is_judged_by_truth,
        SEED: seed,
        BEGUN_WITH: labels.items[first].tolist(),
        TOLD: False,
    }
    concepts = _copies(project, question, "ABJ"[: len(words)])
    now = int(time.time() * 1000)
    sessions, given = [], []
    for place, (concept, word, own) in enumerate(zip(concepts, words, ids, strict=True)):
        # The two strategies have the same seed, so that they start alike. The judge has another seed.
        sessions.append(
            SessionRecord(
                id=own,
                concept_id=concept.id,
                annotator=session.annotator,
                seed=seed + place // 2,
                strategy=word,
                parameters={BLIND: about},
            )
        )
        given += [
            AnswerRecord(
                id=new_id(),
                concept_id=concept.id,
                session_id=own,
                annotator=session.annotator,
                item=int(labels.items[row]),
                answer="yes" if labels.yes[row] else "no",
                browser_time=now,
            )
            for row in first
        ]
    store(project.database, sessions, given, now)  # in one transaction: no side starts without labels
    return BlindComparison.of(session.sessions.session(ids[0]))


def current(session: LabelingSession) -> BlindComparison | None:
    """Return the annotator's newest comparison about the session's question, or None."""
    project = session.project
    leaders = [
        record
        for record in project.log.sessions()
        if (about := record.parameters.get(BLIND))
        and about[QUESTION] == session.concept.record.id
        and about[SIDES][0] == record.id
        and record.annotator == session.annotator
    ]
    whole = (record.id for record in reversed(leaders) if _is_whole(project, record))
    leader = next(whole, None)
    return None if leader is None else BlindComparison.of(session.sessions.session(leader))


def _is_whole(project: Project, leader: SessionRecord) -> bool:
    """Return whether all sessions of a comparison exist. Some are missing if its start was interrupted."""
    return all(project.log.session(side) is not None for side in leader.parameters[BLIND][SIDES])


def _copies(project: Project, question: ConceptRecord, letters: str) -> list[ConceptRecord]:
    """Create archived copies of the question, whose names have letters instead of strategies' names."""
    number, store = 1, project.concept_store
    while store.named(f"{question.name} (blind {number} A)"):
        number += 1
    names = [f"{question.name} (blind {number} {one})" for one in letters]
    return [copy_concept(project.concept_store, question, name, archived=True) for name in names]
