"""The columns of images and classes in an Arrow table.

An image column is a column of bytes, or of structs with the fields `bytes` and, optionally, `path`, as the
library `datasets` of Hugging Face writes them. If the user names no image column, the image column whose name
comes first in `IMAGE_COLUMNS` is used. If no image column has a name in this list, there must be only one
image column.

Classes are strings or integers. The names of integer classes are taken from the metadata `huggingface` of the
schema. If the user names no column of classes, the column whose name comes first in
`text_table.CLASS_COLUMNS` is used. If no column has a name in this list, the first column with the type
`ClassLabel` in the metadata is used.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.sources.text_table import CLASS_COLUMNS

IMAGE_COLUMNS = ("image", "img", "picture", "photo")
"""Names of the image column to try, in this order, if no name is given."""

NO_IMAGE, NO_BYTES = -1, -2
"""Codes in place of a number of bytes: the image is missing, or only its path is stored."""


@dataclass(frozen=True)
class Columns:
    """Chosen columns of a table.

    Attributes
    ----------
    image : str
        The column of images.
    label : str or None
        The column of classes, if there is one.
    names : tuple of str
        Class names, indexed by the integers in the column of classes; empty if there are none.
    """

    image: str
    label: str | None
    names: tuple[str, ...]

    @property
    def used(self) -> list[str]:
        """Names of the columns to read."""
        return [self.image] if self.label in (None, self.image) else [self.image, str(self.label)]

    def labels_of(self, batch: Any) -> list[str]:
        """For each row of a record batch, return the class, or "" if unknown."""
        if self.label is None:
            return [""] * len(batch)
        return [self._class(value) for value in batch.column(self.label).to_pylist()]

    def _class(self, value: Any) -> str:
        if value is None or (isinstance(value, int) and value < 0):
            return ""
        if self.names and isinstance(value, int):
            return self.names[value] if value < len(self.names) else ""
        return str(value)


@dataclass(frozen=True)
class Encoded:
    """The images in a record batch of n rows.

    Attributes
    ----------
    data : pyarrow.Buffer or None
        Buffer with the bytes of all images.
    firsts, sizes : array of shape (n,), int64
        First byte of each image in the buffer, and its size: a number of bytes, `NO_IMAGE` or `NO_BYTES`.
    paths : list of str
        Path of each image, or "" if it has no path.
    """

    data: Any
    firsts: NDArray[np.int64]
    sizes: NDArray[np.int64]
    paths: list[str]

    def copied_to(self, file: BinaryIO) -> NDArray[np.int64]:
        """Append the images to a file, and return the position of each image in the file."""
        known = self.sizes >= 0
        start, end = int(self.firsts[known].min()), int((self.firsts + self.sizes)[known].max())
        before = file.tell()
        file.write(memoryview(self.data)[start:end])
        return self.firsts + (before - start)


def choose_columns(schema: Any, image: str | None, label: str | None, file: Path) -> Columns:
    """Return the columns with the given names, or those that the module's docstring describes.

    Raises
    ------
    InputError
        If there is no such column, if the given column of images has no bytes, or if there are several image
        columns to choose from.
    """
    for name in (image, label):
        if name is not None and name not in schema.names:
            raise InputError(f"{file} has no column {name!r}: choose one of {', '.join(schema.names)}")
    usable = [field.name for field in schema if _holds_bytes(field.type)]
    if image is not None and image not in usable:
        raise InputError(
            f"column {image} of {file} has values of type {schema.field(image).type}, but the bytes of image "
            "files are needed"
        )
    chosen = image or _usual(usable, IMAGE_COLUMNS) or (usable[0] if len(usable) == 1 else None)
    if chosen is None:
        if not usable:
            raise InputError(f"{file} has no column with the bytes of image files")
        raise InputError(f"{file} has several columns of images: choose one of {', '.join(usable)}")
    declared = _class_labels(schema)
    simple = [field.name for field in schema if _can_be_class(field.type)]
    classes = (
        label or _usual(simple, CLASS_COLUMNS) or next((name for name in simple if name in declared), None)
    )
    return Columns(chosen, classes, declared.get(classes or "", ()))


def encoded_images(batch: Any, column: str) -> Encoded:
    """Return the images in a column of a record batch."""
    import pyarrow

    values = batch.column(column)
    there = values.is_valid().to_numpy(zero_copy_only=False)
    paths = [""] * len(values)
    content = values
    if pyarrow.types.is_struct(values.type):
        content = values.field("bytes")
        if _has_field(values.type, "path"):
            paths = [path if isinstance(path, str) else "" for path in values.field("path").to_pylist()]
    known = there & content.is_valid().to_numpy(zero_copy_only=False)
    reasons = [NO_BYTES if path and row else NO_IMAGE for path, row in zip(paths, there, strict=True)]
    if not known.any():
        return Encoded(None, np.zeros(len(values), dtype=np.int64), np.array(reasons, dtype=np.int64), paths)
    _, offsets, data = content.buffers()
    dtype = np.int64 if pyarrow.types.is_large_binary(content.type) else np.int32
    ends = np.frombuffer(offsets, dtype=dtype)[content.offset :][: len(content) + 1].astype(np.int64)
    return Encoded(data, ends[:-1], np.where(known, np.diff(ends), reasons), paths)


def _holds_bytes(type_: Any) -> bool:
    import pyarrow

    if pyarrow.types.is_struct(type_):
        return _has_field(type_, "bytes") and _holds_bytes(type_.field("bytes").type)
    return bool(pyarrow.types.is_binary(type_) or pyarrow.types.is_large_binary(type_))


def _can_be_class(type_: Any) -> bool:
    import pyarrow

    kinds = pyarrow.types
    if kinds.is_dictionary(type_):
        type_ = type_.value_type
    return any(
        check(type_) for check in (kinds.is_integer, kinds.is_string, kinds.is_large_string, kinds.is_boolean)
    )


def _has_field(type_: Any, name: str) -> bool:
    return bool(type_.get_field_index(name) >= 0)


def _usual(names: list[str], usual: tuple[str, ...]) -> str | None:
    by_lower = {name.lower(): name for name in reversed(names)}
    return next((by_lower[name] for name in usual if name in by_lower), None)


def _class_labels(schema: Any) -> dict[str, tuple[str, ...]]:
    """For each column with the type `ClassLabel` of the library `datasets`, return the class names."""
    try:
        features = json.loads((schema.metadata or {})[b"huggingface"])["info"]["features"]
        return {
            column: tuple(str(name) for name in feature["names"])
            for column, feature in features.items()
            if isinstance(feature, dict) and feature.get("_type") == "ClassLabel" and feature.get("names")
        }
    except (KeyError, ValueError, TypeError, AttributeError):
        return {}
