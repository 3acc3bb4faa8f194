"""Check that a webhook comes from the server."""

from __future__ import annotations

import hashlib
import hmac
import time

from closecall.client.errors import SignatureError

TOLERANCE_SECONDS = 300


def verify_signature(
    secret: str, header: str, body: bytes, tolerance: float = TOLERANCE_SECONDS, *, now: float | None = None
) -> None:
    """Check the signature of a webhook.

    Parameters
    ----------
    secret : str
        The secret of the webhook.
    header : str
        The value of the header ``Closecall-Signature``: ``t=UNIX_SECONDS,v1=HEX``. The signature is the
        HMAC-SHA256 of ``UNIX_SECONDS.BODY``.
    body : bytes
        The body of the request as it was received.
    tolerance : float
        Maximum age in seconds. It limits how long somebody can send a recorded request again.
    now : float, optional
        Seconds since 1970; by default, the time of this machine.

    Raises
    ------
    SignatureError
        If the signature is missing or wrong, or is older than the tolerance.
    """
    pairs = [part.strip().partition("=") for part in header.split(",")]
    times = [value for name, _, value in pairs if name == "t"]
    signatures = [value for name, _, value in pairs if name == "v1"]
    if len(times) != 1 or not (times[0].isascii() and times[0].isdigit()) or not signatures:
        raise SignatureError("The header must have the form t=UNIX_SECONDS,v1=SIGNATURE.")
    expected = hmac.new(secret.encode(), times[0].encode() + b"." + body, hashlib.sha256).hexdigest()
    if not any(hmac.compare_digest(expected.encode(), given.encode()) for given in signatures):
        raise SignatureError("The signature does not match the secret and the body.")
    age = (time.time() if now is None else now) - int(times[0])
    if abs(age) > tolerance:
        raise SignatureError(f"The signature is {age:.0f} seconds old, more than the {tolerance:g} allowed.")
