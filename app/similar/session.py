"""What is like something, many items at once: shown nearest first, selected, and answered in one go.

The page has `PAGE` items; those that have an answer, or that another session has in view, are shown as such.
Each submission is a round: its items get their labels, the SVM is retrained, the search is made again as the
labels stand, and the log says of every item how it was found.
"""

from __future__ import annotations

import base64
import binascii
import io
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from app.grid import MOST, Batch, BatchSession
from app.pictures import data_url
from app.selecting import Chosen, Occasion, leasing, take_found
from app.similar.hashed import USUAL
from app.similar.query import Like, Queries, queries_of
from app.training import SIMILAR, is_of_many
from app.words import of_class
from core.errors import InputError
from core.pool import Pool
from core.similar.finder import PAGE, Finder, Found, Probe
from storage import Labels, Refusal

if TYPE_CHECKING:
    from app.service import LabelingSession
    from app.similar.methods import Checked, Method
    from app.similar.metric import LearnedMetric, Learning

PAGES = 10
"""So many pages are ranked; what is further away is hardly like it."""

RECALLED = 10
"""Of so many nearest it is told how many were found."""

COURSE = 60
"""Searches that the course of each number shows."""

SHOWN_QUERIES = 9
"""Of all yes answers so many are shown as what is looked for."""

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
    lists: dict[str, Found]
    methods: dict[str, Method]
    learned: LearnedMetric | None

    def finders(self) -> dict[str, Finder]:
        """What found each list."""
        return {name: method.finder for name, method in self.methods.items()}


class SimilarSession(BatchSession):
    """The items most similar to one, to an upload, or to all yes answers.

    Parameters
    ----------
    session : LabelingSession
        Whose concept, log and lock it shares.

    Attributes
    ----------
    like : Like or None
        What is looked for; None before somebody picks something.
    first : int
        Which of the nearest items is the first in view, from 0.
    method : str
        The name of what retrieves, see `app.similar.methods`.
    codes : str
        The name of the family whose codes it compares, where it compares any.
    view : str
        One of `VIEWS`.
    """

    MARK = SIMILAR

    def __init__(self, session: LabelingSession) -> None:
        self.like: Like | None = None
        self.first = 0
        self.method = "exact"
        self.codes = USUAL
        self.view = "original"
        self.problem: str | None = None
        self._asked: object = None
        self._search: Search | None = None
        self._checked: Checked | None = None
        self._course: deque[dict[str, float | None]] = deque(maxlen=COURSE)
        self._on_label: int | None = None
        self._acked: set[str] = set()
        super().__init__(session)

    @property
    def learning(self) -> Learning:
        """What learns the metric from the concept's labels."""
        return self.session.project.similar.learning(self.session.concept)

    def look_for(self, like: Like, first: int = 0) -> None:
        """Show what is like this, the page with the item at place `first`."""
        first = min(max(0, first), PAGE * (PAGES - 1)) // PAGE * PAGE
        with self.session.lock:
            self.problem = None
            if (like, first) != (self.like, self.first):
                self.like, self.first, self.shown = like, first, ()

    def go_to(self, word: str | None) -> None:
        """Look for what the address says; without a word for what lies nearest at hand.

        That is what was looked for before, else all yes answers, else the item on Label.

        Raises
        ------
        InputError
            If the word means nothing.
        """
        with self.session.lock:
            if word is not None:
                like = Like.of(word)
                if like != self.like:
                    self.look_for(like)
            elif self.like is None:
                self._remember_label()
                if self.session.concept.counts().yes:
                    self.look_for(Like())
                elif self._on_label is not None:
                    self.look_for(Like(item=self._on_label))

    def ask(self, asked: object) -> None:
        """Take up what a browser asked for, once; it says the same at each run of the page.

        Raises
        ------
        InputError
            If it can't be read.
        """
        if not isinstance(asked, Mapping) or asked.get("id") == self._asked:
            return
        word, first = asked.get("like"), asked.get("first")
        if not (isinstance(word, str) and isinstance(first, int)):
            raise InputError(f"a search must have like and first, got {word!r:.80} and {first!r:.80}")
        self._asked = asked.get("id")
        if word == "label":
            self._look_for_label()
        else:
            self.look_for(Like.of(word), first)

    def upload(self, sent: object) -> None:
        """Keep the image that a browser sent, and look for what is like it; what hinders it is said.

        Parameters
        ----------
        sent : mapping
            `name` of the file, and its content as `data`, in Base64.
        """
        if not isinstance(sent, Mapping):
            return
        name = str(sent.get("name", ""))[:120] or "The image"
        try:
            raw = base64.b64decode(str(sent.get("data", "")).encode(), validate=True)
        except binascii.Error:
            self.problem = f"“{name}” did not arrive whole: upload it again"
            return
        project = self.session.project
        try:
            self.look_for(Like(digest=project.similar.uploads.add(raw, name, project.pool)))
        except InputError as error:
            self.problem = str(error)

    def set_method(self, name: str) -> None:
        """Let another method retrieve from now on.

        Raises
        ------
        InputError
            If there is none of that name.
        """
        methods = self.session.project.similar.methods
        if name not in methods:
            raise InputError(f"method must be one of {', '.join(methods)}, got {name!r:.80}")
        with self.session.lock:
            if name != self.method:
                self.method, self.shown = name, ()

    def set_codes(self, name: str) -> None:
        """Let the codes of another family be compared from now on.

        Raises
        ------
        InputError
            If there is none of that name.
        """
        codes = self.session.project.similar.codes
        if name not in codes:
            raise InputError(f"codes must be one of {', '.join(codes)}, got {name!r:.80}")
        with self.session.lock:
            if name != self.codes:
                self.codes, self.shown = name, ()

    def set_view(self, view: str) -> None:
        """Rank by the features as they are, by the learned metric, or by both side by side.

        Raises
        ------
        InputError
            If there is no such view.
        """
        if view not in VIEWS:
            raise InputError(f"view must be one of {', '.join(VIEWS)}, got {view!r:.80}")
        with self.session.lock:
            if view != self.view:
                self.view, self.shown = view, ()

    def submit(self, answers: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
        """As of any batch; where a page has nothing left to answer, the next one follows.

        A page that asks again, since something is being prepared, sends its last answers again: once is
        enough.
        """
        with self.session.lock:
            card = super().submit(answers)
            is_new = not self._acked.issuperset(card["acked"])
            self._acked.update(card["acked"])
            if is_new and not self.shown and self._has_after(self.first):
                self.first += PAGE
                card = {**self._card(), "acked": card["acked"], "refused": card["refused"]}
            return card

    def _card(self, acked: Sequence[str] = (), refused: Sequence[Refusal] = ()) -> dict[str, Any]:
        with self.session.lock:
            self._remember_label()
            self._take_up_what_came()
            return super()._card(acked, refused)

    def _remember_label(self) -> None:
        """What is in view on Label is forgotten there as soon as other items are."""
        if self.session.shown is not None:
            self._on_label = self.session.shown.item
        elif self._on_label is None:
            recent = self.session.project.log.recent_selections(self.session.id, 2 * MOST)
            alone = [record.item for record in recent if not is_of_many(record)]
            self._on_label = alone[-1] if alone else None

    def _take_up_what_came(self) -> None:
        """An index that was awaited, or the first metric: what is in view is found again by it.

        A newer metric than the one in view waits for the next submission: nothing moves under a hand. After a
        restart what was in view is searched again, and chosen anew where that is something else.
        """
        pool = self.session.project.pool
        if pool is None or not self.shown:
            return
        similar, learned = self.session.project.similar, self.learning.newest(pool)
        labels = self.session.concept.standing().labels
        if self._search is None:
            found = self._searched(pool, labels)
            in_view = {item for _, _, item in self._in_view(found)} if found else set()
            if not in_view.issuperset(record.item for record in self.shown):
                self.shown = ()
            self.learning.want(pool, labels)
        elif learned is not self._search.learned and self.view == "original":
            self._searched(pool, labels)
        elif learned is not None and self._search.learned is None:
            self.shown = ()
        search = self._search
        if search is None:
            return
        for name, before in search.methods.items():
            if before.awaited:
                metric = search.learned if name == "learned" else None
                now = similar.method(self.method, self.codes, pool, metric, self.session.concept)
                if now.awaited is None:
                    self.shown = ()
                else:
                    search.methods[name] = replace(before, awaited=now.awaited)

    def _look_for_label(self) -> None:
        if self._on_label is None:
            self.problem = "Label has shown no item yet: open it once, or pick something else"
        else:
            self.look_for(Like(item=self._on_label))

    def _select(self, pool: Pool) -> Chosen | None:
        session = self.session
        occasion, standing = session.occasion(pool), session.concept.standing()
        self.learning.want(pool, standing.labels)
        search = self._searched(pool, standing.labels)
        if search is None:
            return None
        trained = session.concept.train(pool, standing)
        places: dict[int, tuple[str, int]] = {}
        for name, place, item in self._in_view(search):
            places.setdefault(item, (name, place))
        ids = np.array(list(places), dtype=np.int64)
        found = search.lists[self._metric_in_view(search)]

        def attempt(occasion: Occasion) -> Chosen:
            free = ids[~np.isin(ids, occasion.taken(standing))]
            own = [{SIMILAR: self._how(search, *places[item])} for item in free.tolist()]
            return take_found(
                occasion,
                trained,
                free,
                own,
                why="similar",
                seconds=found.seconds,
                scored=found.compared,
                items=found.items,
            )

        chosen = leasing(occasion, attempt)
        return chosen if chosen.records else None

    def _take_up(self, batch: Batch) -> None:
        how = batch[0].parameters[SIMILAR]
        self.like, self.first = Like.of(how["like"]), how["place"] // PAGE * PAGE
        self.method = how["method"]
        self.codes = how["params"].get("family", USUAL)
        names = {record.parameters[SIMILAR]["metric"] is not None for record in batch}
        self.view = "both" if len(names) > 1 else "learned" if True in names else "original"

    def _how(self, search: Search, metric: str, place: int) -> dict[str, Any]:
        """What the log says of how an item was found."""
        assert self.like is not None
        method = search.methods[metric]
        return {
            "like": self.like.word,
            "method": method.name,
            "params": method.finder.params(),
            "items": method.finder.n_items,
            "metric": search.learned.params() if metric == "learned" and search.learned else None,
            "place": place,
        }

    def _searched(self, pool: Pool, labels: Labels) -> Search | None:
        """The search as the labels stand; the one before where nothing that it depends on has changed."""
        if self.like is None:
            self._search = None
            return None
        similar = self.session.project.similar
        learned = self.learning.newest(pool)
        try:
            queries = queries_of(self.like, pool, labels, similar.uploads)
        except InputError as error:
            self.problem, self._search = str(error), None
            return None
        metrics = {"original": None, "learned": learned} if learned is not None else {"original": None}
        methods = {
            name: similar.method(self.method, self.codes, pool, metric, self.session.concept)
            for name, metric in metrics.items()
        }
        asked = self.like, queries.items.tobytes()
        before, lists = self._search, {}
        for name, metric in metrics.items():
            finder = methods[name].finder
            if before is not None and before.asked == asked and before.finders().get(name) is finder:
                lists[name] = before.lists[name]
            else:
                lists[name] = finder.find(Probe(queries.X, queries.items, metric), PAGE * PAGES)
        self._search = search = Search(asked, queries, lists, methods, learned)
        name = self._metric_in_view(search)
        if self._checked is None or self._checked.found is not lists[name]:
            probe, found = Probe(queries.X, queries.items, metrics[name]), lists[name]
            self._checked = similar.check(methods[name].finder, probe, found, RECALLED)
            share = found.compared / found.items
            self._course.append({"ms": 1000 * found.seconds, "share": share, "recall": None})
        self.first = min(self.first, max(0, len(lists["original"].ids) - 1) // PAGE * PAGE)
        return search

    def _metric_in_view(self, search: Search) -> str:
        """Whose numbers are told."""
        return "learned" if self.view != "original" and "learned" in search.lists else "original"

    def _lists_in_view(self, search: Search) -> list[str]:
        return list(search.lists) if self.view == "both" else [self._metric_in_view(search)]

    def _in_view(self, search: Search) -> list[tuple[str, int, int]]:
        """Metric, place and item of all that is in view, list by list."""
        return [
            (name, place, item)
            for name in self._lists_in_view(search)
            for place, item in enumerate(
                search.lists[name].ids[self.first : self.first + PAGE].tolist(), self.first
            )
        ]

    def _has_after(self, first: int) -> bool:
        return self._search is not None and first + PAGE < len(self._search.lists["original"].ids)

    def _painted(self, acked: Sequence[str], refused: Sequence[Refusal]) -> dict[str, Any]:
        card, search, pool = super()._painted(acked, refused), self._search, self.session.project.pool
        shown: dict[str, Any] = {"cells": [], "waiting": None, "last": [], "last_round": 0}
        if search is None or pool is None:
            return card | shown | {"similar": self._about(None, len(pool) if pool else 0)}
        free = {cell["id"]: cell for cell in card["cells"]}
        in_view = self._in_view(search)
        taken = self._taken(pool, {item for _, _, item in in_view} - free.keys())
        cells = [
            {
                **(free.get(item) or taken[item]),
                "list": name,
                "place": place,
                "angle": float(search.lists[name].angles[place]),
            }
            for name, place, item in in_view
            if item in free or item in taken
        ]
        return card | shown | {"cells": cells, "similar": self._about(search, len(pool))}

    def _taken(self, pool: Pool, items: set[int]) -> dict[int, dict[str, Any]]:
        """How those stand that can't be answered here; those that are free by now wait for the next round."""
        leased = set(self.session.project.leases.held(but_for={self.session.id}))
        concept = self.session.concept
        with concept.lock:
            state = concept.catch_up()
            stands = {item: state.status(item) or ("held" if item in leased else "") for item in items}
        return {
            item: {
                "id": item,
                "selection": None,
                "alt": pool.source.name(item),
                "src": self._picture(item),
                "answer": None,
                "answer_id": None,
                "stands": stands[item],
            }
            for item in items
        }

    def _about(self, search: Search | None, total: int) -> dict[str, Any]:
        """All that is told of the search."""
        learning = self.learning
        about: dict[str, Any] = {
            "like": self._like(search),
            "on_label": self._on_label,
            "page": PAGE,
            "first": self.first,
            "total": total,
            "view": self.view,
            "problem": self.problem,
            "why_no_upload": self.session.project.similar.why_no_upload(),
            "metric": {**learning.said(), "newer": False},
            "undo": self._undoable(),
            "found": 0,
            "search": None,
            "among": None,
            "pending": learning.is_under_way or self.session.project.pool is None,
        }
        if search is None:
            return about
        if search.learned is not None:
            about["metric"] |= search.learned.said()
            about["metric"]["newer"] = learning.newest(search.learned.pool) is not search.learned
        name = self._metric_in_view(search)
        found, method = search.lists[name], search.methods[name]
        checked = (
            self._checked.said() if self._checked else {"recall": None, "exact_ms": None, "problem": None}
        )
        if self._course and self._checked and self._checked.is_done:
            self._course[-1]["recall"] = checked["recall"]
        return about | {
            "found": len(search.lists["original"].ids),
            "total": found.items,
            "search": {
                "ms": 1000 * found.seconds,
                "compared": found.compared,
                "in_full": found.in_full,
                "items": found.items,
                "method": method.label,
                "is_exact": method.name == "exact",
                "awaited": method.awaited,
                "recalled": RECALLED,
                **checked,
                "course": {part: [one[part] for one in self._course] for part in ("ms", "share", "recall")},
            },
            "among": self._among(search),
            "pending": about["pending"]
            or (method.awaited is not None and method.awaited["problem"] is None)
            or not (self._checked and self._checked.is_done),
        }

    def _like(self, search: Search | None) -> dict[str, Any] | None:
        """What is looked for, to be shown."""
        if self.like is None:
            return None
        project, like = self.session.project, self.like
        said: dict[str, Any] = {"word": like.word, "name": "", "pictures": [], "n": 0, "of": 0}
        try:
            if like.digest is not None:
                image = Image.open(io.BytesIO(project.similar.uploads.image(like.digest)))
                return said | {"name": "uploaded image", "pictures": [data_url(image)]}
            if like.item is not None:
                if project.pool is None:
                    return said | {"name": like.word}
                name = project.pool.source.name(like.item)
                return said | {"name": name, "pictures": [project.pictures.tile(like.item)]}
        except InputError:
            return said | {"name": like.word}
        items = search.queries.items if search else np.empty(0, dtype=np.int64)
        pictures = [self._picture(int(item)) for item in items[:SHOWN_QUERIES]]
        n = search.queries.X.shape[0] if search else 0
        return said | {"pictures": pictures, "n": n, "of": len(items)}

    def _among(self, search: Search) -> dict[str, Any] | None:
        """How many positives are among the nearest, by metric: as truth tells, else as the answers do."""
        session, pool = self.session, self.session.project.pool
        assert pool is not None
        concept = session.concept.record
        index = pool.classes.index(concept.positive_class) if concept.positive_class in pool.classes else None
        with session.concept.lock:
            state = session.concept.catch_up()
            rows = {}
            for name, found in search.lists.items():
                nearest = found.ids[:PAGE].tolist()
                status = [state.status(item) for item in nearest]
                new = np.array([said is None for said in status], dtype=np.bool_)
                if index is not None:
                    yes = np.asarray(pool.truth(nearest) == index)
                    known = np.ones(len(nearest), dtype=np.bool_)
                else:
                    yes = np.array([said == "yes" for said in status], dtype=np.bool_)
                    known = np.array([said in ("yes", "no") for said in status], dtype=np.bool_)
                rows[name] = {
                    "yes": int(yes.sum()),
                    "of": int(known.sum()),
                    "new_yes": int((yes & new).sum()),
                    "new": int(new.sum()),
                }
        named = concept.positive_class if index is not None else of_class(concept.question, concept.name)
        return {"named": named, "by_truth": index is not None, "nearest": PAGE, "rows": rows}

    def _undoable(self) -> list[dict[str, Any]]:
        """The answers of the last submission here that is in force."""
        log, concept = self.session.project.log, self.session.concept.record
        recent = log.recent_answers(concept.id, 2 * PAGE, session_id=self.session.id)
        last: list[dict[str, Any]] = []
        of_round: int | None = None
        for answer in recent:
            chosen = log.selection(answer.selection_id) if answer.selection_id else None
            if chosen is None or chosen.why != "similar" or of_round not in (None, chosen.round):
                break
            of_round = chosen.round
            last.append({"item": answer.item, "undoes": answer.id})
        return last
