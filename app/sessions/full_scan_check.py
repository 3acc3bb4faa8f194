"""Compare the item that a strategy selected with a full scan of the pool for the same hyperplane."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from closecall.app.engine.exclusion import excluded_then, standing_then
from closecall.app.engine.labels_then import LabelsThen, rows_then
from closecall.app.engine.selection_parameters import GROUPS, description_of, sought_by
from closecall.app.engine.training import train_concept
from closecall.app.indexes.full_scan import factor_of
from closecall.core.errors import InputError
from closecall.core.evaluation.rank import BruteForce, scores_of
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection import Query
from closecall.core.selection.reader import RowReader
from closecall.core.selection.requests import sorted_ids
from closecall.core.selection.scan import scan
from closecall.storage import SelectionRecord, Standing, StorageError

if TYPE_CHECKING:
    from closecall.app.sessions.session_state import SessionState

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Comparison:
    """A comparison of a selection with a full scan.

    Parameters
    ----------
    by_score : bool
        Whether the strategy looked for the largest wᵀx + b. Otherwise, items are judged by |wᵀx + b|.
    is_apart : bool
        Whether a part of the strategy selected the item for neither.
    rank : int
        Number of selectable items that are nearer to the hyperplane than the selected item, or that have a
        larger score.
    items : int
        Number of selectable items.
    value, best : float
        |wᵀx + b| of the selected item, and the smallest of any item; or wᵀx + b and the largest.
    selection_ms : float
        Duration of the selection as recorded in the log, in milliseconds.
    full_scan_ms : float
        Duration of a full scan in milliseconds. It is the time that the page shows beside the selection
        (`app.indexes.full_scan`). If that is missing or an estimate, it is the time of this scan.
    """

    by_score: bool
    is_apart: bool
    rank: int
    items: int
    value: float
    best: float
    selection_ms: float
    full_scan_ms: float


def compare(session: SessionState, selection_id: str) -> Comparison:
    """Compare a selection with a full scan of the pool for the same hyperplane.

    The hyperplane is trained again from the log. Its digest must equal the digest logged with the selection.

    Raises
    ------
    InputError
        If the session has no such selection, if the selection was made without a hyperplane or under another
        description of the items, or if the digests differ.
    """
    project = session.project
    record, pool = project.log.selection(selection_id), project.pool
    if record is None or record.session_id != session.id or pool is None:
        raise InputError(f"This session has no selection {selection_id}")
    if record.hyperplane_digest is None:
        raise InputError("There is no hyperplane before the first yes and no")
    if description_of(record) != session.concept.description:
        raise InputError("This item was selected by its features under another description of the images")
    answers = project.log.answers_after(record.concept_id, 0, record.trained_through)
    labels = LabelsThen(record.concept_id, answers, pool)
    state = labels.at(record.trained_through, rows_then(pool, record))
    state.regroup(project.duplicates.kept.named(record.parameters.get(GROUPS)))
    standing = standing_then(state, record, session.annotator)
    pool = pool.prefix(record.items_total)
    hyperplane = _hyperplane_then(session, record, standing)
    exclude = excluded_then(standing, record)
    by_score = sought_by(record) == "likeliest"
    key = np.negative if by_score else np.abs
    alone = pool.alone()  # so the scan is complete
    reader, query = RowReader(alone), Query(hyperplane, 1, sorted_ids(exclude), 0)
    started = perf_counter()
    best = scan(alone, reader, [query], key)[0].ids[0]
    seconds = perf_counter() - started
    usual_ms = None if factor_of(len(pool)) > 1 else project.indexes.full_scan.beside(selection_id)
    brute_force = BruteForce(pool, hyperplane, exclude=exclude, key=key)
    scores = scores_of(pool.rows_of([record.item, best]), hyperplane)
    value, of_best = (scores if by_score else np.abs(scores)).tolist()
    return Comparison(
        by_score=by_score,
        is_apart=sought_by(record) == "other",
        rank=brute_force.rank(record.item),
        items=int(np.isfinite(brute_force.keys).sum()),
        value=value,
        best=of_best,
        selection_ms=record.selection_ms,
        full_scan_ms=1000 * seconds if usual_ms is None else usual_ms,
    )


def _hyperplane_then(session: SessionState, record: SelectionRecord, standing: Standing) -> Hyperplane:
    project, through = session.project, record.examples_through
    assert project.pool is not None
    concept = replace(session.concept.record, c=record.c, class_weight=record.class_weight)
    examples = project.concept_store.examples(concept.id, through)
    trained = train_concept(project.pool, standing.labels, examples, concept, examples_through=through)
    if trained.hyperplane is None or trained.hyperplane.digest != record.hyperplane_digest:
        raise InputError("The labels in the log give another hyperplane than the one that chose this item")
    return trained.hyperplane


class Check:
    """A comparison that is running or done. One thread computes it, and other threads may wait for it.

    Parameters
    ----------
    session : SessionState
        The session.
    selection_id : str
        Id of one of the session's selections.
    """

    def __init__(self, session: SessionState, selection_id: str) -> None:
        self.selection_id = selection_id
        self._session = session
        self._comparison: Comparison | None = None
        self._problem: str | None = None
        self._done = threading.Event()

    def start(self, executor: Executor) -> None:
        """Start the comparison on the executor."""
        executor.submit(self._compute)

    def wait(self, seconds: float) -> bool:
        """Wait at most `seconds` for the result; return whether it is ready."""
        return self._done.wait(seconds)

    def state(self) -> dict[str, Any]:
        """Return the values for the card: whether the check is running, the comparison, and the problem."""
        done = self._done.is_set()
        said = {"selection": self.selection_id, "is_coming": not done, "problem": self._problem}
        return said | (vars(self._comparison) if self._comparison else {})

    def _compute(self) -> None:
        try:
            self._comparison = compare(self._session, self.selection_id)
        except (InputError, StorageError) as error:
            self._problem = str(error)
        except Exception as error:
            log.exception("The pool can't be scanned")
            self._problem = f"The pool can't be scanned: {error or type(error).__name__}"
        finally:
            self._done.set()
