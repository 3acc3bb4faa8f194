"""Predictions of other models, which are stored with the labels but never used for training."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, insert, select, text

from closecall.storage import rows
from closecall.storage.database import Database
from closecall.storage.errors import StorageError
from closecall.storage.models import MAX_NAME, Prediction, PredictionSet
from closecall.storage.tabular import batched

_CHUNK = 10_000
_VALUES = 500  # values in one IN (...), well below each engine's limit


class Predicted(NamedTuple):
    """Prediction of a model for an item: a score, "yes" or "no", or both."""

    item: int
    score: float | None
    label: str | None


@dataclass(frozen=True, slots=True)
class ModelRecord:
    """Description of one model's predictions for one concept.

    Parameters
    ----------
    id, concept_id : int
    concept, model, file, digest : str
        Names of the concept, the model and the imported file, and the digest of the file's content.
    created : int
        Time of the import in milliseconds since 1970 UTC.
    items : int
        Number of items with a prediction.
    labeled, agree : int
        `labeled` is the number of predicted items whose status is yes or no. `agree` is the number of these
        items whose prediction equals the status. A prediction that is only a score means yes if the score is
        above a threshold: 0.5 if all of the model's scores are from 0 to 1, otherwise 0.
    """

    id: int
    concept_id: int
    concept: str
    model: str
    file: str
    digest: str
    created: int
    items: int
    labeled: int
    agree: int


class PredictionSource(NamedTuple):
    """A model that has predictions for a concept, with the digest of the file that they come from."""

    set_id: int
    model: str
    digest: str


class Predictions:
    """Predictions in a project's database.

    Parameters
    ----------
    database : Database
    clock : callable
        Returns the time in milliseconds since 1970 UTC.
    """

    def __init__(self, database: Database, clock: Callable[[], int] = rows.now_ms) -> None:
        self.database = database
        self._clock = clock

    def store(
        self, concept_id: int, model: str, predicted: Iterable[Predicted], *, file: str, digest: str
    ) -> int:
        """Replace all of a model's predictions by new predictions, and return the number of new predictions.

        Raises
        ------
        StorageError
            If the model's name is empty or too long, or an item is repeated (both of kind `invalid`). Errors
            in iterating over `predicted` are passed on. After an error, the earlier predictions are kept.
        """
        if not 0 < len(model.strip()) <= MAX_NAME:
            raise StorageError(f"a model needs a name of at most {MAX_NAME} characters", "invalid")
        number = 0
        with self.database.write() as connection:
            _remove(connection, concept_id, model.strip())
            made = connection.execute(
                insert(PredictionSet).values(
                    concept_id=concept_id,
                    model=model.strip(),
                    file=file,
                    digest=digest,
                    created=self._clock(),
                )
            )
            assert made.inserted_primary_key is not None
            key = made.inserted_primary_key[0]
            for batch in batched(predicted, _CHUNK):
                connection.execute(
                    insert(Prediction),
                    [{"set_id": key, "item": p.item, "score": p.score, "label": p.label} for p in batch],
                )
                number += len(batch)
        return number

    def all(self) -> list[ModelRecord]:
        """Return the records of all models, ordered by concept and model."""
        query = """
            SELECT s.id, s.concept_id, c.name, s.model, s.file, s.digest, s.created, COUNT(p.item),
                   SUM(CASE WHEN l.status IN ('yes', 'no') THEN 1 ELSE 0 END),
                   SUM(CASE WHEN l.status = COALESCE(
                       p.label, CASE WHEN p.score > r.threshold THEN 'yes' ELSE 'no' END
                   ) THEN 1 ELSE 0 END)
            FROM prediction_sets AS s JOIN concepts AS c ON c.id = s.concept_id
            LEFT JOIN predictions AS p ON p.set_id = s.id
            LEFT JOIN (
                SELECT set_id,
                       CASE WHEN MIN(score) >= 0 AND MAX(score) <= 1 THEN 0.5 ELSE 0.0 END AS threshold
                FROM predictions GROUP BY set_id
            ) AS r ON r.set_id = s.id
            LEFT JOIN current_labels AS l ON l.concept_id = s.concept_id AND l.item = p.item
            GROUP BY s.id, s.concept_id, c.name, s.model, s.file, s.digest, s.created
            ORDER BY s.concept_id, s.model
        """
        with self.database.read() as connection:
            return [ModelRecord(*row) for row in connection.execute(text(query))]

    def sources(self, concept_id: int) -> list[PredictionSource]:
        """Return the models that have predictions for the concept, ordered by name."""
        query = select(PredictionSet.id, PredictionSet.model, PredictionSet.digest)
        query = query.where(PredictionSet.concept_id == concept_id).order_by(PredictionSet.model)
        with self.database.read() as connection:
            return [PredictionSource(*row) for row in connection.execute(query)]

    def of(self, set_id: int, *, after: int = -1) -> Iterator[Predicted]:
        """Yield a model's predictions for items with ids above `after`, in ascending order of the ids."""
        query = select(Prediction.item, Prediction.score, Prediction.label)
        query = query.where(Prediction.set_id == set_id, Prediction.item > after).order_by(Prediction.item)
        with self.database.read() as connection:
            for row in connection.execution_options(yield_per=_CHUNK).execute(query):
                yield Predicted(*row)

    def among(self, set_id: int, items: Iterable[int]) -> Iterator[Predicted]:
        """Yield a model's predictions for these items, in no particular order."""
        query = select(Prediction.item, Prediction.score, Prediction.label).where(Prediction.set_id == set_id)
        for chunk in batched(items, _VALUES):
            with self.database.read() as connection:
                rows_of = connection.execute(query.where(Prediction.item.in_(chunk))).all()
            yield from (Predicted(*row) for row in rows_of)

    def range_of(self, set_id: int) -> tuple[float, float]:
        """Return the lowest and the highest score of a model, or 0 and 0 if there are no scores."""
        query = select(func.min(Prediction.score), func.max(Prediction.score))
        with self.database.read() as connection:
            lowest, highest = connection.execute(query.where(Prediction.set_id == set_id)).one()
        return (lowest or 0.0, highest or 0.0)

    def without_label(self, set_id: int) -> int:
        """Return the number of a model's predictions that are only scores."""
        its = (Prediction.set_id == set_id, Prediction.label.is_(None))
        with self.database.read() as connection:
            return connection.scalar(select(func.count()).select_from(Prediction).where(*its)) or 0


def _remove(connection: Connection, concept_id: int, model: str) -> None:
    its = select(PredictionSet.id).where(PredictionSet.concept_id == concept_id, PredictionSet.model == model)
    key = connection.scalar(its)
    connection.execute(delete(Prediction).where(Prediction.set_id == key))
    connection.execute(delete(PredictionSet).where(PredictionSet.id == key))
