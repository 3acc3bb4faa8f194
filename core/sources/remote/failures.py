"""Errors of reading across a network. If a server refuses an image, the error is `UnreadableImageError`."""

from __future__ import annotations

from closecall.core.sources.passing import PassingError


class UnreachableError(PassingError):
    """Error for a server or bucket that can't be read, although its images may exist.

    Parameters
    ----------
    message : str
    reason : str
        Reason for the error, without the address. Some people may not see the address.
    """

    def __init__(self, message: str, reason: str = "its server can't be read") -> None:
        super().__init__(message, reason)


class TemporaryError(Exception):
    """Error after which a retry may succeed.

    Parameters
    ----------
    reason : str
        Reason for the error, without the address.
    wait : float
        Seconds that the server requests to wait before a retry.
    is_silent : bool
        Whether the server did not answer at all, so that its other images can't be read either.
    """

    def __init__(self, reason: str, wait: float = 0.0, *, is_silent: bool = False) -> None:
        super().__init__(reason)
        self.wait = wait
        self.is_silent = is_silent
