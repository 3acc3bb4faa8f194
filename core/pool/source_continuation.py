"""Check whether the first items of a source are the items of a pool."""

from __future__ import annotations

import json
import threading
from typing import Any

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.features import compute, n_features
from closecall.core.numerics.rows import Rows, is_sparse
from closecall.core.pool.manifest import Manifest
from closecall.core.pool.pool import Pool
from closecall.core.quantization.byte_rows import replaced
from closecall.core.sources import Source

OTHER_CLASSES = "different classes"
SAMPLED = 64
TOLERANCE = {"float32": 1e-3, "float16": 2e-3, "byte": 0.02}
"""Largest accepted difference of a feature, by storage type. Features differ a little between machines."""


def plain_spec(source: Source) -> dict[str, Any]:
    """Return the source's spec after a round trip through JSON."""
    spec: dict[str, Any] = json.loads(json.dumps(source.spec()))
    return spec


def require_continuation(pool: Pool, manifest: Manifest, source: Source) -> None:
    """Check that `source` starts with the items of `pool`, by comparing the features of a sample.

    Raises
    ------
    InputError
        If `source` does not start with these items. The message names the difference or, if only the classes
        from subfolders differ, the option of ``closecall pool build`` that mends this.
    """
    difference = _difference(pool, manifest, source)
    if difference is None:
        return
    advice = f"and {source.title} does not continue it ({difference}): build it in a new folder"
    if difference == OTHER_CLASSES:
        bare = source.without_folder_classes()
        if bare is not source and _difference(pool, manifest, bare) is None:
            advice = "without its subfolders as classes: give --no-classes to continue it"
        elif not source.classes and _leaves_out_classes(plain_spec(source)):
            advice = "with its subfolders as classes: leave out --no-classes to continue it"
    raise InputError(f"the pool {pool.path} was built from {pool.title}, {advice}")


def _leaves_out_classes(spec: dict[str, Any]) -> bool:
    """Return whether subfolders are not classes in the source that returned `spec`, or in one within it."""
    within = [value for value in spec.values() if isinstance(value, dict)]
    return spec.get("use_classes") is False or any(map(_leaves_out_classes, within))


def _difference(pool: Pool, manifest: Manifest, source: Source) -> str | None:
    """Return what prevents `source` from continuing the pool, or None."""
    if source.kind != manifest.source.get("kind"):
        return f"{source.kind} instead of {manifest.source.get('kind')}"
    if len(source) < manifest.items:
        return f"{len(source):,} items instead of {manifest.items:,}"
    if source.classes != manifest.classes:
        return OTHER_CLASSES
    if n_features(source) != pool.n_features:
        return f"{n_features(source)} features per item instead of {pool.n_features}"
    held_out = source.held_out()
    if len(held_out) != manifest.n_held_out or not np.isin(pool.held_out.ids, held_out).all():
        return "different held-out items"
    for ids in (pool.ids, pool.held_out.ids):
        some = ids[np.unique(np.linspace(0, len(ids) - 1, min(SAMPLED, len(ids))).astype(np.int64))]
        if not len(some):
            continue
        with source.reading_ahead(threading.Event()) as announce:
            announce(some)
            X, kept, _ = compute(source, some)
        before = pool.rows_of(some) if ids is pool.ids else pool.held_out.X[np.searchsorted(ids, some)]
        if not np.array_equal(kept, some):
            lost = int(np.setdiff1d(some, kept)[0])
            return f"item {lost}, {source.name(lost)}, can no longer be read"
        largest = _largest(X - before)
        if pool.codebook is not None and ids is pool.ids:  # bytes may describe an unchanged item poorly
            largest = np.minimum(largest, _largest(replaced(X, pool.codebook) - before))
        apart = (largest > TOLERANCE[manifest.dtype]) | (source.truth(some) != pool.truth(some))
        if apart.any():
            other = int(some[np.argmax(apart)])
            return f"item {other} has changed, {source.name(other)}"
    return None


def _largest(differences: Rows) -> NDArray[np.float32]:
    """Return the largest absolute value in each row."""
    largest = abs(differences).max(axis=1)
    return np.ravel(largest.toarray() if is_sparse(largest) else largest)
