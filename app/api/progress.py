"""The Progress page as JSON: a concept's learning curve, its audit, and the advice to stop labeling."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from closecall.app.api.cards.parts import figures
from closecall.app.engine.audit import SHARES
from closecall.core.audit import LEVEL, Audited, Interval
from closecall.core.evaluation.stopping import AHEAD, ENOUGH, changes_ahead

if TYPE_CHECKING:
    from closecall.app.engine.concept import LiveConcept
    from closecall.app.projects.project import Project
    from closecall.app.sessions.labeling import LabelingSession

COURSE = 160
"""Maximum number of points in the plot of labels over time."""

MEASURES = ("precision", "recall", "found", "prevalence")
"""Quantities that the audit estimates, in the order of the page; see `core.audit.Audited`."""


def progress(session: LabelingSession) -> dict[str, Any]:
    """Return the whole page about a session's concept as JSON."""
    return {**progress_of(session.project, session.concept), "session": session.id}


def progress_of(project: Project, concept: LiveConcept) -> dict[str, Any]:
    """Return the learning curve of a concept, its audit, and the advice to stop labeling, as JSON."""
    milestones = concept.milestones
    milestones.catch_up(project.pool)
    is_coming = milestones.is_computing  # read before `reached`, which may lack milestones that finish later
    counts = concept.counts()
    advice = milestones.advice
    course = milestones.course(COURSE)
    n_items = len(project.pool) if project.pool else 0
    reached = milestones.reached
    share = changes_ahead([one.checkpoint for one in reached])
    return {
        "project": project.key,
        "question": concept.record.question,
        "advice": {"stop": advice.stop, "reason": advice.reason},
        "ahead": None if share is None else {"labels": AHEAD, "share": share},
        "enough": ENOUGH,
        "is_coming": is_coming,
        "counts": figures(counts, n_items),
        "labels": counts.labels,
        "items": n_items,
        "course": {
            "when": [when for when, _ in course],
            "yes": [then.yes for _, then in course],
            "no": [then.no for _, then in course],
        },
        "milestones": [
            {
                "labels": one.checkpoint.n_labels,
                "cross_validated": one.cross_validated,
                "held_out": one.held_out,
                "within_margin": one.within_margin,
                "agreement": one.agreement,
            }
            for one in reached
        ],
        "audit": _audit(project, concept),
    }


def _audit(project: Project, concept: LiveConcept) -> dict[str, Any]:
    pool = project.pool
    judged = concept.audit.judge(pool) if pool is not None else None
    return {
        "share": concept.audit_share,
        "shares": sorted({*SHARES, concept.audit_share}),
        "level": LEVEL,
        "drawn": len(concept.standing().audited),
        "judged": _judged(judged) if judged else None,
    }


def _judged(judged: Audited) -> dict[str, Any]:
    measures = {name: _interval(getattr(judged, name)) for name in MEASURES}
    return {"answers": judged.answers, "yes": judged.yes, **measures}


def _interval(interval: Interval) -> dict[str, float | None]:
    estimate = None if math.isnan(interval.estimate) else interval.estimate
    return {"estimate": estimate, "low": interval.low, "high": interval.high}
