"""The project file, and the lock on a project, which one process or several servers together hold."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from filelock import FileLock, Timeout

from closecall.app.engine.leases import LEASE_SECONDS
from closecall.app.runtime.background import one_line
from closecall.app.runtime.shared_lock import SharedLock
from closecall.core.errors import InputError
from closecall.core.files.durable import replace_file
from closecall.storage.address import has_password, is_address, with_schema
from closecall.storage.errors import StorageError

PROJECT_FILE = "project.json"
LABELS_FILE = "labels.db"
POOL_FOLDER = "pool"
INDEX_FOLDER = "indexes"
DESCRIPTIONS_FOLDER = "descriptions"
LOCK_FILE = "serve.lock"
FORMAT = 1

MOST_PERSONS = 9
"""Maximum number of annotators per item."""


@dataclass(frozen=True)
class ProjectFile:
    """The settings in a project's folder.

    Parameters
    ----------
    pool : str
        The folder of the first pool, with which the project was made; a relative path if the pool is inside
        the project's folder.
    source : str
        The word for the pool's source (`core.sources.words`); empty if the pool existed before the project.
    relative_to : str
        The folder that relative paths in `source` refer to.
    use_classes : bool
        Whether subfolders are the true classes of their items. If they are, some items are held out.
    provider : str
        The execution provider that was chosen for the model in `source`; empty if none was chosen.
    dtype : str
        The type in which the features of the first pool are stored; empty for the default.
    owners : sequence of str
        Names of the project's owners; see `app.projects.roles`.
    annotators : sequence of str
        Names of other people who may enter the project; if empty, everybody may.
    overlap : int
        Number of annotators per item in overlap rounds. These are rounds for items that somebody else has
        answered already.
    overlap_share : float
        Share of rounds that are overlap rounds, 0 … 1.
    ask_once : bool
        Whether annotators are asked about only one item of each group of near-duplicates.
    lease_seconds : float
        Seconds of inactivity after which other sessions can get a session's items (`app.engine.leases`).
    database : str
        PostgreSQL address of the labels, without a password; empty if the labels are in the project's folder.
    description : str
        Name of the description in use, which is a set of features of all items (`app.projects.descriptions`);
        empty for the first description.
    label_studio_users : mapping
        Maps users of Label Studio to names of annotators. Each key is a user's number or e-mail address.
    format : int
        Version of this file.
    """

    pool: str
    source: str
    relative_to: str
    use_classes: bool = True
    provider: str = ""
    dtype: str = ""
    owners: Sequence[str] = ()
    annotators: Sequence[str] = ()
    overlap: int = 1
    overlap_share: float = 0.1
    ask_once: bool = True
    lease_seconds: float = LEASE_SECONDS
    database: str = ""
    description: str = ""
    label_studio_users: Mapping[str, str] = field(default_factory=dict)
    format: int = FORMAT

    @classmethod
    def read(cls, folder: Path) -> ProjectFile:
        """Read the project file in `folder`.

        Raises
        ------
        InputError
            If the project file is missing, can't be read, is damaged, has values that are not allowed, or has
            a newer format.
        """
        path = folder / PROJECT_FILE
        if not path.is_file():
            raise InputError(f"There is no project at {folder}: {PROJECT_FILE} is missing")
        try:
            stored = json.loads(path.read_text("utf-8"))
            read = cls(**stored)
            _check_kinds(read)
        except OSError as error:
            raise InputError(f"The project file {path} can't be read: {error.strerror}") from None
        except (ValueError, TypeError, RecursionError) as error:
            raise InputError(f"The project file {path} is damaged: {one_line(error)}") from None
        if not all(_are_names(names) for names in (read.owners, read.annotators)):
            raise InputError(
                f"The project file {path} is damaged: owners and annotators must be lists of names"
            )
        if not _are_users(read.label_studio_users):
            raise InputError(f"The project file {path} is damaged: label_studio_users must be names by user")
        check_overlap(read.overlap, read.overlap_share)
        _check_lease(read.lease_seconds)
        try:
            checked_database(read.database or None)
        except StorageError as error:
            raise InputError(f"The project file {path} is damaged: {error}") from None
        if read.format > FORMAT:
            raise InputError(
                f"The project {folder} has format {read.format}, this version of Closecall reads {FORMAT}"
            )
        return read

    def write(self, folder: Path) -> None:
        """Write the settings into `folder`."""
        stored = {name: value for name, value in asdict(self).items() if value != DEFAULTS.get(name)}
        _write(folder, stored)

    @classmethod
    def change(cls, folder: Path, **fields: object) -> None:
        """Change the given fields of the file in `folder`, and keep the values of all other fields.

        The file is read again first, because an operator may have edited it.

        Raises
        ------
        InputError
            If `read` raises it. The file then stays as it is.
        """
        cls.read(folder)
        stored = json.loads((folder / PROJECT_FILE).read_text("utf-8")) | fields
        _write(folder, {name: value for name, value in stored.items() if value != DEFAULTS.get(name)})

    def pool_path(self, folder: Path) -> Path:
        """Return the path of the pool with the features in use, for the project in `folder`."""
        return self.pool_under(self.description, folder)

    def pool_under(self, description: str, folder: Path) -> Path:
        """Return the path of the pool with the features of a description; "" is the first description.

        Raises
        ------
        InputError
            If `description` can't be the name of a description, for example because the log is damaged.
        """
        if description and not DESCRIPTION.fullmatch(description):
            raise InputError(f"{description!r:.80} is not the name of a description")
        return home_of(description, folder) / POOL_FOLDER if description else folder / self.pool

    def index_path(self, folder: Path) -> Path:
        """Return the path of the indexes of the pool with the features in use."""
        return home_of(self.description, folder) / INDEX_FOLDER

    def labels(self, folder: Path) -> Path | str:
        """Return the path or address of the labels of the project in `folder`, for `Database.open`."""
        return self.database or folder / LABELS_FILE


def home_of(description: str, folder: Path) -> Path:
    """Return the folder of a description of the items. For the first description, it is `folder` itself."""
    return folder / DESCRIPTIONS_FOLDER / description if description else folder


def _write(folder: Path, stored: Mapping[str, object]) -> None:
    """Write the file durably and atomically."""
    replace_file(folder / PROJECT_FILE, (json.dumps(stored, indent=2) + "\n").encode())


def checked_database(given: str | None) -> str | None:
    """Check and return a PostgreSQL address from a command or a project file. None is allowed.

    Raises
    ------
    InputError
        If `given` is not an address or contains a password. The message does not repeat the password.
    StorageError
        If the address can't be parsed.
    """
    if given is None:
        return None
    if not is_address(given):
        raise InputError(
            "Give the address of the database for labels, such as postgresql://user@host/database"
        )
    if has_password(given):
        raise InputError(
            "Leave the password out of the database's address, where others can read it: "
            "put it into PGPASSWORD or ~/.pgpass"
        )
    with_schema(given, "any")
    return given


def require_database(folder: Path, asked: str | None) -> None:
    """Check that the labels of the project in `folder` are at the address `asked`. None skips the check.

    Raises
    ------
    InputError
        If the labels are elsewhere: a server that used `asked` would find no labels.
    """
    file = ProjectFile.read(folder)
    known = file.database and with_schema(file.database, folder.name)
    if asked is not None and with_schema(asked, folder.name) != known:
        raise InputError(
            f"The labels of {folder} are in {file.labels(folder)}: move them with closecall backup, "
            "then closecall restore --database"
        )


DEFAULTS = {
    "provider": "",
    "owners": (),
    "annotators": (),
    "overlap": 1,
    "overlap_share": 0.1,
    "ask_once": True,
    "lease_seconds": LEASE_SECONDS,
    "description": "",
    "label_studio_users": {},
}
"""Default values of the fields that a project file may omit."""


def check_overlap(persons: int, share: float) -> None:
    """Check the number of annotators per item and the share of overlap rounds; see `ProjectFile`.

    Raises
    ------
    InputError
        If `persons` is not from 1 to `MOST_PERSONS`, or `share` is not from 0 to 1.
    """
    if type(persons) is not int or not 1 <= persons <= MOST_PERSONS:
        raise InputError(f"overlap must be from 1 to {MOST_PERSONS} people, got {persons}")
    if type(share) not in (int, float) or not 0 <= share <= 1:
        raise InputError(f"overlap_share must be from 0 to 1, got {share}")


def _check_lease(seconds: float) -> None:
    if type(seconds) not in (int, float) or not 0 < seconds < math.inf:
        raise InputError(f"lease_seconds must be more than 0, got {seconds}")


def _check_kinds(read: ProjectFile) -> None:
    """Check the types of the fields that no other function checks.

    Raises
    ------
    ValueError
        If a text is not a string or contains a null character, if `use_classes` or `ask_once` is not true or
        false, if the format is not a whole number, or if the name of a description could be a path.
    """
    for name, kind in {
        "pool": str,
        "source": str,
        "relative_to": str,
        "use_classes": bool,
        "provider": str,
        "dtype": str,
        "ask_once": bool,
        "database": str,
        "description": str,
        "format": int,
    }.items():
        value = getattr(read, name)
        if type(value) is not kind or (isinstance(value, str) and "\0" in value):
            raise ValueError(f"{name} must be {_KINDS[kind]}, got {value!r:.80}")

    if read.description and not DESCRIPTION.fullmatch(read.description):
        raise ValueError(f"description must be a name, got {read.description!r:.80}")


DESCRIPTION = re.compile("[a-z0-9][a-z0-9-]{0,79}")
"""Pattern of the names of descriptions. The folder of a description has the description's name."""

_KINDS = {str: "text without null characters", bool: "true or false", int: "a whole number"}


def _are_names(names: object) -> bool:
    return isinstance(names, list | tuple) and all(isinstance(name, str) for name in names)


def _are_users(users: object) -> bool:
    return isinstance(users, dict) and _are_names([*users, *users.values()])


def is_project(folder: Path) -> bool:
    """Return whether `folder` can be read and contains a project."""
    try:
        return (folder / PROJECT_FILE).is_file()
    except OSError:
        return False


LOCK_SECONDS = 0.2
"""Seconds to wait for a lock, because a check whether a project is served holds the lock for a moment."""


class AlreadyServedError(InputError):
    """Error for a project that another process serves or restores, or imports labels into."""


def lock_project(folder: Path, *, shared: bool = False) -> FileLock | SharedLock:
    """Lock the project for this process, and return the lock, which the caller must release.

    Only one process at a time may serve a project, or restore or import its labels. Servers that share a
    project are an exception: each takes the lock with `shared`, and all can hold it together. If another
    process has the lock, this call waits for up to `LOCK_SECONDS`.

    Raises
    ------
    AlreadyServedError
        If another process has the lock.
    InputError
        If the file can't be locked.
    """
    lock = SharedLock(folder / LOCK_FILE) if shared else FileLock(folder / LOCK_FILE)
    try:
        is_taken = bool(lock.acquire(timeout=LOCK_SECONDS))
    except Timeout:
        is_taken = False
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise InputError(f"The project {folder} cannot be locked for serving: {reason}") from None
    if not is_taken:
        alone = " alone" if shared else ""
        raise AlreadyServedError(
            f"The project {folder} is already being served{alone} by another process: stop that one first"
        )
    return lock
