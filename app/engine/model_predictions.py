"""Predictions of another model for a concept, which can choose the items to label.

The labels and the classifier do not depend on predictions. A prediction is a score, an answer (yes or no), or
both. A score without an answer means yes if it is above the threshold. The threshold is 0.5 if all of the
model's scores are from 0 to 1, like probabilities, and 0 otherwise, like the scores of an SVM.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import NDArray

from closecall.app.engine.choosing import select_smallest
from closecall.app.engine.training import Trained
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.core.selection import RowReader, Selection
from closecall.storage.ascending import without
from closecall.storage.errors import StorageError
from closecall.storage.predictions import Predicted, Predictions, PredictionSource
from closecall.storage.repeats import ItemGroups

PAGE = 28
"""Number of items that are shown at once."""

Order = Literal["doubtful", "differing"]
ORDERS: tuple[Order, ...] = get_args(Order)

CHECK_SECONDS = 1.0
"""Minimum number of seconds between two checks for predictions that have been replaced."""


@dataclass(frozen=True)
class Choosing:
    """The model whose predictions choose items, and the order of the items.

    Parameters
    ----------
    model : str
        Name of the model.
    order : str
        "doubtful" selects the items whose scores are nearest to the model's threshold. "differing" selects
        the items for which the classifier and the model disagree, farthest from the hyperplane first.
    """

    model: str
    order: Order = "doubtful"

    def params(self, source: PredictionSource) -> dict[str, Any]:
        """Return the parameters for the log; `source` has the predictions."""
        return {"model": self.model, "order": self.order, "digest": source.digest}

    @classmethod
    def of(cls, params: object) -> Self:
        """Read the parameters back from the log.

        Raises
        ------
        InputError
            If the parameters are damaged.
        """
        known = isinstance(params, Mapping) and params.get("order") in ORDERS
        if not (known and isinstance(params, Mapping) and isinstance(params.get("model"), str)):
            raise InputError(f"the log has damaged parameters of a choice by predictions: {params!r:.80}")
        return cls(params["model"], params["order"])


@dataclass(frozen=True, eq=False)
class ModelPredictions:
    """All predictions of one model for a concept.

    Parameters
    ----------
    source : PredictionSource
        The model.
    items : array of shape (n,), int64, ascending
        The items that have a prediction.
    scores : array of shape (n,), float64
        The scores; NaN for predictions without a score.
    is_yes : array of shape (n,), bool
        Whether the prediction is yes.
    has_label : array of shape (n,), bool
        Whether the prediction has an answer of its own, so that the threshold does not matter.
    threshold : float
        Scores above it mean yes.
    """

    source: PredictionSource
    items: NDArray[np.int64]
    scores: NDArray[np.float64]
    is_yes: NDArray[np.bool_]
    has_label: NDArray[np.bool_]
    threshold: float

    @classmethod
    def read(cls, predictions: Predictions, source: PredictionSource) -> Self:
        """Read the model's predictions from the database."""
        kinds = np.dtype([("item", np.int64), ("score", np.float64), ("yes", np.bool_), ("has", np.bool_)])
        rows = np.fromiter(map(_row, predictions.of(source.set_id)), dtype=kinds)
        scores, has_label = rows["score"].copy(), rows["has"].copy()
        known = scores[~np.isnan(scores)]
        threshold = 0.5 if len(known) and known.min() >= 0 and known.max() <= 1 else 0.0
        is_yes = np.where(has_label, rows["yes"], scores > threshold)
        return cls(source, rows["item"].copy(), scores, is_yes, has_label, threshold)

    def about(self, item: int) -> dict[str, Any] | None:
        """Return the prediction for an item as JSON for the browser; None if the item has no prediction."""
        place = int(np.searchsorted(self.items, item))
        if place == len(self.items) or self.items[place] != item:
            return None
        score = float(self.scores[place])
        return {
            "model": self.source.model,
            "answer": "yes" if self.is_yes[place] else "no",
            "score": None if np.isnan(score) else score,
        }

    def select(
        self,
        order: Order,
        pool: Pool,
        exclude: NDArray[np.int64],
        trained: Trained,
        n: int,
        groups: ItemGroups | None,
        *,
        rule: int,
    ) -> Selection:
        """Select `n` items in the given order (see `Choosing`); ties go to the lower id.

        Parameters
        ----------
        order : str
            One of `ORDERS`.
        pool : Pool
            The pool to select from. Predictions for items that are not in the pool are ignored.
        exclude : array of int64, ascending
            Items that may not be selected.
        trained : Trained
            The classifier.
        n : int
            Maximum number of items to select.
        groups : ItemGroups or None
            The groups of near-duplicates, if any. None of the selected items is a near-duplicate of another.
        rule : int
            The version of `app.engine.selection_parameters.GROUP_RULE`.

        Raises
        ------
        InputError
            If the order needs scores or a classifier, and there are none.
        PoolExhausted
            If there is no item to select from.
        """
        started = time.perf_counter()
        items, keys, scored = self._keys(order, pool, exclude, trained)
        selection = select_smallest(items, keys, n, groups, rule=rule, n_items=len(pool))
        return replace(selection, seconds=time.perf_counter() - started, scored=scored)

    def _keys(
        self, order: Order, pool: Pool, exclude: NDArray[np.int64], trained: Trained
    ) -> tuple[NDArray[np.int64], NDArray[np.float64], int]:
        """Return the items to select from, their sort keys, and how many items the classifier scored."""
        there = self.items[pool.have_rows(self.items)]
        items = without(there, exclude)
        places = np.searchsorted(self.items, items)
        if order == "doubtful":
            if np.isnan(self.scores).all():
                raise InputError(
                    f"The predictions of {self.source.model} have no scores, so they don't show its doubt"
                )
            scores = self.scores[places]
            known = ~np.isnan(scores)
            return items[known], np.abs(scores[known] - self.threshold), 0
        if trained.hyperplane is None:
            raise InputError("The classifier needs a yes and a no before it can differ from predictions")
        scores = RowReader(pool).scores(pool.row_of(items), trained.hyperplane)
        differs = (scores > 0) != self.is_yes[places]
        return items[differs], -np.abs(scores[differs]), len(items)


class ConceptPredictions:
    """The predictions of all models for one concept, with a cache for the model that was used last.

    Parameters
    ----------
    predictions : Predictions
        The predictions in the project's database.
    concept_id : int
        The concept.
    """

    def __init__(self, predictions: Predictions, concept_id: int) -> None:
        self._predictions = predictions
        self._concept_id = concept_id
        self._kept: ModelPredictions | None = None
        self._names: list[str] = []
        self._checked = self._listed = -math.inf
        self._lock = threading.Lock()

    def models(self) -> list[str]:
        """Return the sorted names of the models with predictions, at most `CHECK_SECONDS` out of date.

        If the database can't be read, return the names that were read last. The page can then still show its
        card, which keeps the annotator's answers and says what is wrong.
        """
        with self._lock:
            if time.monotonic() - self._listed >= CHECK_SECONDS:
                with suppress(StorageError):
                    self._names = [its.model for its in self._predictions.sources(self._concept_id)]
                self._listed = time.monotonic()
            return list(self._names)

    def of(self, model: str) -> ModelPredictions | None:
        """Return a model's predictions, at most `CHECK_SECONDS` out of date; None if there are none.

        Raises
        ------
        StorageError
            If the database can't be read.
        """
        with self._lock:
            is_recent = time.monotonic() - self._checked < CHECK_SECONDS
            if is_recent and self._kept is not None and self._kept.source.model == model:
                return self._kept
            sources = self._predictions.sources(self._concept_id)
            source = next((source for source in sources if source.model == model), None)
            if source is None:
                self._kept = None
            elif self._kept is None or self._kept.source != source:
                self._kept = ModelPredictions.read(self._predictions, source)
            self._checked = time.monotonic()
            return self._kept


def _row(prediction: Predicted) -> tuple[int, float, bool, bool]:
    score = np.nan if prediction.score is None else prediction.score
    return prediction.item, score, prediction.label == "yes", prediction.label is not None
