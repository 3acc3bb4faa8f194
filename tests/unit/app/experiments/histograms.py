"""Items for kernels on histograms, made in a moment: GIST of as many digits takes seconds."""

from __future__ import annotations

import string

import numpy as np

from closecall.core.sources import KINDS
from tests.fakes import FakeSource


class Histograms(FakeSource):
    """A source of random embeddings of unit norm none of whose numbers is negative."""

    kind = "fake-histograms"

    def features(self, items: np.ndarray) -> np.ndarray | None:
        """See `FakeSource`."""
        X = super().features(items)
        return None if X is None else np.abs(X)


KINDS[Histograms.kind] = Histograms


def ten_classes(n_items: int, n_held_out: int) -> Histograms:
    """A source with so many items that are not held out, which a hyperplane tells apart by and large."""
    return Histograms(
        n_items + n_held_out,
        24,
        classes=tuple(string.ascii_lowercase[:10]),
        held_out=range(n_items, n_items + n_held_out),
        separation=1.5,
    )
