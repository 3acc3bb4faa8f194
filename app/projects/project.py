"""A project that this process serves: its pool, concepts, label database and indexes."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Self

import numpy as np
from numpy.typing import NDArray

from closecall.app.display.thumbnails import Pictures
from closecall.app.engine.concept import LiveConcept
from closecall.app.engine.kept_groups import KeptGroups
from closecall.app.engine.strategy_memory import Memories
from closecall.app.indexes.similar import Similar
from closecall.app.indexes.strategies import Indexes
from closecall.app.projects.config import ProjectFile, check_overlap
from closecall.app.projects.descriptions import describe_examples, whole_pool
from closecall.app.projects.duplicates import Duplicates
from closecall.app.projects.following import Following
from closecall.app.projects.intake import Intake
from closecall.app.projects.item_search import NameSearch
from closecall.app.projects.pool_builder import started_builder, what_is_gone
from closecall.app.projects.positive_class import positive_class_of
from closecall.app.projects.project_store import ProjectStore
from closecall.app.projects.questions import create_concept
from closecall.app.projects.roles import OPERATOR, Person, Roles
from closecall.app.projects.uploads import Uploads
from closecall.app.projects.webhooks import HappeningWatch
from closecall.app.runtime import kernels
from closecall.app.runtime.helpers import ALONE, Helpers
from closecall.core.audit import is_overlap_turn
from closecall.core.duplicates import ItemGroups
from closecall.core.errors import InputError
from closecall.core.pool.build import Progress
from closecall.core.pool.pool import Pool
from closecall.core.warmup import load_training
from closecall.storage import ConceptRecord, Concepts, Happenings, LabelLog, SessionRecord
from closecall.storage.groupings import Groupings
from closecall.storage.imports import IMPORT


class Project:
    """A project that this process serves, with one description of its items.

    The object holds the project's lock until it is closed. When the project switches to another description
    (`succeeded`), a new object replaces this object. Requests that began before can still use this object. It
    then selects with its own description, and the log names this description.

    Parameters
    ----------
    folder : Path
        The project's folder.
    roles : Roles
        The server's roles; the project file may name more people.
    former : Project or None
        The object that this object replaces, if any. This object takes over the former object's store.
    shared : bool
        Whether other servers serve the project, too.
    helpers : Helpers
        What helps this process to search the pool.

    Attributes
    ----------
    description : str
        Name of the description of the items (`app.projects.descriptions`); "" is the first.
    is_superseded : bool
        Whether another object has replaced this object.

    Raises
    ------
    InputError
        If the folder is not a project, or if another process serves it.
    StorageError
        If the database can't be used.
    """

    def __init__(
        self,
        folder: Path,
        roles: Roles | None = None,
        *,
        former: Self | None = None,
        shared: bool = False,
        helpers: Helpers = ALONE,
    ) -> None:
        self.folder = folder
        self.key = folder.name
        file = ProjectFile.read(folder)
        self.description = file.description
        self.is_superseded = False
        self._undescribed: str | None = None
        self._roles_of_server = roles
        self.roles = (roles or Roles()).joined(file.owners, file.annotators)
        with ExitStack() as undo:
            if former is None:
                self.store = undo.enter_context(ProjectStore(folder, file, shared=shared, helpers=helpers))
            else:
                self.store = former.store
            self._open_description(file)
            undo.callback(self.leave)
            self.store.file = file
            if former is None:
                self.background.submit(self._prepare_images)
                self.background.submit(self._load_training)
                self.store.take_up_leases()
                self._describe_new_examples()
            undo.pop_all()

    def _open_description(self, file: ProjectFile) -> None:
        """Open what depends on the features of the items."""
        store, description = self.store, self.description
        self.troubles, self.database, self.log = store.troubles, store.database, store.log
        self.archive, self.descriptions, self.leases = store.archive, store.descriptions, store.leases
        self.page_keys = store.page_keys
        self.executor, self.background = store.executor, store.background
        self.news, self.claims = store.news, store.claims
        is_alone = not store.is_shared
        with ExitStack() as opened:
            self.intake = Intake(self.log, lambda: self.pool, self.problem)
            self.concept_store = Concepts(self.database, description=description)
            self.builder = None if self.description else started_builder(self.folder, file)
            if self.builder:
                opened.callback(self.builder.stop)
            index_path = file.index_path(self.folder)
            self.indexes = Indexes(
                self._open_pool, index_path, news=self.news, alone=is_alone, device=store.helpers.device
            )
            self.indexes.start()
            opened.callback(self.indexes.close)
            self.duplicates = Duplicates(lambda: self.pool, KeptGroups(Groupings(self.database)))
            self.duplicates.start()
            opened.callback(self.duplicates.close)
            self.memories = Memories()
            opened.callback(self.memories.close)
            self.similar = Similar(lambda: self.pool, index_path / "similar", self.log.labels, alone=is_alone)
            store.searches.add(self.similar)
            self.uploads = Uploads(self.folder, description)
            self._names = NameSearch()
            self._pictures: Pictures | None = None
            self._live_concepts: dict[int, LiveConcept] = {}
            self._lock = threading.RLock()
            self._describing = threading.Lock()
            self._following = self._follow() if store.is_shared else None
            if self._following is not None:
                opened.callback(self._following.close)
            self._happening_watch = HappeningWatch(
                Happenings(self.database),
                description,
                lambda: self.pool,
                self._advised_concepts,
                store.sender.refresh,
                self.troubles,
            )
            self._happening_watch.start()
            opened.callback(self._happening_watch.close)
            self._opened = opened.pop_all()

    def _follow(self) -> Following:
        """Start to follow the changes that other servers make."""

        def concepts() -> dict[int, LiveConcept]:
            with self._lock:
                return dict(self._live_concepts)

        return Following(self.news, concepts, self._read_settings, self.leave_session)

    def _read_settings(self) -> None:
        self.store.file = ProjectFile.read(self.folder)

    def leave_session(self, session_id: str) -> None:
        """Do nothing here. `OpenProject` drops the session, because another server continues it."""

    @property
    def is_outdated(self) -> bool:
        """Return whether another server has switched to another description; see `succeeded`."""
        return self.store.is_shared and self.description != self.file.description

    def _prepare_images(self) -> None:
        """Compute data that all images need, so that the first image needn't wait; see `Source.prepare`."""
        if self.pool is None:
            return
        with suppress(InputError):  # the source is missing; each request for an image reports it
            self.pool.source.prepare(self.background.go_on)

    def _load_training(self) -> None:
        """Load the compiled code for training when it is ready, so that the first answer needn't wait."""
        kernels.wait_for("training")
        load_training()

    def _describe_new_examples(self) -> None:
        """Compute the features of restored example images if their backup had another description."""
        if self.description and self.pool is not None:
            try:
                describe_examples(self.concept_store, self.pool)
            except InputError as error:
                self._undescribed = str(error)

    def close(self) -> None:
        """Stop background work and release the lock."""
        self.news.publish("closed")
        self._happening_watch.close()  # before the threads that it gives work to
        self.store.stop_work()
        self.leave()
        self.store.close()

    def leave(self) -> None:
        """Stop this object's own background work, after another object has replaced it."""
        self._opened.close()

    def prepare(self, name: str) -> None:
        """Compute the missing features of example images under the description `name`.

        Call this before `succeeded`, which switches the project to the description.

        Raises
        ------
        InputError
            If the description can't be used (`app.projects.descriptions.whole_pool`), or the examples can't
            be described.
        StorageError
            If the features of examples can't be stored.
        """
        describe_examples(self.concept_store.under(name), whole_pool(self.folder, name))

    def succeeded(self, name: str, *, is_chosen: bool = False) -> Self:
        """Switch to another description of the items; return the object that replaces this one.

        Labels, questions and leases stay the same. If this fails, the former description stays in use.

        Parameters
        ----------
        name : str
            Name of the description; "" is the first description.
        is_chosen : bool
            Whether the project file names this description already, because another server uses it.

        Raises
        ------
        InputError, StorageError
            If `prepare` raises it, or the new object can't be made.
        """
        with self._describing:
            self.is_superseded = True
        try:
            self.prepare(name)  # examples may have been added since the last call
            if is_chosen:
                return type(self)(self.folder, self._roles_of_server, former=self)
            ProjectFile.change(self.folder, description=name)
            try:
                self.store.tell("settings")
                return type(self)(self.folder, self._roles_of_server, former=self)
            except BaseException:
                ProjectFile.change(self.folder, description=self.description)
                raise
        except BaseException:
            self.is_superseded = False
            raise

    @contextmanager
    def kept_in_use(self) -> Iterator[None]:
        """Keep this object's description of the items in use during the ``with`` block.

        Raises
        ------
        InputError
            If another object has replaced this object.
        """
        with self._describing:
            if self.is_superseded:
                raise InputError("Another description of the images has just been put to use: try again")
            yield

    @property
    def file(self) -> ProjectFile:
        """The project's current settings, even if this object has been superseded."""
        return self.store.file

    @property
    def pool_path(self) -> Path:
        """The pool's folder."""
        return self.file.pool_under(self.description, self.folder)

    @property
    def pool(self) -> Pool | None:
        """The newest snapshot of the pool; None while the pool has no items."""
        return self.indexes.pool

    @property
    def class_names(self) -> tuple[str, ...]:
        """Names of the items' classes; empty if there are none, or if the pool's build has not begun."""
        pool = self.pool
        if pool is None:
            with suppress(InputError):
                pool = Pool.open(self.pool_path)
        return () if pool is None else pool.classes

    @property
    def pictures(self) -> Pictures:
        """The renderer of the pool's items, with the pool's newest source. The pool must have items.

        Raises
        ------
        InputError
            If the source is missing or has changed.
        """
        with self._lock:
            assert self.pool is not None
            source = self.pool.source
            if self._pictures is None or self._pictures.source is not source:
                self._pictures = Pictures(source)
            return self._pictures

    def problem(self) -> str | None:
        """Return a sentence about a current problem of the pool or of background work, or None.

        The sentence has no addresses of databases, because people who don't run the server see it.
        """
        built = self.builder.problem() if self.builder else None
        return (
            built
            or self.indexes.problem
            or (what_is_gone(self.pool) if self.pool is not None else None)
            or self.memories.problem
            or self.similar.problem
            or self.duplicates.problem
            or (self._following.problem if self._following else None)
            or self._undescribed
            or self.troubles.first
        )

    def build_progress(self) -> Progress | None:
        """Return the progress of the pool's build; None if the pool is complete or has no builder."""
        if self.pool is not None and self.pool.complete:
            return None
        return self.builder.progress() if self.builder else None

    def is_build_stopped(self) -> bool:
        """Return whether the build of the pool has stopped early, so that `continue_build` has an effect."""
        if self.builder is None or self.is_superseded or (self.pool is not None and self.pool.complete):
            return False
        return self.builder.is_stopped()

    def continue_build(self, *, by: Person = OPERATOR) -> None:
        """Continue the build of the pool if it has stopped; otherwise, do nothing.

        Raises
        ------
        InputError
            If the person is not an owner.
        """
        by.require_owner("continue to build the pool")
        with self._lock:
            if self.builder is not None and self.is_build_stopped():
                self.builder.start()

    def search(self, text: str, pool: Pool | None = None) -> NDArray[np.int64]:
        """Return the items whose names contain every word of `text`, of shape (n_found,), ascending.

        Search `pool`, by default the newest snapshot. The result is empty if there is no pool yet.

        Raises
        ------
        InputError
            If the pool's source no longer exists.
        """
        pool = self.pool if pool is None else pool
        return np.empty(0, dtype=np.int64) if pool is None else self._names.find(pool, text)

    def concepts(self, *, archived: bool = False) -> list[ConceptRecord]:
        """Return the active concepts; if `archived`, also the archived concepts; see `Archive.offered`."""
        return self.archive.offered(archived=archived)

    def add_concept(
        self,
        question: str,
        *,
        name: str = "",
        guideline: str = "",
        positive_class: str | None = None,
        by: Person = OPERATOR,
    ) -> ConceptRecord:
        """Add another yes/no question over the same pool.

        `positive_class` is the class that means yes. None stands for the class that the question names, if
        any; "" stands for no class.

        Raises
        ------
        InputError
            If the person is not an owner, if the question is too long, or if there is no such class.
        StorageError
            If there is a concept of this name, or a value is not allowed.
        """
        by.require_owner("add questions")
        positive = positive_class_of(question, positive_class, self.class_names)
        return create_concept(self.concept_store, question, name, guideline, positive)

    def persons(self, round_number: int, seed: int) -> int:
        """Return how many people answer the item of a round: 1, except in overlap rounds (`ProjectFile`)."""
        persons, share = self.file.overlap, self.file.overlap_share
        return persons if persons > 1 and is_overlap_turn(round_number, share, seed=seed) else 1

    def set_overlap(self, persons: int, share: float, *, by: Person = OPERATOR) -> None:
        """Set the number of annotators per item, and the share of overlap rounds; see `ProjectFile`.

        Raises
        ------
        InputError
            If a value is not allowed, or the person is not an owner.
        """
        by.require_owner("set the number of people per item")
        check_overlap(persons, share)
        self.store.change(overlap=persons, overlap_share=share)

    def set_audit_share(self, concept: LiveConcept, share: float, *, by: Person = OPERATOR) -> None:
        """Set the share of rounds that draw an item for the audit, for all sessions of the concept.

        Raises
        ------
        InputError
            If the share is not in 0 … 1, or the person is not an owner.
        """
        by.require_owner("set the audit's share")
        concept.set_audit_share(share)

    def groups(self) -> ItemGroups | None:
        """Return the groups of near-duplicates; None if there are none, or if `ask_once` is false."""
        return self.duplicates.current if self.file.ask_once else None

    def groups_under(self, description: str) -> ItemGroups | None:
        """Return the groups of near-duplicates in the pool with the features named `description`.

        The result is None if there are no groups, or they can't be read.
        """
        if description == self.description:
            return self.duplicates.current
        with suppress(InputError):
            return self.duplicates.of(self.descriptions.pool(description))
        return None

    def set_ask_once(self, wanted: bool, *, by: Person = OPERATOR) -> None:
        """Set whether annotators are asked about only one item of each group of near-duplicates.

        Raises
        ------
        InputError
            If the person is not an owner.
        """
        by.require_owner("set whether near-duplicates are asked about")
        self.store.change(ask_once=wanted)

    def live_concept(self, concept_id: int) -> LiveConcept:
        """Return the concept's state in this process, which all sessions of the concept share."""
        with self._lock:
            if concept_id not in self._live_concepts:
                record = self.concept_store.get(concept_id)
                self._live_concepts[concept_id] = LiveConcept(
                    record,
                    self.log,
                    self.concept_store,
                    lambda: self.pool,
                    self.background,
                    self.groups,
                    self.descriptions.pool,
                )
            return self._live_concepts[concept_id]

    def _advised_concepts(self) -> list[LiveConcept]:
        """Return the open concepts. If a webhook asks for the advice to stop, update this advice first.

        The update opens each concept that a webhook asks about, even if no page shows it.
        """
        asking = [one for one in self.store.sender.known if "advice-to-stop" in one.kinds]
        for concept in self.concepts() if asking else ():
            if any(one.concept_id in (None, concept.id) for one in asking):
                self.live_concept(concept.id).watch(self.pool)
        with self._lock:
            return list(self._live_concepts.values())

    def sittings(self, concept_id: int | None = None) -> list[SessionRecord]:
        """Return the sessions of a concept, or all sessions, oldest first; see the function `sittings`."""
        return sittings(self.log, concept_id)

    def _open_pool(self) -> Pool | None:
        if self.builder is not None and not (self.pool_path / "pool.json").exists():
            return None
        pool = Pool.open(self.pool_path).with_crew(self.store.helpers.crew)
        return pool if len(pool) else None


def sittings(log: LabelLog, concept_id: int | None = None) -> list[SessionRecord]:
    """Return the sessions of a concept, or all sessions, oldest first; sessions of imports are left out."""
    return [record for record in log.sessions(concept_id) if IMPORT not in record.parameters]
