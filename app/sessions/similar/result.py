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
"""Names of the views: results by the original features, by the learned metric, or both side by side."""


@dataclass(frozen=True, eq=False)
class Result:
    """The result of a search.

    Parameters
    ----------
    asked : tuple
        Key of the query: its `Like`, and the ids of its items as bytes.
    queries : Queries
        The rows of the query.
    lists : dict
        The neighbours found. The key is the metric's name: "original" or, if a metric was learned, "learned".
    methods : dict
        The search methods that found the neighbours, with the same keys as `lists`.
    learned : LearnedMetric or None
        The learned metric, if there is one.
    """

    asked: tuple[object, ...]
    queries: Queries
    lists: dict[str, Neighbours]
    methods: dict[str, Method]
    learned: LearnedMetric | None

    def metric_in_view(self, view: str) -> str:
        """Return the name of the metric whose time and recall a view shows: "original" or "learned"."""
        return "learned" if view != "original" and "learned" in self.lists else "original"

    def in_view(self, view: str, first: int) -> list[tuple[str, int, int]]:
        """Return each result on the page that begins at place `first`, as the metric's name, place and item.

        If the view shows two lists, the results by the original features come first.
        """
        return [
            (name, place, item)
            for name in (self.lists if view == "both" else [self.metric_in_view(view)])
            for place, item in enumerate(self.lists[name].ids[first : first + PAGE].tolist(), first)
        ]
