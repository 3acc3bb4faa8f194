"""Keys with which a labeling page uses the HTTP API, in the name of the person at the page.

The page's script knows who the person is, and passes a key to the browser. The key names the project and the
person, and is signed, so that nobody can change it or make one up. The secret is new in each process: after a
restart, the page gets another key when its script runs.
"""

from __future__ import annotations

import secrets
from typing import Any

from itsdangerous import BadData, URLSafeTimedSerializer

VALID_SECONDS = 24 * 3600
"""Seconds for which a key is valid. Each run of the page's script makes a new key."""


class PageKeys:
    """The keys of this process.

    Parameters
    ----------
    secret : bytes or None
        Secret of the signatures; random if None.
    """

    def __init__(self, secret: bytes | None = None) -> None:
        self._signer = URLSafeTimedSerializer(secret or secrets.token_bytes(32), salt="closecall page")

    def make(self, project: str, name: str) -> str:
        """Return a key for a project (its key) and a person (their name)."""
        return self._signer.dumps([project, name])

    def read(self, text: str) -> tuple[str, str] | None:
        """Return the project and the person that a key names, or None if it is not valid."""
        try:
            found: Any = self._signer.loads(text, max_age=VALID_SECONDS)
        except BadData:
            return None
        project, name = found
        return str(project), str(name)
