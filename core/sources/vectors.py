"""Vectors without images, such as SIFT1M, optionally with classes or with queries."""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.sources.base import Items, Problem, Source, changed
from closecall.core.sources.class_list import read_classes
from closecall.core.sources.classes import digest_of, some_of_known, unknown
from closecall.core.sources.embeddings import Embeddings
from closecall.core.sources.heat_map import heat_map
from closecall.core.sources.images import grey_drawings


class Vectors(Source):
    """Source of the rows of a matrix.

    Queries are additional items after the rows, and are held out. If there are classes instead of queries, a
    tenth of the rows with a known class, at most 10,000, are held out. Otherwise, nothing is held out.

    Parameters
    ----------
    path : Path
        A .npy, .parquet, .fvecs or .bvecs file; see `core.sources.embeddings.Embeddings`.
    labels : Path, optional
        A .npy or .txt file with one class per row; see `core.sources.class_list.read_classes`.
    queries : Path, optional
        A file in one of the formats of `path`, with vectors to search for. Their classes are unknown.

    Raises
    ------
    InputError
        If a file is missing or unsuitable, if a row is all zeros or not finite, if the queries have another
        number of features than the rows, or if there are both labels and queries.
    """

    kind: ClassVar[str] = "vectors"
    item_word: ClassVar[str] = "vector"

    def __init__(self, path: Path, labels: Path | None = None, *, queries: Path | None = None) -> None:
        if labels is not None and queries is not None:
            raise InputError(f"vectors take either classes or queries, got {labels} and {queries}")
        self._join(Embeddings(path), labels, None if queries is None else Embeddings(queries))
        self.embeddings.check()
        if self.queries is not None:
            self.queries.check()

    def _join(self, embeddings: Embeddings, labels: Path | None, queries: Embeddings | None) -> None:
        self.embeddings = embeddings
        self.queries = queries
        self.labels = None if labels is None else labels.absolute()
        self.n_features = embeddings.n_features
        if queries is not None and queries.n_features != self.n_features:
            raise InputError(
                f"{embeddings.path} has rows of {self.n_features:,} numbers, and {queries.path} of "
                f"{queries.n_features:,}: all must have the same length"
            )
        n = len(self)
        self.classes, self._truth = unknown(n) if self.labels is None else read_classes(self.labels, n)
        self.title = f"Vectors in {embeddings.path.name}"

    def __len__(self) -> int:
        return len(self.embeddings) + (0 if self.queries is None else len(self.queries))

    def spec(self) -> dict[str, Any]:
        """Return the paths of the files, with digests."""
        return {
            "kind": self.kind,
            "path": str(self.embeddings.path),
            "digest": self.embeddings.digest,
            "labels": None if self.labels is None else str(self.labels),
            "labels_digest": None if self.labels is None else digest_of((self.classes, self._truth)),
            "queries": None if self.queries is None else str(self.queries.path),
            "queries_digest": None if self.queries is None else self.queries.digest,
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any], folder: Path | None) -> Self:  # noqa: ARG003
        """See `Source.from_spec`. Rows were checked when the source was made, and are not read again."""
        embeddings = _unchanged(spec["path"], spec["digest"])
        queries = None
        if spec["queries"] is not None:
            queries = _unchanged(spec["queries"], spec["queries_digest"])
        source = cls.__new__(cls)
        source._join(embeddings, None if spec["labels"] is None else Path(spec["labels"]), queries)
        if source.spec()["labels_digest"] != spec["labels_digest"]:
            raise changed(source.labels)
        return source

    @classmethod
    def feature_kind(cls, spec: dict[str, Any], folder: Path | None) -> str:  # noqa: ARG003
        """Return "embeddings". The model that computed the embeddings is not known."""
        return "embeddings"

    def name(self, item: int) -> str:
        """Return a name such as "vector 17" or "query 3", counted from 0."""
        n = len(self.embeddings)
        return f"vector {item}" if item < n else f"query {item - n}"

    def image(self, item: int, size: int) -> Image.Image:
        """Return a drawing of the numbers; see `core.sources.heat_map`."""
        return heat_map(self.features(np.array([item]))[0], size)

    def grey(self, items: Items) -> tuple[NDArray[np.float32], list[Problem]]:
        """Return the drawings of `image` in grayscale; see `Source.grey`."""
        return grey_drawings(self, items), []

    def features(self, items: Items) -> NDArray[np.float32]:
        """Return the rows as float32, not normalized."""
        items, n = self.check_items(items), len(self.embeddings)
        if self.queries is None:
            return self.embeddings.rows(items)
        is_query = items >= n
        rows = np.empty((len(items), self.embeddings.n_features), dtype=np.float32)
        rows[~is_query] = self.embeddings.rows(items[~is_query])
        rows[is_query] = self.queries.rows(items[is_query] - n)
        return rows

    def truth(self, items: Items) -> NDArray[np.int16]:
        """See `Source.truth`."""
        return self._truth[self.check_items(items)]

    def held_out(self) -> Items:
        """See `Source.held_out`. Return the queries or, without queries, items chosen by a hash."""
        return self._held_out

    @cached_property
    def _held_out(self) -> Items:
        if self.queries is not None:
            return np.arange(len(self.embeddings), len(self), dtype=np.int64)
        return some_of_known(self._truth)


def _unchanged(path: str, digest: str) -> Embeddings:
    embeddings = Embeddings(Path(path))
    if embeddings.digest != digest:
        raise changed(embeddings.path)
    return embeddings
