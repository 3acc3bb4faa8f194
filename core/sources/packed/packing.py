"""Positions of the images of a data set: ranges of bytes, or times, in one or more files, called shards."""

from __future__ import annotations

import hashlib
import io
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Self
from zipfile import BadZipFile

import numpy as np
from numpy.typing import NDArray

from closecall.core.errors import InputError
from closecall.core.files.durable import replace_file
from closecall.core.sources import listing
from closecall.core.sources.listing import Listing

LIST_FILE = "files.npz"
RANGES_FILE = "ranges.npz"


@dataclass(frozen=True, eq=False)
class Contents:
    """The images of one shard.

    Attributes
    ----------
    names : list of str
        Distinct names, with slashes and without "..".
    ranges : array of shape (n_images, 2), int64
        First byte and number of bytes. For a frame of a video, the time at which it is shown and the time
        since its keyframe, in units of `Timeline.time_base`. If the image can't be read, the second number is
        negative, and `PackedImages.missing` has the reason.
    labels : list of str
        The class of each image, or "" if unknown. The list is empty if the shard has no classes.
    """

    names: list[str]
    ranges: NDArray[np.int64]
    labels: list[str]

    def save(self, folder: Path) -> None:
        """Write the contents to a folder of the cache (`core.sources.unpacking`)."""
        np.save(folder / "ranges.npy", self.ranges)
        (folder / "names.json").write_text(json.dumps([self.names, self.labels]))

    @staticmethod
    def is_in(folder: Path) -> bool:
        """Return whether `folder` has the files that `save` wrote."""
        return (folder / "ranges.npy").exists() and (folder / "names.json").exists()

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Load what `save` wrote."""
        names, labels = json.loads((folder / "names.json").read_text())
        return cls(names, np.load(folder / "ranges.npy"), labels)


@dataclass(frozen=True, eq=False)
class Packing:
    """Positions of the images of a source.

    Attributes
    ----------
    files : Listing
        The images in their order, with classes and held-out images.
    ranges : array of shape (n_images, 3), int64
        For each image, the index of its shard, followed by the two numbers of `Contents.ranges`.
    shards : tuple of str
        Absolute paths of the shards.
    prints : tuple of str
        Fingerprint of each shard.
    """

    files: Listing
    ranges: NDArray[np.int64]
    shards: tuple[str, ...]
    prints: tuple[str, ...]

    @cached_property
    def digest(self) -> str:
        """Sixteen hexadecimal digits that identify the images, their positions and the shards."""
        told = json.dumps([self.files.digest, self.shards, self.prints])
        digest = hashlib.blake2b(told.encode(), digest_size=8)
        digest.update(np.ascontiguousarray(self.ranges).tobytes())
        return digest.hexdigest()

    def save(self, folder: Path) -> None:
        """Write the packing to files in `folder`, replacing each atomically."""
        held = io.BytesIO()
        told = json.dumps([self.shards, self.prints]).encode()
        np.savez(held, ranges=self.ranges, shards=np.frombuffer(told, dtype=np.uint8))
        replace_file(folder / RANGES_FILE, held.getvalue())
        listing.save(self.files, folder / LIST_FILE)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Load what `save` wrote.

        Raises
        ------
        InputError
            If a file is missing or damaged.
        """
        files, file = listing.load(folder / LIST_FILE), folder / RANGES_FILE
        try:
            with np.load(file, allow_pickle=False) as saved:
                shards, prints = json.loads(saved["shards"].tobytes())
                return cls(files, saved["ranges"], tuple(shards), tuple(prints))
        except FileNotFoundError as error:
            raise InputError(f"the list of images {file} is missing: build the pool again") from error
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            raise InputError(f"the list of images {file} is damaged: build the pool again") from error

    def continued(self, now: Packing) -> Packing:
        """Return the images of this packing in their order, followed by the images of `now` that are new."""
        known = set(self.files.paths)
        new = now.ranges[[i for i, path in enumerate(now.files.paths) if path not in known]]
        index = {shard: i for i, shard in enumerate(dict.fromkeys((*self.shards, *now.shards)))}
        new[:, 0] = np.array([index[shard] for shard in now.shards], dtype=np.int64)[new[:, 0]]
        prints = dict(zip(now.shards, now.prints, strict=True)) | dict(
            zip(self.shards, self.prints, strict=True)
        )
        return Packing(
            listing.continued(self.files, now.files),
            np.concatenate([self.ranges, new]),
            tuple(index),
            tuple(prints[shard] for shard in index),
        )


def clean_name(name: str) -> str:
    """Return a name from a shard without the parts "", "." and "..", and without NUL."""
    return "/".join(part for part in name.replace("\0", "_").split("/") if part not in ("", ".", ".."))
