"""The view of Find similar, which shows `PAGE` similar items on a page, nearest first.

Each submission of answers ends a round: the SVM is retrained on the new labels, and the search is repeated.
"""

from __future__ import annotations

import base64
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from closecall.app.engine.selection_parameters import SIMILAR, is_of_many
from closecall.app.indexes.recipe import Recipe
from closecall.app.sessions.grid import MOST, Batch
from closecall.app.sessions.search import SearchPage, SearchSession
from closecall.app.sessions.similar.query import PAGES, Like, queries_of, require_shown
from closecall.app.sessions.similar.result import VIEWS, Result
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.core.similar.queries import PAGE
from closecall.storage import Labels

if TYPE_CHECKING:
    from closecall.app.indexes.metric import LearnedMetric, Learning
    from closecall.app.indexes.similar import Checked
    from closecall.app.sessions.labeling import LabelingSession

COURSE = 60
"""Number of last searches whose time and recall the page shows."""

RECALLED = 10
"""Number of nearest items for which recall is measured."""


class SimilarSession(SearchSession):
    """A view of the items most similar to an item, an upload, or all items answered yes.

    Attributes
    ----------
    like : Like or None
        The query; None before the first query.
    recipe : Recipe
        The search method and its settings.
    view : str
        One of `VIEWS`.
    problem : str or None
        A sentence that says why there is no result, or None.
    checked : Checked or None
        The comparison of the result with an exact scan.
    course : deque of dict
        Figures of the last searches: the time `ms`, the `share` of items examined, 0 … 1, and the `recall`,
        0 … 1, which is None until it is known.
    on_label : int or None
        The item last shown on the Label page.
    """

    MARK, QUERY, SIZE = SIMILAR, ("like",), PAGE

    def __init__(self, session: LabelingSession) -> None:
        self.like: Like | None = None
        self.first = 0
        self.recipe = Recipe()
        self.view = "original"
        self.problem: str | None = None
        self.checked: Checked | None = None
        self.course: deque[dict[str, float | None]] = deque(maxlen=COURSE)
        self.on_label: int | None = None
        self.result: Result | None = None
        """The result in view, or None."""
        self._metrics: tuple[LearnedMetric | None, ...] = (None,)
        """Metrics of the search in view or in progress; None stands for the original features."""
        self._is_left = False
        super().__init__(session)

    @property
    def learning(self) -> Learning:
        """The object that learns a metric from the concept's labels."""
        return self.session.project.similar.learning(self.session.concept)

    def look_for(self, like: Like, first: int = 0) -> None:
        """Search for items similar to `like`; show the page that contains place `first` of the results."""
        first = min(max(0, first), PAGE * (PAGES - 1)) // PAGE * PAGE
        with self.session.lock:
            self.problem = None
            if (like, first) != (self.like, self.first):
                self.like, self.first, self.shown = like, first, ()

    def go_to(self, word: str | None) -> None:
        """Search with the query in the address or, if `word` is None, with a default.

        The default is the current query. If there is no current query, the default is all items answered yes.
        Before the first yes, it is the item last shown on the Label page.

        Parameters
        ----------
        word : str or None
            The query in the address; see `Like.of`.

        Raises
        ------
        InputError
            If the query can't be parsed.
        """
        with self.session.lock:
            if word is not None:
                like = Like.of(word)
                if like != self.like:
                    self.look_for(like)
            elif self.like is None:
                self._remember_label()
                if self.session.concept.standing().labels.yes.any():
                    self.look_for(Like())
                elif self.on_label is not None:
                    self.look_for(Like(item=self.on_label))

    def _ask(self, query: Sequence[str], first: int) -> None:
        (like,) = query
        if like == "label":
            self._look_for_label()
        else:
            self.look_for(Like.of(like), first)

    def upload(self, sent: object) -> None:
        """Store the image that a browser sent, and search for similar items. If this fails, set `problem`.

        Parameters
        ----------
        sent : mapping
            The `name` of the file, and its content in Base64 as `data`. Other values are ignored.
        """
        if not isinstance(sent, Mapping):
            return
        name = str(sent.get("name", ""))[:120] or "The image"
        try:
            raw = base64.b64decode(str(sent.get("data", "")).encode(), validate=True)
        except ValueError:  # Base64's own error, or characters that are not ASCII
            self.problem = f"“{name}” did not arrive completely: upload it again"
            return
        project = self.session.project
        try:
            self.look_for(Like(digest=project.uploads.add(raw, name, project.pool)))
        except InputError as error:
            self.problem = str(error)

    def set_method(self, name: str) -> None:
        """Search with another method from now on.

        Raises
        ------
        InputError
            If there is no such method.
        """
        self.set_recipe(self.recipe.by(name))

    def set_codes(self, name: str) -> None:
        """Search by the codes of another hash family from now on.

        Raises
        ------
        InputError
            If there is no such family for this pool.
        """
        known = self.session.project.similar.codes
        if name not in known:
            raise InputError(f"codes must be one of {', '.join(known)}, got {name!r:.80}")
        self.set_recipe(self.session.project.similar.with_suitable_kernel(self.recipe.of(name)))

    def set_recipe(self, recipe: Recipe) -> None:
        """Search with other settings from now on.

        Raises
        ------
        InputError
            If a setting is out of range or does not apply.
        """
        pool = self.session.project.pool
        recipe.check(None if pool is None else len(pool))
        with self.session.lock:
            if recipe != self.recipe:
                self.recipe, self.shown = recipe, ()

    def set_view(self, view: str) -> None:
        """Rank by the original features, by the learned metric, or by both side by side.

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

    def awaited(self) -> list[tuple[Recipe, LearnedMetric | None]]:
        """Return the recipes and metrics of the searches that this view waits for or uses.

        The result is empty after `leave`, if the session is no longer attended, or if another description of
        the items is in use. This method takes no lock, so any thread may call it.
        """
        if self._is_left or self.session.project.is_superseded or not self.session.is_attended():
            return []
        recipe = self.recipe
        return [(recipe if metric is None else recipe.under_metric, metric) for metric in self._metrics]

    def leave(self) -> None:
        """Record that the person has opened another project. The next call of `attend` cancels this."""
        self._is_left = True

    def attend(self) -> None:
        """Record activity, use indexes and metrics that have become ready, and show a page of results."""
        self._is_left = False
        self.session.touch()  # before indexes are requested: builds for an unattended session are abandoned
        with self.session.lock:
            self._remember_label()
            self._take_up_what_came()
            super().attend()

    def _remember_label(self) -> None:
        """Remember the Label page's item, which the session forgets as soon as it shows other items."""
        if self.session.shown is not None:
            self.on_label = self.session.shown.item
        elif self.on_label is None:
            recent = self.session.project.log.recent_selections(self.session.id, 2 * MOST)
            alone = [record.item for record in recent if not is_of_many(record)]
            self.on_label = alone[-1] if alone else None

    def _take_up_what_came(self) -> None:
        """Repeat the search if an awaited index, or the first learned metric, has become ready.

        A newer metric is used only after the next submission, so that items don't move while the annotator
        marks them. After a restart, there is no result for the items in view, so the search is repeated. If
        the search doesn't find all these items, items are selected again.
        """
        pool = self.session.project.pool
        if pool is None or not self.shown:
            return
        similar, learned = self.session.project.similar, self.learning.newest(pool)
        labels = self.session.concept.standing().labels
        if self.result is None:
            found = self._searched(pool, labels)
            in_view = {item for _, _, item in found.in_view(self.view, self.first)} if found else set()
            if not in_view.issuperset(record.item for record in self.shown):
                self.shown = ()
            self.learning.want(pool, labels)
        elif learned is not self.result.learned and self.view == "original":
            self._searched(pool, labels)
        elif learned is not None and self.result.learned is None:
            self.shown = ()
        result = self.result
        if result is None:
            return
        for name, before in result.methods.items():
            if before.awaited:
                metric = result.learned if name == "learned" else None
                now = similar.method(self.recipe, pool, metric, self.session.concept, self)
                if now.awaited is None:
                    self.shown = ()
                else:
                    result.methods[name] = replace(before, awaited=now.awaited)

    def _look_for_label(self) -> None:
        if self.on_label is None:
            self.problem = (
                "The Label page has shown no item yet: open it once, or choose something else to search for"
            )
        else:
            self.look_for(Like(item=self.on_label))

    def _page(self, pool: Pool, labels: Labels) -> SearchPage | None:
        self.learning.want(pool, labels)
        result = self._searched(pool, labels)
        if result is None:
            return None
        how: dict[int, dict[str, Any]] = {}
        for name, place, item in result.in_view(self.view, self.first):
            how.setdefault(item, self._how(result, name, place))
        found = result.lists[result.metric_in_view(self.view)]
        counts = {"scored": found.examined, "items": found.items}
        return SearchPage(how, {"why": "similar", "seconds": found.seconds, **counts})

    def _n_found(self) -> int:
        return 0 if self.result is None else len(self.result.lists["original"].ids)

    def _take_up(self, batch: Batch) -> None:
        self.result = None
        hows = [record.parameters[SIMILAR] for record in batch]
        self.like, self.first = Like.of(hows[0]["like"]), hows[0]["place"] // PAGE * PAGE
        # Searches under a learned metric don't record all settings.
        how = next((one for one in hows if one["metric"] is None), hows[0])
        with suppress(InputError):  # settings of another version: this version's defaults are used
            self.recipe = Recipe.of_log(how["method"], how["params"])
        names = {one["metric"] is not None for one in hows}
        self.view = "both" if len(names) > 1 else "learned" if True in names else "original"

    def _how(self, result: Result, metric: str, place: int) -> dict[str, Any]:
        """Return the parameters of the search that found an item, for the log."""
        assert self.like is not None
        method = result.methods[metric]
        return {
            "like": self.like.word,
            "method": method.name,
            "params": dict(method.params),
            "items": len(method.search.pool),
            "metric": result.learned.params() if metric == "learned" and result.learned else None,
            "place": place,
        }

    def _searched(self, pool: Pool, labels: Labels) -> Result | None:
        """Search with the current labels; reuse previous lists whose query and search have not changed.

        Return None if there is no query. If the query can't be searched for, set `problem` and return None.
        """
        if self.like is None:
            self.result, self._metrics = None, ()
            return None
        similar = self.session.project.similar
        learned = self.learning.newest(pool)
        try:
            require_shown(self.like, pool)
            queries = queries_of(self.like, pool, labels, self.session.project.uploads)
        except InputError as error:
            self.problem, self.result, self._metrics = str(error), None, ()
            return None
        metrics = {"original": None, "learned": learned} if learned is not None else {"original": None}
        self._metrics = tuple(metrics.values())
        methods = {
            name: similar.method(self.recipe, pool, metric, self.session.concept, self)
            for name, metric in metrics.items()
        }
        asked = self.like, queries.items.tobytes()
        before, lists = self.result, {}
        for name in metrics:
            by = methods[name].search
            if (
                before is not None
                and before.asked == asked
                and name in before.methods
                and before.methods[name].search is by
            ):
                lists[name] = before.lists[name]
            else:
                lists[name] = by.neighbours(queries.X, PAGE * PAGES, exclude=queries.items)
        self.result = result = Result(asked, queries, lists, methods, learned)
        name = result.metric_in_view(self.view)
        if self.checked is None or self.checked.found is not lists[name]:
            found, by = lists[name], methods[name].search
            self.checked = similar.check(by, found, RECALLED, queries.X, queries.items)
            share = found.examined / found.items
            self.course.append({"ms": 1000 * found.seconds, "share": share, "recall": None})
        self.first = min(self.first, max(0, len(lists["original"].ids) - 1) // PAGE * PAGE)
        return result
