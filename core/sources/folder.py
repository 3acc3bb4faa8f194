"""A folder of image files, including its subfolders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar, Self

import numpy as np

from closecall.core.errors import InputError
from closecall.core.sources import listing
from closecall.core.sources.base import Source, UnreadableImageError
from closecall.core.sources.heif import note_on_left_out
from closecall.core.sources.listed_images import ListedImages
from closecall.core.sources.listing import Listing

LIST_FILE = "files.npz"


class Folder(ListedImages):
    """Source of all images in a folder and its subfolders.

    See `core.sources.listing` for the order of the images and `core.sources.classes` for their classes.

    Parameters
    ----------
    path : Path
        The folder.
    use_classes : bool
        Whether to use folder names as classes, and to hold out a part of the images for testing.
    by_path : bool
        Whether to order the images by path instead of by a hash of the path.
    files : Listing, optional
        Files that the folder had when the source was first made. By default, the files that it has now.

    Raises
    ------
    InputError
        If the folder does not exist or has no images.
    """

    kind: ClassVar[str] = "folder"
    path: Path

    def __init__(
        self, path: Path, *, use_classes: bool = True, by_path: bool = False, files: Listing | None = None
    ) -> None:
        self.path = Path(os.path.realpath(path))
        self.use_classes = use_classes
        self.by_path = by_path
        self.files = self._listed() if files is None else files
        self.classes = self.files.classes
        self._name_after(None)
        self._root = os.path.join(self.path, "")  # noqa: PTH118 (ends with a separator)

    @classmethod
    def from_list(cls, file: Path, *, use_classes: bool = True) -> Self:
        """Make a source of the images listed in a text file, one path per line.

        Paths are relative to the file's folder and must be inside it.

        Raises
        ------
        InputError
            If the file lists no images, or an image that does not exist.
        """
        root = Path(os.path.realpath(file)).parent
        source = cls(
            root, use_classes=use_classes, by_path=True, files=listing.read_list(file, root, use_classes)
        )
        source._name_after(file.absolute())
        return source

    def _name_after(self, list_file: Path | None) -> None:
        self.list_file = list_file
        self.title = f"Photos in {(list_file or self.path).name or self.path}"

    def _listed(self) -> Listing:
        if not self.path.exists():
            raise InputError(f"there is no folder {self.path}")
        if not self.path.is_dir():
            raise InputError(f"{self.path} is a file, but a folder of images is needed")
        try:
            return listing.list_files(self.path, by_path=self.by_path, use_classes=self.use_classes)
        except OSError as error:
            raise InputError(f"the folder {self.path} can't be listed: {error.strerror}") from error

    def spec(self) -> dict[str, Any]:
        """Return the path of the folder, and a digest of the list that `save` writes."""
        return {
            "kind": self.kind,
            "path": str(self.path),
            "use_classes": self.use_classes,
            "by_path": self.by_path,
            "list": None if self.list_file is None else str(self.list_file),
            "items": len(self),
            "digest": self.files.digest,
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any], folder: Path | None) -> Self:
        """Restore the source from the list saved in `folder`. If `folder` is None, list the files again.

        See `Source.from_spec` for errors.
        """
        path, named = Path(spec["path"]), spec["list"]
        if folder is None:
            if named is not None:
                source = cls.from_list(Path(named), use_classes=spec["use_classes"])
            else:
                source = cls(path, use_classes=spec["use_classes"], by_path=spec["by_path"])
            if source.files.digest != spec["digest"]:
                raise InputError(
                    f"{named or path} has changed: it had {spec['items']:,} images, and now has "
                    f"{len(source):,}, or different ones"
                )
            return source
        files = listing.load(folder / LIST_FILE)
        if files.digest != spec["digest"]:
            raise InputError(f"the list of images {folder / LIST_FILE} is damaged: build the pool again")
        source = cls(path, use_classes=spec["use_classes"], by_path=spec["by_path"], files=files)
        source._name_after(None if named is None else Path(named))
        return source

    def save(self, folder: Path) -> None:
        """Save the list of files, so that files added or removed later do not change item ids."""
        listing.save(self.files, folder / LIST_FILE)

    def continuing(self, spec: dict[str, Any], folder: Path | None) -> Source:
        """See `Source.continuing`. New files come after the files of the earlier source."""
        known = {"kind": self.kind, "path": str(self.path), "use_classes": self.use_classes, "by_path": False}
        if self.by_path or folder is None or any(spec.get(key) != value for key, value in known.items()):
            return self
        files = listing.continued(self.from_spec(spec, folder).files, self.files)
        return type(self)(self.path, use_classes=self.use_classes, files=files)

    def without_folder_classes(self) -> Folder:
        """See `Source.without_folder_classes`."""
        if not self.use_classes:
            return self
        files = self.files.without_classes()
        source = type(self)(self.path, use_classes=False, by_path=self.by_path, files=files)
        source._name_after(self.list_file)
        return source

    def note_on_left_out(self) -> str | None:
        """Return how many HEIC images are left out, and what is needed to read them; None if there are none.

        The images are counted when the folder is listed. A restored source returns None.
        """
        return note_on_left_out(self.files.left_out)

    def vanished(self) -> Path | None:
        """See `Source.vanished`."""
        return listing.vanished(self.path, self._root, self.files)

    def original(self, item: int) -> Path:
        """See `Source.original`."""
        (item,) = self.check_items(np.array([item]))
        try:
            return self._file(item)
        except UnreadableImageError as error:
            raise InputError(f"{self.name(item)} in {self.path} can't be copied: {error}") from error

    def _file(self, item: int) -> Path:
        path = os.path.realpath(self._root + self.files.paths[item])
        # The file may have been replaced by a link since it was listed.
        if not path.startswith(self._root):
            raise UnreadableImageError("it is a link that leads outside the folder")
        return Path(path)
