"""Vectors without images, such as the collections SIFT1M and GloVe, optionally with classes."""

from __future__ import annotations

import hashlib
import json
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.numerics.randomness import hashed, seed_for
from closecall.core.numerics.rows import Rows
from closecall.core.sources.base import GREY_SIZE, Items, Problem, Source
from closecall.core.sources.class_list import read_classes
from closecall.core.sources.classes import MAX_HELD_OUT, Truth, unknown
from closecall.core.sources.embeddings import Embeddings
from closecall.core.sources.heat_map import heat_map
from closecall.core.sources.images import grey_of


class Vectors(Source):
    """The rows of a matrix in order; a tenth of those with a known class, at most 10,000, are held out.

    Parameters
    ----------
    path : Path
        A .npy, .parquet, .fvecs or .bvecs file; see `core.sources.embeddings.Embeddings`.
    labels : Path, optional
        A .npy or .txt file with one class per row; see `core.sources.class_list.read_classes`.

    Raises
    ------
    InputError
        If a file is missing or unsuitable, or a row is all zeros or not finite.
    """

    kind: ClassVar[str] = "vectors"

    def __init__(self, path: Path, labels: Path | None = None) -> None:
        embeddings = Embeddings(path)
        self._join(embeddings, labels)
        embeddings.check()

    def _join(self, embeddings: Embeddings, labels: Path | None) -> None:
        self.embeddings = embeddings
        self.labels = None if labels is None else labels.absolute()
        self.n_features = embeddings.n_features
        n = len(embeddings)
        self.classes, self._truth = unknown(n) if self.labels is None else read_classes(self.labels, n)
        self.title = f"Vectors in {embeddings.path.name}"

    def __len__(self) -> int:
        return len(self.embeddings)

    def spec(self) -> dict[str, Any]:
        """Return the paths of both files, with digests."""
        return {
            "kind": self.kind,
            "path": str(self.embeddings.path),
            "digest": self.embeddings.digest,
            "labels": None if self.labels is None else str(self.labels),
            "labels_digest": None if self.labels is None else _digest((self.classes, self._truth)),
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any], folder: Path | None) -> Self:  # noqa: ARG003
        """See `Source.from_spec`; rows were checked when the source was made and are not read again."""
        embeddings = Embeddings(Path(spec["path"]))
        if embeddings.digest != spec["digest"]:
            raise InputError(f"{embeddings.path} has changed since the pool was made")
        source = cls.__new__(cls)
        source._join(embeddings, None if spec["labels"] is None else Path(spec["labels"]))
        if source.spec()["labels_digest"] != spec["labels_digest"]:
            raise InputError(f"{source.labels} has changed since the pool was made")
        return source

    def name(self, item: int) -> str:
        """Return a name such as "vector 17", counted from 0."""
        return f"vector {item}"

    def image(self, item: int, size: int) -> Image.Image:
        """Return a drawing of the numbers; see `core.sources.heat_map`."""
        return heat_map(self.embeddings.rows(self.check_items(np.array([item])))[0], size)

    def grey(self, items: Items) -> tuple[NDArray[np.float32], list[Problem]]:
        """See `Source.grey`; returns the drawings that `image` shows."""
        items = self.check_items(items)
        grey = np.zeros((len(items), GREY_SIZE, GREY_SIZE), dtype=np.float32)
        for row, item in enumerate(items.tolist()):
            grey[row] = grey_of(self.image(item, GREY_SIZE))
        return grey, []

    def features(self, items: Items) -> Rows:
        """Return the rows as float32, not normalized."""
        return self.embeddings.rows(self.check_items(items))

    def truth(self, items: Items) -> NDArray[np.int16]:
        """See `Source.truth`."""
        return self._truth[self.check_items(items)]

    def held_out(self) -> Items:
        """See `Source.held_out`; chosen by a hash of the row number."""
        return self._held_out

    @cached_property
    def _held_out(self) -> Items:
        known = np.flatnonzero(self._truth >= 0)
        order = np.argsort(hashed(seed_for("held-out vectors", 0), known, 1)[:, 0], kind="stable")
        return np.sort(known[order[: min(MAX_HELD_OUT, len(known) // 10)]]).astype(np.int64)


def _digest(truth: Truth) -> str:
    digest = hashlib.blake2b(json.dumps(truth[0]).encode(), digest_size=8)
    digest.update(np.ascontiguousarray(truth[1]).tobytes())
    return digest.hexdigest()
