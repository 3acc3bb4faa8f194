"""A folder of images in object storage or on an HTTP server that lists its folders."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, ClassVar, Self
from urllib.parse import quote, unquote

from closecall.core.errors import InputError
from closecall.core.sources import classes, listing
from closecall.core.sources.base import Source, UnreadableImageError
from closecall.core.sources.classes import path_hash
from closecall.core.sources.images import EXTENSIONS
from closecall.core.sources.listing import Listing
from closecall.core.sources.remote.address import FORMS, Address, parse
from closecall.core.sources.remote.base import RemoteImages
from closecall.core.sources.remote.failures import TemporaryError, UnreachableError
from closecall.core.sources.remote.stores import Store
from closecall.core.sources.remote.web import Web, links

LIST_FILE = "files.npz"
_MOST_PAGES = 100_000
_MOST_PAGE_BYTES = 64 << 20


class RemoteFolder(RemoteImages):
    """Source of all images in a folder and its subfolders.

    Items have the same order and classes as in a folder on disk. See `core.sources.listing` and
    `core.sources.classes`.
    Images outside the folder are never read.

    Parameters
    ----------
    address : str
        Address of the folder or prefix, without credentials.
    use_classes : bool
        Whether to use names of folders as classes.
    files : Listing, optional
        Images that the folder had when the source was first made. By default, the images that it has now.

    Raises
    ------
    InputError
        If the text is no address or has credentials, or if the folder can't be listed or has no images.
    """

    kind: ClassVar[str] = "remote folder"

    def __init__(self, address: str, *, use_classes: bool = True, files: Listing | None = None) -> None:
        self.root = _folder(address)
        self.path = self.root.shown
        self.title = f"Images in {self.path}"
        self.use_classes = use_classes
        self._connect()
        self.files = _listed(self.root, use_classes) if files is None else files
        self.classes = self.files.classes

    def spec(self) -> dict[str, Any]:
        """Return the address of the folder, and a digest of the list that `save` writes."""
        return {
            "kind": self.kind,
            "address": self.root.shown,
            "use_classes": self.use_classes,
            "items": len(self),
            "digest": self.files.digest,
        }

    @classmethod
    def from_spec(cls, spec: dict[str, Any], folder: Path | None) -> Self:
        """Restore the source from the list saved in `folder`. If `folder` is None, list the images again.

        See `Source.from_spec` for errors.
        """
        files = None if folder is None else listing.load(folder / LIST_FILE)
        source = cls(spec["address"], use_classes=spec["use_classes"], files=files)
        if source.files.digest == spec["digest"]:
            return source
        if folder is not None:
            raise InputError(f"the list of images {folder / LIST_FILE} is damaged: build the pool again")
        raise InputError(
            f"{source.path} has changed: it had {spec['items']:,} images, and now has {len(source):,}, or "
            "different ones"
        )

    def save(self, folder: Path) -> None:
        """Save the list of images, so that images added or removed later do not change item ids."""
        listing.save(self.files, folder / LIST_FILE)

    def continuing(self, spec: dict[str, Any], folder: Path | None) -> Source:
        """See `Source.continuing`. New images come after the images of the earlier source."""
        known = {"kind": self.kind, "address": self.root.shown, "use_classes": self.use_classes}
        if folder is None or any(spec.get(key) != value for key, value in known.items()):
            return self
        files = listing.continued(self.from_spec(spec, folder).files, self.files)
        return type(self)(self.root.shown, use_classes=self.use_classes, files=files)

    def without_folder_classes(self) -> Source:
        """See `Source.without_folder_classes`."""
        if not self.use_classes:
            return self
        return type(self)(self.root.shown, use_classes=False, files=self.files.without_classes())

    def _address(self, item: int) -> tuple[Address, Address]:
        path = self.files.paths[item].replace(os.sep, "/")
        if self.root.is_web and {".", ".."} & set(path.split("/")):
            raise UnreadableImageError(f"it is outside of {self.path}")
        if self.root.is_web:
            path = quote(os.fsencode(path))  # the server's own bytes, which need not be UTF-8
        return Address(self.root.scheme, self.root.host, self.root.path + path), self.root


def _folder(text: str) -> Address:
    address = parse(text)
    if address is None:
        raise InputError(f"the address of a folder must begin with {FORMS}")
    if address.user or address.query:
        raise InputError(
            f"the address {address.shown} must not have a user, password or query, because it is stored: put "
            "user and password into ~/.netrc"
        )
    path = address.path if address.path.endswith("/") else address.path + "/"
    return Address(address.scheme, address.host, path)


def _listed(root: Address, use_classes: bool) -> Listing:
    names = _on_the_web(root) if root.is_web else Store(root.scheme).list(root)
    paths = tuple(sorted({name.replace("/", os.sep) for name in names if _is_wanted(name)}, key=path_hash))
    if not paths:
        raise InputError(f"{root.shown} has no images (JPEG, PNG, …), or doesn't list them")
    # The null device is no folder, so no lists of classes are found; they are supported only on disk.
    found, truth = classes.of(Path(os.devnull), paths) if use_classes else classes.unknown(len(paths))
    return Listing(paths, found, truth, classes.held_out(paths, truth))


def _is_wanted(name: str) -> bool:
    is_hidden = any(part.startswith(".") for part in name.split("/"))
    return "\0" not in name and not is_hidden and name[name.rfind(".") :].lower() in EXTENSIONS


def _on_the_web(root: Address) -> set[str]:
    """Return the names of all files to which the pages of the folder and of its subfolders link."""
    web = Web(1)
    names: set[str] = set()
    seen, waiting = {root.path}, [root]
    while waiting:
        folder = waiting.pop()
        page, at = _page(web, folder, root)
        for link in links(page, at, root):
            if not link.path.endswith("/"):
                names.add(unquote(link.path[len(root.path) :], errors="surrogateescape"))
            elif link.path not in seen:
                seen.add(link.path)
                waiting.append(Address(root.scheme, root.host, link.path))
        if len(seen) > _MOST_PAGES:
            raise InputError(f"{root.shown} has more than {_MOST_PAGES:,} folders")
    return names


def _page(web: Web, folder: Address, root: Address) -> tuple[bytes, Address]:
    try:
        page, at, _ = web.read(folder, root, _MOST_PAGE_BYTES)
    except UnreadableImageError as error:
        raise InputError(f"{folder.shown} can't be listed: {error}") from None
    except TemporaryError as error:
        raise UnreachableError(f"{folder.shown} can't be listed ({error}): try again once it can") from None
    return page, at
