"""The yes/no questions of a project: read and add questions, even if the project is not being served."""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from closecall.app.projects.config import AlreadyServedError, ProjectFile, lock_project
from closecall.app.projects.positive_class import positive_class_of
from closecall.app.projects.spelling import folded
from closecall.core.errors import InputError
from closecall.core.linear.svm import DEFAULT_C, DEFAULT_CLASS_WEIGHT
from closecall.core.pool.pool import Pool
from closecall.storage import Archive, ConceptRecord, Concepts, Database, StorageError
from closecall.storage.models import MAX_NAME


def create_concept(
    concepts: Concepts, question: str, name: str, guideline: str, positive_class: str | None
) -> ConceptRecord:
    """Add a concept for a yes/no question, with the default SVM; its name defaults to the question.

    Raises
    ------
    InputError
        If there is no name and the question is too long for a name.
    StorageError
        If there is a concept of this name, if an active concept's question differs only in letter case or
        spaces, or if a value is not allowed.
    """
    stem = question.strip(" ?")
    for other in Archive(concepts.database).offered():
        if other.question != question and _key(other.question) == _key(question):
            raise StorageError(f"the project asks {other.question!r} already", "exists")
    if not name and len(stem) > MAX_NAME:
        raise InputError(f"The question is too long ({MAX_NAME} characters at most, got {len(stem)})")
    return concepts.create(
        name or stem,
        question,
        guideline=guideline.strip(),
        positive_class=positive_class,
        c=DEFAULT_C,
        class_weight=DEFAULT_CLASS_WEIGHT,
    )


def copy_concept(
    concepts: Concepts,
    concept: ConceptRecord,
    name: str,
    *,
    archived: bool = False,
    in_its_place: bool = False,
) -> ConceptRecord:
    """Add a concept that asks the same question, without labels or example images.

    If `archived`, the copy is archived. If `in_its_place`, the copy replaces the original, which is then
    archived.

    Raises
    ------
    StorageError
        If there is a concept of this name, or if another concept has replaced the original already.
    """
    return concepts.create(
        name,
        concept.question,
        guideline=concept.guideline,
        positive_class=concept.positive_class,
        c=concept.c,
        class_weight=concept.class_weight,
        archived=archived,
        instead_of=concept.id if in_its_place else None,
    )


def meant_by(
    text: str, concepts: Collection[ConceptRecord], active: Collection[ConceptRecord]
) -> list[ConceptRecord]:
    """Return the concepts that a text may mean: none, one or, if it is ambiguous, several.

    The concept with exactly this name goes first, then concepts with exactly this question, then concepts
    whose name or question differs only in letter case, spaces or the question mark. Active concepts go before
    archived ones, such as those that were reset.

    Parameters
    ----------
    text : str
        A name or a question, as a person or a file gives it.
    concepts : collection of ConceptRecord
        All concepts of the project.
    active : collection of ConceptRecord
        The active ones among them.
    """
    wanted, key = text.strip(), _key(text)
    steps = [[its for its in concepts if its.name == wanted]]
    for group in (active, concepts):
        steps.append([its for its in group if its.question == wanted])
        steps.append([its for its in group if key in (_key(its.name), _key(its.question))])
    return next(filter(None, steps), [])


def _key(question: str) -> str:
    """Return the form in which questions and their names are compared: without the question mark, too."""
    return folded(question).strip(" ?")


def classes_of(project: Path) -> tuple[str, ...]:
    """Return the names of the classes of a project's items; empty if there are none.

    Raises
    ------
    InputError
        If there is no project, or its pool can't be read.
    """
    return Pool.open(ProjectFile.read(project).pool_path(project)).classes


def questions_of(project: Path) -> list[ConceptRecord]:
    """Return the active questions of a project. The project may be served at the same time."""
    with Database.open(ProjectFile.read(project).labels(project), read_only=True) as database:
        return Archive(database).offered()


def add_question(
    project: Path, question: str, *, name: str = "", guideline: str = "", positive_class: str | None = None
) -> ConceptRecord:
    """Add a question to a project that is not being served.

    `positive_class` is the class that means yes. None stands for the class that the question names, if any;
    "" stands for no class.

    Raises
    ------
    InputError
        If the project is being served or can't be read, if the question is empty or too long, or if there is
        no such class.
    StorageError
        If there is a question of this name, or a value is not allowed.
    """
    asked = " ".join(question.split())
    if not asked:
        raise InputError('A question must have an answer, yes or no, such as "Is it a leaf?"')
    positive = positive_class_of(asked, positive_class, classes_of(project))
    try:
        lock = lock_project(project)
    except AlreadyServedError:
        raise InputError(f"{project} is being served: add the question on its page, under Settings") from None
    try:
        with Database.open(ProjectFile.read(project).labels(project), copies_in=project) as database:
            return create_concept(Concepts(database), asked, " ".join(name.split()), guideline, positive)
    finally:
        lock.release()
