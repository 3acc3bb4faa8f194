"""Paths that a person typed, which may be none that can exist."""

from __future__ import annotations

from pathlib import Path

from closecall.core.errors import InputError

_MOST_SHOWN = 80
"""Maximum number of characters of a path in a message; longer paths are cut."""


def typed_path(text: str | Path) -> Path:
    """Return the path in `text`, where "~" and "~user" stand for home folders. The path need not exist.

    Raises
    ------
    InputError
        If there is no such user, if the path has a null character or is too long, or if the file system
        refuses to look at it.
    """
    shown = str(text) if len(str(text)) <= _MOST_SHOWN else f"{str(text)[: _MOST_SHOWN - 1]}…"
    try:
        path = Path(text).expanduser()
        path.stat()
    except (FileNotFoundError, NotADirectoryError):
        pass
    except RuntimeError:
        user = Path(text).parts[0]
        raise InputError(
            f"there is no home folder {user}: for a folder named {user}, type ./{user}"
        ) from None
    except ValueError:
        raise InputError(f"a path can't contain a null character, got {shown!r}") from None
    except OSError as error:
        raise InputError(f"{error.strerror}: {shown}") from None
    return path


def existing_path(text: str | Path) -> Path | None:
    """Return the path in `text` as `typed_path` does, or None if there is no such file or folder."""
    try:
        path = typed_path(text)
    except InputError:
        return None
    return path if path.exists() else None
