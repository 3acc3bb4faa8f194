"""The values of a new project, and the steps of its creation that need no workspace."""

from __future__ import annotations

import io
import re
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

from closecall.app.projects.config import LABELS_FILE, POOL_FOLDER, ProjectFile
from closecall.app.projects.folder_classes import chosen_source
from closecall.app.projects.uploaded_folders import File
from closecall.core.errors import InputError
from closecall.core.files.typed import existing_path
from closecall.core.pool.build_size import FeatureType, require_storable
from closecall.core.pool.manifest import MANIFEST
from closecall.core.pool.pool import Pool
from closecall.core.sources import Source, source_from
from closecall.core.sources.images import read_image
from closecall.storage import removal, restore
from closecall.storage.errors import StorageError


class SameProjectError(InputError):
    """Error for a new project with the same question about the same items as an existing project.

    Parameters
    ----------
    key : str
        Key of the existing project.
    """

    def __init__(self, key: str) -> None:
        super().__init__("There is a project with this question about the same items already")
        self.key = key


@dataclass(frozen=True)
class NewProject:
    """The values for a new project, as entered on the start page.

    Parameters
    ----------
    source_word : str
        Source of the items, as for ``closecall pool build``, or the folder of an existing pool.
    question : str
        The concept's yes/no question.
    positive_class : str or None
        The class that means yes, if the items have known classes. None means the class that the question
        names, if any; "" means no class.
    guideline : str
        Instructions for annotators.
    examples : sequence of (str, bytes)
        Image files with their names, each of which is an example of a yes.
    use_classes : bool or None
        Whether subfolders are the true classes of their items. If so, a tenth of the items is held out. If
        None, subfolders are classes if the question names one of them, or if `positive_class` is given.
    source : Source or None
        The source that `source_word` describes, with classes from folders if it has any. If None, the source
        is made when the project is created, which can take long across a network.
    provider : str or None
        The execution provider of the model in `source_word`; None for the CPU.
    dtype : {"float32", "float16", "byte"} or None
        The type in which features are stored; None for float32.
    upload : sequence of (str, bytes)
        Image files that a person uploads, with their paths. The files are stored beside the projects, and
        their folder replaces `UPLOAD` in `source_word`.
    more_questions : mapping of str to str or None
        Further yes/no questions about the same items. Each value is the class that means yes to the question,
        or None if no class does.
    """

    source_word: str
    question: str
    positive_class: str | None = None
    guideline: str = ""
    examples: Sequence[File] = field(default_factory=tuple)
    use_classes: bool | None = None
    source: Source | None = None
    provider: str | None = None
    dtype: FeatureType | None = None
    upload: Sequence[File] = field(default_factory=tuple)
    more_questions: Mapping[str, str | None] = field(default_factory=dict)

    def questions(self) -> list[str]:
        """Return `question` and then the further questions, each with single spaces between its words.

        Raises
        ------
        InputError
            If a question is empty.
        """
        questions = [" ".join(each.split()) for each in (self.question, *self.more_questions)]
        if not all(questions):
            raise InputError(
                'A project needs a question that can be answered with yes or no, such as "Is it a leaf?"'
            )
        return questions

    def described(self, here: str) -> tuple[ProjectFile, tuple[str, ...], Source | None]:
        """Return the project file, the classes of the items, and their source (None for an existing pool).

        `here` is the folder for relative paths.

        Raises
        ------
        InputError
            If there are no such items, if their features can't be stored in the type `dtype`, or if a
            provider or a type is given for an existing pool.
        """
        word = self.source_word
        path = existing_path(word)
        if path is not None and existing_path(path / MANIFEST):
            if self.provider is not None:
                raise InputError(f"The pool {path} has been described already: leave the provider out")
            if self.dtype is not None:
                raise InputError(f"The pool {path} has been described already: leave the dtype out")
            return ProjectFile(str(path.resolve()), "", here), Pool.open(path).classes, None
        if path is not None and path.is_dir():
            word = str(path.resolve())
        given = source_from(word, provider=self.provider) if self.source is None else self.source
        source, use_classes = chosen_source(given, self.question, self.positive_class, self.use_classes)
        require_storable(source, self.dtype)
        file = ProjectFile(POOL_FOLDER, word, here, use_classes, self.provider or "", self.dtype or "")
        return file, source.classes, source

    def check_examples(self) -> None:
        """Raise InputError, with the file's name, if an example is not an image that can be read."""
        for name, raw in self.examples:
            try:
                read_image(io.BytesIO(raw), 64)
            except InputError as error:
                raise InputError(f"The example “{name}” can't be used: {error}") from error


def move_labels(folder: Path, address: str, undo: ExitStack) -> None:
    """Move a project's labels to an address that has no labels yet. The project must not be in use.

    A callback is added to `undo`. If a later step fails, the callback removes the labels from the address.
    """
    remove = removal(address)
    try:
        restore(folder / LABELS_FILE, address)
    except StorageError as error:
        if error.kind == "exists":
            raise StorageError(f"{address} has the labels of a project already", "exists") from None
        raise
    undo.callback(remove)
    for moved in folder.glob(f"{LABELS_FILE}*"):  # the database, and SQLite's journal files
        moved.unlink()
    ProjectFile.change(folder, database=address)


def free_key(folder: Path, question: str) -> str:
    """Return a key that no project in the folder has, for a project that asks this question."""
    stem = re.sub(r"[^a-z0-9]+", "-", question.lower()).strip("-")[:40] or "project"
    key, number = stem, 2
    while (folder / key).exists():
        key, number = f"{stem}-{number}", number + 1
    return key
