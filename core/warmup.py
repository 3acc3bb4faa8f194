"""Compiles what Numba compiles, so that no first click waits for it: ``python -m core.warmup``.

It builds a very small pool and asks every query strategy for an item of it, also from an index that was
saved and from one that has grown: the kernels meet the very types that they will meet later. Numba keeps
the machine code on the disk; where it is there already, this takes a few seconds.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

from core.build import build
from core.learner import Labels, is_positive, learn
from core.pool import Pool
from core.search import STRUCTURES
from core.selection import STRATEGIES, QueryStrategy, make_strategy
from core.selection.hashed import HashedSearch
from core.sources import source_from

ITEMS = 400


def warm_up() -> None:
    """Play one round of everything on a pool in miniature."""
    with TemporaryDirectory(prefix="marginalia-") as folder:
        pool = build(source_from(f"digits:{ITEMS}"), Path(folder) / "pool")
        pool.source.image(0, 64)
        ids = pool.ids[:100]
        labels = Labels.of(pool, ids, is_positive(pool.truth(ids), 7))
        for strategy in _strategies():
            _play(pool, labels, strategy, Path(folder) / strategy.name)
        halves = build(source_from(f"digits:{ITEMS}"), Path(folder) / "halves", dtype="float16")
        make_strategy("exhaustive").fit(halves).select(learn(labels).hyperplane)


def load_training() -> None:
    """Load the machine code of training into this process; a few tenths of a second, if it is on the disk."""
    learn(Labels(np.arange(4), np.eye(4, dtype=np.float32), np.arange(4) < 2))


def _strategies() -> list[QueryStrategy]:
    plain = [make_strategy(name) for name, kind in STRATEGIES.items() if not issubclass(kind, HashedSearch)]
    hashed = [name for name, kind in STRATEGIES.items() if issubclass(kind, HashedSearch)]
    plain.append(make_strategy("margin-index", budget=None))
    return plain + [make_strategy(name, structure=structure) for name in hashed for structure in STRUCTURES]


def _play(pool: Pool, labels: Labels, strategy: QueryStrategy, folder: Path) -> None:
    hyperplane = learn(labels).hyperplane
    assert hyperplane is not None
    fitted = strategy.fit(pool.prefix(len(pool) // 2))
    fitted.save(folder)
    loaded = type(fitted).load(folder, pool)
    for index in (fitted, loaded, fitted.extended(pool)):
        index.select(hyperplane, exclude=labels.ids)
        index.select(hyperplane, exclude=np.empty(0, dtype=np.int64))
        index.select(hyperplane, memory=index.remember([hyperplane])[0])


if __name__ == "__main__":
    warm_up()
