"""What Label Studio does to tasks, as far as its JSON shows it.

The long tests do the same things to the real one, and compare.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from closecall.storage.tabular import iso

OWNER, SECOND = 1, 2
"""Numbers of two users; the first one imports."""


class Peer(Protocol):
    """Label Studio, or an imitation of it."""

    def begin(self, interface: str, tasks: list[dict[str, Any]]) -> None:
        """Make a new project with these tasks."""

    def edit(self, user: int, item: int, nth: int, change: Callable[[dict[str, Any]], None]) -> None:
        """Let a user change the nth annotation of an item."""

    def delete(self, item: int, nth: int) -> None:
        """Delete the nth annotation of an item."""

    def add(self, user: int, item: int, annotation: Mapping[str, Any]) -> None:
        """Let a user annotate an item."""

    def exported(self, *, all_tasks: bool = True) -> bytes:
        """The project's export as JSON."""

    def now(self) -> int:
        """Its clock, in milliseconds."""


class Imitation:
    """A `Peer` in memory."""

    def __init__(self) -> None:
        self._tasks: dict[int, dict[str, Any]] = {}
        self._number = self._project = 0
        self._clock = 1_800_000_000_000

    def begin(self, interface: str, tasks: list[dict[str, Any]]) -> None:  # noqa: ARG002
        self._project += 1
        self._tasks = {}
        for task in copy.deepcopy(tasks):
            self._tasks[task["data"]["item"]] = {
                "id": self._next(),
                "annotations": [
                    self._annotation(each, each.get("completed_by", OWNER), None, each.get("id"))
                    for each in task["annotations"]
                ],
                "predictions": [self._next() for _ in task["predictions"]],
                "data": task["data"],
                "meta": task["meta"],
                "created_at": self._now(),
                "project": self._project,
            }

    def _annotation(
        self, given: Mapping[str, Any], user: int, updated_by: int | None, import_id: int | None
    ) -> dict[str, Any]:
        now = self._now()
        return {
            "id": self._next(),
            "completed_by": user,
            "result": given["result"],
            "was_cancelled": given.get("was_cancelled", False),
            "ground_truth": given.get("ground_truth", updated_by is None),
            "created_at": now,
            "updated_at": now,
            "lead_time": given.get("lead_time"),
            "import_id": import_id,
            "updated_by": updated_by,
            "project": self._project,
        }

    def edit(self, user: int, item: int, nth: int, change: Callable[[dict[str, Any]], None]) -> None:
        annotation = self._tasks[item]["annotations"][nth]
        change(annotation)
        if annotation["ground_truth"]:
            for other in self._tasks[item]["annotations"]:
                other["ground_truth"] = other is annotation
        annotation |= {"updated_by": user, "updated_at": self._now()}

    def delete(self, item: int, nth: int) -> None:
        del self._tasks[item]["annotations"][nth]

    def add(self, user: int, item: int, annotation: Mapping[str, Any]) -> None:
        made = self._annotation(copy.deepcopy(dict(annotation)), user, user, None)
        self._tasks[item]["annotations"].append(made)

    def exported(self, *, all_tasks: bool = True) -> bytes:
        tasks = [task for task in self._tasks.values() if all_tasks or task["annotations"]]
        return json.dumps(tasks).encode()

    def _next(self) -> int:
        self._number += 1
        return self._number

    def now(self) -> int:
        return self._clock

    def _now(self) -> str:
        self._clock += 1_000
        return iso(self._clock)
