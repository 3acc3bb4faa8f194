"""20 Newsgroups [1]_, split by date: 18,846 postings to 20 groups. The later postings are for testing.

Each posting is used as a whole, with header lines, body, quotes and signature, as scikit-learn's
`fetch_20newsgroups` returns it by default. This version of the data has no header lines that name the group.

References
----------
.. [1] K. Lang: NewsWeeder: Learning to filter netnews, ICML 1995. http://qwone.com/~jason/20Newsgroups/
"""

from __future__ import annotations

import os
import shutil
import tarfile
import zlib
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import ClassVar

import numpy as np

from closecall.core.errors import InputError
from closecall.core.sources.base import Source
from closecall.core.sources.classes import path_hash
from closecall.core.sources.listing import Listing
from closecall.core.sources.text_folder import TextFolder
from closecall.core.sources.texts import UnreadableTextError
from closecall.core.sources.unpacking import unpacked

_SUBJECT = "Subject: "
TRAIN, TEST = "20news-bydate-train", "20news-bydate-test"


class Newsgroups(TextFolder):
    """Source of the training postings in pseudorandom order, followed by the test postings.

    The test postings are held out. The order is always the same.

    Parameters
    ----------
    path : Path
        A folder with the subfolders 20news-bydate-train and 20news-bydate-test, or the archive
        20news-bydate.tar.gz.

    See `TextFolder` for the other parameters; `use_classes` has no effect.

    Raises
    ------
    InputError
        If a folder is missing.
    """

    kind: ClassVar[str] = "newsgroups"
    encoding: ClassVar[str | None] = "latin-1"

    def _title(self) -> str:
        return "20 Newsgroups"

    def _listed(self) -> Listing:
        root = self._folder()
        paths: list[str] = []
        for part in (TRAIN, TEST):
            if not (root / part).is_dir():
                raise InputError(f"{self.path} has no folder {part}: 20 Newsgroups by date is needed")
            found = (file.relative_to(root) for file in (root / part).glob("*/*") if file.is_file())
            paths += sorted(map(str, found), key=path_hash)
        groups = [Path(path).parts[1] for path in paths]
        classes = tuple(sorted(set(groups)))
        truth = np.searchsorted(classes, groups).astype(np.int16)
        tests = np.flatnonzero([path.startswith(TEST + os.sep) for path in paths])
        return Listing(tuple(paths), classes, truth, tests)

    def without_folder_classes(self) -> Source:
        """Return the source itself: the newsgroups are known to be classes."""
        return self

    def read(self, item: int) -> str:
        """See `Texts.read`. If the cache was deleted, the archive is unpacked again."""
        try:
            return super().read(item)
        except UnreadableTextError as error:
            if not (isinstance(error.__cause__, FileNotFoundError) and self.path.is_file()):
                raise
        self.__dict__.pop("root", None)
        return super().read(item)

    def opening(self, text: str) -> str:
        """Return the subject and the body, because other header lines would fill the page."""
        head, _, body = text.partition("\n\n")
        subjects = [line[len(_SUBJECT) :] for line in head.splitlines() if line.startswith(_SUBJECT)]
        return "\n".join([*subjects[:1], body])

    def _folder(self) -> Path:
        if self.path.is_file():
            return unpacked(self.path, lambda folder: _unpack(self.path, folder))
        if not self.path.exists():
            raise InputError(f"there is no folder or archive {self.path}")
        return self.path

    @cached_property
    def root(self) -> str:
        """See `TextFolder.root`; for an archive, the folder to which it is unpacked."""
        return os.path.join(self._folder(), "")  # noqa: PTH118 (ends with a separator)


def _unpack(archive: Path, folder: Path) -> None:
    """Extract the postings, and nothing else."""
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                parts = PurePosixPath(member.name).parts[-3:]
                content = tar.extractfile(member) if member.isfile() and parts[0] in (TRAIN, TEST) else None
                if content is not None and ".." not in parts:
                    file = folder.joinpath(*parts)
                    file.parent.mkdir(parents=True, exist_ok=True)
                    with file.open("wb") as out:
                        shutil.copyfileobj(content, out)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise InputError(f"{archive} is damaged, or no tar archive: {error}") from error
