"""The manifest `pool.json`, which lists the files of a pool with their sizes and checksums.

The manifest is authoritative: files that it does not name are not part of the pool. The manifest is always
replaced as a whole, after the files that it names are on disk.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from closecall.core.errors import InputError
from closecall.core.files.durable import Stamp, replace_file

MANIFEST = "pool.json"
FORMAT = 3
"""Version of the format. It increases when an older version of Closecall could misread new files.

Format 2 added `Manifest.layout`, and format 3 the layout "byte". Dense pools are still written as format 1,
and sparse pools as format 2, so that older versions can read them.
"""

_FORMATS = {"dense": 1, "sparse": 2, "byte": 3}

CURE = "restore it from a backup, or build the pool again in a new folder"

DENSE, SPARSE, BYTE = "dense", "sparse", "byte"
FEATURES, IDS, TRUTH, PROBLEMS = "features.npy", "ids.npy", "truth.npy", "problems.jsonl"


@dataclass(frozen=True)
class Part:
    """A folder of files that were published together: a segment, or the held-out items.

    Parameters
    ----------
    folder : str
        Path relative to the pool's folder.
    rows : int
        Number of items with features.
    unreadable : int
        Number of items that could not be read.
    stop : int
        First id after this segment. Each item with a smaller id is in this segment or an earlier one, is
        unreadable, or is held out. For the part of the held-out items, `stop` is 0.
    files : dict of str to Stamp
        Stamp of each file by name.
    """

    folder: str
    rows: int
    unreadable: int
    stop: int
    files: dict[str, Stamp]


@dataclass(frozen=True)
class Manifest:
    """State of a pool.

    Parameters
    ----------
    title, source, source_folder : str, dict, str or None
        The pool's source: its `Source.title`, its `Source.spec()`, and the folder of the files that
        `Source.save` wrote. The folder is None if there are no such files.
    classes : tuple of str
        Names of the classes; empty if unknown.
    items : int
        Number of items of the source. Their ids are 0 … items − 1.
    n_held_out : int
        Number of held-out items, including unreadable ones.
    n_features : int
    dtype : str
        Type of the features, "float32", "float16" or "byte".
    layout : str
        Layout of the features, "dense", "sparse" or "byte" (see `core.pool.feature_files`).
    complete : bool
        Whether every item is processed.
    codebook : Part or None
        The codebook of a byte pool (`core.quantization.codebook`); None until it is published. It has no
        items.
    held_out : Part or None
        The held-out items; None until they are published, or if there are none.
    segments : tuple of Part
        The published segments, in order.
    """

    title: str
    source: dict[str, Any]
    source_folder: str | None
    classes: tuple[str, ...]
    items: int
    n_held_out: int
    n_features: int
    dtype: str
    layout: str = DENSE
    complete: bool = False
    codebook: Part | None = None
    held_out: Part | None = None
    segments: tuple[Part, ...] = field(default=())

    @property
    def rows(self) -> int:
        """Number of published rows."""
        return sum(segment.rows for segment in self.segments)

    @property
    def next_item(self) -> int:
        """First id that no segment covers."""
        return self.segments[-1].stop if self.segments else 0

    @property
    def parts(self) -> tuple[Part, ...]:
        """All published parts with items, the held-out items first."""
        return ((self.held_out,) if self.held_out else ()) + self.segments

    @property
    def folders(self) -> tuple[Part, ...]:
        """All published parts, with or without items."""
        return ((self.codebook,) if self.codebook else ()) + self.parts

    @property
    def for_held_out(self) -> Manifest:
        """The manifest with the type and layout of the held-out items, which are never stored as bytes."""
        return replace(self, dtype="float32", layout=DENSE) if self.layout == BYTE else self

    def write(self, pool: Path) -> None:
        """Atomically replace the pool's manifest with this one."""
        body = _plain(self)
        text = json.dumps({**body, "checksum": _checksum(body)}, indent=1)
        replace_file(pool / MANIFEST, (text + "\n").encode())

    @classmethod
    def read(cls, pool: Path) -> Manifest:
        """Read the manifest of the pool in the folder `pool`.

        Raises
        ------
        InputError
            If there is no such folder, if it is not a pool, or if the manifest is damaged or from a newer
            version.
        """
        path = pool / MANIFEST
        try:
            raw = path.read_bytes()
        except FileNotFoundError:
            if pool.is_dir():
                raise InputError(f"{pool} is not a pool: it has no {MANIFEST}") from None
            raise InputError(f"There is no pool at {pool}: no such folder") from None
        except NotADirectoryError:
            raise InputError(f"{pool} is not a pool: a pool is a folder") from None
        except OSError as error:
            raise InputError(f"{path} cannot be read: {error.strerror}") from error
        try:
            return _parse(raw)
        except _NewerFormatError as error:
            raise InputError(
                f"{path} is of format {error}, and this version of Closecall reads formats up to {FORMAT}: "
                f"upgrade Closecall"
            ) from None
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise InputError(f"{path} is damaged ({error}): {CURE}") from error


class _NewerFormatError(Exception):
    pass


def _parse(raw: bytes) -> Manifest:
    body = json.loads(raw.decode())
    if isinstance(body["format"], int) and body["format"] > FORMAT:
        raise _NewerFormatError(body["format"])
    if body.pop("checksum", None) != _checksum(body):
        raise ValueError("its checksum is wrong")
    del body["format"]
    held_out, codebook = body.pop("held_out"), body.pop("codebook", None)
    return Manifest(
        **{
            **body,
            "classes": tuple(body["classes"]),
            "codebook": _part(codebook) if codebook else None,
            "held_out": _part(held_out) if held_out else None,
            "segments": tuple(map(_part, body["segments"])),
        }
    )


def _part(plain: dict[str, Any]) -> Part:
    return Part(**{**plain, "files": {name: Stamp(**stamp) for name, stamp in plain["files"].items()}})


def _plain(manifest: Manifest) -> dict[str, Any]:
    body = asdict(manifest)
    if manifest.layout == DENSE:
        del body["layout"]
    if manifest.layout != BYTE:
        del body["codebook"]
    written: dict[str, Any] = json.loads(json.dumps({"format": _FORMATS[manifest.layout], **body}))
    return written


def _checksum(body: dict[str, Any]) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(canonical.encode(), digest_size=16).hexdigest()
