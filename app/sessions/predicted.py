"""Items chosen by the predictions of another model, in a grid with these predictions.

The annotator confirms or corrects the predictions. The log records the model, the order and each item's
prediction, so that ``closecall verify`` can repeat the selection.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from closecall.app.engine.model_predictions import PAGE, Choosing, ModelPredictions
from closecall.app.engine.selection_parameters import PREDICTED, PREDICTIONS, RULE
from closecall.app.engine.training import Trained
from closecall.app.sessions.grid import Batch
from closecall.app.sessions.subset import SubsetSession
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.core.selection import Selection
from closecall.storage import Standing

if TYPE_CHECKING:
    from closecall.app.sessions.labeling import LabelingSession


class PredictedSession(SubsetSession):
    """A grid of the items that a model's predictions choose.

    Attributes
    ----------
    by : Choosing or None
        The model and the order. None before the first choice.
    """

    MARK, WHY, SIZE = PREDICTED, "predicted", PAGE

    def __init__(self, session: LabelingSession) -> None:
        self.by: Choosing | None = None
        self._used: ModelPredictions | None = None  # by the page in view
        super().__init__(session)

    def choose_by(self, by: Choosing) -> None:
        """From now on, show the items that the model's predictions choose, in the order that `by` names."""
        with self.session.lock:
            if by != self.by:
                self.by, self.problem, self.shown = by, None, ()

    def predictions(self) -> ModelPredictions | None:
        """Return the present predictions of the model; None if there are none."""
        return self.session.concept.predictions.of(self.by.model) if self.by is not None else None

    def _first(
        self, pool: Pool, exclude: NDArray[np.int64], trained: Trained, standing: Standing
    ) -> Selection:
        if self.by is None:
            raise InputError("No model has been chosen yet")
        self._used = self.predictions()
        if self._used is None:
            raise InputError(f"There are no predictions of {self.by.model} any more")
        return self._used.select(self.by.order, pool, exclude, trained, self.SIZE, standing.groups, rule=RULE)

    def _of_item(self, item: int) -> dict[str, Any]:
        about = self._used.about(item) if self._used is not None else None
        return {} if about is None else {"answer": about["answer"], "score": about["score"]}

    def _of_page(self) -> Mapping[str, Any]:
        if self.by is None or self._used is None:
            return {}
        return {PREDICTIONS: self.by.params(self._used.source)}

    def _take_up(self, batch: Batch) -> None:
        with suppress(InputError):  # a damaged log
            self.by = Choosing.of(batch[0].parameters.get(PREDICTIONS))
