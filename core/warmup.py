"""Compile all kernels in the order in which the application needs them: ``python -m closecall.core.warmup``.

The warm-up builds very small pools of images and texts. It selects items with every query strategy, and again
with the loaded and the extended index of the strategy. It finds similar items with every search structure.
Each kernel is thus compiled for the argument types that the application uses. Numba keeps the machine code on
disk, so a second warm-up takes only a few seconds.

With the option ``--report``, a line is printed after each percent and each step. The line contains the share
of kernels compiled, from 0 to 1, and the names of the completed steps (see
`closecall.core.numerics.kernel_cache.Step`). The option also lowers the priority of the process.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args

import numpy as np
from numba.core import event

from closecall.core.hashing import MetricLSH, MinHash, RandomHyperplaneLSH, SimilarityHasher
from closecall.core.hashing.pool import hash_rows
from closecall.core.learning.round import Labels, accuracy, is_positive, learn
from closecall.core.mercer import ChiSquared, Intersection
from closecall.core.metric import ITML, Constraints, KernelLearning
from closecall.core.metric.itml import Form
from closecall.core.numerics.kernel_cache import Step, marker
from closecall.core.pool.build import build
from closecall.core.pool.pool import Pool
from closecall.core.search import SIMILARITY_STRUCTURES, HammingBall, built_for_points
from closecall.core.selection import STRATEGIES, QueryStrategy, make_strategy
from closecall.core.selection.hashed import HashedSearch
from closecall.core.similar import ByAngle, ExactSearch, HashedSimilarity, nearness_of
from closecall.core.similar.files import load_codes, load_structure, save_codes, save_structure
from closecall.core.similar.index import StructureName
from closecall.core.sources import source_from

ITEMS = 400
FUNCTIONS = 16
"""Number of hash functions per family; the compiled kernels work for any number."""

COMPILATIONS = 378
"""Number of functions that Numba compiles in a complete warm-up, including functions of Numba itself.

The share that ``--report`` prints is the share of this number.
"""

NICE = 10
"""Niceness that ``--report`` adds to the process, so that the web server has priority.

The process that builds a pool adds the same number.
"""


def warm_up(complete: Callable[[Step], None] = lambda _: None) -> None:
    """Compile the kernels that are not on disk yet. Call `complete` with the name of each completed step."""
    with TemporaryDirectory(prefix="closecall-") as folder:
        # Train on random rows first. Features of images need other kernels, which the process that builds a
        # pool compiles at the same time.
        rows = np.random.default_rng(0).normal(size=(ITEMS, 8)).astype(np.float32)
        learn(Labels(np.arange(ITEMS), rows, rows[:, 0] > 0))
        pool = build(source_from(f"digits:{ITEMS}"), Path(folder) / "pool")
        pool.source.image(0, 64)
        ids = pool.ids[:100]
        labels = Labels.of(pool, ids, is_positive(pool.truth(ids), 7))
        _play(pool, labels, make_strategy("exhaustive"), Path(folder) / "exhaustive")
        complete("training")
        for strategy in _plain_strategies():
            _play(pool, labels, strategy, Path(folder) / strategy.name)
        complete("selection")
        for strategy in _hashed_strategies():
            _play(pool, labels, strategy, Path(folder) / strategy.name)
        halves = build(source_from(f"digits:{ITEMS}"), Path(folder) / "halves", dtype="float16")
        make_strategy("exhaustive").fit(halves).select(learn(labels).hyperplane)
        _of_bytes(Path(folder))
        _of_texts(Path(folder))
        _similar(pool, labels, Path(folder) / "similar")
    marker().parent.mkdir(exist_ok=True)  # Python creates this folder only if it may write byte code there
    marker().touch()
    complete("everything")


def _of_bytes(folder: Path) -> None:
    """Select items of a byte pool, by its own bytes and by scans of one and of several hyperplanes."""
    pool = build(source_from(f"edges:digits:{ITEMS}"), folder / "bytes", dtype="byte")
    labels = Labels.of(pool, pool.ids[:100], is_positive(pool.truth(pool.ids[:100]), 7))
    for name in ("exhaustive", "margin-index"):
        _play(pool, labels, make_strategy(name), folder / f"bytes-{name}")
    hyperplane = learn(labels).hyperplane
    assert hyperplane is not None
    list(pool.score_blocks([hyperplane] * 2))


def _of_texts(folder: Path) -> None:
    """Select texts and find similar ones, which compiles the kernels for sparse rows.

    Texts are also hashed with all their features (`n_directions=None`), which uses further kernels.
    """
    words = np.random.default_rng(0).integers(0, 2 * ITEMS, (ITEMS, 20))
    for number, row in enumerate(words.tolist()):
        file = folder / "documents" / f"class{number % 2}" / f"{number}.txt"
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(" ".join(f"word{word}" for word in row))
    pool = build(source_from(f"texts:{folder / 'documents'}"), folder / "texts")
    labels = Labels.of(pool, pool.ids[:60], is_positive(pool.truth(pool.ids[:60]), 1))
    everything = [
        make_strategy(name, n_functions=FUNCTIONS, n_directions=None)
        for name in ("h-hash-weighted", "eh-hash-weighted")
    ]
    for strategy in [*_plain_strategies(), *_hashed_strategies(every_structure=False), *everything]:
        _play(pool, labels, strategy, folder / f"texts-{strategy.name}")
    hyperplane = learn(labels).hyperplane
    assert hyperplane is not None
    accuracy(hyperplane, pool.held_out.X, pool.held_out.truth, 1)
    list(pool.score_blocks([hyperplane] * 2))
    _similar(pool, labels, folder / "texts-similar")


def _similar(pool: Pool, labels: Labels, folder: Path) -> None:
    """Find similar items with every structure, under the original metric and a learned one."""
    X = pool.rows(np.arange(ITEMS // 2))
    if not pool.is_sparse:
        for kernel in (ChiSquared(), Intersection()):
            kernel.matrix(X[:2], X[:3])
    constraints = Constraints.from_labels(labels.X, labels.y.astype(np.int64))
    KernelLearning(max_passes=1).fit(np.eye(labels.X.shape[0]), constraints)
    forms: tuple[Form, ...] = ("implicit",) if pool.is_sparse else get_args(Form)
    metrics = [ITML(form=form, max_passes=1).fit(labels.X, constraints).metric_ for form in forms]
    families: list[SimilarityHasher] = [RandomHyperplaneLSH(n_functions=30).fit(X)]
    families += [MetricLSH(metric=metric, n_functions=30).fit(X) for metric in metrics]
    if pool.is_sparse:
        families += [MinHash(weighted=weighted, bits=1, n_functions=30).fit(X) for weighted in (False, True)]
        families += [MinHash(bits=2, n_functions=30).fit(X)]
    for family in families:
        codes = hash_rows(family, pool.blocks(), len(pool), _ignore)
        save_codes(folder / "codes", pool, family, codes, {}, {})
        saved = load_codes(folder / "codes", pool, _maker(family))
        how = {"n_compared": 100, "n_bytes": 10**6, "seed": 0}
        for name in get_args(StructureName):
            if name == HammingBall.name and family.bits > 1:
                continue
            built = built_for_points(name, codes, **how)
            save_structure(folder / name, built, codes, how)
            loaded = load_structure(folder / name, SIMILARITY_STRUCTURES[name], saved.codes, how)
            for hasher, structure in ((family, built), (saved.hasher, loaded)):
                HashedSimilarity(hasher, structure, nearness_of(pool, family)).neighbours(X[:1])
                HashedSimilarity(hasher, structure, ByAngle(pool)).neighbours(X[:2])
        ExactSearch(nearness_of(pool, family)).neighbours(X[:1])
        ExactSearch(ByAngle(pool)).neighbours(X[:2])


def _maker(family: SimilarityHasher) -> Callable[[int], SimilarityHasher]:
    return lambda _: type(family)(**family.params())


def _ignore(_: int) -> None:
    """Ignore the progress."""


def load_training() -> None:
    """Load the machine code of training into this process.

    This takes a few tenths of a second if the code is on disk.
    """
    learn(Labels(np.arange(4), np.eye(4, dtype=np.float32), np.arange(4) < 2))


def _plain_strategies() -> list[QueryStrategy]:
    plain = [make_strategy(name) for name, kind in STRATEGIES.items() if not issubclass(kind, HashedSearch)]
    return [*plain, make_strategy("margin-index", budget=None)]


def _hashed_strategies(*, every_structure: bool = True) -> list[QueryStrategy]:
    made: list[QueryStrategy] = []
    for name, kind in STRATEGIES.items():
        if issubclass(kind, HashedSearch):
            structures = (
                list(kind.structures) if every_structure else [make_strategy(name).params()["structure"]]
            )
            made += [make_strategy(name, n_functions=FUNCTIONS, structure=one) for one in structures]
    return made


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


class _Report(event.Listener):
    """Listener that prints the share of kernels that Numba has compiled, and the steps that are complete."""

    def __init__(self) -> None:
        self._compiled = 0
        self._share = 0.0
        self._complete: list[Step] = []

    def on_start(self, event: Any) -> None:
        """Ignore the start of a compilation."""

    def on_end(self, event: Any) -> None:  # noqa: ARG002
        """Count a compilation, and print every whole percent."""
        self._compiled += 1
        share = min(0.99, round(self._compiled / COMPILATIONS, 2))
        if share > self._share:
            self._share = share
            self._print()

    def complete(self, step: Step) -> None:
        """Print that a step is complete."""
        self._complete.append(step)
        self._print()

    def _print(self) -> None:
        print(self._share, *self._complete, flush=True)


def main() -> None:
    """Run the warm-up as a command."""
    if "--report" in sys.argv[1:]:
        if hasattr(os, "nice"):
            os.nice(NICE)
        report = _Report()
        with event.install_listener("numba:compile", report):
            warm_up(report.complete)
    else:
        warm_up()


if __name__ == "__main__":
    main()
