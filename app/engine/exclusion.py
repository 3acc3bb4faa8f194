"""The items that may not be selected: items answered or leased to others, and their near-duplicates."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from closecall.app.engine.selection_parameters import GROUP_RULE, OVERLAP, PASSED, RULE, SKIPPED_TOO, SUPPOSED
from closecall.core.selection.requests import sorted_ids
from closecall.storage import LabelState, SelectionRecord, Standing
from closecall.storage.ascending import joined, without
from closecall.storage.records import FOUND


def excluded_items(
    standing: Standing,
    leased: Sequence[int],
    *,
    include_skipped: bool,
    passed: Iterable[int] = (),
    rule: int = RULE,
) -> NDArray[np.int64]:
    """Return the items that may not be selected, ascending.

    These are the answered items, the items leased to other sessions, and the near-duplicates of both. With
    `include_skipped`, skipped items may be selected, unless a near-duplicate has an answer other than a skip.
    `rule` is the version of `GROUP_RULE`.

    An answer for the audit excludes neither its item nor the item's near-duplicates. `passed` are the
    audited items that a selection has passed over (`core.audit.pass_over`). They are excluded even if they
    were skipped.
    """
    taken = _taken(standing, leased, include_skipped=include_skipped, passed=passed)
    if standing.groups is None:
        return taken
    repeats = standing.repeats
    if include_skipped:
        again = without(standing.skipped, standing.audited)
        if rule > 1:
            again = np.intersect1d(again, repeats[~standing.repeats_answered], assume_unique=True)
        repeats = without(repeats, again)
    return joined(joined(repeats, standing.groups.members_of(leased)), taken)


def _taken(
    standing: Standing, leased: Sequence[int], *, include_skipped: bool, passed: Iterable[int]
) -> NDArray[np.int64]:
    """Return the items that `excluded_items` excludes for their own answer or lease, ascending."""
    answered = standing.answered
    if include_skipped:
        answered = without(answered, standing.skipped)
    passed_over = sorted_ids(passed)
    answered = without(answered, without(standing.audited, passed_over))
    return joined(joined(answered, np.intersect1d(standing.audited, passed_over)), sorted_ids(leased))


def excluded_from_draw(standing: Standing, leased: Sequence[int]) -> NDArray[np.int64]:
    """Return the items that the audit can't draw, ascending: answered items, and items leased to others."""
    return joined(standing.answered, sorted_ids(leased))


def excluded_from_search(
    standing: Standing, leased: Sequence[int], *, include_skipped: bool, passed: Iterable[int]
) -> NDArray[np.int64]:
    """Return the items that can't be answered even if a search finds them, ascending.

    They have an answer, or are leased to other sessions. With `include_skipped`, skipped items can be
    answered. An answer for the audit doesn't count, unless the item is in `passed`: what annotators label
    must not depend on which items were drawn. Audited items that they answer here are passed over, too.
    """
    return _taken(standing, leased, include_skipped=include_skipped, passed=passed)


def excluded_then(standing: Standing, record: SelectionRecord) -> NDArray[np.int64]:
    """Return the items that could not be selected at the time of the selection `record`, ascending.

    `standing` has the labels at that time.
    """
    include_skipped = bool(record.parameters.get(SKIPPED_TOO))
    rule = record.parameters.get(GROUP_RULE, 1)
    if record.why == "audit":
        return excluded_from_draw(standing, record.leased)
    passed = record.parameters.get(PASSED, ())
    if record.why in FOUND and PASSED not in record.parameters:
        passed = standing.audited  # in earlier versions, searches left out all audited items
    how: dict[str, Any] = {"include_skipped": include_skipped, "passed": passed}
    if record.why in ("search", "similar", "words"):
        return excluded_from_search(standing, record.leased, **how)
    return excluded_items(standing, record.leased, **how, rule=rule)


def standing_then(state: LabelState, record: SelectionRecord, annotator: str) -> Standing:
    """Return the labels that a selection was based on, including the answer that a look-ahead assumed.

    Parameters
    ----------
    state : LabelState
        State of the labels at the log position `record.trained_through`.
    record : SelectionRecord
        The selection.
    annotator : str
        The annotator of the selection's session.
    """
    supposed, persons = record.parameters.get(SUPPOSED), record.parameters.get(OVERLAP, {}).get("persons", 1)
    if supposed is None:
        return state.standing(annotator, persons)
    return state.supposing(
        supposed["item"], annotator, supposed["answer"], trains=supposed["trains"], persons=persons
    )
