"""Images in uncompressed tar archives, such as the shards of WebDataset [1]_.

The headers of an archive are read once, into the user's cache. Nothing is extracted: an image is a range of
bytes in the archive.

In a WebDataset, files in the same folder are one sample if their names are equal up to the first dot. In a
sample, the file with the extension `.cls` contains the class of the image.

References
----------
.. [1] https://github.com/webdataset/webdataset
"""

from __future__ import annotations

import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Self

import numpy as np

from closecall.core.errors import InputError
from closecall.core.sources.images import EXTENSIONS
from closecall.core.sources.packed.base import PackedImages
from closecall.core.sources.packed.packing import Contents, Packing, clean_name
from closecall.core.sources.unpacking import unpacked

_COMPRESSED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ", b"\x28\xb5\x2f\xfd")
_LONGEST_LABEL = 1000
_DAMAGED = -1


class ImageTars(PackedImages):
    """Source of the images in one or more tar archives.

    See `PackedImages` for names, order and classes. Hidden files, links, and files without the extension of
    an image are skipped. If a name occurs twice in an archive, the last file counts.

    Parameters
    ----------
    path : Path
        A tar archive, a folder of archives `.tar`, or a pattern (`core.sources.packed.shards`).
    use_classes : bool
        Whether to use names of folders in the archives as classes. Files with the extension `.cls` always
        give classes.
    packing : Packing, optional
        The images that the source had when it was first made. By default, the images that it has now.

    Raises
    ------
    InputError
        If there is no archive, if no archive has images, or if an archive is compressed or damaged.
    """

    kind: ClassVar[str] = "tar"
    suffixes: ClassVar[tuple[str, ...]] = (".tar",)
    missing: ClassVar[dict[int, str]] = {_DAMAGED: "the archive is damaged or incomplete from here on"}

    def __init__(self, path: Path, *, use_classes: bool = True, packing: Packing | None = None) -> None:
        super().__init__(path, {"use_classes": use_classes}, use_folders=use_classes, packing=packing)

    @classmethod
    def _restored(cls, spec: dict[str, Any], packing: Packing | None) -> Self:
        return cls(Path(spec["path"]), use_classes=spec["use_classes"], packing=packing)

    def _contents(self, shard: Path) -> Contents:
        return Contents.load(unpacked(shard, lambda folder: _scanned(shard).save(folder), what="images"))


def _scanned(archive: Path) -> Contents:
    """Return the images of an archive, from its headers."""
    ranges: dict[str, tuple[int, int]] = {}
    labels: dict[str, str] = {}
    last, end = "", 0
    with archive.open("rb") as file:
        _require_plain(archive, file)
        size = file.seek(0, os.SEEK_END)
        file.seek(0)
        try:
            with tarfile.open(fileobj=file, mode="r:") as tar:
                for member in _members(tar, size):
                    end, last = tar.offset, clean_name(member.name)
                    if not member.isreg() or member.issparse() or _is_hidden(last):
                        continue
                    if _extension(last) in EXTENSIONS:
                        ranges[last] = member.offset_data, min(member.size, size)
                    elif last.endswith(".cls"):
                        content = tar.extractfile(member)
                        text = b"" if content is None else content.read(_LONGEST_LABEL)
                        labels[_sample(last)] = text.decode(errors="replace").strip()
        except (tarfile.TarError, ValueError, ArithmeticError) as error:
            raise InputError(f"{archive} is damaged, or no tar archive: {error}") from error
        file.seek(min(end, size))
        is_cut = end > size or any(file.read(tarfile.BLOCKSIZE))
    if is_cut and (last not in ranges or end <= size):
        ranges[f"after byte {min(end, size)}"] = min(end, size), _DAMAGED
    names = list(ranges)
    told = [labels.get(_sample(name), "") for name in names] if labels else []
    return Contents(names, np.array(list(ranges.values()), dtype=np.int64).reshape(-1, 2), told)


def _members(tar: tarfile.TarFile, size: int) -> Iterator[tarfile.TarInfo]:
    """Yield the members until the archive, of `size` bytes, ends or is damaged."""
    end = -1
    try:
        # A forged size could lead back to an earlier member, or far beyond the end of the archive.
        while end <= size and (member := tar.next()) is not None and tar.offset > end:
            end = tar.offset
            tar.members.clear()  # type: ignore[attr-defined]  # a million of them would take gigabytes
            yield member
    except tarfile.ReadError:
        return


def _require_plain(archive: Path, file: BinaryIO) -> None:
    if file.read(6).startswith(_COMPRESSED):
        raise InputError(
            f"{archive} is compressed, but images are read from inside it: unpack it to a .tar file"
        )


def _sample(name: str) -> str:
    """Return the path of a file up to the first dot in the file's name."""
    folder, slash, file = name.rpartition("/")
    return folder + slash + file.partition(".")[0]


def _is_hidden(name: str) -> bool:
    return name.startswith(".") or "/." in name


def _extension(name: str) -> str:
    return name[name.rfind(".") :].lower()
