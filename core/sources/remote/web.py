"""Reading from HTTP servers.

Redirects are followed only inside a given folder or host. A host name that resolves to a link-local address
is refused, because clouds serve the credentials of their machines at such addresses. Messages show addresses
only as `Address.shown`.
"""

from __future__ import annotations

import ipaddress
import logging
import netrc
import time
from base64 import b64encode
from contextlib import closing
from html.parser import HTMLParser
from http import HTTPStatus
from typing import Any
from urllib.parse import unquote, urljoin
from urllib.request import getproxies, proxy_bypass

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

from closecall.core.sources.base import UnreadableImageError
from closecall.core.sources.images import MAX_PIXELS
from closecall.core.sources.remote.address import Address, parse
from closecall.core.sources.remote.failures import TemporaryError

MOST_BYTES = 4 * MAX_PIXELS
"""Maximum size of an encoded image in bytes; an image is read whole."""
MOST_REDIRECTS = 5
CONNECT_SECONDS, READ_SECONDS = 10.0, 30.0
"""Seconds to wait for a connection, and for the next part of a response."""
MOST_SECONDS = 300.0
"""Maximum duration of a response in seconds, for servers that keep sending slowly."""

_AT_ONCE = 1 << 16
_METADATA = frozenset(
    map(ipaddress.ip_address, ("100.100.100.200", "168.63.129.16", "fd00:ec2::254", "fd20:ce::254"))
)
_PASSING = frozenset((408, 425, 429, 500, 502, 503, 504, 507, 509, 520, 521, 522, 523, 524))

# At level DEBUG, urllib3 would log addresses with their queries; at WARNING, that it closes connections.
logging.getLogger("urllib3").setLevel(logging.ERROR)


def _require_public(connection: HTTPConnection) -> None:
    """Raise UnreadableImageError if a host name has resolved to a link-local address or a metadata server.

    Such hosts may be read only if the list has their IP addresses instead of names.
    """
    peer = connection.sock.getpeername()[0]
    address = ipaddress.ip_address(peer.partition("%")[0])
    address = getattr(address, "ipv4_mapped", None) or address
    if (address.is_link_local or address in _METADATA) and not _is_number(connection.host):
        connection.close()
        raise UnreadableImageError(f"its host leads to {address}, which is read only if the list names it")


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return False
    return True


class _Connection(HTTPConnection):
    def connect(self) -> None:
        super().connect()
        _require_public(self)


class _TLSConnection(HTTPSConnection):
    def connect(self) -> None:
        super().connect()
        _require_public(self)


class _Pool(HTTPConnectionPool):
    ConnectionCls = _Connection


class _TLSPool(HTTPSConnectionPool):
    ConnectionCls = _TLSConnection


def _login(user: str) -> str:
    """Return the header `Authorization` for a percent-encoded user and password, sent as UTF-8 (RFC 7617)."""
    return f"Basic {b64encode(unquote(user).encode()).decode()}"


class Web:
    """Connections to HTTP servers, used by any number of threads.

    Proxies come from environment variables such as ``https_proxy`` and ``no_proxy``. Users and passwords come
    from the address or from the file ``.netrc``.

    Parameters
    ----------
    connections : int
        Number of connections to a host that are kept open.
    """

    def __init__(self, connections: int) -> None:
        self._options: dict[str, Any] = {
            "maxsize": connections,
            "retries": False,
            "timeout": urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS),
        }
        self._direct = urllib3.PoolManager(**self._options)
        self._direct.pool_classes_by_scheme = {"http": _Pool, "https": _TLSPool}
        self._proxies = {
            scheme: urllib3.ProxyManager(
                proxy,
                proxy_headers={"Proxy-Authorization": _login(user)} if user else None,
                **self._options,
            )
            for scheme, proxy in getproxies().items()
            if scheme in ("http", "https") and (known := parse(proxy)) is not None
            for user in (known.user,)
        }
        try:
            self._known = netrc.netrc().hosts
        except (OSError, netrc.NetrcParseError):
            self._known = {}

    def read(self, address: Address, inside: Address, most: int = MOST_BYTES) -> tuple[bytes, Address, str]:
        """Return the body of the response, the address after redirects, and the media type.

        Parameters
        ----------
        address : Address
            Address to read.
        inside : Address
            Folder that redirects must not leave.
        most : int
            Maximum number of bytes.

        Raises
        ------
        UnreadableImageError
            If the server refuses the request, if the response is too large, or if a redirect leads elsewhere.
        TemporaryError
            If a retry may succeed.
        """
        for _ in range(MOST_REDIRECTS + 1):
            with closing(self._answer(address)) as response:
                target = response.get_redirect_location()
                if not target:
                    media = response.headers.get("Content-Type", "").partition(";")[0].strip().lower()
                    return _body(response, most), address, media
            there = parse(urljoin(f"{address.shown}?{address.query}", target))
            if there is None or not inside.contains(there):
                where = "elsewhere" if there is None else f"to {there.place}"
                raise UnreadableImageError(f"the server redirects {where}, outside of {inside.shown}")
            address = Address(there.scheme, there.host, there.path, there.query, address.user)
        raise UnreadableImageError(f"the server redirects more than {MOST_REDIRECTS} times")

    def _answer(self, address: Address) -> urllib3.BaseHTTPResponse:
        name = address.host.partition(":")[0]
        proxy = None if proxy_bypass(name) else self._proxies.get(address.scheme)
        headers = {"User-Agent": "closecall", "Accept-Encoding": "identity"}
        if user := address.user or self._user(name):
            headers["Authorization"] = _login(user)
        query = f"?{address.query}" if address.query else ""
        try:
            return (proxy or self._direct).request(
                "GET", address.shown + query, headers=headers, redirect=False, preload_content=False
            )
        except urllib3.exceptions.LocationParseError:
            raise UnreadableImageError("its address is not valid") from None
        except (urllib3.exceptions.HTTPError, UnicodeError) as error:
            # A server may cut the connection because of this image alone.
            is_silent = not isinstance(error, urllib3.exceptions.ProtocolError)
            raise TemporaryError(reason_of(error), is_silent=is_silent) from None

    def _user(self, name: str) -> str:
        login = self._known.get(name)
        return "" if login is None else f"{login[0]}:{login[2]}"


def _body(response: urllib3.BaseHTTPResponse, most: int) -> bytes:
    _require_success(response)
    length = response.headers.get("Content-Length", "")
    if length.isdecimal() and int(length) > most:
        raise UnreadableImageError(f"it has {int(length):,} bytes, but at most {most:,} are read")
    held, size, until = [], 0, time.monotonic() + MOST_SECONDS
    while part := _part(response):
        held.append(part)
        size += len(part)
        if size > most:
            raise UnreadableImageError(f"it has more than {most:,} bytes")
        if time.monotonic() > until:
            raise TemporaryError("the server sends too slowly")
    return b"".join(held)


def _part(response: urllib3.BaseHTTPResponse) -> bytes:
    try:
        return response.read(_AT_ONCE, decode_content=True)
    except urllib3.exceptions.HTTPError as error:
        raise TemporaryError(reason_of(error)) from None


def _require_success(response: urllib3.BaseHTTPResponse) -> None:
    status = response.status
    if status == HTTPStatus.OK:
        return
    said = f"{status} {HTTPStatus(status).phrase}" if status in set(HTTPStatus) else str(status)
    if status in _PASSING:
        after = response.headers.get("Retry-After", "")
        raise TemporaryError(f"the server answers {said}", float(after) if after.isdecimal() else 0.0)
    if status in (HTTPStatus.NOT_FOUND, HTTPStatus.GONE):
        raise UnreadableImageError(f"the server doesn't have it ({said})")
    raise UnreadableImageError(f"the server refuses it ({said})")


_REASONS: tuple[tuple[type[Exception], str], ...] = (
    (urllib3.exceptions.NameResolutionError, "its name can't be resolved"),
    (urllib3.exceptions.ReadTimeoutError, "it stopped answering"),
    (urllib3.exceptions.NewConnectionError, "no connection can be made"),
    (urllib3.exceptions.ConnectTimeoutError, "it doesn't answer"),
    (urllib3.exceptions.SSLError, "its certificate or encryption is not accepted"),
    (urllib3.exceptions.ProxyError, "the proxy can't be reached"),
    (urllib3.exceptions.ProtocolError, "the connection was cut"),
)


def reason_of(error: Exception) -> str:
    """Return why there is no response. The error's own message is not used: it contains the address."""
    return next((said for kind, said in _REASONS if isinstance(error, kind)), type(error).__name__)


class _Links(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.found += [value for name, value in attrs if tag == "a" and name == "href" and value]


def links(page: bytes, at: Address, inside: Address) -> list[Address]:
    """Return the addresses that a page links to, if they are in the folder `inside` and have no query."""
    parser = _Links()
    parser.feed(page.decode("utf-8", errors="replace"))
    targets = (parse(urljoin(at.shown, link)) for link in parser.found if not link.startswith(("?", "#")))
    return [
        Address(there.scheme, there.host, there.path, user=at.user)
        for there in targets
        if there is not None and not there.query and inside.contains(there)
    ]
