"""One delivery to a webhook: its body, its signature, and the HTTP request."""

from __future__ import annotations

import hashlib
import hmac
import json
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

import urllib3

from closecall.core.sources.remote.web import reason_of

MOST_EVENTS = 100
"""Maximum number of events in a delivery."""

SIGNATURE = "Closecall-Signature"
"""Name of the header with the signature."""

CONNECT_SECONDS, READ_SECONDS = 5.0, 10.0
"""Seconds to wait for a connection to the receiver, and for its answer."""

Post = Callable[[str, bytes, Mapping[str, str]], str | None]
"""Sends a body with headers to an address. Returns None on success, otherwise the problem in one sentence."""

# urllib3 logs addresses, which may contain secrets.
logging.getLogger("urllib3").setLevel(logging.ERROR)


def body_of(webhook_id: int, events: Sequence[Mapping[str, Any]]) -> bytes:
    """Return the body of a delivery: JSON in UTF-8."""
    delivery = {"webhook": webhook_id, "events": events}
    return json.dumps(delivery, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def headers_of(secret: str, body: bytes) -> dict[str, str]:
    """Return the headers of a delivery that is sent now."""
    return {
        "Content-Type": "application/json",
        "User-Agent": "closecall",
        "Connection": "close",
        SIGNATURE: signature(secret, body, int(time.time())),
    }


def signature(secret: str, body: bytes, seconds: int) -> str:
    """Return the signature of a body that is sent at a time, in seconds since 1970-01-01 UTC.

    The signature is HMAC-SHA256 of the time, a dot and the body. It includes the time, so that a receiver can
    refuse an old delivery that somebody else sends again.
    """
    signed = hmac.new(secret.encode(), f"{seconds}.".encode() + body, hashlib.sha256)
    return f"t={seconds},v1={signed.hexdigest()}"


class HttpPost:
    """Sends deliveries over HTTP. Any number of threads may use it.

    Redirects are not followed. Proxies are those of the environment (``https_proxy`` and ``no_proxy``).

    Parameters
    ----------
    connect, read : float
        Seconds to wait for a connection, and for the answer.
    """

    def __init__(self, connect: float = CONNECT_SECONDS, read: float = READ_SECONDS) -> None:
        options: Any = {"retries": False, "timeout": urllib3.Timeout(connect=connect, read=read)}
        self._direct = urllib3.PoolManager(**options)
        self._proxies = {
            scheme: urllib3.ProxyManager(proxy, proxy_headers=_login(proxy), **options)
            for scheme, proxy in getproxies().items()
            if scheme in ("http", "https")
        }

    def __call__(self, url: str, body: bytes, headers: Mapping[str, str]) -> str | None:
        """Send one delivery; return None if the receiver answers 2xx, otherwise the problem."""
        parts = urlsplit(url)
        proxy = None if proxy_bypass(parts.hostname or "") else self._proxies.get(parts.scheme)
        try:
            answer = (proxy or self._direct).request(
                "POST", url, body=body, headers=headers, redirect=False, preload_content=False
            )
        except (urllib3.exceptions.HTTPError, OSError, UnicodeError) as error:
            return f"The receiver can't be reached: {reason_of(error)}"
        with closing(answer):  # the body of the answer is not read
            status = answer.status
        if 200 <= status < 300:
            return None
        phrase = f" {HTTPStatus(status).phrase}" if status in set(HTTPStatus) else ""
        return f"The receiver answered with status {status}{phrase}"


def _login(proxy: str) -> dict[str, str] | None:
    """Return the header with the user and password in a proxy's address, or None."""
    user = urllib3.util.parse_url(proxy).auth
    return dict(urllib3.make_headers(proxy_basic_auth=unquote(user))) if user else None
