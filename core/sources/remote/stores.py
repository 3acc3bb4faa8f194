"""Reading from object storage through fsspec [1]_.

Credentials and endpoints come from the configuration of the provider's own tools or of fsspec, for example
from environment variables such as ``AWS_PROFILE`` or ``FSSPEC_S3_ANON``.

References
----------
.. [1] https://filesystem-spec.readthedocs.io
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import Any

from closecall.core.errors import InputError
from closecall.core.sources.base import UnreadableImageError
from closecall.core.sources.remote.address import Address
from closecall.core.sources.remote.failures import TemporaryError, UnreachableError
from closecall.core.sources.remote.web import MOST_BYTES

_PACKAGES = {"s3": "s3fs", "gs": "gcsfs", "az": "adlfs"}
_EMPTY = "InvalidRange"
_NO_BUCKET = frozenset(("NoSuchBucket", "ContainerNotFound"))
_NO_CREDENTIALS = frozenset(
    (
        "NoCredentialsError",
        "PartialCredentialsError",
        "ProfileNotFound",
        "CredentialRetrievalError",
        "InvalidAccessKeyId",
        "SignatureDoesNotMatch",
        "ExpiredToken",
        "DefaultCredentialsError",
        "ClientAuthenticationError",
    )
)

_SILENT = frozenset(
    (
        "EndpointConnectionError",
        "ConnectTimeoutError",
        "ReadTimeoutError",
        "ClientConnectorError",
        "ServerTimeoutError",
        "ServiceRequestError",
        "ServiceResponseTimeoutError",
        "ConnectionRefusedError",
        "TimeoutError",
    )
)
"""Class names of errors, of any provider, that occur when the storage does not answer at all."""


class Store:
    """Client for one kind of object storage. It connects on first use; any number of threads may share it.

    Parameters
    ----------
    scheme : {"s3", "gs", "az"}
    """

    def __init__(self, scheme: str) -> None:
        self._scheme = scheme
        self._lock = threading.Lock()
        self._opened: Any = None
        self._endpoint = ""

    def endpoint(self) -> str:
        """Return the endpoint or account that has the buckets, or "" if the storage can't be opened."""
        if not self._endpoint:
            with suppress(Exception):  # reading will raise it again
                self._endpoint = _endpoint_of(self._scheme, self._files())
        return self._endpoint

    def read(self, address: Address) -> bytes:
        """Return the content of an object.

        Raises
        ------
        UnreadableImageError
            If the object doesn't exist, may not be read or is too large.
        UnreachableError
            If there is no such bucket, or there are no valid credentials.
        TemporaryError
            If a retry may succeed.
        InputError
            If the package for this storage is not installed.
        """
        files = self._files()
        try:
            data: bytes = files.cat_file(address.host + address.path, start=0, end=MOST_BYTES + 1)
        except FileNotFoundError as error:
            _require_bucket(error, address)
            raise UnreadableImageError("the storage doesn't have it (404 Not Found)") from None
        except Exception as error:  # noqa: BLE001 (each provider has its own classes)
            _require_access(error, address)
            if _EMPTY in _codes(error):
                return b""
            if isinstance(error, PermissionError):
                raise UnreadableImageError("the storage refuses it (403 Forbidden)") from None
            raise TemporaryError(_reason(error), is_silent=bool(_codes(error) & _SILENT)) from None
        if len(data) > MOST_BYTES:
            raise UnreadableImageError(f"it has more than {MOST_BYTES:,} bytes")
        return data

    def list(self, folder: Address) -> list[str]:
        """Return the paths of all objects in a folder, relative to it.

        Raises
        ------
        InputError
            If the folder can't be listed.
        """
        files, root = self._files(), (folder.host + folder.path).rstrip("/")
        try:
            found = files.find(root)
        except FileNotFoundError as error:
            _require_bucket(error, folder)
            return []
        except Exception as error:  # noqa: BLE001 (as above)
            _require_access(error, folder)
            if isinstance(error, PermissionError):
                raise InputError(f"{folder.shown} can't be listed: the storage refuses it") from None
            raise UnreachableError(f"{folder.shown} can't be listed ({_reason(error)})") from None
        return [path[len(root) + 1 :] for path in found if path.startswith(f"{root}/")]

    def _files(self) -> Any:
        with self._lock:
            if self._opened is None:
                self._opened = _opened(self._scheme)
            return self._opened


def _opened(scheme: str) -> Any:
    try:
        import fsspec

        return fsspec.filesystem(scheme, skip_instance_cache=True, use_listings_cache=False)
    except ImportError as error:
        package = _PACKAGES[scheme]
        wanted = '"closecall[remote]"' if scheme == "s3" else f'"closecall[remote]" {package}'
        raise InputError(
            f"addresses that begin with {scheme}:// need {package}, which cannot be imported: "
            f"pip install {wanted}"
        ) from error
    except Exception as error:  # a configuration that the provider's package refuses
        raise InputError(f"{scheme}:// can't be opened: {_reason(error)}") from error


def _endpoint_of(scheme: str, files: Any) -> str:
    if scheme == "s3":
        return str(files.s3.meta.endpoint_url)
    if scheme == "az":
        return str(files.service_client.primary_endpoint)
    return str(getattr(files, "_location", ""))


def _codes(error: BaseException | None) -> set[str]:
    """Return the class names of an error and its causes, and the provider's error codes in them."""
    codes: set[str] = set()
    while error is not None:
        codes.add(type(error).__name__)
        told = getattr(error, "response", None)
        if isinstance(told, dict):
            codes.add(str(told.get("Error", {}).get("Code", "")))
        codes.add(str(getattr(error, "error_code", "")))
        error = error.__cause__ or error.__context__
    return codes - {""}


def _require_bucket(error: Exception, address: Address) -> None:
    if _codes(error) & _NO_BUCKET:
        raise UnreachableError(f"there is no bucket {address.place}", "its bucket doesn't exist") from None


def _require_access(error: Exception, address: Address) -> None:
    if missing := _codes(error) & _NO_CREDENTIALS:
        raise UnreachableError(
            f"{address.place} can't be read without valid credentials ({min(missing)})",
            "there are no valid credentials for its storage",
        ) from None


def _reason(error: Exception) -> str:
    """Return the kind of an error. The error's own message could contain credentials."""
    codes = _codes(error) - {"OSError", "ClientError", "Exception"}
    return min(codes, default=type(error).__name__)
