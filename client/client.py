"""The entry point of the client: a server and its projects."""

from __future__ import annotations

import os
from typing import Self

import urllib3

from closecall.client.connection import Connection, path_of
from closecall.client.project import Project

URL, TOKEN = "CLOSECALL_URL", "CLOSECALL_TOKEN"
"""Environment variables with the server's address and the token."""

TIMEOUT_SECONDS = 60.0


class Client:
    """A client of the HTTP API.

    A request is repeated if the connection is lost, or if the server is overloaded or restarting. Several
    threads may share a client, but not a session.

    Parameters
    ----------
    url : str, optional
        Address of the server, such as ``http://127.0.0.1:8501``; by default, the environment variable
        ``CLOSECALL_URL``.
    token : str, optional
        A token from ``closecall token create``; by default, the environment variable ``CLOSECALL_TOKEN``.
    timeout : float
        Seconds for which a request is repeated. After that, `ConnectionLost` is raised.
    http : urllib3.PoolManager, optional
        Makes the requests, for example through a proxy.

    Raises
    ------
    ValueError
        If there is no address, or it is malformed.
    """

    def __init__(
        self,
        url: str | None = None,
        token: str | None = None,
        *,
        timeout: float = TIMEOUT_SECONDS,
        http: urllib3.PoolManager | None = None,
    ) -> None:
        address = url or os.environ.get(URL, "")
        if not address.startswith(("http://", "https://")):
            raise ValueError(
                f"url or {URL} must be an address such as http://127.0.0.1:8501, got {address!r}"
            )
        self._connection = Connection(address, token or os.environ.get(TOKEN), timeout, http)

    def __repr__(self) -> str:
        return f"<Client of {self._connection.url}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def projects(self) -> list[Project]:
        """Return the projects to which the token gives access."""
        found = self._connection.get("/projects")["projects"]
        return [Project(self._connection, one["key"]) for one in found]

    def project(self, key: str) -> Project:
        """Return a project.

        Parameters
        ----------
        key : str
            Name of the project's folder.

        Raises
        ------
        NotFound
            If there is no such project, or the token does not give access to it.
        """
        self._connection.get(path_of("projects", key))
        return Project(self._connection, key)

    def close(self) -> None:
        """Close idle connections."""
        self._connection.close()
