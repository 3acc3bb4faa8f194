"""A list of addresses of images, in a text file or in a column of a table.

The pool stores addresses without parts that may be credentials (`core.sources.remote.address`). If addresses
in the list have such parts, the list is read again when images are first needed. Their signatures may be
newer then.
"""

from __future__ import annotations

import hashlib
import os
import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar, Self

from closecall.core.errors import InputError
from closecall.core.sources import classes, listing
from closecall.core.sources.base import Source, UnreadableImageError, changed
from closecall.core.sources.class_list import MOST_CLASSES
from closecall.core.sources.classes import path_hash
from closecall.core.sources.listing import Listing
from closecall.core.sources.remote.address import FORMS, Address, parse
from closecall.core.sources.remote.base import RemoteImages
from closecall.core.sources.text_table import (
    CLASS_COLUMNS,
    SUFFIXES,
    choose_column,
    read_batches,
    strings_of,
)
from closecall.core.sources.text_table import MOST_CLASSES as MOST_GUESSED

ADDRESS_COLUMNS = ("url", "image_url", "address", "uri", "link")
"""Names of the column of addresses to try, in this order, if no name is given."""

LIST_FILE = "files.npz"
_MINOR_SHARE = 0.01
"""An unreachable server stops a build only if it has at least this fraction of the images."""


class AddressList(RemoteImages):
    """Source of the images at the addresses in a list, ordered by a hash of their names.

    The name of an image is its address without credentials and query. If several images have the same name,
    row numbers are added to their names. An address that occurs more than once is one image.

    Parameters
    ----------
    path : Path
        A .csv file with a header, a .jsonl or .parquet file, or a text file with one address per line.
    address, label : str, optional
        Names of a table's column of addresses and column of classes. By default, they are the first names in
        `ADDRESS_COLUMNS` and `text_table.CLASS_COLUMNS` that the table has. If the table has no name in
        `ADDRESS_COLUMNS`, its only column with addresses is used. A default column of classes is ignored
        unless it has 2 to 1,000 classes.
    files : Listing, optional
        Images that the list had when the source was first made. By default, the images that it has now.
    identities : str, optional
        Digest of the images' addresses, or "" if no address has credentials or a query. By default, the
        digest of the current addresses.
    as_written : bool
        See `text_table.read_batches`.

    Raises
    ------
    InputError
        If the list or a column doesn't exist or can't be read, if there are no addresses, or if the given
        column of classes has fewer than 2 or more than 32,767 classes.
    """

    kind: ClassVar[str] = "addresses"
    path: Path

    def __init__(
        self,
        path: Path,
        *,
        address: str | None = None,
        label: str | None = None,
        files: Listing | None = None,
        identities: str | None = None,
        as_written: bool = True,
    ) -> None:
        self.path = path.absolute()
        self.address_column, self.class_column, self.as_written = address, label, as_written
        self.title = f"Images listed in {self.path.name}"
        self._lock = threading.Lock()
        self._addresses: tuple[Address | None, ...] | None = None
        self.files = self._listed() if files is None else files
        self.classes = self.files.classes
        self._identities = self._identified() if identities is None else identities
        self._connect(lambda place: place in self._minor)

    def spec(self) -> dict[str, Any]:
        """Return the path of the list, its columns, and digests of the saved names and of the addresses."""
        return {
            "kind": self.kind,
            "path": str(self.path),
            "address": self.address_column,
            "label": self.class_column,
            "items": len(self),
            "digest": self.files.digest,
            "identities": self._identities,
            **({"as_written": True} if self.as_written else {}),
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any], folder: Path | None) -> Self:
        """Restore the source from the list saved in `folder`; if `folder` is None, from the original file.

        See `Source.from_spec` for errors.
        """
        given: dict[str, Any] = {"address": spec["address"], "label": spec["label"]}
        given["as_written"] = spec.get("as_written", False)
        if folder is None:
            source = cls(Path(spec["path"]), **given)
            if source.files.digest != spec["digest"] or source._identities != spec["identities"]:
                raise changed(source.path)
            return source
        files = listing.load(folder / LIST_FILE)
        if files.digest != spec["digest"]:
            raise InputError(f"the list of images {folder / LIST_FILE} is damaged: build the pool again")
        return cls(Path(spec["path"]), files=files, identities=spec["identities"], **given)

    def save(self, folder: Path) -> None:
        """Save the names of the images, so that addresses added later do not change item ids."""
        listing.save(self.files, folder / LIST_FILE)

    def continuing(self, spec: dict[str, Any], folder: Path | None) -> Source:
        """See `Source.continuing`. New addresses come after the addresses of the earlier list."""
        given: dict[str, Any] = {"address": self.address_column, "label": self.class_column}
        known = {"kind": self.kind, "path": str(self.path), **given}
        if folder is None or any(spec.get(key) != value for key, value in known.items()):
            return self
        earlier = self.from_spec(spec, folder)
        if earlier.as_written != self.as_written:
            now = type(self)(self.path, as_written=earlier.as_written, **given)
            return now.continuing(spec, folder)
        if spec["identities"]:
            _ = earlier._whole  # raises InputError if the earlier addresses have changed
        files = listing.continued(earlier.files, self._named_as_in(earlier.files))
        grown = type(self)(self.path, files=files, as_written=self.as_written, **given)
        if not spec["identities"] and not grown._agrees_with(earlier.files):
            raise changed(self.path)
        return grown

    def _agrees_with(self, earlier: Listing) -> bool:
        """Return whether the names in `earlier` equal the addresses, with queries, of the first images."""
        pairs = zip(earlier.paths, self._addresses or (), strict=False)
        return all(address is None or _path(address.identity) == path for path, address in pairs)

    def _named_as_in(self, earlier: Listing) -> Listing:
        """Return the current list, but with the names from `earlier` for all images that `earlier` has.

        In the current list, row numbers may have been added to these names.
        """
        known, names = set(earlier.paths), dict[str, str]()
        for name, address, _ in self._rows():
            if address is not None and (path := _path(address.shown)) in known:
                names.setdefault(path, _path(name))  # the first row: later ones were added since
        earlier_names = {name: path for path, name in names.items()}
        return replace(self.files, paths=tuple(earlier_names.get(path, path) for path in self.files.paths))

    def _address(self, item: int) -> tuple[Address, Address]:
        address = self._whole[item] if self._identities else parse(self.name(item))
        if address is None:
            raise UnreadableImageError(f"it has no address that begins with {FORMS}")
        return address, Address(address.scheme, address.host, "/")

    @property
    def _whole(self) -> tuple[Address | None, ...]:
        """The addresses with their queries and credentials, in the order of the items."""
        with self._lock:
            if self._addresses is None:
                self._addresses = self._in_order()
                if self._digest() != self._identities:
                    self._addresses = None
                    raise changed(self.path)
            return self._addresses

    def _in_order(self) -> tuple[Address | None, ...]:
        rows = self._rows()
        by_name = {name: address for name, address, _ in rows}
        for _, address, _ in rows:
            if address is not None:  # a name from before the list had addresses that differ only in the query
                by_name.setdefault(address.shown, address)
        return tuple(by_name.get(listing.as_text(path)) for path in self.files.paths)

    def _digest(self) -> str:
        digest = hashlib.blake2b(digest_size=8)
        for address in self._addresses or ():
            digest.update(f"{'' if address is None else address.identity}\n".encode())
        return digest.hexdigest()

    def _identified(self) -> str:
        """Return the digest of the current addresses, or "" if none of them has credentials or a query."""
        if self._addresses is None:
            self._addresses = self._in_order()
        if any(address is not None and (address.user or address.query) for address in self._addresses):
            return self._digest()
        self._addresses = None
        return ""

    def _listed(self) -> Listing:
        rows = self._rows()
        if not any(address for _, address, _ in rows):
            raise InputError(f"{self.path} has no addresses that begin with {FORMS}")
        rows.sort(key=lambda row: path_hash(row[0]))
        paths = tuple(_path(name) for name, _, _ in rows)
        most = MOST_GUESSED if self.class_column is None else MOST_CLASSES
        names, truth = classes.of_labels([label for _, _, label in rows], most)
        if self.class_column is not None and not names:
            raise InputError(
                f"column {self.class_column} of {self.path} must have 2 to {MOST_CLASSES:,} different classes"
            )
        self._addresses = tuple(address for _, address, _ in rows)
        return Listing(paths, names, truth, classes.held_out(paths, truth))

    def _rows(self) -> list[tuple[str, Address | None, str]]:
        """Return the name, the address and the class of each image, in the order of the list."""
        if not self.path.is_file():
            raise InputError(f"there is no file {self.path}")
        found: dict[str, tuple[int, Address | None, str]] = {}
        for row, (text, label) in enumerate(self._texts(), start=1):
            address = parse(text)
            found.setdefault(f"row {row}" if address is None else address.identity, (row, address, label))
        counts = Counter(address.shown for _, address, _ in found.values() if address is not None)
        rows = []
        for row, address, label in found.values():
            name = f"row {row}"
            if address is not None:
                name = address.shown if counts[address.shown] == 1 else f"{address.shown} ({name})"
            rows.append((name, address, label))
        return rows

    def _texts(self) -> Iterator[tuple[str, str]]:
        """For each row, yield the address and the class, unchanged, or "" for a missing value."""
        import pyarrow

        try:
            if self.path.suffix.lower() not in SUFFIXES:
                lines = self.path.read_text("utf-8-sig").splitlines()
                yield from ((line, "") for line in lines if line.strip())
                return
            for batch in read_batches(self.path, as_written=self.as_written):
                column, label = self._columns(batch)
                labels = [""] * len(batch) if label is None else self._strings(batch, label)
                pairs = zip(self._strings(batch, column), labels, strict=True)
                yield from ((text or "", name or "") for text, name in pairs)
        except (pyarrow.ArrowException, ValueError) as error:
            # The error's own message would quote the row, which may have credentials.
            raise InputError(f"{self.path} is damaged, or no list ({type(error).__name__})") from None
        except OSError as error:
            raise InputError(f"{self.path} can't be read: {error.strerror or error}") from error

    def _strings(self, batch: Any, column: str) -> list[str | None]:
        return strings_of(batch, column, as_written=self.as_written)

    def _columns(self, batch: Any) -> tuple[str, str | None]:
        names = batch.schema.names
        if any(parse(name) for name in names):
            raise InputError(f"the first line of {self.path} must name its columns, such as url")
        label = choose_column(names, self.class_column, CLASS_COLUMNS, self.path)
        column = choose_column(names, self.address_column, ADDRESS_COLUMNS, self.path)
        if column is not None:
            return column, label
        usable = [name for name in names if any(parse(text or "") for text in self._strings(batch, name))]
        if len(usable) == 1:
            return usable[0], label
        if usable:
            raise InputError(
                f"{self.path} has several columns of addresses: choose one of {', '.join(usable)}"
            )
        raise InputError(
            f"{self.path} has no column of addresses (one of {', '.join(ADDRESS_COLUMNS)}): choose one of "
            f"{', '.join(names)}"
        )

    @cached_property
    def _minor(self) -> frozenset[str]:
        """The servers and buckets that have only a small fraction of the images."""
        places = Counter("/".join(path.split(os.sep, 3)[:3]) for path in self.files.paths)
        return frozenset(place for place, n in places.items() if n < _MINOR_SHARE * len(self))


def _path(name: str) -> str:
    return name.replace("/", os.sep)
