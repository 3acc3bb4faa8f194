"""Base class of sources whose images are inside other files, called shards (`core.sources.packed.shards`).

An image is a range of bytes in a shard, or a frame of a video. The positions of all images are found once and
saved with the pool. A pool therefore opens without searching its shards again, and any image can be read
alone.
"""

from __future__ import annotations

import io
import os
from abc import abstractmethod
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.sources import classes
from closecall.core.sources.base import Items, Source, UnreadableImageError, changed
from closecall.core.sources.class_list import MOST_CLASSES
from closecall.core.sources.classes import Truth
from closecall.core.sources.listed_images import ListedImages
from closecall.core.sources.listing import Listing
from closecall.core.sources.packed.packing import Contents, Packing
from closecall.core.sources.packed.shards import Shards, find_shards, fingerprint, split_of
from closecall.core.sources.passing import require_lasting

MOST_BYTES = 1 << 30
"""Maximum size of an encoded image in bytes; an image is read whole."""


class PackedImages(ListedImages):
    """Source of the images in one or more shards, ordered by a hash of their names.

    The name of an image is its name in the shard; if the source is not a single file, the path of the shard
    precedes it. Classes that are stored in the shards have priority over folders. If there are shards of two
    or more splits, these splits decide which images are held out, not the splits of folders
    (`core.sources.classes`).

    Parameters
    ----------
    path : Path
        A file, a folder or a pattern (`core.sources.packed.shards`).
    options : dict
        The subclass's other arguments, which are stored in the spec.
    use_folders : bool
        Whether folders in the names may be classes.
    packing : Packing, optional
        The images that the source had when it was first made. By default, the images that it has now.

    Raises
    ------
    InputError
        If there is no file, if no file has images, or if a file is damaged.
    """

    path: Path
    suffixes: ClassVar[tuple[str, ...]]
    missing: ClassVar[dict[int, str]]
    """Reasons why an image has no bytes, by the negative code that replaces the number of bytes."""
    most_classes: int = MOST_CLASSES
    """Maximum number of different classes in shards. If there are more, classes are ignored."""

    def __init__(
        self, path: Path, options: dict[str, Any], *, use_folders: bool, packing: Packing | None
    ) -> None:
        self.path = path.absolute()
        self.options = options
        self.title = f"Images in {self.path.name or self.path}"
        self.packing = self._packed(use_folders) if packing is None else packing
        self.files = self.packing.files
        self.classes = self.files.classes

    @abstractmethod
    def _contents(self, shard: Path) -> Contents:
        """Return the images of a shard."""

    def _data_file(self, shard: Path) -> Path:
        """Return the file that the ranges of a shard refer to."""
        return shard

    def _packed(self, use_folders: bool) -> Packing:
        shards = find_shards(self.path, self.suffixes)
        files = [shards.root / name for name in shards.names]
        contents = [self._contents(file) for file in files]
        prefixes = self._prefixes(shards)
        names = [
            prefix + name for prefix, held in zip(prefixes, contents, strict=True) for name in held.names
        ]
        if not names:
            raise InputError(f"{self.path} has no images (JPEG, PNG, …)")
        keys = [
            classes.path_hash(prefix + name)
            for prefix, held in zip(prefixes, contents, strict=True)
            for name in self._stretches(held)
        ]
        order = np.array(sorted(range(len(names)), key=keys.__getitem__), dtype=np.int64)
        whose = np.repeat(np.arange(len(contents)), [len(held.names) for held in contents])[order]
        found, truth = self._classes(shards, contents, names, use_folders=use_folders)
        paths, truth = tuple(names[i].replace("/", os.sep) for i in order), truth[order]
        held_out = self._held_out(paths, truth, [shards.names[shard] for shard in whose])
        ranges = np.concatenate([held.ranges for held in contents])[order]
        return Packing(
            Listing(paths, found, truth, held_out),
            np.column_stack([whose, ranges]).astype(np.int64),
            tuple(str(file) for file in files),
            tuple(fingerprint(file) for file in files),
        )

    def _prefixes(self, shards: Shards) -> list[str]:
        """Return, for each shard, the prefix of its images' names."""
        return [""] if shards.is_one_file else [f"{name}/" for name in shards.names]

    def _stretches(self, contents: Contents) -> list[str]:
        """Return, for each image, the name of its stretch: a group of images that stay together.

        Stretches are ordered by a hash of their names. Inside a stretch, images keep the order of the shard.
        By default, each image is a stretch of its own.
        """
        return contents.names

    def _classes(
        self, shards: Shards, contents: list[Contents], names: list[str], *, use_folders: bool
    ) -> Truth:
        """Return the classes in the shards. Without any, folders are the classes if `use_folders` is true."""
        if any(held.labels for held in contents):
            told = [label for held in contents for label in held.labels or [""] * len(held.names)]
            return classes.of_labels(told, self.most_classes)
        if not use_folders:
            return classes.unknown(len(names))
        inside = [name.replace("/", os.sep) for held in contents for name in held.names]
        return classes.of(shards.root, inside)

    def _held_out(self, paths: tuple[str, ...], truth: NDArray[np.int16], shards: list[str]) -> Items:
        """Return the positions of the images to hold out. `shards` has the name of each image's shard."""
        splits = {name: split_of(name) for name in set(shards)}
        return classes.held_out(paths, truth, [splits[name] for name in shards])

    def spec(self) -> dict[str, Any]:
        """Return the path and the options, and a digest of what `save` writes."""
        return {
            "kind": self.kind,
            "path": str(self.path),
            **self.options,
            "items": len(self),
            "digest": self.packing.digest,
        }

    @classmethod
    @abstractmethod
    def _restored(cls, spec: dict[str, Any], packing: Packing | None) -> Self:
        """Return the source with the path and options of a spec."""

    @classmethod
    def from_spec(cls, spec: dict[str, Any], folder: Path | None) -> Self:
        """Restore the source from the list saved in `folder`. If `folder` is None, search the shards again.

        See `Source.from_spec` for errors.
        """
        source = cls._restored(spec, None if folder is None else Packing.load(folder))
        if folder is None and source.packing.digest != spec["digest"]:
            raise changed(source.path)
        if source.packing.digest != spec["digest"]:
            raise InputError(f"the list of images in {folder} is damaged: build the pool again")
        for shard, print_ in zip(source.packing.shards, source.packing.prints, strict=True):
            if fingerprint(Path(shard)) != print_:
                raise changed(Path(shard))
        return source

    def save(self, folder: Path) -> None:
        """Save the positions of the images, so that the shards need not be searched again."""
        self.packing.save(folder)

    def continuing(self, spec: dict[str, Any], folder: Path | None) -> Source:
        """See `Source.continuing`. Images of new shards come after the images of the earlier source."""
        known = {"kind": self.kind, "path": str(self.path), **self.options}
        if folder is None or any(spec.get(key) != value for key, value in known.items()):
            return self
        return self._restored(spec, self.from_spec(spec, folder).packing.continued(self.packing))

    def without_folder_classes(self) -> Source:
        """See `Source.without_folder_classes`."""
        if not self.options.get("use_classes"):
            return self
        return self._restored({"path": str(self.path), **self.options, "use_classes": False}, None)

    def vanished(self) -> Path | None:
        """Return the first shard that no longer exists, or None."""
        return next(
            (shard for shard in map(Path, self.packing.shards) if not os.access(shard, os.F_OK)), None
        )

    def encoded(self, item: int) -> bytes:
        """Return the bytes of the image, as they are in the shard; see `Source.encoded`."""
        (item,) = self.check_items(np.array([item]))
        try:
            return self._bytes(item)
        except UnreadableImageError as error:
            raise InputError(f"{self.name(item)} in {self.path} can't be copied: {error}") from error

    def _file(self, item: int) -> BinaryIO:
        return io.BytesIO(self._bytes(item))

    def _bytes(self, item: int) -> bytes:
        shard, first, size = self.packing.ranges[item].tolist()
        if size <= 0:
            raise UnreadableImageError(self.missing.get(size, "the file is empty"))
        if size > MOST_BYTES:
            raise UnreadableImageError(f"it has {size:,} bytes, but at most {MOST_BYTES:,} are read")
        path = Path(self.packing.shards[shard])
        try:
            data = self._range(shard, first, size)
        except FileNotFoundError as error:
            raise UnreadableImageError(f"{path.name} no longer exists") from error
        except (OSError, MemoryError) as error:
            require_lasting(error, f"{self.name(item)} in {self.path}")
            reason = getattr(error, "strerror", "") or error
            raise UnreadableImageError(f"{path.name} can't be read ({reason})") from error
        if len(data) < size:
            raise UnreadableImageError(f"{path.name} is incomplete: it ends in the middle of this image")
        return data

    def _range(self, shard: int, first: int, size: int) -> bytes:
        """Return `size` bytes of the data file of a shard, or fewer if it ends before."""
        with self._data_file(Path(self.packing.shards[shard])).open("rb") as file:
            file.seek(first)
            return file.read(size)
