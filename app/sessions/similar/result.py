"""The result of a search on Find similar, with its query."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from closecall.core.similar import Neighbours
from closecall.core.similar.queries import PAGE

if TYPE_CHECKING:
    from closecall.app.indexes.metric import LearnedMetric
    from closecall.app.indexes.similar import Method
    from closecall.app.sessions.similar.query import Queries

VIEWS = ("original", "learned", "both")
"""Rankings that the page shows: one metric, or both side by side."""


@dataclass(frozen=True, eq=False)
class Result:
    """The result of a search.

    Parameters
    ----------
    asked : tuple
        Key of the query: its `Like`, and the bytes of its items.
    queries : Queries
    lists : dict
        Results by metric: "original" always, "learned" if there is a learned metric.
    methods : dict
        Methods that found them, by metric.
    learned : LearnedMetric or None
    """

    asked: tuple[object, ...]
    queries: Queries
    lists: dict[str, Neighbours]
    methods: dict[str, Method]
    learned: LearnedMetric | None

    def metric_in_view(self, view: str) -> str:
        """Return the metric whose figures are shown: "original" or "learned"."""
        return "learned" if view != "original" and "learned" in self.lists else "original"

    def in_view(self, view: str, first: int) -> list[tuple[str, int, int]]:
        """Return metric, place and item of each result on the page that begins at `first`, list by list."""
        return [
            (name, place, item)
            for name in (self.lists if view == "both" else [self.metric_in_view(view)])
            for place, item in enumerate(self.lists[name].ids[first : first + PAGE].tolist(), first)
        ]
