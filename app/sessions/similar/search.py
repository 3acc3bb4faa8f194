"""A search that was made: what was looked for, and what was found."""

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
"""The metric, or both side by side."""


@dataclass(frozen=True, eq=False)
class Search:
    """A search that was made.

    Parameters
    ----------
    asked : tuple
        What was looked for.
    queries : Queries
    lists : dict
        What was found, by metric: "original" always, "learned" where there is one.
    methods : dict
        What found it, by metric.
    learned : LearnedMetric or None
    """

    asked: tuple[object, ...]
    queries: Queries
    lists: dict[str, Neighbours]
    methods: dict[str, Method]
    learned: LearnedMetric | None

    def metric_in_view(self, view: str) -> str:
        """The metric whose numbers are told."""
        return "learned" if view != "original" and "learned" in self.lists else "original"

    def in_view(self, view: str, first: int) -> list[tuple[str, int, int]]:
        """Metric, place and item of all that is on the page that begins at place `first`, list by list."""
        return [
            (name, place, item)
            for name in (self.lists if view == "both" else [self.metric_in_view(view)])
            for place, item in enumerate(self.lists[name].ids[first : first + PAGE].tolist(), first)
        ]

    def has_after(self, first: int) -> bool:
        """Whether another page follows the one that begins at place `first`."""
        return first + PAGE < len(self.lists["original"].ids)
