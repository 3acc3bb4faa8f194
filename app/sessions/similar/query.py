"""The query of Find similar: an item, an uploaded image, or all items answered yes.

Answers that were given for an audit are left out. Otherwise the items near audited positives would be
labeled, and the items that the audit describes would depend on which items were drawn (`core.audit.passing`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.numerics.rows import Rows, as_sparse
from closecall.core.pool.pool import Pool
from closecall.core.similar.queries import looked_for

if TYPE_CHECKING:
    from closecall.app.projects.uploads import Uploads
    from closecall.storage import Labels

YES = "yes"
_UPLOAD = "upload-"
_DIGEST = re.compile(r"[0-9a-f]{32}")


PAGES = 10
"""Maximum number of pages of results; items further away are hardly similar."""


@dataclass(frozen=True)
class Like:
    """A query: the `item`, or the upload with this `digest`; if both are None, all items answered yes."""

    item: int | None = None
    digest: str | None = None

    @classmethod
    def of(cls, word: str) -> Like:
        """Parse a query from the address or the log: "1234", "upload-…" or "yes".

        Raises
        ------
        InputError
            If `word` has none of these forms.
        """
        if word == YES:
            return cls()
        if word.isascii() and word.isdecimal() and len(word) < 19:
            return cls(item=int(word))
        digest = word.removeprefix(_UPLOAD)
        if word.startswith(_UPLOAD) and _DIGEST.fullmatch(digest):
            return cls(digest=digest)
        raise InputError(f"like must be the number of an item, or {YES!r}, or an upload; got {word!r:.80}")

    @property
    def word(self) -> str:
        """The query as a text that `of` can parse."""
        if self.item is not None:
            return str(self.item)
        return YES if self.digest is None else f"{_UPLOAD}{self.digest}"

    @property
    def is_yes(self) -> bool:
        """Whether the query consists of all items answered yes."""
        return self.item is None and self.digest is None


@dataclass(frozen=True, eq=False)
class Queries:
    """The rows of features whose neighbours are searched for, and the items that belong to the query.

    Parameters
    ----------
    X : array of shape (n_queries, n_features), float32, or csr_array
        Rows of unit length.
    items : array of shape (n_items,), int64, ascending
        Items of the query, which are left out of the results.
    n_known : int
        Number of rows of the query before `core.similar.queries.looked_for` reduced this number.
    """

    X: Rows
    items: NDArray[np.int64]
    n_known: int


def require_shown(like: Like, pool: Pool) -> None:
    """Check that the query is not a held-out item, because nobody may see held-out items.

    Raises
    ------
    InputError
        If the item is held out.
    """
    if like.item is not None and like.item in pool.held_out.ids:
        raise InputError(f"Item {like.item} can't be searched for: it is held out to test the classifier")


def queries_of(like: Like, pool: Pool, labels: Labels, uploads: Uploads) -> Queries:
    """Return the rows of a query. `labels` has the yes answers, except those given for an audit.

    Raises
    ------
    InputError
        If the query is an item without features, an upload that is unknown or that `Uploads.feature` refuses,
        or all items answered yes, if there is no such item.
    """
    nothing = np.empty(0, dtype=np.int64)
    if like.digest is not None:
        feature = uploads.feature(like.digest, pool)[None]
        return Queries(as_sparse(feature) if pool.is_sparse else feature, nothing, 1)
    if like.item is not None:
        items = np.array([like.item], dtype=np.int64)
        return Queries(_row_of(like.item, pool), items, 1)
    yes = labels.items[labels.yes]
    if not len(yes):
        raise InputError(
            "There are no yes answers yet (an audit's don't count here): "
            "answer yes to an item, or choose something else to search for"
        )
    return Queries(pool.rows_of(looked_for(yes)), yes, len(yes))


def _row_of(item: int, pool: Pool) -> Rows:
    """Return the item's features, of shape (1, n_features).

    Held-out items are included, because earlier versions allowed searches for them, and ``closecall verify``
    repeats all searches in the log.
    """
    held_out = np.flatnonzero(pool.held_out.ids == item)
    if len(held_out):
        return pool.held_out.X[held_out]
    try:
        return pool.rows_of(np.array([item]))
    except InputError as error:
        raise InputError(f"Item {item} can't be searched for: this pool has no features of it") from error
