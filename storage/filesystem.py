"""Detect network file systems, on which SQLite's locks and shared memory are unreliable."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from pathlib import Path

MOUNTS = Path("/proc/self/mountinfo")
"""Linux's list of mounts; see proc_pid_mountinfo(5)."""

NETWORK = re.compile("9p|afs|beegfs|ceph|cifs|coda|davfs|glusterfs|gpfs|lustre|nfs4?|smb[23]|smbfs|vboxsf")
"""Types of network file systems."""

REMOTE_FUSE = re.compile(
    "blobfuse2?|ceph(fs)?|curlftpfs|davfs|gcsfuse|glusterfs|goofys|juicefs|mount-s3|rclone|s3fs|smbnetfs|sshfs"
)
"""FUSE types of network file systems, such as "fuse.sshfs"."""

_REMOTE = re.compile(r"[a-z][a-z0-9+.-]*://|//[^/]|[^/\s]+:/?", re.I)  # https://host, //host, user@host:/path
_ESCAPED = re.compile(r"\\([0-7]{3})")


@dataclass(frozen=True)
class _Mount:
    point: str
    kind: str
    source: str

    @property
    def is_remote(self) -> bool:
        family, _, program = self.kind.partition(".")
        if family in ("fuse", "fuseblk"):
            return bool(REMOTE_FUSE.fullmatch(program) or _REMOTE.match(self.source))
        return bool(NETWORK.fullmatch(self.kind))

    def holds(self, path: str) -> bool:
        """Return whether `path` is below this mount point. Another mount point may be nearer to `path`."""
        return path == self.point or path.startswith(self.point.rstrip("/") + "/")


def network_file_system(path: Path, mounts: Path = MOUNTS) -> str | None:
    """Return the type of the network file system that `path` is on, such as "nfs4".

    Return None for local file systems, and on systems that don't report types.
    """
    try:
        lines = mounts.read_text("utf-8", "surrogateescape").splitlines()
    except OSError:
        return None
    there = os.path.realpath(path)
    # If several file systems are mounted at one place, the last one is visible.
    found = [mount for mount in map(_mount, lines) if mount is not None and mount.holds(there)]
    nearest = max(enumerate(found), key=lambda numbered: (len(numbered[1].point), numbered[0]), default=None)
    return nearest[1].kind if nearest is not None and nearest[1].is_remote else None


def _mount(line: str) -> _Mount | None:
    before, _, after = line.partition(" - ")
    left, right = before.split(" "), after.split(" ")
    if len(left) < 5 or len(right) < 2:
        return None
    return _Mount(_unescaped(left[4]), right[0], _unescaped(right[1]))


def _unescaped(field: str) -> str:
    """Decode the octal escapes of spaces, tabs, line ends and backslashes."""
    return _ESCAPED.sub(lambda found: chr(int(found[1], 8)), field)
