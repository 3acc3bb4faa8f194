"""Checking what a strategy chose against a scan of the whole pool for the same hyperplane."""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from closecall.app.engine.training import excluded_then, standing_then, train_concept
from closecall.core.errors import InputError
from closecall.core.evaluation.rank import BruteForce
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.selection import make_strategy
from closecall.storage import SelectionRecord, Standing, StorageError

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession

log = logging.getLogger(__name__)

SCANS = 3
"""The fastest of so many counts: what the machine does beside must not make the strategy look better."""


@dataclass(frozen=True)
class Comparison:
    """A selection beside the exhaustive strategy's.

    Parameters
    ----------
    rank : int
        How many items that could have been selected are nearer to the hyperplane; 0 is exact.
    items : int
        How many could have been selected.
    margin, best : float
        |wᵀx + b| of the selected item and of the nearest.
    selection_ms : float
        What the selection took, as the log has it.
    full_scan_ms : float
        What the fastest of a few scans took just now.
    """

    rank: int
    items: int
    margin: float
    best: float
    selection_ms: float
    full_scan_ms: float


def compare(session: LabelingSession, selection_id: str) -> Comparison:
    """Scan the pool for the hyperplane that the session's selection of this id was made by.

    The hyperplane is trained again from the log; only if its digest is the selection's is it the right one.

    Raises
    ------
    InputError
        If the session has no such selection, if there was no hyperplane yet, or if the log gives another.
    """
    project = session.project
    record, pool = project.log.selection(selection_id), project.pool
    if record is None or record.session_id != session.id or pool is None:
        raise InputError(f"This session has no selection {selection_id}")
    if record.hyperplane_digest is None:
        raise InputError("There is no hyperplane before the first yes and no")
    state = project.log.state(record.concept_id, record.trained_through, is_item=pool.has_row)
    standing = standing_then(state, record, session.annotator)
    pool = pool.prefix(record.items_total)
    hyperplane = _hyperplane_then(session, record, standing)
    exclude = excluded_then(standing, record)
    exhaustive = make_strategy("exhaustive").fit(pool)
    scans = [exhaustive.select(hyperplane, exclude=exclude) for _ in range(SCANS)]
    brute_force = BruteForce(pool, hyperplane, exclude=exclude)
    return Comparison(
        rank=brute_force.rank(record.item),
        items=int(np.isfinite(brute_force.margins).sum()),
        margin=float(record.margin if record.margin is not None else np.nan),
        best=float(scans[0].margins[0]),
        selection_ms=record.selection_ms,
        full_scan_ms=1000 * min(scan.seconds for scan in scans),
    )


def _hyperplane_then(session: LabelingSession, record: SelectionRecord, standing: Standing) -> Hyperplane:
    project, through = session.project, record.examples_through
    assert project.pool is not None
    concept = replace(session.concept.record, c=record.c, class_weight=record.class_weight)
    examples = project.concept_store.examples(concept.id, through)
    trained = train_concept(project.pool, standing.labels, examples, concept, examples_through=through)
    if trained.hyperplane is None or trained.hyperplane.digest != record.hyperplane_digest:
        raise InputError("The labels in the log give another hyperplane than the one that chose this item")
    return trained.hyperplane


class Check:
    """A comparison that is under way, or done; made by one thread, asked after by others.

    Parameters
    ----------
    session : LabelingSession
    selection_id : str
        Of one of its selections.
    """

    def __init__(self, session: LabelingSession, selection_id: str) -> None:
        self.selection_id = selection_id
        self._session = session
        self._comparison: Comparison | None = None
        self._problem: str | None = None
        self._done = threading.Event()

    def start(self, executor: Executor) -> None:
        """Compute on the executor."""
        executor.submit(self._compute)

    def wait(self, seconds: float) -> bool:
        """Until it is done, but no longer; returns whether it is."""
        return self._done.wait(seconds)

    def said(self) -> dict[str, Any]:
        """For the card: the comparison's values, or what hindered it, as soon as it is done."""
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
