"""Functions that find the files of a model and detect changes to them.

A pair of models, such as CLIP, is two files in one folder. `vision_model.onnx` reads images.
`text_model.onnx` reads texts that were converted to numbers with `tokenizer.json`.
"""

from __future__ import annotations

import hashlib
import mmap
import re
from collections.abc import Iterable
from functools import lru_cache
from pathlib import Path
from typing import Any

from closecall.core.errors import InputError
from closecall.core.onnx.preprocessing import CONFIGS

FILES = ("vision_model.onnx", "model.onnx")
"""Names of an image model in a folder, or in its subfolder `onnx`; the first one that exists is used."""

VISION, TEXT = "vision_model", "text_model"
"""Prefixes of the file names of a pair. `vision_model_fp16.onnx` forms a pair with `text_model_fp16.onnx`, or
with `text_model.onnx`.
"""

TOKENIZER = "tokenizer.json"
TOKENIZER_CONFIGS = ("tokenizer_config.json", "config.json")
"""Names of the files that say how texts are truncated and padded."""

_LOCATION = re.compile(rb"\n\x08location\x12([\x01-\x7f]|[\x80-\xff][\x01-\x7f])")
"""Pattern in a model file: the key "location", then the length of its value in one or two bytes."""


def find_model(path: Path) -> Path:
    """Return the model file, where `path` is the file itself or a folder that contains it.

    Raises
    ------
    InputError
        If there is no model, or if the folder has several models, none of them with a name in `FILES`.
    """
    try:
        return _found_model(path.absolute())
    except OSError as error:
        raise InputError(f"{path} can't be read: {error.strerror or error}") from error


def _found_model(path: Path) -> Path:
    if path.is_file():
        return path
    if not path.is_dir():
        raise InputError(f"there is no model {path}")
    folders = (path / "onnx", path)
    for name in FILES:
        for folder in folders:
            if (folder / name).is_file():
                return folder / name
    found = sorted(
        file for folder in folders for file in folder.glob("*.onnx") if not file.name.startswith(TEXT)
    )
    if len(found) == 1:
        return found[0]
    if not found:
        raise InputError(f"{path} has no .onnx file")
    names = ", ".join(str(file.relative_to(path)) for file in found[:5])
    raise InputError(f"{path} has several models ({names}): name one of these files")


def find_text_model(vision: Path) -> tuple[Path, Path] | None:
    """Return the text model that belongs to a vision model, and the tokenizer, or None if one is missing."""
    if not vision.name.startswith(VISION):
        return None
    names = dict.fromkeys((vision.name.replace(VISION, TEXT, 1), f"{TEXT}.onnx"))
    model, tokenizer = first_beside(vision, names), first_beside(vision, [TOKENIZER])
    return None if model is None or tokenizer is None else (model, tokenizer)


def digest_of(file: Path, *others: Path) -> str:
    """Return a digest of a model, including its `external_data`, as 32 hexadecimal digits.

    The files `others` are included, too.
    """
    digest = hashlib.blake2b(digest_size=16)
    try:
        for part in (file, *external_data(file), *others):
            with part.open("rb") as stream:
                while block := stream.read(1 << 20):
                    digest.update(block)
    except OSError as error:
        raise InputError(f"{file} can't be read: {error.strerror or error}") from error
    return digest.hexdigest()


def configurations(file: Path) -> list[Path]:
    """Return all paths at which the configuration of a model may be."""
    return beside(file, CONFIGS)


def first_beside(file: Path, names: Iterable[str]) -> Path | None:
    """Return the first of the paths `beside(file, names)` that is a file, or None."""
    return next((path for path in beside(file, names) if path.is_file()), None)


def beside(file: Path, names: Iterable[str]) -> list[Path]:
    """Return all paths at which a model's files with these names may be.

    They may be in the model's folder. If this folder is called `onnx`, they may also be in its parent folder.
    In the cache of the Hugging Face hub, a model file is a symbolic link. The files may then be in the folder
    of the link, which comes first, or in the folder of its target.
    """
    folders: dict[Path, None] = {}
    for folder in (file.parent, file.resolve().parent):
        folders[folder] = None
        if folder.name == "onnx":
            folders[folder.parent] = None
    return [folder / name for folder in folders for name in names]


def external_data(file: Path) -> list[Path]:
    """Return the files, apart from the model file itself, that contain weights of a large model.

    Raises
    ------
    OSError
        If the model can't be read.
    """
    return [part for part in _named_data(file) if part.is_file()]


def missing_data(file: Path) -> list[Path]:
    """Return the paths of weights that the model refers to but that don't exist; see `external_data`."""
    return [part for part in _named_data(file) if not part.is_file()]


def _named_data(file: Path) -> list[Path]:
    stat = file.stat()
    names = _named(file, (stat.st_ino, stat.st_mtime_ns, stat.st_size)) if stat.st_size else ()
    return [file.parent / name for name in names]


@lru_cache(maxsize=64)
def _named(file: Path, identity: tuple[int, int, int]) -> tuple[str, ...]:  # noqa: ARG001 (for the cache)
    """Return the file names that follow the key "location" in the model (`TensorProto.external_data`)."""
    names: dict[str, None] = {}
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as model:
        for found in _LOCATION.finditer(model):
            (first, *more) = found[1]
            length = first & 127 | (more[0] << 7 if more else 0)
            names[model[found.end() : found.end() + length].decode(errors="replace")] = None
    return tuple(name for name in names if "\0" not in name)


def identity_of(file: Path, *others: Path) -> tuple[Any, ...]:
    """Return a value that changes when the model `file`, its `external_data` or one of `others` changes."""
    try:
        files = [part for part in (file, *external_data(file), *others) if part.is_file()]
        stats = [(part, part.stat()) for part in files]
    except OSError as error:
        raise InputError(f"{file} can't be read: {error.strerror or error}") from error
    return tuple((part, stat.st_ino, stat.st_mtime_ns, stat.st_size) for part, stat in stats)
