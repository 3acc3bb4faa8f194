"""Save the codes and structures of Find similar in the project's folder, so that a restart loads them.

    indexes/similar/lsh/codes        a fitted family and the codes of the pool's rows
    indexes/similar/lsh/tables       a structure over exactly these codes
    indexes/similar/ksh-2/codes      a family that learned from answers about concept 2, with these answers
    indexes/similar/metric-2/codes   codes under the metric learned from answers about concept 2
    indexes/similar/klsh-low-rank-256-1f0c…/codes    codes with settings other than defaults (`Recipe.word`)
    indexes/similar/lsh/tables-9b21…                 a structure built with other settings

Like the indexes of the query strategies (`app.indexes.strategies`), codes are saved if the pool is complete
and building them took long enough. Saved codes are loaded if the parameters are the same, the pool is the
same or has grown, and the log still has the training labels; new rows are then coded. Codes that are damaged,
or belong to another pool or version, are rebuilt with a warning. Codes that learned from too few of the
current labels (`is_outgrown`), or belong to an earlier metric, are rebuilt without a warning. The
`KEPT_CODES` most recently used folders for learned metrics are kept, and the same number of other folders.
All older folders are removed.
"""

from __future__ import annotations

import logging
import os
import shutil
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from closecall.app.indexes.codes import (
    DEFAULT,
    building,
    coded,
    extended,
    gamma_of,
    parameters,
    searching,
    unfitted,
)
from closecall.app.indexes.recipe import Recipe
from closecall.app.indexes.strategies import GROWTH, is_worth_saving
from closecall.core.errors import InputError
from closecall.core.hashing import LearnedKernelHash
from closecall.core.search import SIMILARITY_STRUCTURES, SearchStructure, built_for_points
from closecall.core.selection.files import remove_leftovers
from closecall.core.similar import HashedSimilarity
from closecall.core.similar.files import (
    SavedCodes,
    digest_of,
    load_codes,
    load_structure,
    save_codes,
    save_structure,
)
from closecall.storage import Labels

if TYPE_CHECKING:
    from closecall.app.indexes.metric import LearnedMetric
    from closecall.core.hashing.base import Codes
    from closecall.core.hashing.similarity import SimilarityHasher
    from closecall.core.pool.pool import Pool

log = logging.getLogger(__name__)

KEPT_CODES = 3
"""Number of indexes that are kept in memory and on disk. The most recently used indexes are kept."""

KEPT_STRUCTURES = 6
"""Number of structures over the same codes that are kept on disk."""

CODES = "codes"

METRIC = "metric-"

Advanced = Callable[[int, int], None]


@dataclass(frozen=True, eq=False)
class Wanted:
    """A request for codes.

    Parameters
    ----------
    recipe : Recipe
        The settings of the codes and, for a search, of the structure. With a metric, it is a
        `Recipe.under_metric`.
    pool : Pool
        The snapshot to search.
    concept : int
        Id of the concept. If the family or the metric learns from answers, they are answers about this
        concept.
    metric : LearnedMetric or None
        The learned metric in whose space rows are coded; None for the original features.
    labels : Labels or None
        Training labels for codes that learn from them.
    """

    recipe: Recipe
    pool: Pool
    concept: int
    metric: LearnedMetric | None = None
    labels: Labels | None = None

    @property
    def word(self) -> str:
        """The name of the folder for these codes."""
        word = self.recipe.word
        if self.metric is not None:
            own = f"{METRIC}{self.concept}"
            return own if word == DEFAULT.word else f"{own}-{word}"
        return word if self.labels is None else f"{word}-{self.concept}"

    def unfitted(self, n_rows: int) -> SimilarityHasher:
        """Return the hash family, not yet fitted, for codes of `n_rows` rows."""
        return unfitted(self.recipe, self.metric.metric if self.metric is not None else None, n_rows)


@dataclass(frozen=True, eq=False)
class Coded:
    """A fitted hash family and its codes of a pool's rows.

    Parameters
    ----------
    pool : Pool
        The snapshot with the coded rows.
    hasher : SimilarityHasher
        The fitted family.
    codes : Codes
        The codes of all rows.
    labels : Labels or None
        The labels that the family learned from.
    seconds : float
        Wall-clock time of fitting and coding, extensions included.
    is_kept : bool
        Whether these codes are on disk.
    is_new : bool
        Whether all codes were computed now; False if they were loaded, or if existing codes were extended.
    """

    pool: Pool
    hasher: SimilarityHasher
    codes: Codes
    labels: Labels | None
    seconds: float
    is_kept: bool = False
    is_new: bool = False


class Kept:
    """A store of hash codes, which loads them from a folder, or builds and saves them. Not thread-safe.

    Parameters
    ----------
    folder : Path
        Folder of the saved codes.
    labels_then : callable
        Returns a concept's labels up to a log position.
    alone : bool
        Whether no other process writes to `folder`. If so, files that killed processes left are removed.
    """

    def __init__(
        self, folder: Path, labels_then: Callable[[int, int], Labels], *, alone: bool = True
    ) -> None:
        self._folder = folder
        self._labels_then = labels_then
        for own in folder.glob("*") if alone else ():
            remove_leftovers(own)

    def coded(self, wanted: Wanted, before: Coded | None, advanced: Advanced) -> Coded:
        """Return the codes of all rows.

        Parameters
        ----------
        wanted : Wanted
            The request.
        before : Coded or None
            Existing codes of the pool's first rows, made with the hash family or the metric of the request.
            If there are none, or if they are outgrown (`is_outgrown`), the store looks for saved codes.
        advanced : callable
            Called with the number of rows coded so far and the number of all rows. If it raises an exception,
            the work ends.

        Raises
        ------
        InputError
            If `app.indexes.codes.coded` raises it.
        """
        started = time.perf_counter()
        if before is None or is_outgrown(before.labels, wanted.labels):
            before = self._loaded(wanted)
        if before is not None and len(before.codes) == len(wanted.pool):
            return before
        codes = extended(before.hasher, before.codes, wanted.pool, advanced) if before is not None else None
        is_new = before is None or codes is None
        if before is not None and codes is not None:
            hasher, labels, seconds = before.hasher, before.labels, before.seconds
        else:
            hasher, codes = coded(wanted.pool, wanted.metric, advanced, wanted.recipe, wanted.labels)
            labels, seconds = wanted.labels, 0.0
        seconds += time.perf_counter() - started
        made = Coded(wanted.pool, hasher, codes, labels, seconds)
        kept = self._saved(wanted, made) if is_worth_saving(seconds, wanted.pool) else made
        return replace(kept, is_new=is_new)

    def search(self, wanted: Wanted, codes: Coded) -> tuple[HashedSimilarity, dict[str, Any]]:
        """Return the search over these codes, and its parameters for the log."""
        recipe = wanted.recipe
        structure = self._structure(wanted, codes)
        search = searching(recipe, codes.pool, codes.hasher, structure, metric=wanted.metric)
        return search, parameters(recipe, search.measure, codes.labels, gamma=gamma_of(codes.hasher))

    def touch(self, word: str) -> None:
        """Record that a folder is in use, if it exists. Thread-safe."""
        with suppress(OSError):
            os.utime(self._folder / word)

    def _structure(self, wanted: Wanted, over: Coded) -> SearchStructure:
        started = time.perf_counter()
        name, how = wanted.recipe.structure, building(wanted.recipe, len(over.codes), over.hasher)
        place = f"{wanted.word}/{wanted.recipe.structure_word}"
        folder, kind = self._folder / place, SIMILARITY_STRUCTURES[name]
        if over.is_kept and folder.is_dir():
            try:
                return load_structure(folder, kind, over.codes, how)
            except InputError as error:
                _warn_rebuild(place, error)
        built = built_for_points(name, over.codes, **how)  # type: ignore[arg-type]
        if not (over.is_kept and is_worth_saving(time.perf_counter() - started, over.pool)):
            return built
        try:
            save_structure(folder, built, over.codes, how)
            _remove_the_oldest(_structures_in(folder.parent), KEPT_STRUCTURES)
            return load_structure(folder, kind, over.codes, how)
        except (InputError, OSError) as error:
            _tell_unsaved(place, error)
            return built

    def _loaded(self, wanted: Wanted) -> Coded | None:
        """Return the saved codes, or None if there are none or they can't be used."""
        if not (self._folder / wanted.word / CODES).is_dir():
            return None
        try:
            return self._load(wanted)
        except (InputError, OSError) as error:
            _warn_rebuild(wanted.word, error)
            return None

    def _load(self, wanted: Wanted) -> Coded | None:
        """Return the saved codes, or None if they are outgrown (`is_outgrown`) or made for another metric."""
        folder = self._folder / wanted.word
        chosen = ("gamma",) if wanted.recipe.family == LearnedKernelHash.name else ()
        saved = load_codes(folder / CODES, wanted.pool, wanted.unfitted, chosen)
        pool = wanted.pool.prefix(len(saved.codes))
        if saved.also.get("pool") != pool.digest:
            raise InputError(f"{folder / CODES} was made for another pool: build the index again")
        if saved.also.get("metric") != _digest(wanted.metric):
            return None
        labels = None
        if wanted.labels is not None:
            labels = self._taught_by(saved, wanted.concept, wanted.labels)
            if labels is None:
                return None
        self.touch(wanted.word)
        return Coded(pool, saved.hasher, saved.codes, labels, _seconds(saved), is_kept=True)

    def _taught_by(self, saved: SavedCodes, concept: int, now: Labels) -> Labels | None:
        """Return the labels that a saved family learned from, or None if these are too few (`is_outgrown`).

        Raises
        ------
        InputError
            If the log does not have these labels, for example because a backup was restored.
        """
        try:
            labels = Labels(saved.arrays["items"], saved.arrays["yes"], int(saved.also["through"]))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError("it does not say what it learned from") from error
        then = self._labels_then(concept, labels.through)
        is_so = np.array_equal(then.items, labels.items) and np.array_equal(then.yes, labels.yes)
        if not is_so or labels.through > now.through:
            raise InputError("it has learned from answers that the log does not have")
        return None if is_outgrown(labels, now) else labels

    def _saved(self, wanted: Wanted, made: Coded) -> Coded:
        """Save the codes and return them as memory-mapped files; if saving fails, return them unchanged."""
        folder, labels = self._folder / wanted.word, made.labels
        also: dict[str, Any] = {"pool": made.pool.digest, "seconds": made.seconds}
        also["metric"] = _digest(wanted.metric)
        arrays = {}
        if labels is not None:
            also["through"] = labels.through
            arrays = {"items": labels.items, "yes": labels.yes}
        try:
            # Saved structures belong to the codes that are about to be replaced.
            _remove_the_oldest(_structures_in(folder), 0)
            folder.mkdir(parents=True, exist_ok=True)
            save_codes(folder / CODES, made.pool, made.hasher, made.codes, also, arrays)
            loaded = self._load(wanted)
        except (InputError, OSError) as error:
            _tell_unsaved(wanted.word, error)
            return made
        self._keep_the_newest()
        return loaded or made

    def _keep_the_newest(self) -> None:
        """Remove old folders.

        The `KEPT_CODES` most recently used folders for learned metrics are kept, and the same number of other
        folders.
        """
        folders = list(self._folder.glob("*"))
        for of_metrics in (False, True):
            own = [folder for folder in folders if folder.name.startswith(METRIC) is of_metrics]
            _remove_the_oldest(own, KEPT_CODES)


def _structures_in(folder: Path) -> list[Path]:
    """Return the folders of structures over the codes in `folder`."""
    return [one for one in folder.glob("*") if one.name.partition("-")[0] in SIMILARITY_STRUCTURES]


def _remove_the_oldest(folders: list[Path], n_kept: int) -> None:
    """Remove all folders except the `n_kept` that were used last."""
    for old in sorted(folders, key=_last_used, reverse=True)[n_kept:]:
        shutil.rmtree(old, ignore_errors=True)


def is_outgrown(learned_from: Labels | None, now: Labels | None) -> bool:
    """Return whether there are at least `GROWTH` times as many labels as the codes learned from."""
    return learned_from is not None and now is not None and len(now) >= GROWTH * len(learned_from)


def _last_used(folder: Path) -> int:
    with suppress(OSError):
        return folder.stat().st_mtime_ns
    return 0


def _seconds(saved: SavedCodes) -> float:
    seconds = saved.also.get("seconds")
    return float(seconds) if isinstance(seconds, int | float) else 0.0


def _digest(metric: LearnedMetric | None) -> str | None:
    """Return a digest of all the metric's values, or None without a metric."""
    return None if metric is None else digest_of(metric.metric.arrays())


def _warn_rebuild(word: str, error: Exception) -> None:
    log.warning("The saved index similar/%s is rebuilt: %s", word, error)


def _tell_unsaved(word: str, error: Exception) -> None:
    log.warning("The index similar/%s could not be saved and will be rebuilt next time: %s", word, error)
