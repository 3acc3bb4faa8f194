"""What `pool.json` says: which files a pool is made of, and what each of them must look like.

The manifest is the pool's one point of truth. Nothing that it does not name belongs to the pool, and it is
only ever replaced as a whole, after the files that it names are on the disk.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from closecall.core.errors import InputError
from closecall.core.files.durable import Stamp, replace_file

MANIFEST = "pool.json"
FORMAT = 2
"""Raised whenever an older Closecall could misread what this one writes: what is new in 2 is the layout.

A dense pool is still written as of format 1, for older ones to read.
"""

CURE = "restore it from a backup, or build the pool again in a new folder"

DENSE, SPARSE = "dense", "sparse"
FEATURES, IDS, TRUTH, PROBLEMS = "features.npy", "ids.npy", "truth.npy", "problems.jsonl"


@dataclass(frozen=True)
class Part:
    """A folder of files that were published together: a segment, or the held-out items.

    Parameters
    ----------
    folder : str
        Relative to the pool's.
    rows : int
        Items with features.
    unreadable : int
        Items without.
    stop : int
        Every id below is in this part or an earlier one, held out, or unreadable. 0 for the held-out items.
    files : dict of str to Stamp
        By name.
    """

    folder: str
    rows: int
    unreadable: int
    stop: int
    files: dict[str, Stamp]


@dataclass(frozen=True)
class Manifest:
    """The state of a pool.

    Parameters
    ----------
    title, source, source_folder : str, dict, str or None
        What it is built from: `Source.title`, `Source.spec()`, and where `Source.save` wrote.
    classes : tuple of str
    items : int
        All ids of the source: 0 … items − 1.
    n_held_out : int
        How many of them are held out, unreadable ones included.
    n_features : int
    dtype : str
        Of the features: "float32" or "float16".
    layout : str
        Of the features: "dense" or "sparse" (see `core.pool.feature_files`).
    complete : bool
        Whether every item has been through.
    held_out : Part or None
        None before they are there: the first segments come before them.
    segments : tuple of Part
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
    held_out: Part | None = None
    segments: tuple[Part, ...] = field(default=())

    @property
    def rows(self) -> int:
        """Rows published."""
        return sum(segment.rows for segment in self.segments)

    @property
    def next_item(self) -> int:
        """The first id that no segment covers."""
        return self.segments[-1].stop if self.segments else 0

    @property
    def parts(self) -> tuple[Part, ...]:
        """All published parts, the held-out items first."""
        return ((self.held_out,) if self.held_out else ()) + self.segments

    def write(self, pool: Path) -> None:
        """Make this the pool's manifest, in one step."""
        body = _plain(self)
        text = json.dumps({**body, "checksum": _checksum(body)}, indent=1)
        replace_file(pool / MANIFEST, (text + "\n").encode())

    @classmethod
    def read(cls, pool: Path) -> Manifest:
        """The manifest of the pool in the folder `pool`.

        Raises
        ------
        InputError
            If there is no such folder, it is no pool, or the manifest is damaged or from a newer version.
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
    held_out = body.pop("held_out")
    return Manifest(
        **{
            **body,
            "classes": tuple(body["classes"]),
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
    written: dict[str, Any] = json.loads(json.dumps({"format": 2 if "layout" in body else 1, **body}))
    return written


def _checksum(body: dict[str, Any]) -> str:
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(canonical.encode(), digest_size=16).hexdigest()
