"""Review: list, search and correct the answers about a concept, likely mistakes first.

Likely mistakes are answers that the model contradicts; they are called doubted. If reviewers have answered an
item themselves, they correct their own answer, or their decision if they have decided the item. If only other
people have answered it, the reviewer's answer is added, and the majority counts. A tie is not used for
training until it is adjudicated. Nothing is overwritten: the history of an item shows every answer,
correction and undo.

Audit answers are listed but never doubted. If only audit answers that the model contradicts were corrected,
the audit would overestimate the model's accuracy.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from datetime import tzinfo
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from closecall.app.display.strategy_labels import label_of
from closecall.app.engine.annotator_agreement import pairs_of
from closecall.app.engine.label_errors import Judge, Judgement
from closecall.app.projects.roles import Person
from closecall.app.sessions.answers import Outcome
from closecall.app.sessions.review_query import find
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.storage import Refusal, Standing
from closecall.storage.review import CODES, STATUS_CODES, UNKNOWN, Answers, AnswerTable, Detail, details_of

if TYPE_CHECKING:
    from closecall.app.engine.concept import LiveConcept
    from closecall.app.projects.project import Project
    from closecall.app.sessions.labeling import LabelingSession

PAGE = 20
"""Items per page."""

PACE = 50
"""Number of newest timed answers whose median time is shown as the pace."""

VIEWS = ("doubted", "contested", "no", "yes", "skip", "unsure", "all")
"""Names of the lists of items, in the order in which the page offers them."""

ANYTHING = object()
"""Placeholder for an item's current answer after an undo, if it is unknown."""

WORDS = {code: word for word, code in CODES.items()}


@dataclass(frozen=True)
class Asked:
    """A browser's request for a page of the list.

    Parameters
    ----------
    view : str
        One of `VIEWS`.
    line : str
        Text of the search field.
    first : int
        Place in the list at which the page begins, from 0.
    fresh : int
        A number, which the browser changes to request a new list.
    again : int
        A number, which the browser changes to get the pictures of the page once more.
    """

    view: str = VIEWS[0]
    line: str = ""
    first: int = 0
    fresh: int = 0
    again: int = 0

    @classmethod
    def of(cls, asked: object) -> Asked:
        """Read a browser's request; invalid values are replaced by defaults."""
        if not isinstance(asked, Mapping):
            return cls()
        view, line = asked.get("view"), asked.get("line")
        numbers = (asked.get(name) for name in ("first", "fresh", "again"))
        known = view if isinstance(view, str) and view in VIEWS else cls.view
        return cls(known, line if isinstance(line, str) else "", *map(_natural, numbers))


def _natural(number: object) -> int:
    return max(0, number) if isinstance(number, int) else 0


class ReviewedConcept:
    """State that all reviewers of a concept share: its answers, the `Judge` of its labels, and item names.

    Parameters
    ----------
    project : Project
        The project whose log has the answers.
    concept : LiveConcept
        The concept.
    """

    def __init__(self, project: Project, concept: LiveConcept) -> None:
        self.project = project
        self.judge = Judge(project.concept_store, concept.record)
        self._table = AnswerTable(concept.record.id)
        self._known: tuple[Answers, Pool, Answers] | None = None
        self._names: dict[int, str] = {}
        self._lock = threading.Lock()

    @classmethod
    def of(cls, session: LabelingSession) -> ReviewedConcept:
        """Return the shared state of the session's concept; create it if necessary."""
        return cls.about(session.project, session.concept)

    @classmethod
    def about(cls, project: Project, concept: LiveConcept) -> ReviewedConcept:
        """Return the shared state of a concept; create it if necessary."""
        with _opening:
            if cls not in concept.views:
                concept.views[cls] = cls(project, concept)
            reviewed: ReviewedConcept = concept.views[cls]
            return reviewed

    def answers(self) -> Answers:
        """Return all answers about items of the pool; the same object until the answers or the pool change.

        A damaged log may have answers about items that the pool lacks. These answers are left out.
        """
        pool = self.project.pool
        with self.table() as table:
            answers = table.answers()
            if pool is None:
                return answers
            if self._known is None or self._known[0] is not answers or self._known[1] is not pool:
                self._known = answers, pool, answers.about(pool.have_rows(answers.item))
            return self._known[2]

    @contextmanager
    def table(self) -> Iterator[AnswerTable]:
        """Lock the table of the concept's answers, update it to the end of the log, and yield it."""
        with self._lock:
            yield self._table.follow(self.project.database)

    def name_of(self, item: int) -> str:
        """Return the display name of the item."""
        if item not in self._names:
            if self.project.pool is None:
                return f"item {item}"
            self._names[item] = self.project.pool.source.name(item)
        return self._names[item]


_opening = threading.Lock()


class Review:
    """One person's view of the answers about a concept.

    The items in the list change only when the browser requests a new list.

    Parameters
    ----------
    session : LabelingSession
        The reviewer's session.
    person : Person or None
        The reviewer. Owners see everybody's answers; other people see their own. None means an owner.
    """

    def __init__(self, session: LabelingSession, person: Person | None = None) -> None:
        self.session = session
        self.id = session.id
        self.person = person or Person(session.annotator, is_owner=True)
        self.project = session.project
        self._shared = ReviewedConcept.of(session)
        self._listing: tuple[tuple[str, str, int], NDArray[np.int64]] | None = None
        self._notes: tuple[Answers, dict[str, Any]] | None = None
        self._sent: Asked | None = None
        self._own: tuple[Answers, Answers] | None = None

    def store(self, answers: Sequence[Mapping[str, Any]]) -> Outcome:
        """Store answers of the reviewer's session.

        If an item's answer was changed elsewhere after the browser showed it, a new answer is refused.
        """
        stale = self._stale(answers)
        outcome = self.session.store([answer for answer in answers if answer.get("id") not in stale])
        refused = [Refusal(name, "conflict", reason) for name, reason in stale.items()]
        return replace(outcome, refused=[*outcome.refused, *refused])

    def page(self, asked: Asked, zone: tzinfo) -> dict[str, Any]:
        """Return the requested items, the number of items in each view, and the notes beside the list.

        Raises
        ------
        InputError
            If the SVM can't be trained on the labels.
        StorageError
            If the log can't be read.
        """
        answers, standing = self._visible(), self.session.concept.standing()
        pool = self.project.pool
        judgement, is_current = None, True
        if pool is not None:
            judgement, is_current = self._shared.judge.judge(pool, standing.labels)
        if judgement is not None and not self.person.is_owner:
            judgement = judgement.about(answers.item)
        listed = self._listed(asked, answers, judgement, zone, keep=is_current)
        first = min(asked.first, max(0, (len(listed) - 1) // PAGE * PAGE))
        rows = self._rows(listed[first : first + PAGE], answers, judgement, with_pictures=asked != self._sent)
        self._sent = asked
        return {
            "project": self.project.key,
            "session": self.session.id,
            "annotator": self.session.annotator,
            "asked": asdict(asked),
            "first": first,
            "page": PAGE,
            "listed": len(listed),
            "views": _counts(answers, judgement),
            "rows": rows,
            "judged": is_current,
            "notes": self._margin(answers, standing, judgement),
            "problem": self.project.problem(),
        }

    def _visible(self) -> Answers:
        """Return the answers that the person may see. The object stays the same until an answer changes."""
        everything = self._shared.answers()
        if self.person.is_owner:
            return everything
        if self._own is None or self._own[0] is not everything:
            self._own = (everything, everything.by(self.person.name))
        return self._own[1]

    def _stale(self, given: Sequence[Mapping[str, Any]]) -> dict[str, str]:
        """Return, by id, the reason to refuse each answer whose item was answered elsewhere meanwhile."""
        stale: dict[str, str] = {}
        stands: dict[object, object] = {}  # id of the reviewer's current answer, by item
        replaced: dict[object, object] = {}  # id of the replaced answer, by the new answer's id
        with self._shared.table() as table:
            for answer in given:
                name, item, word = answer.get("id"), answer.get("item"), answer.get("answer")
                if not isinstance(name, str) or not isinstance(item, int) or table.row_of(name) is not None:
                    continue
                if item not in stands:
                    stands[item] = table.standing(item, self.session.annotator)
                if word == "undo":
                    stands[item] = replaced.get(str(answer.get("undoes")), ANYTHING)
                elif answer.get("selection") or stands[item] in (ANYTHING, answer.get("corrects")):
                    replaced[name], stands[item] = stands[item], name
                else:
                    why = f"item {item} was answered in another window. Check it again"
                    stale[name] = f"Your change was not stored: {why}"
        return stale

    def _listed(
        self, asked: Asked, answers: Answers, judgement: Judgement | None, zone: tzinfo, *, keep: bool
    ) -> NDArray[np.int64]:
        """Return the items of a view that match the search.

        The list is kept until the browser requests another list, so that corrections don't move items. If
        `judgement` is outdated, `keep` is false, and a list of doubted items is not kept.
        """
        wanted = (asked.view, asked.line, asked.fresh)
        if self._listing is not None and self._listing[0] == wanted:
            return self._listing[1]
        listed = _in_view(asked.view, answers, judgement)
        if asked.line:
            rows = np.flatnonzero(answers.in_force)
            true = find(asked.line, answers, rows, self._shared.name_of, zone)
            listed = listed[np.isin(listed, answers.item[rows[true]])]
        if keep or asked.view != "doubted":
            self._listing = (wanted, listed)
        return listed

    def _rows(
        self,
        items: NDArray[np.int64],
        answers: Answers,
        judgement: Judgement | None,
        *,
        with_pictures: bool,
    ) -> list[dict[str, Any]]:
        pool = self.project.pool
        scores = np.full(len(items), np.nan)
        if pool is not None and judgement is not None:
            scores = judgement.scores_of(pool, items)
        about = {int(item): answers.of(item) for item in items}
        seqs = answers.seq[np.concatenate([*about.values(), np.empty(0, dtype=np.int64)])]
        details = details_of(self.project.database, seqs)
        return [
            {
                "item": item,
                "name": self._shared.name_of(item),
                "src": self._thumbnail(item) if with_pictures else None,
                "score": None if np.isnan(score) else float(score),
                "events": [_event(answers, row, details[int(answers.seq[row])]) for row in rows],
            }
            for (item, rows), score in zip(about.items(), scores, strict=True)
        ]

    def _thumbnail(self, item: int) -> str:
        try:
            return self.project.pictures.thumbnail(item) if self.project.pool is not None else ""
        except InputError:
            return ""

    def _margin(self, answers: Answers, standing: Standing, judgement: Judgement | None) -> dict[str, Any]:
        if self._notes is None or self._notes[0] is not answers:
            corrected = answers.time[answers.in_force & answers.is_correction]
            timed = answers.taken[~answers.is_correction & (answers.taken != UNKNOWN)][-PACE:]
            self._notes = (
                answers,
                {
                    "corrected": len(corrected),
                    "corrected_last": int(corrected[-1]) if len(corrected) else None,
                    "agreement": next(iter(pairs_of(answers)), None),
                    "pace_ms": float(np.median(timed)) if len(timed) else None,
                    "paces_ms": timed.tolist(),
                },
            )
        counts, pool = standing.counts, self.project.pool
        return {
            **self._notes[1],
            "doubted": None if judgement is None or judgement.hyperplane is None else judgement.n_doubted,
            "labels": len(standing.labels),
            "counts": {
                "yes": counts.yes,
                "no": counts.no,
                "unsure": counts.unsure,
                "tied": counts.tied,
                "skip": counts.skip,
                "left": counts.left(len(pool) if pool is not None else 0),
            },
        }


def _event(answers: Answers, row: int, detail: Detail) -> dict[str, Any]:
    """Return one event of an item's history, for the browser."""
    taken = int(answers.taken[row])
    return {
        "id": answers.ids[row],
        "annotator": _voice(answers, row),
        "decides": _name(answers, row) if answers.is_decision[row] else None,
        "answer": WORDS[int(answers.word[row])],
        "time": int(answers.time[row]),
        "taken_ms": None if taken == UNKNOWN else taken,
        "in_force": bool(answers.in_force[row]),
        "is_correction": bool(answers.is_correction[row]),
        "undoes": detail.undoes,
        "round": detail.round,
        "chosen_by": None if detail.strategy is None else label_of(detail.strategy),
    }


def _voice(answers: Answers, row: int) -> str:
    """Return the annotator's name, with a note if the answer is an owner's decision instead of a vote."""
    name = _name(answers, row)
    return f"{name} (decision)" if answers.is_decision[row] else name


def _name(answers: Answers, row: int) -> str:
    return str(answers.annotators[answers.annotator[row]])


def _in_view(view: str, answers: Answers, judgement: Judgement | None) -> NDArray[np.int64]:
    """Return the items of a view, in order.

    In the view "doubted", the answers that the model contradicts most come first. In other views, the items
    answered last come first.
    """
    if view == "doubted":
        return judgement.contradicted() if judgement is not None else np.empty(0, dtype=np.int64)
    items = answers.items
    if view == "all":
        chosen: NDArray[np.bool_] = np.ones(len(items.item), dtype=np.bool_)
    elif view == "contested":
        chosen = items.is_contested
    else:
        code = next(code for word, code in STATUS_CODES.items() if word == view)
        chosen = np.equal(items.status, code)
    return items.item[chosen][np.argsort(-items.last[chosen], kind="stable")]


def _counts(answers: Answers, judgement: Judgement | None) -> dict[str, int]:
    """Return the number of items in each view. "doubted" counts only clear contradictions."""
    items = answers.items
    by_status = np.bincount(items.status, minlength=len(STATUS_CODES))
    counts = {view: int(by_status[code]) for view, code in STATUS_CODES.items() if view in VIEWS}
    return counts | {
        "doubted": judgement.n_doubted if judgement is not None else 0,
        "contested": int(np.count_nonzero(items.is_contested)),
        "all": len(items.item),
    }
