"""Failures that say nothing about an item, because they pass: a lost drive, too many open files, no memory.

While a pool is built, such a failure stops the build, which can be continued later. An item that counts as
unreadable, in contrast, is left out of the pool for good.
"""

from __future__ import annotations

import errno

from closecall.core.errors import InputError

_PASSING = frozenset(
    getattr(errno, name)
    for name in (
        *("EMFILE", "ENFILE", "ENOMEM", "EAGAIN", "EIO", "ENODEV", "ENXIO", "EREMOTEIO", "ESTALE"),
        *("ENOTCONN", "ETIMEDOUT", "EHOSTDOWN", "EHOSTUNREACH", "ENETDOWN", "ENETUNREACH"),
        *("ECONNABORTED", "ECONNREFUSED", "ECONNRESET"),
    )
    if hasattr(errno, name)
)


class PassingError(InputError):
    """Error for an item that can't be read now, although it may be intact.

    Parameters
    ----------
    message : str
    reason : str
        Reason for the error, without the place of the item. Some people may not see the place.
    """

    def __init__(self, message: str, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


def require_lasting(error: BaseException, what: str) -> None:
    """Raise a `PassingError` if the failure may pass. `what` names the file in the message.

    Raises
    ------
    PassingError
        If memory or file descriptors are short, or if a drive or a server of files doesn't answer.
    """
    if isinstance(error, MemoryError):
        reason = "there is not enough memory"
    elif isinstance(error, OSError) and error.errno in _PASSING:
        reason = error.strerror or str(error)
    else:
        return
    raise PassingError(
        f"{what} can't be read now ({reason}): try again, or move it away to leave it out", reason
    ) from error
