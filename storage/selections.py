"""Log of sessions and selections: which items were shown to whom, and why."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

from sqlalchemy import Connection, Delete, Insert, Select, bindparam, delete, func, insert, select, update
from sqlalchemy.orm import aliased

from closecall.storage import rows
from closecall.storage.database import Database
from closecall.storage.errors import StorageError
from closecall.storage.models import MAX_NAME, Answer, Concept, Foreseen, Selection, Session
from closecall.storage.records import FOUND, SelectionRecord, SessionRecord, Why, new_id
from closecall.storage.session_claims import Claims

FORESEEN = 1_000
"""Number of foreseen selections that are kept per session; see `storage.models.Foreseen`.

A round has up to four foreseen selections, one for each possible answer, so this is enough for about 250
rounds. A browser that cannot reach the server may show a foreseen selection long after receiving it.
"""

AHEAD = 32
"""Number of a session's last foreseen selections that `LabelLog.in_hand` searches."""
_LAST = 2**63 - 1  # no seq is larger
_PAGE = 2_000  # rows per query: a log is read in short transactions, however long it is


class SelectionLog:
    """Append-only log of sessions and their selections in a database.

    Parameters
    ----------
    database, clock, claims
        See `LabelLog`, which adds the answers.
    """

    def __init__(
        self, database: Database, clock: Callable[[], int] = rows.now_ms, claims: Claims | None = None
    ) -> None:
        self.database = database
        self._claims = claims
        self._clock = clock

    # Sessions

    def start_session(
        self,
        concept_id: int,
        annotator: str,
        strategy: str,
        *,
        seed: int = 0,
        parameters: Mapping[str, Any] | None = None,
        id: str | None = None,  # noqa: A002 (it is the session's id)
    ) -> SessionRecord:
        """Start a session of one annotator. Its id is generated if none is given.

        If a session with this id exists, return that session, because another server may have started it.

        Raises
        ------
        StorageError
            If the annotator's name is empty or too long (kind `invalid`), or the concept is unknown (kind
            `missing`).
        """
        if not 0 < len(annotator.strip()) <= MAX_NAME:
            raise StorageError(f"an annotator needs a name of at most {MAX_NAME} characters", "invalid")
        record = SessionRecord(
            id=id or new_id(),
            concept_id=concept_id,
            annotator=annotator.strip(),
            seed=seed,
            strategy=strategy,
            parameters=dict(parameters or {}),
            created=self._clock(),
        )
        with self.database.write() as connection:
            if connection.scalar(select(Concept.id).where(Concept.id == concept_id)) is None:
                raise StorageError(f"there is no concept {concept_id}", "missing")
            known = select(*rows.columns(Session)).where(Session.id == record.id)
            if id is not None and (row := connection.execute(known).first()) is not None:
                return rows.session(row)
            connection.execute(
                insert(Session).values({c.name: getattr(record, c.name) for c in rows.columns(Session)})
            )
        return record

    def session(self, session_id: str) -> SessionRecord | None:
        """Return the session with this id, or None."""
        found = self._all(select(*rows.columns(Session)).where(Session.id == session_id))
        return rows.session(found[0]) if found else None

    def sessions(self, concept_id: int | None = None) -> list[SessionRecord]:
        """Return all sessions, or the sessions of one concept, oldest first."""
        query = select(*rows.columns(Session)).order_by(Session.created, Session.id)
        if concept_id is not None:
            query = query.where(Session.concept_id == concept_id)
        return [rows.session(row) for row in self._all(query)]

    def sessions_of(self, annotators: Iterable[str], **parameters: str | None) -> frozenset[str]:
        """Return the ids of the annotators' sessions that have these parameters; None is a missing one."""
        query = select(Session.id).where(Session.annotator.in_(list(annotators)))
        for name, value in parameters.items():
            query = query.where(Session.parameters[name].as_string() == value)
        return frozenset(session for (session,) in self._all(query))

    def update_session(
        self, session_id: str, *, strategy: str | None = None, parameters: Mapping[str, Any] | None = None
    ) -> SessionRecord:
        """Change the session's strategy and parameters, so that reloading the page keeps them.

        Earlier selections keep a record of the strategy that selected them.

        Raises
        ------
        StorageError
            If there is no such session (kind `missing`).
        """
        changes: dict[str, Any] = {}
        if strategy is not None:
            changes["strategy"] = strategy
        if parameters is not None:
            changes["parameters"] = dict(parameters)
        if changes:
            with self.database.write() as connection:
                connection.execute(update(Session).where(Session.id == session_id).values(**changes))
        record = self.session(session_id)
        if record is None:
            raise StorageError(f"there is no session {session_id}", "missing")
        return record

    # Selections

    def record_selection(self, record: SelectionRecord) -> SelectionRecord:
        """Store a selection before its item is shown, and return it with `seq` and `created`.

        A selection is the reason why an item is shown.

        Raises
        ------
        StorageError
            If the session or the concept is unknown, or a value is not allowed (kind `invalid`).
        """
        return self.record_selections([record])[0]

    def record_selections(self, records: Sequence[SelectionRecord]) -> list[SelectionRecord]:
        """Store several selections in order, all or none; see `record_selection`.

        Raises
        ------
        StorageError
            Also if another server has claimed one of the sessions (kind `moved`).
        """
        created = self._clock()
        values = [rows.selection_values(record, created) for record in records]
        with self.database.write() as connection:
            self._require_claims(connection, {record.session_id for record in records})
            for concept in {record.concept_id for record in records if record.why == "words"}:
                self.database.announce(connection, "concept", concept=concept)
            keys = [connection.execute(insert(Selection), row).inserted_primary_key for row in values]
        return [
            rows.selection((key[0], *(row[c.name] for c in rows.columns(Selection)[1:])))
            for key, row in zip(keys, values, strict=True)
            if key is not None
        ]

    def foresee(self, records: Sequence[SelectionRecord]) -> None:
        """Store selections that a browser gets in advance, each for one possible answer to the current item.

        When a foreseen selection is shown or answered, `append_answers` moves it to the log of selections.
        The last `FORESEEN` selections of each session are kept.

        Raises
        ------
        StorageError
            Also if another server has claimed one of the sessions (kind `moved`).
        """
        created = self._clock()
        with self.database.write() as connection:
            self._require_claims(connection, {record.session_id for record in records})
            for record in records:
                row = {
                    "id": record.id,
                    "session_id": record.session_id,
                    "selection": rows.selection_values(record, created),
                }
                connection.execute(_foresee(), row)
            for session in {record.session_id for record in records}:
                connection.execute(_forget_oldest(), {"session": session})

    def selection(self, selection_id: str) -> SelectionRecord | None:
        """Return the selection with this id, or None."""
        found = self._all(_selection(), selection=selection_id)
        return rows.selection(found[0]) if found else None

    def foreseen(self, selection_id: str) -> SelectionRecord | None:
        """Return the foreseen selection with this id, or None if it does not exist or was shown."""
        found = self._all(_foreseen(), selection=selection_id)
        return rows.foreseen(found[0][0]) if found else None

    def last_selection(self, session_id: str) -> SelectionRecord | None:
        """Return the last selection that was shown in the session, or None."""
        found = self.recent_selections(session_id, 1)
        return found[0] if found else None

    def recent_selections(self, session_id: str, n: int) -> list[SelectionRecord]:
        """Return the session's last n selections, oldest first."""
        query = _selections().where(Selection.session_id == session_id).order_by(Selection.seq.desc())
        return [rows.selection(row) for row in reversed(self._all(query.limit(n)))]

    def recent_rounds(self, session_id: str, n: int) -> list[SelectionRecord]:
        """Return the first selection of each of the session's last n rounds, oldest first."""
        firsts = (
            select(func.min(Selection.seq))
            .where(Selection.session_id == session_id)
            .group_by(Selection.round)
            .order_by(func.min(Selection.seq).desc())
            .limit(n)
        )
        query = _selections().where(Selection.seq.in_(firsts)).order_by(Selection.seq)
        return [rows.selection(row) for row in self._all(query)]

    def last_because(self, concept_id: int, why: Why, n: int) -> list[SelectionRecord]:
        """Return the concept's last n selections for this reason, newest first."""
        query = _selections().where(Selection.concept_id == concept_id, Selection.why == why)
        return [rows.selection(row) for row in self._all(query.order_by(Selection.seq.desc()).limit(n))]

    def latest_accuracy(self, concept_id: int) -> float | None:
        """Return the accuracy, 0 … 1, in the newest selection for the concept that has one.

        Return None if no selection has an accuracy.
        """
        query = select(Selection.accuracy).where(
            Selection.concept_id == concept_id, Selection.accuracy.is_not(None)
        )
        found = self._all(query.order_by(Selection.seq.desc()).limit(1))
        return float(found[0][0]) if found else None

    def last_shown(self) -> SelectionRecord | None:
        """Return the newest selection of all sessions, or None."""
        found = self._all(_selections().order_by(Selection.seq.desc()).limit(1))
        return rows.selection(found[0]) if found else None

    def in_hand(self, since: int, active: Collection[str] = ()) -> list[SelectionRecord]:
        """Return the unanswered selections that active sessions show, and the selections that may follow.

        A session is active if it is in `active`, or if it has started a round or got foreseen selections at
        or after `since`, in milliseconds since 1970 UTC. Foreseen selections count because a slow server may
        store them long after the round has started.
        """
        began = select(Selection.session_id).where(Selection.created >= since).distinct()
        heard = {session for (session,) in self._all(began)}.union(active)
        newest = select(func.max(Foreseen.seq)).group_by(Foreseen.session_id)
        for (values,) in self._all(select(Foreseen.selection).where(Foreseen.seq.in_(newest))):
            record = rows.foreseen(values)
            if record.created >= since:
                heard.add(record.session_id)
        shown: list[SelectionRecord] = []
        ahead: list[SelectionRecord] = []
        for session in sorted(heard):
            of_session = Selection.session_id == session
            number = select(func.max(Selection.round)).where(of_session).scalar_subquery()
            own = _selections().where(of_session, Selection.round == number)
            shown += [rows.selection(row) for row in self._all(own)]
            foreseen = select(Foreseen.selection).where(Foreseen.session_id == session)
            last = self._all(foreseen.order_by(Foreseen.seq.desc()).limit(AHEAD))
            ahead += [rows.foreseen(row[0]) for row in last]
        # When several classes are labeled, their sessions alternate: the item that one session shows may be
        # followed by a foreseen selection of another session.
        names = {record.id for record in shown}
        return [record for record in shown if not self.is_answered(record.id)] + [
            record for record in ahead if record.parameters.get("supposed", {}).get("selection") in names
        ]

    def is_answered(self, selection_id: str) -> bool:
        """Return whether the annotator who was shown the selection has an answer to it that was not undone.

        Corrections by other annotators do not count, although they refer to the selection in logs of earlier
        versions.
        """
        return bool(self._all(_answers_to(), selection=selection_id))

    def selections(
        self,
        concept_id: int | None = None,
        session_id: str | None = None,
        *,
        after: int = 0,
        through: int | None = None,
    ) -> Iterator[SelectionRecord]:
        """Yield selections with `after` < seq ≤ `through`, in order, read page by page."""
        query = _selections()
        if concept_id is not None:
            query = query.where(Selection.concept_id == concept_id)
        if session_id is not None:
            query = query.where(Selection.session_id == session_id)
        for row in self._pages(paged(query, Selection.seq), after, through):
            yield rows.selection(row)

    def audited(self, concept_id: int) -> list[SelectionRecord]:
        """Return the selections with answers that were given for an audit, in the order of these answers.

        Not all of these selections are random draws. An audited item may also have been shown to another
        annotator for another reason, for example because a query strategy selected it.
        """
        query = _selections().join(Answer, Answer.selection_id == Selection.id)
        wanted = (Answer.concept_id == concept_id, Answer.purpose == "audit", Answer.answer != "undo")
        return [rows.selection(row) for row in self._all(query.where(*wanted).order_by(Answer.seq))]

    def audited_and_found(self, concept_id: int, after: int, through: int) -> set[int]:
        """Return the audited items that annotators also answered where a search or a lasso had found them.

        Only answers with `after` < seq ≤ `through` count, also if they were undone.
        """
        query = select(Answer.item).join(Selection, Answer.selection_id == Selection.id)
        wanted = (Answer.concept_id == concept_id, Answer.purpose == "audit", Selection.why.in_(FOUND))
        between = (Answer.seq > after, Answer.seq <= through)
        return {int(row[0]) for row in self._all(query.where(*wanted, *between))}

    def _require_claims(self, connection: Connection, sessions: Collection[str]) -> None:
        if self._claims is not None:
            self._claims.require(connection, sessions)

    def _pages(
        self, query: Select[Any], after: int, through: int | None, **values: object
    ) -> Iterator[Sequence[Any]]:
        """Yield the rows of a `paged` query, each page in its own transaction.

        Rows are only added at the end, so the pages together equal the result of one query.
        """
        through = _LAST if through is None else through
        while page := self._all(query, after=after, through=through, **values):
            yield from page
            if len(page) < _PAGE:
                return
            after = page[-1][0]

    def _all(self, query: Select[Any], **values: object) -> Sequence[Sequence[Any]]:
        with self.database.read() as connection:
            return connection.execute(query, values).all()


def paged(query: Select[Any], seq: Any) -> Select[Any]:
    """Return a query for one page of rows with `after` < seq ≤ `through`; `seq` is the first column."""
    within = (seq > bindparam("after"), seq <= bindparam("through"))
    return query.where(*within).order_by(seq).limit(_PAGE)


# Statements that each answer needs are cached: SQLAlchemy takes longer to build one than to execute it.


@cache
def _selections() -> Select[Any]:
    return select(*rows.columns(Selection))


@cache
def _answers_to() -> Select[Any]:
    """Return a query for an answer to `selection`, given by its session's annotator and not undone."""
    undo = aliased(Answer)
    return (
        select(Answer.seq)
        .join(Selection, Selection.id == Answer.selection_id)
        .join(Session, (Session.id == Selection.session_id) & (Session.annotator == Answer.annotator))
        .outerjoin(undo, undo.undoes == Answer.id)
        .where(Answer.selection_id == bindparam("selection"), Answer.answer != "undo", undo.seq.is_(None))
        .limit(1)
    )


@cache
def _selection() -> Select[Any]:
    return _selections().where(Selection.id == bindparam("selection"))


@cache
def _foreseen() -> Select[Any]:
    return select(Foreseen.selection).where(Foreseen.id == bindparam("selection"))


@cache
def _foresee() -> Insert:
    return insert(Foreseen)


@cache
def _forget_oldest() -> Delete:
    """Return a statement that deletes all but the last `FORESEEN` foreseen selections of a `session`."""
    own = Foreseen.session_id == bindparam("session")
    newest = select(Foreseen.seq).where(own).order_by(Foreseen.seq.desc())
    oldest_kept = newest.offset(FORESEEN - 1).limit(1).scalar_subquery()
    return delete(Foreseen).where(own, Foreseen.seq < oldest_kept)
