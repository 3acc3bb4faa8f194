"""Notices: what a transaction has changed, for other parts of the program and for other servers.

A notice is added in the transaction that makes the change. After the commit, the process itself gets the
notice. If several servers share the database, the other servers get the notice, too, by PostgreSQL's
``NOTIFY``.

The kinds, with their data:

- ``answers`` (concept, items): answers were stored; `items` is None if there are too many to list
- ``concept`` (concept): a concept is new, or something other than its answers has changed, such as its
  example images, its audit share, its descriptions in words, or whether it is archived
- ``session`` (session, server): a server has taken over a session
- ``passed`` (concept, items): selections have passed over audited items
- ``settings``: the project file has changed
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

MOST_BYTES = 7_500
"""Maximum size of a message: PostgreSQL allows 8,000 bytes."""


@dataclass(frozen=True)
class Notice:
    """A notice of a change that a transaction has made.

    Parameters
    ----------
    kind : str
        One of the kinds in the module's docstring.
    data : mapping
        JSON values by name.
    is_own : bool
        Whether this process has made the change.
    """

    kind: str
    data: Mapping[str, Any]
    is_own: bool = True

    def message(self, server: str) -> str:
        """Return the notice as a message from `server`. If it is too long, `items` is replaced by None."""
        whole = json.dumps({"kind": self.kind, "server": server, "data": dict(self.data)})
        if len(whole) <= MOST_BYTES:
            return whole
        return Notice(self.kind, {**self.data, "items": None}).message(server)

    @classmethod
    def of(cls, message: str, server: str) -> Notice | None:
        """Return the notice in a message, or None if it comes from `server` itself or can't be read."""
        try:
            read = json.loads(message)
            if read["server"] == server:
                return None
            return cls(str(read["kind"]), dict(read["data"]), is_own=False)
        except (ValueError, KeyError, TypeError):
            return None
