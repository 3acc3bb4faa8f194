"""Errors of reading across a network. If a server refuses an image, the error is `UnreadableImageError`."""

from __future__ import annotations

from closecall.core.errors import InputError


class UnreachableError(InputError):
    """Error for a server or bucket that can't be read, although its images may exist."""


class TemporaryError(Exception):
    """Error after which a retry may succeed.

    Parameters
    ----------
    reason : str
        Reason for the error, without the address.
    wait : float
        Seconds that the server requests to wait before a retry.
    """

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait
