"""The People page as JSON: amount and pace of each annotator's work, and inter-annotator agreement."""

from __future__ import annotations

from datetime import datetime, tzinfo
from typing import TYPE_CHECKING, Any

import numpy as np

from closecall.app.engine.annotator_agreement import pairs_of, together_of
from closecall.app.projects.roles import Person
from closecall.app.sessions.review import ReviewedConcept
from closecall.storage.review import CODES, UNKNOWN, Answers

if TYPE_CHECKING:
    from closecall.app.engine.concept import LiveConcept
    from closecall.app.projects.project import Project
    from closecall.app.sessions.labeling import LabelingSession

PAUSE_MS = 120_000
"""Longest gap between two answers, in milliseconds, that counts as active time."""


def team(session: LabelingSession, person: Person, zone: tzinfo) -> dict[str, Any]:
    """Return the page about a session's concept; see `team_of`."""
    return {**team_of(session.project, session.concept, person, zone), "session": session.id}


def team_of(project: Project, concept: LiveConcept, person: Person, zone: tzinfo) -> dict[str, Any]:
    """Return the annotators' statistics as JSON. A `person` who is not an owner gets only their own.

    Parameters
    ----------
    project : Project
        The project.
    concept : LiveConcept
        The concept.
    person : Person
        The person who asks.
    zone : tzinfo
        Time zone of the midnight at which today begins.
    """
    everything = ReviewedConcept.about(project, concept).answers()
    answers = everything if person.is_owner else everything.by(person.name)
    midnight = datetime.now(zone).replace(hour=0, minute=0, second=0, microsecond=0)
    rows = [
        work_of(answers, name, int(1000 * midnight.timestamp())) | {"is_you": name == person.name}
        for name in answers.annotators
    ]
    rows = [row for row in rows if row["given"]]
    return {
        "project": project.key,
        "question": concept.record.question,
        "is_owner": person.is_owner,
        "people": sorted(rows, key=lambda row: (-row["items"], row["name"])),
        "pairs": pairs_of(answers, intervals=True) if person.is_owner else [],
        "together": together_of(answers) if person.is_owner else None,
        "contested": int(np.count_nonzero(answers.items.is_contested)) if person.is_owner else 0,
        "decided": len(np.unique(answers.item[answers.is_decision & answers.in_force])),
    }


def work_of(answers: Answers, name: str, midnight: int) -> dict[str, Any]:
    """Return one annotator's statistics: the numbers of items answered in all and today, and the pace.

    `midnight`, at which today began, is in milliseconds since 1970-01-01 UTC. In the result, `per_hour` is
    the number of answers per hour of active time, and `seconds` is the median time per answer, without
    corrections. Each of the two is None if unknown.
    """
    given = (answers.annotator == answers.annotators.index(name)) & ~answers.is_decision
    standing = given & answers.in_force
    given &= answers.word != CODES["undo"]
    times = np.sort(answers.time[given])
    gaps = np.diff(times)
    gaps = gaps[gaps <= PAUSE_MS]
    taken = answers.taken[given & ~answers.is_correction & (answers.taken != UNKNOWN)]
    return {
        "name": name,
        "given": int(np.count_nonzero(given)),
        "items": int(np.count_nonzero(standing)),
        "today": int(np.count_nonzero(standing & (answers.time >= midnight))),
        "per_hour": float(3.6e6 * len(gaps) / gaps.sum()) if gaps.sum() else None,
        "seconds": float(np.median(taken) / 1000) if len(taken) else None,
    }
