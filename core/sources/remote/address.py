"""Addresses of images on HTTP servers and in object storage, and their parts without credentials.

An address may have credentials: a user name and password before the host, or a signature in the query, as in
presigned addresses. Only `Address.shown`, which has no credentials, is written to pools, messages and logs.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from urllib.parse import urlsplit

WEB = ("http", "https")
STORES = ("s3", "gs", "az")
"""Object storage: Amazon S3 and compatible services, Google Cloud Storage, Azure Blob Storage."""

FORMS = "http://, https://, s3://, gs:// or az://"

_PORTS = {"http": 80, "https": 443}
_SIGNED = re.compile(
    r"(?i)x-(amz|goog)-.*|(aws|google)accessid|awsaccesskeyid|signature|expires|policy|key-pair-id"
)
_SHARED_ACCESS = re.compile("s(v|s|rt|p|t|e|pr|r|ip|ig|dd|koid|ktid|kt|ke|ks|kv)")


@dataclass(frozen=True)
class Address:
    """The parts of an address.

    Attributes
    ----------
    scheme : str
    host : str
        Host in lower case, with the port if it is not the usual one. For object storage, the bucket or
        container.
    path : str
        Begins with a slash. An HTTP path stays percent-encoded as given.
    query : str
        Query without the question mark; empty for object storage.
    user : str
        User name and password as given, separated by a colon.
    """

    scheme: str
    host: str
    path: str
    query: str = ""
    user: str = ""

    @property
    def is_web(self) -> bool:
        """Whether the address is on an HTTP server."""
        return self.scheme in WEB

    @property
    def place(self) -> str:
        """The scheme and the host or bucket, such as "s3://bucket"."""
        return f"{self.scheme}://{self.host}"

    @property
    def shown(self) -> str:
        """The address without user, password and query."""
        return self.place + self.path

    @cached_property
    def identity(self) -> str:
        """The address without user, password and signature. Renewing the signature does not change it."""
        pairs = self.query.split("&") if self.query else []
        names = [pair.partition("=")[0] for pair in pairs]
        is_shared = "sig" in names
        left = [
            pair
            for pair, name in zip(pairs, names, strict=True)
            if not (_SIGNED.fullmatch(name) or (is_shared and _SHARED_ACCESS.fullmatch(name)))
        ]
        return self.shown + ("?" + "&".join(left) if left else "")

    def contains(self, other: Address) -> bool:
        """Return whether `other` is this address, or is in the folder at this address.

        If this address has HTTP, `other` may have HTTPS instead.
        """
        same = other.place == self.place or (
            self.scheme == "http" and other.scheme == "https" and other.host == self.host
        )
        folder = self.path if self.path.endswith("/") else self.path + "/"
        return same and (other.path == self.path or other.path.startswith(folder))


def parse(text: str) -> Address | None:
    """Return the parts of an address, or None if the text is not an address in one of `FORMS`."""
    scheme, _, rest = text.strip().partition("://")
    scheme = scheme.lower()
    if any(ord(sign) < 32 or ord(sign) == 127 for sign in rest):
        return None
    if scheme in STORES:
        bucket, _, key = rest.partition("/")
        return Address(scheme, bucket, f"/{key}") if re.fullmatch(r"[\w.-]+", bucket) else None
    if scheme not in WEB:
        return None
    try:
        parts = urlsplit(f"{scheme}://{rest}")
        name, port = parts.hostname, parts.port
    except ValueError:
        return None
    if not name:
        return None
    host = f"[{name}]" if ":" in name else name
    if port not in (None, _PORTS[scheme]):
        host = f"{host}:{port}"
    return Address(scheme, host, parts.path or "/", parts.query, parts.netloc.rpartition("@")[0])
