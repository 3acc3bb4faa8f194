"""Keys with which a labeling page uses the HTTP API, in the name of the person at the page.

The page's script on the server knows who the person is, and passes a key to the browser. The key names the
person. It is signed, so that nobody can forge a key. The secret that signs keys is in the project's database.
A key therefore stays valid after a restart, and is valid on all servers of the project.
"""

from __future__ import annotations

from itsdangerous import BadData, URLSafeTimedSerializer

from closecall.storage import Database
from closecall.storage.secret import shared_secret

VALID_SECONDS = 24 * 3600
"""Seconds for which a key is valid. Each run of the page's script makes a new key."""

SECRET = "pages"
"""Name of the secret in the database."""


class PageKeys:
    """The keys of a project's pages.

    Parameters
    ----------
    database : Database
        The project's database.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._signer: URLSafeTimedSerializer | None = None

    def make(self, name: str) -> str:
        """Return a key for the person of this name.

        Raises
        ------
        StorageError
            If the secret can't be read or stored.
        """
        return str(self._signed().dumps(name))

    def read(self, text: str) -> str | None:
        """Return the name of the person whose key this is, or None if the key is not valid."""
        try:
            return str(self._signed().loads(text, max_age=VALID_SECONDS))
        except BadData:
            return None

    def _signed(self) -> URLSafeTimedSerializer:
        if self._signer is None:
            secret = shared_secret(self._database, SECRET)
            self._signer = URLSafeTimedSerializer(secret, salt="closecall page")
        return self._signer
