"""Warnings about dangerous ways to start a server."""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from closecall.app.projects.config import ProjectFile
from closecall.core.errors import InputError
from closecall.storage.errors import StorageError
from closecall.storage.filesystem import network_file_system

if TYPE_CHECKING:
    from closecall.app.sessions.workspace import Workspace


def cautions(workspace: Workspace, host: str) -> list[str]:
    """Return the warnings for serving `workspace` on `host`."""
    sentences = list(_on_networks(_folders_with_labels(workspace)))
    if not (is_own_machine(host) or workspace.roles.must_sign_in):
        sentences.append(
            f"Other machines can reach {host}, and nobody has to sign in: anyone who finds the page "
            "can label, and change labels, under any name. Configure sign-in, or leave out --host."
        )
    return sentences


def is_own_machine(host: str) -> bool:
    """Return whether only programs on this machine can reach `host`."""
    try:
        found = {entry[4][0] for entry in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:
        return False
    return all(ipaddress.ip_address(str(address).partition("%")[0]).is_loopback for address in found)


def _folders_with_labels(workspace: Workspace) -> Iterator[Path]:
    """Yield the folders in which labels are or will be kept in files.

    These are folders of projects, and the workspace's folder if new projects will keep labels in files.
    """
    if workspace.can_create and not workspace.labels_go_to_a_server:
        yield workspace.folder
    for key in workspace.served_keys():
        try:
            if not ProjectFile.read(workspace.folder / key).database:
                yield workspace.folder / key
        except (InputError, StorageError):
            continue  # the page reports the problem


def _on_networks(folders: Iterable[Path]) -> Iterator[str]:
    reported: set[Path] = set()
    for folder in folders:
        kind = network_file_system(folder)
        if kind is not None and reported.isdisjoint(folder.parents):
            reported.add(folder)
            yield (
                f"{folder} is on a network file system ({kind}), where SQLite's locks cannot be relied upon: "
                "labels may be damaged. Keep projects on a disk of this machine, or their labels in "
                "PostgreSQL (--database)."
            )
