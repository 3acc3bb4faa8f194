"""Requests to the HTTP API, repeated until the server has answered them."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import urllib3
from urllib3.exceptions import HTTPError, SSLError

from closecall.client.errors import ConnectionLost, error_of
from closecall.client.patience import Patience

BASE = "/api/v1"
CONNECT_SECONDS, READ_SECONDS = 5.0, 60.0
"""Time limits of one attempt. The server may keep a request open for up to 15 seconds."""

REPEATED = frozenset({429, 500, 502, 503, 504})
"""HTTP statuses after which a request is repeated, because it may succeed later."""

CHUNK_BYTES = 2**18


def path_of(*parts: object) -> str:
    """Return the path of a URL, with each part percent-encoded."""
    return "".join(f"/{quote(str(part), safe='')}" for part in parts)


class Connection:
    """A connection to one server. Several threads may share it.

    Requests are repeated after a lost connection and after the statuses in `REPEATED`. This is safe, because
    a repeated request has no further effect.

    Parameters
    ----------
    url : str
        Address of the server.
    token : str or None
    timeout : float
        Seconds until `ConnectionLost` is raised.
    http : urllib3.PoolManager or None
        Makes the requests. None means a new pool manager.
    """

    def __init__(
        self, url: str, token: str | None, timeout: float, http: urllib3.PoolManager | None = None
    ) -> None:
        self.url = url.rstrip("/")
        self.timeout = timeout
        self._headers = {"Accept": "application/json", "User-Agent": "closecall-client"}
        if token:
            self._headers["Authorization"] = f"Bearer {token}"
        limits = urllib3.Timeout(connect=CONNECT_SECONDS, read=READ_SECONDS)
        self._http = http or urllib3.PoolManager(maxsize=8, timeout=limits)

    def get(self, path: str, **query: object) -> Any:
        """Return the JSON at a path; parameters that are None are left out."""
        return self._json(self._request("GET", path, query=query))

    def send(self, method: str, path: str, body: Mapping[str, Any]) -> Any:
        """Send JSON, and return the JSON of the reply."""
        return self._json(self._request(method, path, body=body))

    def read(self, path: str, **query: object) -> bytes:
        """Return the bytes at a path, such as an image."""
        return bytes(self._request("GET", path, query=query).data)

    def download(self, path: str, target: Path, **query: object) -> None:
        """Write the bytes at a path to a file, which appears only when it is complete."""
        part = target.with_name(f"{target.name}.part")
        patience = Patience(self.timeout)
        while True:
            response = self._request("GET", path, query=query, patience=patience, preload=False)
            try:
                with part.open("wb") as file:
                    for chunk in response.stream(CHUNK_BYTES):
                        file.write(chunk)
            except HTTPError as error:
                if not patience.pause():
                    raise self._lost(_reason(error)) from error
            else:
                break
            finally:
                response.close()
        os.replace(part, target)  # noqa: PTH105 (so that it reads as what it is)

    def close(self) -> None:
        """Close idle connections."""
        self._http.clear()

    def once(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, Any] | None = None,
        seconds: float = READ_SECONDS,
    ) -> Any:
        """Make a request a single time, and return the JSON of the reply.

        Programs that repeat requests in their own way use this.

        Parameters
        ----------
        method : str
            Such as "POST".
        path : str
            Path of the address, relative to the path of the API.
        query : mapping, optional
            Parameters of the address, as in `get`.
        body : mapping, optional
            JSON to send.
        seconds : float
            Seconds to wait for the reply.

        Raises
        ------
        ApiError
            If the reply has the status of an error. The same request may succeed later if the status is one
            of `REPEATED`.
        ConnectionLost
            If there is no reply.
        """
        limits = urllib3.Timeout(connect=min(CONNECT_SECONDS, seconds), read=seconds)
        try:
            response = self._http.request(
                method, retries=False, timeout=limits, **self._prepared(path, query, body)
            )
        except HTTPError as error:
            raise ConnectionLost(f"{self.url} did not do the request: {_reason(error)}") from error
        if response.status >= 300:
            raise error_of(response.status, _detail(response))
        return self._json(response)

    def _request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, object] | None = None,
        body: Mapping[str, Any] | None = None,
        patience: Patience | None = None,
        preload: bool = True,
    ) -> urllib3.BaseHTTPResponse:
        patience = patience or Patience(self.timeout)
        prepared = self._prepared(path, query, body)
        cause: HTTPError | None
        while True:
            seconds, cause = 0.0, None
            try:
                response = self._http.request(method, retries=False, preload_content=preload, **prepared)
            except SSLError as error:
                raise self._lost(_reason(error)) from error
            except HTTPError as error:
                reason, cause = _reason(error), error
            else:
                if response.status < 300:
                    return response
                reason = _detail(response)
                if response.status not in REPEATED:
                    raise error_of(response.status, reason)
                seconds = urllib3.Retry().get_retry_after(response) or 0.0
            if not patience.pause(seconds):
                raise self._lost(reason) from cause

    def _prepared(
        self, path: str, query: Mapping[str, object] | None, body: Mapping[str, Any] | None
    ) -> dict[str, Any]:
        """Return the address, the headers and the body of a request, as arguments for urllib3."""
        given = {name: _text(value) for name, value in (query or {}).items() if value is not None}
        url = f"{self.url}{BASE}{path}" + (f"?{urlencode(given)}" if given else "")
        if body is None:
            return {"url": url, "headers": self._headers}
        data = json.dumps(body, allow_nan=False).encode()
        return {"url": url, "headers": {**self._headers, "Content-Type": "application/json"}, "body": data}

    def _json(self, response: urllib3.BaseHTTPResponse) -> Any:
        try:
            return json.loads(response.data)
        except ValueError as error:
            detail = f"{self.url} does not answer with JSON: is this the address of a Closecall server?"
            raise error_of(response.status, detail) from error

    def _lost(self, reason: str) -> ConnectionLost:
        return ConnectionLost(f"{self.url} did not do the request within {self.timeout:g} seconds: {reason}")


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _reason(error: Exception) -> str:
    """Return the last part of an error of urllib3, which gives the cause."""
    return str(error).rpartition(": ")[2] or type(error).__name__


def _detail(response: urllib3.BaseHTTPResponse) -> str:
    """Return why a request failed."""
    if location := response.headers.get("Location"):
        return f"The server redirects to {location}: give the client this address."
    try:
        return str(json.loads(response.data)["detail"])
    except (ValueError, KeyError, TypeError):
        return f"The server answered with status {response.status}."
