"""Repeat the logged searches for similar items, each with its method and metric."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from closecall.app.engine.selection_parameters import SIMILAR
from closecall.app.indexes import codes as hashed
from closecall.app.indexes.metric import LearnedMetric, learn
from closecall.app.indexes.recipe import Recipe
from closecall.app.projects.uploads import Uploads
from closecall.app.sessions.similar.query import PAGES, Like, queries_of
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.core.similar import ByAngle, ExactSearch, Neighbours, SimilaritySearch
from closecall.core.similar.queries import PAGE

if TYPE_CHECKING:
    from closecall.app.verification.replay import Replay
    from closecall.storage import ConceptRecord, LabelLog, Labels


class _How(NamedTuple):
    """The logged parameters of a search; `metric` and `params` are JSON."""

    items: int
    metric: str
    method: str
    params: str
    like: str


def search_again(
    replays: Sequence[Replay],
    pool: Pool,
    log: LabelLog,
    concept: ConceptRecord,
    project: Path,
    description: str = "",
) -> Iterator[str]:
    """Repeat the searches. Yield a sentence for each item that is at another place now or was not eligible.

    Parameters
    ----------
    replays : sequence of Replay
        Selections made on the Find similar page, each with the labels that it was based on.
    pool : Pool
        The newest snapshot of the pool.
    log : LabelLog
        The log with the labels that metrics and hash codes were learned from.
    concept : ConceptRecord
        The concept of the selections.
    project : Path
        The project's folder, which has the uploads.
    description : str
        Name of the pool's set of features (its description); "" for the first.
    """
    uploads, made = Uploads(project, description), _Made(log, concept)
    for replay in replays:
        found: dict[_How, Neighbours | str] = {}
        for record in replay.records:
            own = record.parameters[SIMILAR]
            how = _How(own["items"], _text(own["metric"]), own["method"], _text(own["params"]), own["like"])
            if how not in found:
                found[how] = _found(how, pool, replay.standing.labels, uploads, made)
            answer, where = found[how], f"Round {record.round}: what is like {how.like}"
            if isinstance(answer, str):
                yield f"{where} can't be searched for again: {answer}"
                break
            there = answer.ids[own["place"] : own["place"] + 1].tolist()
            if there != [record.item]:
                item = f"item {there[0]}" if there else "no item"
                yield f"{where} has {item} at place {own['place']}, the log has item {record.item}"
            if record.item in replay.exclude:
                yield (
                    f"{where}: item {record.item} was shown to be answered, but had an answer or was in "
                    f"another session's view"
                )


class _Made:
    """A cache of the last rebuilt metric and search, which the next selection often needs again."""

    def __init__(self, log: LabelLog, concept: ConceptRecord) -> None:
        self._log = log
        self._concept = concept
        self._metric: tuple[tuple[str, int], LearnedMetric] | None = None
        self._search: tuple[tuple[object, ...], SimilaritySearch] | None = None

    def _labels(self, through: int, then: Pool) -> Labels:
        return self._log.labels(self._concept.id, through, is_item=then.has_row)

    def metric(self, how: _How, then: Pool) -> LearnedMetric | None:
        params: dict[str, Any] | None = json.loads(how.metric)
        if params is None:
            return None
        key = how.metric, how.items
        if self._metric is None or self._metric[0] != key:
            labels = self._labels(params["through"], then)
            self._metric = key, learn(then, labels, params)
        return self._metric[1]

    def search(self, how: _How, then: Pool, metric: LearnedMetric | None) -> SimilaritySearch:
        if how.method == "exact":
            return ExactSearch(ByAngle(then)) if metric is None else metric.exact
        params = json.loads(how.params)
        labels = self._labels(params["through"], then) if "through" in params else None
        measure = params.get("measure", "weights")
        recipe = Recipe.of_log(how.method, params)
        former = hashed.Former.of(params, recipe.family)
        if params != hashed.parameters(recipe, measure, labels, former, params.get("gamma")):
            raise InputError(f"hashed searches have other parameters today, the log has {how.params}")
        key = how._replace(like="")
        if self._search is None or self._search[0] != key:
            hasher, codes = hashed.coded(then, metric, _ignore, recipe, labels, former)
            made = hashed.built(recipe, then, hasher, codes, metric=metric, measure=measure, former=former)
            self._search = key, made
        return self._search[1]


def _found(how: _How, pool: Pool, labels: Labels, uploads: Uploads, made: _Made) -> Neighbours | str:
    """Return the items that the search finds now, or the reason why it can't be repeated.

    The items of the query may be newer than the index that was searched.
    """
    try:
        then = pool.prefix(how.items)
        queries = queries_of(Like.of(how.like), pool, labels, uploads)
        metric = made.metric(how, then)
        search = made.search(how, then, metric)
        return search.neighbours(queries.X, PAGE * PAGES, exclude=queries.items)
    except (InputError, KeyError) as error:
        return str(error)


def _ignore(done: int, of: int) -> None:
    """Ignore the progress."""


def _text(parameters: Any) -> str:
    return json.dumps(parameters, sort_keys=True)
