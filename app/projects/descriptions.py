"""The descriptions of a project's items: pools of the same items with different features.

    pool/, indexes/                        the first description, with which the project was made
    descriptions/NAME/pool, …/indexes      a further description

Labels are about items, so they stay when the project switches to another description. A further description
has the items of the first pool, with the same ids. If the first pool has grown, the further pools must be
continued (`Descriptions.build`) before they can be used. The log names the description of each selection
(`app.engine.selection_parameters.DESCRIBED`), so that ``closecall verify`` repeats the selection with the
same features.
"""

from __future__ import annotations

import os
import re
import threading
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from closecall.app.projects.config import (
    DESCRIPTION,
    DESCRIPTIONS_FOLDER,
    POOL_FOLDER,
    ProjectFile,
    home_of,
    lock_project,
)
from closecall.app.projects.pool_builder import Building, what_is_gone
from closecall.app.projects.roles import OPERATOR, Person
from closecall.app.projects.uploaded_images import describing_source, features_of_kept
from closecall.core.errors import InputError
from closecall.core.pool.build import Progress
from closecall.core.pool.build_size import FeatureType, estimate
from closecall.core.pool.manifest import MANIFEST, Manifest
from closecall.core.pool.pool import Pool
from closecall.core.pool.source_continuation import plain_spec
from closecall.core.sources.base import Source
from closecall.core.sources.descriptions import described, label_of, spec_of_images, word_of
from closecall.core.sources.embedded import Embedded
from closecall.storage import Concepts, Database

FIRST = "first"
"""Word for the first description on the command line. In the project file and the log, its name is ""."""


@dataclass(frozen=True)
class Description:
    """A description of a project's items: a pool with features of one kind.

    Parameters
    ----------
    name : str
        Its name; "" is the first description.
    label : str
        Display name of the features.
    feature_kind : str
        See `Source.feature_kind`; empty if the description can't be read.
    word : str
        The word that names its features (`core.sources.descriptions`); "" for the first description.
    n_features : int
        Number of features per item.
    items : int
        Number of items that have features, including held-out items.
    problem : str or None
        Why the description can't be used, in one sentence; None if it can be used.
    """

    name: str
    label: str
    feature_kind: str
    word: str
    n_features: int
    items: int
    problem: str | None

    @property
    def shown_name(self) -> str:
        """The name on the command line."""
        return self.name or FIRST


@dataclass(frozen=True, eq=False)
class Plan:
    """A description that is to be built or continued: its name, its source of items, and its pool's path."""

    name: str
    source: Source
    path: Path


def planned(folder: Path, word: str, provider: str | None = None) -> Plan:
    """Return the plan for the description that `word` names, in the project in `folder`.

    For `word` and `provider`, see `core.sources.descriptions.described`.

    Raises
    ------
    InputError
        If the features are the same as those of the first description, if the first description is not
        complete, if the images are missing, if the project has no images, or if the model or its provider
        can't be used.
    """
    first = _first_pool(folder)
    if not first.complete:
        raise InputError("The first description is still being built: add another one when it is complete")
    if gone := what_is_gone(first):
        raise InputError(gone)
    source = described(first.source, word, provider)
    kind = source.feature_kind(plain_spec(source), None)
    if kind == first.feature_kind:
        raise InputError(
            f"The project was made with these features: they are its first description, {FIRST!r}"
        )
    names = _names(folder)
    name = next((name for name in names if _kind_of(folder, name) == kind), None)
    name = name or _free_name(word, {FIRST, *names})
    return Plan(name, source, home_of(name, folder) / POOL_FOLDER)


def cost(plan: Plan, dtype: FeatureType | None = None) -> tuple[float, float]:
    """Estimate the disk space in bytes, and the time in seconds, that building a description takes.

    `dtype` is the type in which features are stored, by default float32. Features without a model take about
    a millisecond per image; this time is given as 0.
    """
    size = estimate(plan.source, dtype=dtype or "float32")
    if not isinstance(plan.source, Embedded):
        return size.bytes, 0.0
    return size.bytes, size.items / (plan.source.model.images_per_second * (os.cpu_count() or 1))


def descriptions(folder: Path) -> list[Description]:
    """Return the descriptions of the project in `folder`: the first description, then the rest by name."""
    return [_description(folder, name) for name in ("", *_names(folder))]


def whole_pool(folder: Path, name: str) -> Pool:
    """Return the pool that has the features of a description.

    Raises
    ------
    InputError
        If there is no such description, if it is not complete, or if its items are not those of the project's
        first description.
    """
    if name and name not in (known := _names(folder)):
        others = ", ".join([FIRST, *known])
        raise InputError(f"There is no description {name!r} here: choose one of {others}")
    pool = Pool.open(ProjectFile.read(folder).pool_under(name, folder))
    if problem := _problem(folder, name, pool):
        raise InputError(problem)
    return pool


def name_from(word: str) -> str:
    """Return the name of the description that a word on the command line names."""
    return "" if word == FIRST else word


def describe_examples(concepts: Concepts, pool: Pool) -> None:
    """Compute and store the features of example images that lack them.

    Parameters
    ----------
    concepts : Concepts
        The concepts with their example images, and the description that gives the features.
    pool : Pool
        The pool of this description.

    Raises
    ------
    InputError
        If features can't be computed from images, for example because the model is missing.
    StorageError
        If the features can't be stored.
    """
    if not (examples := concepts.undescribed()):
        return
    try:
        source = describing_source(pool)
        features = [(example.id, features_of_kept(example.image, source)) for example in examples]
    except InputError as error:
        raise InputError(f"The example images can't be described: {error}") from error
    for example, feature in features:
        concepts.describe_example(example, feature)


def use_description(folder: Path, name: str) -> None:
    """Switch a project that is not being served to a description (a set of features).

    The name "" means the project's first description.

    Raises
    ------
    InputError
        If the project is being served, if the description can't be used (`whole_pool`), or if the examples
        can't be described.
    StorageError
        If the features of examples can't be stored.
    """
    with lock_project(folder):
        file, pool = ProjectFile.read(folder), whole_pool(folder, name)
        with Database.open(file.labels(folder), alone=True, copies_in=folder) as database:
            describe_examples(Concepts(database, description=name), pool)
        ProjectFile.change(folder, description=name)


class Descriptions:
    """The descriptions of a served project's items, and the processes that build them. Thread-safe.

    Parameters
    ----------
    folder : Path
        The project's folder.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._buildings: dict[str, Building] = {}
        self._pools: dict[str, Pool] = {}
        self._lock = threading.Lock()

    def close(self) -> None:
        """Stop building. The items built so far are kept."""
        for building in list(self._buildings.values()):
            building.stop()

    def all(self) -> list[Description]:
        """Return the descriptions; see `descriptions`."""
        return descriptions(self._folder)

    def build(
        self,
        word: str,
        provider: str | None = None,
        dtype: FeatureType | None = None,
        *,
        by: Person = OPERATOR,
    ) -> str:
        """Start to build or continue the description that `word` names, and return its name.

        For `word` and `provider`, see `planned`; for `dtype`, `core.pool.build.build`.

        Raises
        ------
        InputError
            If `planned` raises it, or the person is not an owner.
        """
        by.require_owner("describe the images again")
        plan = planned(self._folder, word, provider)
        with self._lock:
            before = self._buildings.get(plan.name)
            if before is None or not before.is_running:
                plan.path.parent.mkdir(parents=True, exist_ok=True)
                words = ["describe", str(self._folder), "--by", word, "--quiet", "--wait"]
                if provider is not None:
                    words += ["--provider", provider]
                if dtype is not None:
                    words += ["--dtype", dtype]
                building = self._buildings[plan.name] = Building(plan.path, words, self._folder)
                building.start()
        return plan.name

    def stop(self, name: str, *, by: Person = OPERATOR) -> None:
        """Stop building a description; `build` continues it.

        Raises
        ------
        InputError
            If the person is not an owner.
        """
        by.require_owner("stop describing the images")
        with self._lock:
            building = self._buildings.get(name)
        if building is not None:
            building.stop()

    def being_built(self) -> dict[str, Progress | None]:
        """Return the progress of each description that this process builds, by name; None if unknown."""
        with self._lock:
            running = {name: one for name, one in self._buildings.items() if one.is_running}
        return {name: building.progress() for name, building in running.items()}

    def problem(self, name: str) -> str | None:
        """Return a sentence that says why a description could not be built, or None."""
        building = self._buildings.get(name)
        return building.problem() if building is not None else None

    def pool(self, name: str) -> Pool:
        """Return the pool with the features of a description, complete or not.

        Raises
        ------
        InputError
            If the pool can't be read.
        """
        with self._lock:
            path = ProjectFile.read(self._folder).pool_under(name, self._folder)
            known = self._pools.get(name)
            pool = self._pools[name] = known.refreshed() if known is not None else Pool.open(path)
            return pool


def _first_pool(folder: Path) -> Pool:
    return Pool.open(ProjectFile.read(folder).pool_under("", folder))


def _names(folder: Path) -> list[str]:
    """Return the sorted names of the further descriptions that have a pool, complete or not."""
    try:
        found = sorted(path.name for path in (folder / DESCRIPTIONS_FOLDER).iterdir())
    except OSError:
        return []
    begun = (name for name in found if DESCRIPTION.fullmatch(name))
    return [name for name in begun if (home_of(name, folder) / POOL_FOLDER / MANIFEST).is_file()]


def _kind_of(folder: Path, name: str) -> str | None:
    try:
        return Pool.open(home_of(name, folder) / POOL_FOLDER).feature_kind
    except InputError:
        return None


def _free_name(word: str, taken: set[str]) -> str:
    path = Path(word.partition("#")[0]).expanduser().resolve()
    stem = path.stem if path.suffix == ".onnx" else path.name
    stem = re.sub(r"[^a-z0-9]+", "-", stem.lower()).strip("-")[:40] or "model"
    name, number = stem, 2
    while name in taken:
        name, number = f"{stem}-{number}", number + 1
    return name


def _description(folder: Path, name: str) -> Description:
    path = ProjectFile.read(folder).pool_under(name, folder)
    try:
        pool, spec = Pool.open(path), Manifest.read(path).source
        about: dict[str, Any] = {
            "label": label_of(spec, pool.feature_kind),
            "feature_kind": pool.feature_kind,
            "word": word_of(spec) if name else "",
            "n_features": pool.n_features,
            "items": len(pool) + len(pool.held_out),
            "problem": _problem(folder, name, pool),
        }
    except InputError as error:
        about = {"label": name or FIRST, "feature_kind": "", "word": "", "n_features": 0, "items": 0}
        about["problem"] = str(error)
    return Description(name, **about)


def _problem(folder: Path, name: str, pool: Pool) -> str | None:
    """Return a sentence that says why the description `name` with this pool can't be used, or None."""
    if not name:
        return None
    if not pool.complete:
        return f"The description {name} is not complete: continue it first"
    first, own = (
        Manifest.read(path) for path in (ProjectFile.read(folder).pool_under("", folder), pool.path)
    )
    if spec_of_images(first.source) != spec_of_images(own.source):
        return (
            f"The description {name} has other items ({own.items:,}) than the first one ({first.items:,}): "
            f"continue it first"
        )
    return None
