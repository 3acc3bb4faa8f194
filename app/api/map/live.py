"""The map of a pool for a question: tiles coloured by wᵀx + b, items near a point, and items in a lasso.

Places on the page are given as fractions (0 … 1) of the map's side; 0 is at the corner with the
smallest coordinates. The browser requests the state several times a second, and the tiles again if their
version has changed. A request for the state brings the map up to date: it trains the SVM again if the labels,
the example images or the pool have changed, and computes the scores of all items on the map if the hyperplane
or the map has changed. This takes at most `SHARE` of a core, because people may be labeling meanwhile.
"""

from __future__ import annotations

import math
import secrets
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import ArrayLike

from closecall.app.api.map.version import Ground, Version
from closecall.app.display.density import THEMES
from closecall.app.display.thumbnails import absence, look_of
from closecall.app.engine.lasso import Lasso
from closecall.app.projects.config import ProjectFile
from closecall.core.errors import InputError
from closecall.core.map import has_map, inside
from closecall.core.pool.pool import Pool
from closecall.storage.ascending import without
from closecall.storage.errors import StorageError

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession
    from closecall.app.sessions.workspace import Workspace
    from closecall.storage import ExampleRecord

SHOWN = 48
"""Maximum number of items that are shown of a lasso; the items nearest the hyperplane are shown."""

MARKS = 60
"""Maximum number of last answers that are marked on the map."""

SHARE = 0.25
"""Maximum share of a core that is spent on bringing one map up to date."""

_maps: WeakValueDictionary[str, LiveMap] = WeakValueDictionary()
_of_questions: WeakValueDictionary[tuple[Path, int], LiveMap] = WeakValueDictionary()
_opening = threading.Lock()


def find_map(key: str) -> LiveMap | None:
    """Return the map with this key, or None if nobody views it. Only its viewers know the key."""
    return _maps.get(key)


def is_mapped(workspace: Workspace, key: str | None) -> bool:
    """Return whether a project is served and its pool has a map. The project is not opened for this."""
    if key is None or key not in workspace.served_keys():
        return False
    folder = workspace.folder / key
    try:
        return has_map(ProjectFile.read(folder).pool_path(folder))
    except InputError:
        return False


class LiveMap:
    """The map of a session's pool, coloured by the session's question. Thread-safe.

    Parameters
    ----------
    session : LabelingSession

    Raises
    ------
    InputError
        If the pool has no map, or the map is damaged or belongs to another pool.
    """

    def __init__(self, session: LabelingSession) -> None:
        self.key = secrets.token_urlsafe(16)
        self._project, self._concept = session.project, session.concept
        pool = self._project.pool
        if pool is None:
            raise InputError("The pool has no items yet")
        self._now = Version(0, Ground.open(pool))
        self._basis: _Basis | None = None
        self._marks: list[tuple[float, float, str]] = []
        self._trouble: str | None = None
        self._rest_until = 0.0
        self._updating = threading.Lock()
        _maps[self.key] = self

    @classmethod
    def of(cls, session: LabelingSession) -> LiveMap:
        """Return the map of the session's question, shared by all viewers. See `LiveMap` for errors."""
        place = session.project.folder, session.concept.record.id
        with _opening:
            found = _of_questions.get(place)
            if found is None or found._concept is not session.concept:
                found = _of_questions[place] = cls(session)
            return found

    def about(self) -> dict[str, Any]:
        """Return the state as JSON, without bringing the map up to date.

        The state has the map's key and version, the question, the word for an item, the size and finest zoom
        of the tiles, the current problem if there is one, and:

        - `items`: the number of items on the map;
        - `elsewhere`: the number of the pool's items that are not on the map;
        - `labels`: the number of labels;
        - `positive`: the number of items on the positive side; None without a hyperplane;
        - `band`: the number of highlighted items, which are those nearest the hyperplane, and their
          greatest |wᵀx + b|; None without a hyperplane;
        - `marks`: the items answered last, as [x, y, status], newest first.
        """
        now, pool = self._now, self._project.pool
        band = None if now.scores is None else {"items": now.n_in_band, "margin": now.margin}
        return {
            "map": self.key,
            "version": now.number,
            "question": self._concept.record.question,
            "word": now.ground.pool.item_word,
            "items": len(now.ground.positions),
            "elsewhere": len(pool or ()) - len(now.ground.positions),
            "labels": now.n_labels,
            "positive": now.n_positive,
            "band": band,
            "marks": self._marks,
            "cells": now.ground.n_cells,
            "finest": now.ground.finest,
            "trouble": self._trouble,
        }

    def state(self) -> dict[str, Any]:
        """Bring the map up to date, and return its state as `about` does.

        If an update is under way, or the last one was too recent for `SHARE`, only return the state.
        """
        if self._updating.acquire(blocking=False):
            try:
                self._catch_up()
            finally:
                self._updating.release()
        return self.about()

    def tile(self, zoom: int, column: int, row: int, *, theme: str) -> bytes | None:
        """Return a tile as PNG, one pixel per cell. If the tile has no items, return None.

        See `core.map.MapTiles`.

        Raises
        ------
        InputError
            If there is no such tile or theme.
        """
        if theme not in THEMES:
            raise InputError(f"theme must be one of {', '.join(THEMES)}, got {theme!r}")
        return self._now.tile(zoom, column, row, theme)

    def near(self, x: float, y: float, radius: float) -> dict[str, Any] | None:
        """Return the item nearest to a place, or None if it is farther than `radius` × the map's side.

        Raises
        ------
        InputError
            If a number is not finite.
        """
        if not all(map(math.isfinite, (x, y, radius))):
            raise InputError(f"x, y and radius must be finite numbers, got {x}, {y} and {radius}")
        now = self._now
        with np.errstate(over="ignore"):  # a distant place is infinitely far from all items
            distances = np.square(now.ground.positions - now.ground.places([(x, y)])).sum(axis=1)
        nearest = int(distances.argmin())
        if math.sqrt(distances[nearest]) > radius * now.ground.tiles.side:
            return None
        return self._items(now, [nearest])[0]

    def lasso(self, corners: ArrayLike) -> dict[str, Any]:
        """Return the number of items in a polygon, and up to `SHOWN` of them, nearest the hyperplane first.

        Without a hyperplane, these are the items with the lowest ids. `found` is the number of items inside,
        `positive` how many of them are on the positive side, and `open` how many have no answer. The entry
        `lasso` comes from `Lasso.params`.

        Parameters
        ----------
        corners : array of shape (n_corners, 2)
            The corners in order; see `core.map.inside`.

        Raises
        ------
        InputError
            If the polygon has too few or too many corners, or a coordinate is not finite.
        """
        polygon, now = np.asarray(corners, dtype=np.float64), self._now
        if polygon.ndim == 2 and polygon.shape[1] == 2:  # `inside` refuses any other shape
            polygon = now.ground.places(polygon)
        positions, drawn = now.ground.positions, tuple(map(tuple, np.atleast_2d(polygon).tolist()))
        lasso = Lasso(now.ground.layout, len(positions), drawn)
        rows = np.flatnonzero(inside(positions, polygon))
        found: dict[str, Any] = {"found": len(rows), "positive": None, "lasso": lasso.params()}
        answered = self._concept.standing().answered
        found["open"] = len(without(now.ground.pool.ids[rows], answered))
        nearest = rows
        if now.scores is not None:
            scores = now.scores[rows]
            found["positive"] = int(np.count_nonzero(scores > 0))
            nearest = rows[np.argsort(np.abs(scores), kind="stable")]
        return {**found, "items": self._items(now, nearest[:SHOWN].tolist())}

    def _catch_up(self) -> None:
        if time.monotonic() < self._rest_until:
            return
        began, worked = time.monotonic(), time.thread_time()
        try:
            is_other = self._update()
            self._trouble = None
        except (InputError, StorageError) as error:
            is_other, self._trouble = True, str(error)
        if is_other:
            self._rest_until = began + (time.thread_time() - worked) / SHARE

    def _update(self) -> bool:
        """If the pool, map, labels or example images have changed, renew the state and return True."""
        before, pool = self._now, self._project.pool
        assert pool is not None
        ground = before.ground if before.ground.is_current(pool) else Ground.open(pool)
        with self._concept.lock:
            basis = _Basis(ground, pool, self._concept.catch_up().seq, self._concept.examples)
        if self._basis is not None and basis.is_same(self._basis):
            return False
        _, trained = self._concept.trained(pool)
        digest = trained.hyperplane.digest if trained.hyperplane is not None else None
        if ground is before.ground and digest == before.digest:
            self._now = replace(before, n_labels=trained.n_labels)
        else:
            self._now = Version.of(before.number + 1, ground, trained.hyperplane, trained.n_labels)
        self._marks = self._last_answers(ground)
        self._basis = basis
        return True

    def _last_answers(self, ground: Ground) -> list[tuple[float, float, str]]:
        """Return the place and status of each of the items that were answered last, newest first.

        Items that are not on the map, or whose status is neither yes nor no, are left out.
        """
        answers = self._concept.log.recent_answers(self._concept.record.id, MARKS)
        items = dict.fromkeys(answer.item for answer in answers)
        status = self._status(list(items))
        marks = []
        for item in items:
            if status[item] in ("yes", "no") and (row := ground.row_of(item)) is not None:
                x, y = ground.fractions([row])[0].tolist()
                marks.append((round(x, 5), round(y, 5), status[item]))
        return marks

    def _items(self, now: Version, rows: Sequence[int]) -> list[dict[str, Any]]:
        """Return what the page shows of the items in these rows."""
        pictures = self._project.pictures
        items = now.ground.pool.ids[rows].tolist()
        status = self._status(items)
        told = []
        for row, item, (x, y) in zip(rows, items, now.ground.fractions(rows).tolist(), strict=True):
            look: dict[str, Any]
            try:
                opening = pictures.opening(item)
                look = look_of(item, pictures.tile) if opening is None else {"opening": opening}
            except InputError as error:
                look = absence(error)
            name = pictures.source.name(item)
            score = None if now.scores is None else float(now.scores[row])
            told.append(
                {"id": item, "alt": name, "x": x, "y": y, "score": score, "stands": status[item]} | look
            )
        return told

    def _status(self, items: Sequence[int]) -> dict[int, str]:
        """Return the status of each item, such as "yes" or "tied"; "" for an item without a status."""
        with self._concept.lock:
            labels = self._concept.catch_up()
            return {item: labels.status(item) or "" for item in items}


@dataclass(frozen=True, eq=False)
class _Basis:
    """All that a version of the map depends on."""

    ground: Ground
    pool: Pool
    seq: int
    examples: Sequence[ExampleRecord]

    def is_same(self, other: _Basis) -> bool:
        is_same_place = self.ground is other.ground and self.pool is other.pool
        return is_same_place and self.seq == other.seq and self.examples is other.examples
