"""CIFAR-10 in its official binary version [1]_: 60,000 color images of 32×32 pixels in 10 classes.

The files in a folder are memory-mapped. An archive is unpacked once into the user's cache (180 MB), and the
files are memory-mapped from there. The images are never all loaded into memory.

References
----------
.. [1] A. Krizhevsky: Learning Multiple Layers of Features from Tiny Images, 2009.
       https://www.cs.toronto.edu/~kriz/cifar.html
"""

from __future__ import annotations

import hashlib
import shutil
import tarfile
import zlib
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from closecall.core.errors import InputError
from closecall.core.sources.base import GREY_SIZE, Items, Problem, Source
from closecall.core.sources.images import luminance
from closecall.core.sources.unpacking import unpacked

TRAIN_FILES = tuple(f"data_batch_{i}.bin" for i in range(1, 6))
TEST_FILE = "test_batch.bin"
NAMES_FILE = "batches.meta.txt"

_SIDE = 32
_RECORD = 1 + 3 * _SIDE * _SIDE  # the class, and the red, green and blue planes


class Cifar10(Source):
    """Source of the training batches in order, followed by the test batch, which is held out.

    Parameters
    ----------
    path : Path
        A folder with data_batch_1.bin … data_batch_5.bin, test_batch.bin and batches.meta.txt; a folder with
        a subfolder `cifar-10-batches-bin` that has these files; or the archive cifar-10-binary.tar.gz.

    Raises
    ------
    InputError
        If a file is missing, ends in the middle of an image, or has an unknown class.
    """

    kind: ClassVar[str] = "cifar10"
    title = "CIFAR-10"

    def __init__(self, path: Path) -> None:
        self.path = path.absolute()
        folder = _data_folder(self.path)
        self.classes = _class_names(folder / NAMES_FILE)
        self._batches = [_records(folder / name) for name in (*TRAIN_FILES, TEST_FILE)]
        self._ends = np.cumsum([len(batch) for batch in self._batches])
        for name, batch in zip((*TRAIN_FILES, TEST_FILE), self._batches, strict=True):
            if batch[:, 0].max() >= len(self.classes):
                raise InputError(
                    f"{folder / name} has an image of class {batch[:, 0].max()}, but {NAMES_FILE} names "
                    f"{len(self.classes)} classes"
                )

    def __len__(self) -> int:
        return int(self._ends[-1])

    def spec(self) -> dict[str, Any]:
        """Return the path of the files, and a digest of some of the images."""
        return {"kind": self.kind, "path": str(self.path), "items": len(self), "digest": self._digest}

    @cached_property
    def _digest(self) -> str:
        digest = hashlib.blake2b(digest_size=8)
        for batch in self._batches:
            digest.update(len(batch).to_bytes(8, "little"))
            digest.update(batch[:: max(1, len(batch) // 16)].tobytes())
        return digest.hexdigest()

    @classmethod
    def from_spec(cls, spec: dict[str, Any], folder: Path | None) -> Self:  # noqa: ARG003
        """See `Source.from_spec`."""
        source = cls(Path(spec["path"]))
        if source._digest != spec["digest"]:
            raise InputError(f"{source.path} no longer has the images that the pool was built from")
        return source

    def name(self, item: int) -> str:
        """Return a name such as "data_batch_1 #17"."""
        return self.names(np.array([item]))[0]

    def names(self, items: Items) -> list[str]:
        """Return names such as "data_batch_1 #17"."""
        items = self.check_items(items)
        batches = np.searchsorted(self._ends, items, side="right")
        firsts = np.concatenate([[0], self._ends[:-1]])
        stems = [Path(name).stem for name in (*TRAIN_FILES, TEST_FILE)]
        rows = (items - firsts[batches]).tolist()
        return [f"{stems[batch]} #{row}" for batch, row in zip(batches.tolist(), rows, strict=True)]

    def image(self, item: int, size: int) -> Image.Image:
        """Return the image, 32×32 pixels or smaller if `size` is smaller."""
        batch, row = self._place(item)
        planes = self._batches[batch][row, 1:].reshape(3, _SIDE, _SIDE)
        image = Image.fromarray(np.ascontiguousarray(planes.transpose(1, 2, 0)))
        image.thumbnail((size, size), Image.Resampling.LANCZOS)
        return image

    def resolution(self, item: int) -> tuple[int, int]:
        """See `Source.resolution`."""
        return self.whole_image(item).size

    def grey(self, items: Items) -> tuple[NDArray[np.float32], list[Problem]]:
        """See `Source.grey`."""
        return luminance(self._records_of(items)[:, 1:].reshape(-1, 3, GREY_SIZE, GREY_SIZE)), []

    def truth(self, items: Items) -> NDArray[np.int16]:
        """See `Source.truth`."""
        return self._records_of(items)[:, 0].astype(np.int16)

    def held_out(self) -> Items:
        """Return the ids of the test batch."""
        return np.arange(self._ends[-2], self._ends[-1], dtype=np.int64)

    def _place(self, item: int) -> tuple[int, int]:
        (item,) = self.check_items(np.array([item]))
        batch = int(np.searchsorted(self._ends, item, side="right"))
        return batch, int(item - self._ends[batch] + len(self._batches[batch]))

    def _records_of(self, items: Items) -> NDArray[np.uint8]:
        items = self.check_items(items)
        records = np.empty((len(items), _RECORD), dtype=np.uint8)
        batches = np.searchsorted(self._ends, items, side="right")
        for number in np.unique(batches):
            batch = self._batches[number]
            ours = batches == number
            records[ours] = batch[items[ours] - self._ends[number] + len(batch)]
        return records


def _data_folder(path: Path) -> Path:
    if path.is_file():
        return unpacked(path, lambda folder: _unpack(path, folder))
    for folder in (path, path / "cifar-10-batches-bin"):
        if (folder / TEST_FILE).is_file():
            return folder
    if not path.exists():
        raise InputError(f"there is no folder or archive {path}")
    raise InputError(f"{path} has no {TEST_FILE}: the official binary version of CIFAR-10 is needed")


def _unpack(archive: Path, folder: Path) -> None:
    """Extract the data files, wherever they are in the archive, and nothing else."""
    wanted = {*TRAIN_FILES, TEST_FILE, NAMES_FILE}
    try:
        with tarfile.open(archive) as tar:
            for member in tar:
                name = PurePosixPath(member.name).name
                content = tar.extractfile(member) if member.isfile() and name in wanted else None
                if content is not None:
                    with (folder / name).open("wb") as out:
                        shutil.copyfileobj(content, out)
    except (tarfile.TarError, EOFError, zlib.error) as error:
        raise InputError(f"{archive} is damaged, or no tar archive: {error}") from error
    missing = sorted(wanted - {file.name for file in folder.iterdir()})
    if missing:
        raise InputError(f"{archive} lacks {missing[0]}: the official binary version of CIFAR-10 is needed")


def _class_names(file: Path) -> tuple[str, ...]:
    try:
        names = tuple(line.strip() for line in file.read_text("utf-8").splitlines() if line.strip())
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}, the names of the classes, can't be read") from error
    if not names:
        raise InputError(f"{file} names no classes")
    return names


def _records(file: Path) -> NDArray[np.uint8]:
    try:
        size = file.stat().st_size
    except OSError as error:
        raise InputError(f"{file} is missing") from error
    if size == 0 or size % _RECORD:
        raise InputError(f"{file} has {size:,} bytes, not a multiple of {_RECORD:,}: it is incomplete")
    return np.memmap(file, dtype=np.uint8, mode="r", shape=(size // _RECORD, _RECORD))
