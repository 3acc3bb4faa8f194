"""Failures of reading across a network. Images refused for good raise `UnreadableImageError`."""

from __future__ import annotations

from closecall.core.errors import InputError


class UnreachableError(InputError):
    """A server or bucket that can't be read, so that nothing can be said about its images."""


class TemporaryError(Exception):
    """A failure that may pass.

    Parameters
    ----------
    reason : str
        Why, without the address.
    wait : float
        Seconds that the server asks to wait.
    """

    def __init__(self, reason: str, wait: float = 0.0) -> None:
        super().__init__(reason)
        self.wait = wait
