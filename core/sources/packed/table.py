"""Encoded images in the rows of Parquet or Arrow files, as Hugging Face's library `datasets` writes them.

Arrow files are read in place. A Parquet file, or an Arrow file that is compressed, is unpacked once into the
user's cache, some rows at a time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.sources.base import changed
from closecall.core.sources.class_list import MOST_CLASSES
from closecall.core.sources.packed.base import PackedImages
from closecall.core.sources.packed.columns import NO_BYTES, NO_IMAGE, Columns, choose_columns, encoded_images
from closecall.core.sources.packed.packing import Contents, Packing, clean_name
from closecall.core.sources.packed.shards import fingerprint
from closecall.core.sources.text_table import MOST_CLASSES as MOST_GUESSED
from closecall.core.sources.unpacking import unpacked

SUFFIXES = (".parquet", ".arrow")

_UNPACKED, _IN_PLACE = "images.bin", "in_place"
_ROWS_AT_ONCE = 256
_ARROW_FILE = b"ARROW1"


class _NotInPlaceError(Exception):
    """Error for a file that does not contain the bytes of its images unchanged."""


class ImageTable(PackedImages):
    """Source of the images in a column of one or more Parquet or Arrow files.

    The name of an image is the path that is stored with it. Without a path, it is a name such as "row 17",
    where rows are counted from 1. See `PackedImages` for the order and the held-out images.

    Parameters
    ----------
    path : Path
        A .parquet or .arrow file, a folder of such files, or a pattern (`core.sources.packed.shards`).
    image, label : str, optional
        Names of the column of images and the column of classes. See `core.sources.packed.columns` for the
        defaults. A default column of classes is ignored unless it has 2 to 1,000 classes.
    packing : Packing, optional
        The images that the source had when it was first made. By default, the images that it has now.

    Raises
    ------
    InputError
        If a file or column does not exist or is damaged, if there are no images, or if the given column of
        classes has fewer than 2 or more than 32,767 classes.
    """

    kind: ClassVar[str] = "image table"
    suffixes: ClassVar[tuple[str, ...]] = SUFFIXES
    missing: ClassVar[dict[int, str]] = {
        NO_IMAGE: "its row has no image",
        NO_BYTES: "its row has only the path of an image file, not its bytes",
    }

    def __init__(
        self,
        path: Path,
        *,
        image: str | None = None,
        label: str | None = None,
        packing: Packing | None = None,
    ) -> None:
        self.image_column, self.class_column = image, label
        self._data_files: dict[Path, Path] = {}
        self.most_classes = MOST_GUESSED if label is None else MOST_CLASSES
        super().__init__(path, {"image": image, "label": label}, use_folders=False, packing=packing)
        sizes = self.packing.ranges[:, 2]
        if (sizes < 0).all():
            reason = self.missing[int(sizes.min())].removeprefix("its row")
            raise InputError(f"{self.path} has no images: each row{reason}")
        if label is not None and not self.classes:
            raise InputError(
                f"column {label} of {self.path} must have 2 to {MOST_CLASSES:,} different classes"
            )

    @classmethod
    def _restored(cls, spec: dict[str, Any], packing: Packing | None) -> Self:
        return cls(Path(spec["path"]), image=spec["image"], label=spec["label"], packing=packing)

    def _contents(self, shard: Path) -> Contents:
        return Contents.load(self._unpacked(shard))

    def _data_file(self, shard: Path) -> Path:
        if shard not in self._data_files:
            folder = self._unpacked(shard)
            self._data_files[shard] = shard if (folder / _IN_PLACE).exists() else folder / _UNPACKED
        return self._data_files[shard]

    def _range(self, shard: int, first: int, size: int) -> bytes:
        try:
            return super()._range(shard, first, size)
        except FileNotFoundError:
            file = Path(self.packing.shards[shard])
            if not file.exists():
                raise
        if fingerprint(file) != self.packing.prints[shard]:
            raise changed(file)
        self._data_files.pop(file, None)  # the cache was deleted
        return super()._range(shard, first, size)

    def _unpacked(self, shard: Path) -> Path:
        what = f"images {[self.image_column, self.class_column]}"
        return unpacked(shard, lambda folder: self._unpack(shard, folder), what=what, is_whole=_is_whole)

    def _unpack(self, shard: Path, folder: Path) -> None:
        with _damage(shard):
            try:
                contents = self._read_rows(shard, None)
                (folder / _IN_PLACE).touch()
            except _NotInPlaceError:
                with (folder / _UNPACKED).open("wb") as copy:
                    contents = self._read_rows(shard, copy)
        contents.save(folder)

    def _read_rows(self, shard: Path, copy: BinaryIO | None) -> Contents:
        """Return the positions of the images of a shard.

        If `copy` is given, the images are copied to this file, and the positions are those in `copy`.
        Otherwise, the positions are those in the shard.

        Raises
        ------
        _NotInPlaceError
            If there is no `copy`, but the images are compressed or encoded in the shard.
        """
        import pyarrow

        names: list[str] = []
        labels: list[str] = []
        ranges: list[NDArray[np.int64]] = []
        with pyarrow.memory_map(str(shard)) as mapped:
            start = mapped.read_buffer().address
            mapped.seek(0)
            for columns, batch in _batches(shard, mapped, self.image_column, self.class_column):
                batch.validate(full=True)
                images = encoded_images(batch, columns.image)
                firsts = images.firsts
                if images.data is not None and copy is not None:
                    firsts = images.copied_to(copy)
                elif images.data is not None:
                    firsts = firsts + (images.data.address - start)
                    if firsts.min() < 0 or firsts.max() > mapped.size():
                        raise _NotInPlaceError
                rows = [f"row {row + 1}" for row in range(len(names), len(names) + len(batch))]
                names += [clean_name(path) or row for path, row in zip(images.paths, rows, strict=True)]
                labels += columns.labels_of(batch)
                ranges.append(np.column_stack([firsts, images.sizes]))
        return Contents(
            _different(names),
            np.concatenate(ranges) if ranges else np.empty((0, 2), dtype=np.int64),
            labels if any(labels) else [],
        )


def _is_whole(folder: Path) -> bool:
    """Return whether an unpacked folder says where the images are, and has them unless they are in place."""
    return Contents.is_in(folder) and any((folder / name).exists() for name in (_UNPACKED, _IN_PLACE))


def _batches(shard: Path, mapped: Any, image: str | None, label: str | None) -> Iterator[tuple[Columns, Any]]:
    """For each record batch of a file, yield the chosen columns, and the batch with only these columns."""
    import pyarrow
    import pyarrow.parquet

    if shard.suffix.lower() == ".parquet":
        with pyarrow.parquet.ParquetFile(mapped) as file:
            columns = choose_columns(file.schema_arrow, image, label, shard)
            for batch in file.iter_batches(batch_size=_ROWS_AT_ONCE, columns=columns.used):
                yield columns, batch
        return
    is_file = mapped.read(len(_ARROW_FILE)) == _ARROW_FILE
    mapped.seek(0)
    with pyarrow.ipc.open_file(mapped) if is_file else pyarrow.ipc.open_stream(mapped) as reader:
        columns = choose_columns(reader.schema, image, label, shard)
        batches = map(reader.get_batch, range(reader.num_record_batches)) if is_file else reader
        for batch in batches:
            yield columns, batch.select(columns.used)


def _different(names: list[str]) -> list[str]:
    """Return the names, with the row number added to each name that occurs several times."""
    counts = Counter(names)
    return [f"{name} (row {row})" if counts[name] > 1 else name for row, name in enumerate(names, start=1)]


@contextmanager
def _damage(file: Path) -> Iterator[None]:
    """Turn errors of Arrow into an InputError of one sentence."""
    import pyarrow

    try:
        yield
    except (pyarrow.ArrowException, OSError, UnicodeDecodeError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        reason = str(error).partition("\n")[0]
        raise InputError(f"{file} is damaged, or no {file.suffix[1:].title()} file: {reason}") from error
