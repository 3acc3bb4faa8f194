"""Check answers against the pool, and store them in the log. Every view stores its answers here.

Nothing is ever removed from the log. A label of an item without features can't train the SVM, so it must not
get into the log.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.storage import AnswerRecord, AppendResult, LabelLog, Refusal, StorageError


class Intake:
    """The object that checks and stores all answers about a project's items. Thread-safe.

    Parameters
    ----------
    log : LabelLog
        The log that gets the answers.
    pool : callable
        Returns the newest snapshot of the pool, or None while the pool has no items.
    problem : callable
        Returns a sentence that says why there is no pool, or None if the reason is unknown.
    """

    def __init__(
        self,
        log: LabelLog,
        pool: Callable[[], Pool | None],
        problem: Callable[[], str | None],
    ) -> None:
        self._log = log
        self._pool = pool
        self._problem = problem
        self._unacknowledged: set[str] = set()
        self._lock = threading.Lock()

    @property
    def is_in_doubt(self) -> bool:
        """Whether some answers may or may not be in the log, because storing them raised an error."""
        return bool(self._unacknowledged)

    def store(
        self,
        answers: Sequence[AnswerRecord],
        *,
        shown: Sequence[str] = (),
        along: Mapping[str, str] | None = None,
    ) -> AppendResult:
        """Store answers with `LabelLog.append_answers`; refuse answers about items without features.

        After a StorageError, some answers may be in the log although the call failed. If such answers are
        sent again, they are reported as `accepted`, like new answers. This doesn't apply to the answers in
        `along`, because the browser doesn't send these itself; see `LabelLog.append_answers`.

        Raises
        ------
        InputError
            If there is no pool to check the answers against. No answer is stored; all may be sent again.
        StorageError
            If `LabelLog.append_answers` raises it.
        """
        fit, refused = self._checked(answers)
        ids = {answer.id for answer in fit} - (along or {}).keys()
        try:
            result = self._log.append_answers(fit, shown=shown, along=along)
        except StorageError as error:
            if error.kind != "moved":  # otherwise, nothing was stored
                with self._lock:
                    self._unacknowledged |= ids
            raise
        with self._lock:
            heard = ids & self._unacknowledged
            self._unacknowledged -= heard
        late = tuple(answer for answer in result.known if answer.id in heard)
        return replace(
            result,
            accepted=tuple(sorted((*result.accepted, *late), key=lambda answer: answer.seq)),
            known=tuple(answer for answer in result.known if answer.id not in heard),
            refused=(*refused, *result.refused),
        )

    def _checked(self, answers: Sequence[AnswerRecord]) -> tuple[list[AnswerRecord], list[Refusal]]:
        """Return the undos and the answers about items of the pool, and refusals of all other answers."""
        fit: list[AnswerRecord] = []
        refused: list[Refusal] = []
        pool = self._pool()
        for answer in answers:
            if answer.answer == "undo":
                fit.append(answer)
            elif pool is None:
                problem = self._problem() or "The pool has no items yet"
                raise InputError(f"{problem}. Answers are stored once the pool can be read")
            elif pool.has_row(answer.item):
                fit.append(answer)
            else:
                refused.append(Refusal(answer.id, "unknown-item", why_no_row(pool, answer.item)))
        return fit, refused


def why_no_row(pool: Pool, item: int) -> str:
    """Return a sentence that says why an item that has no row in the pool can't be answered."""
    if item in pool.held_out.ids:
        return f"Item {item} is held out and is never asked about"
    return f"There is no item {item} in the pool"
