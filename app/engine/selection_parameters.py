"""Parameters of selections, which the log keeps so that ``closecall verify`` can repeat a selection."""

from __future__ import annotations

from typing import Literal

from closecall.storage import SelectionRecord

SKIPPED_TOO = "skipped_too"
"""Selection parameter: whether skipped items could be chosen again."""

REMEMBERED = "remembered"
"""Selection parameter: digest of the earlier hyperplane whose scores the strategy used.

See `app.engine.strategy_memory`.
"""

SUPPOSED = "supposed"
"""Selection parameter: the answer that a look-ahead selection assumes (`app.engine.lookahead`).

It has the `answer`, the `item` that the answer is about, and the id of the `selection` that shows this item.
`trains` says whether the hyperplane was trained on this answer; it is false if the item belongs to the audit.
"""

HURRIED = "hurried"
"""Selection parameter: true if time was short (`app.engine.load`, `app.sessions.item_view`).

The parameters of the strategy are then those of its thrifty form, such as a smaller budget.
"""

INCOMPLETE = "incomplete"
"""Selection parameter: number of rows that were not searched, because workers did not answer in time.

The strategy should have read these rows (`core.workers.crew`). Such a selection can't be repeated.
"""

Sought = Literal["nearest", "likeliest", "other"]
"""What a selection looked for: the smallest |wᵀx + b|, the largest wᵀx + b, or neither."""

PART = "part"
"""Selection parameter: the part of the strategy that chose the item; see `core.selection.Selection.parts`."""

BATCH = "batch"
"""Selection parameter of items selected together.

It has the number of items requested (`n`), the minimum distance between items (`diversity`), and the item's
`place`, from 0.
"""

SEARCH = "search"
"""Selection parameter of items found by name: the `text`, and the item's `place` in the result, from 0.

The result is all items whose names contain the words of the text, ordered by id.
"""

AUDIT = "audit"
"""Selection parameter: the sampling frame of the audit from which the item was drawn.

Its `rule` is the version of the rule `core.audit.RULE`. Logs of earlier versions lack it; they follow rule 1.

An item that is shown again after an undo keeps this parameter: its new answer belongs to the audit, too.
"""

PASSED = "passed"
"""Selection parameter: the audited items passed over so far; see `app.engine.audit.Audit.passed`.

Items that a search or a lasso found always have this parameter, except in logs of earlier versions. There,
audited items could not be answered where they were found.
"""

OVERLAP = "overlap"
"""Selection parameter of items drawn for a further annotator: each item needs `persons` annotators."""

SIMILAR = "similar"
"""Selection parameter of items found by Find similar: the query, and the item's `place` from 0.

`like` describes the query (`app.sessions.similar.query`). `method` and `params` describe the search. `metric`
describes the learned metric; it is null for the angle between the original features.
"""

WORDS = "words"
"""Selection parameter of items found by words: `texts`, `excluded` texts, and the item's `place`, from 0.

The result is the items nearest to the direction of the texts. Only the first record of a page has the
direction, under `DIRECTION`.
"""

DIRECTION = "direction"
"""Selection parameter: the description in words whose direction chose the item (`app.engine.directions`)."""

LASSO = "lasso"
"""Selection parameter of items in a lasso.

It has the number of items requested (`n`), and the item's `place`, from 0. The result is the items in
the `POLYGON` that can be answered, nearest to the hyperplane first.
"""

POLYGON = "polygon"
"""Selection parameter: the lasso (`app.engine.lasso`). Only the first record of a page has it."""

PREDICTED = "predicted"
"""Selection parameter of items chosen by the predictions of another model (`app.engine.model_predictions`).

It has the number of items requested (`n`), the item's `place`, from 0, and the prediction that was shown with
the item: its `answer`, yes or no, and its `score`, which may be null.
"""

PREDICTIONS = "predictions"
"""Selection parameter: the model, the order, and the digest of the predictions.

Only the first record of a page has it.
"""

GROUPS = "groups"
"""Selection parameter: digest of the groups by which near-duplicates were left out (`excluded_items`).

See `app.engine.kept_groups`. Without this parameter, no near-duplicates were left out.
"""

GROUP_RULE = "group_rule"
"""Selection parameter: the version of the rule by which near-duplicates were left out, 1 if it is missing.

By rule 1, every skipped item could be chosen again, even if a near-duplicate had been answered since. If
items were chosen together, near-duplicates among them were left out, but not replaced by further items.
"""

RULE = 2
"""The current version of the rule; see `GROUP_RULE`."""

DESCRIBED = "described"
"""Selection parameter: the name of the description whose features the selection is based on.

See `app.projects.descriptions`. Without this parameter, it is the project's first description.
"""

OF_THE_QUERY = (
    SKIPPED_TOO,
    REMEMBERED,
    SUPPOSED,
    HURRIED,
    INCOMPLETE,
    PART,
    BATCH,
    SEARCH,
    AUDIT,
    PASSED,
    OVERLAP,
    SIMILAR,
    WORDS,
    DIRECTION,
    LASSO,
    POLYGON,
    PREDICTED,
    PREDICTIONS,
    GROUPS,
    GROUP_RULE,
    DESCRIBED,
)
"""Selection parameters that do not belong to the strategy."""

PLACED = (BATCH, SEARCH, SIMILAR, WORDS, LASSO, PREDICTED)
"""Selection parameters of items shown together with others; each has the item's `place`, from 0."""


def description_of(record: SelectionRecord) -> str:
    """Return the name of the set of features that a selection is based on; see `DESCRIBED`."""
    return str(record.parameters.get(DESCRIBED, ""))


def is_hurried(record: SelectionRecord) -> bool:
    """Return whether a thrifty form of the strategy made the selection; see `HURRIED`."""
    return HURRIED in record.parameters


def sought(strategy: str, part: str) -> Sought:
    """Return what a strategy's part looks for; `part` is empty for strategies without parts.

    Mixture's random items, and Auto's items unlike the labeled ones, need not be near the hyperplane. All
    items of strategies without parts are judged by nearness, except likely positives.
    """
    if part == "likely" or strategy == "likely-positive":
        return "likeliest"
    return "other" if part in ("random", "unlike") else "nearest"


def sought_by(record: SelectionRecord) -> Sought:
    """Return what a logged selection looked for; see `sought`."""
    return sought(record.strategy, str(record.parameters.get(PART, "")))


def missing_rows(record: SelectionRecord) -> int:
    """Return the number of rows that the selection should have searched, but could not; see `INCOMPLETE`."""
    return int(record.parameters.get(INCOMPLETE, 0))


def is_of_many(record: SelectionRecord) -> bool:
    """Return whether the item was shown together with others. After an undo, an item is shown alone."""
    return record.why != "undo" and not record.parameters.keys().isdisjoint(PLACED)


def place_of_display(record: SelectionRecord) -> str:
    """Return how the item was shown: "alone", in a "grid" of the strategy, or as result of a "search"."""
    if not is_of_many(record):
        return "alone"
    return "grid" if BATCH in record.parameters else "search"
