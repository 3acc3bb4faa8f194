"""One project: its questions, sessions, labels and predictions."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from closecall.client.connection import Connection, path_of
from closecall.client.errors import NotFound
from closecall.client.log import AnswerLog
from closecall.client.model import Model
from closecall.client.records import Concept, Found, Label, Prediction
from closecall.client.session import Session
from closecall.client.tables import chunks, columns, rows_of

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

PAGE = 1000
"""Maximum number of labels or predictions in a reply."""

ROWS = 10_000
"""Maximum number of labels in a request that adds labels."""

WhichConcept = Concept | int | str | None
"""A question, or its id, name or text. None means the only question of a project."""


class Project:
    """A project on the server. `Client.project` returns it.

    Parameters
    ----------
    connection : Connection
    key : str
        Name of the project's folder.
    """

    def __init__(self, connection: Connection, key: str) -> None:
        self.key = key
        self._connection = connection

    def __repr__(self) -> str:
        return f"<Project {self.key!r} at {self._connection.url}>"

    def about(self) -> dict[str, Any]:
        """Return the state of the project, such as `items`, `is_complete`, `problem` and `strategies`."""
        return dict(self._connection.get(self._path()))

    def concepts(self) -> list[Concept]:
        """Return the questions."""
        return [Concept.from_json(one) for one in self._connection.get(self._path("concepts"))["concepts"]]

    def concept(self, which: WhichConcept = None) -> Concept:
        """Return a question, by its id, its name or its text.

        Raises
        ------
        NotFound
            If there is no such question, or if `which` is None and there are several questions.
        """
        known = self.concepts()
        if isinstance(which, Concept):
            which = which.id
        found = [one for one in known if which is None or which in (one.id, one.name, one.question)]
        if len(found) != 1:
            names = ", ".join(repr(one.name) for one in known)
            wanted = "only question" if which is None else f"question {which!r}"
            raise NotFound(
                404, f"The project {self.key} has no {wanted}. Its questions are: {names or 'none'}."
            )
        return found[0]

    def add_concept(
        self,
        question: str,
        *,
        name: str | None = None,
        guideline: str | None = None,
        positive_class: str | None = None,
    ) -> Concept:
        """Add a question, or return the question that already exists.

        Raises
        ------
        Conflict
            If the name belongs to another question.
        """
        given = {"name": name, "guideline": guideline, "positive_class": positive_class}
        body = {"question": question} | {key: value for key, value in given.items() if value is not None}
        return Concept.from_json(self._connection.send("POST", self._path("concepts"), body))

    def session(
        self,
        concept: WhichConcept = None,
        *,
        strategy: str | None = None,
        id: str | None = None,  # noqa: A002
    ) -> Session:
        """Start a session; with `id`, resume an earlier session.

        Parameters
        ----------
        concept : Concept, int or str, optional
            The question. It can be left out if the project has only one question.
        strategy : str, optional
            The query strategy, such as "margin-index"; by default, the project's strategy.
        id : str, optional
            Id of the earlier session, which must be one of `sessions`.
        """
        if id is None:
            body = {"concept": self._id(concept)} | ({"strategy": strategy} if strategy else {})
            return self._session(self._connection.send("POST", self._path("sessions"), body))
        session = self._session(self._connection.get(self._path("sessions", id)))
        if strategy:
            session.use(strategy=strategy)
        return session

    def sessions(self) -> list[Session]:
        """Return the sessions of the token's annotator, oldest first."""
        return [self._session(one) for one in self._connection.get(self._path("sessions"))["sessions"]]

    def answers(self, concept: WhichConcept = None, *, after: int = 0) -> AnswerLog:
        """Return an iterator over the log of a question's answers.

        Parameters
        ----------
        concept : Concept, int or str, optional
            The question.
        after : int
            The `cursor` of an earlier iteration; 0 is the beginning.
        """
        return AnswerLog(self._connection, self._of(concept, "answers"), after)

    def labels(self, concept: WhichConcept = None) -> list[Label]:
        """Return the current labels, yes or no, ordered by item."""
        pages = self._pages(self._of(concept, "labels"), "labels")
        return [Label.from_json(label) for label in pages]

    def labels_frame(self, concept: WhichConcept = None) -> pd.DataFrame:
        """Return the current labels as a pandas frame with the columns `item` and `label`."""
        import pandas as pd

        return pd.DataFrame(columns(self.labels(concept), ("item", "label")))

    def labels_table(self, concept: WhichConcept = None) -> pa.Table:
        """Return the current labels as an Arrow table with the columns `item` and `label`."""
        import pyarrow as pa

        kinds = pa.schema([("item", pa.int64()), ("label", pa.string())])
        return pa.table(columns(self.labels(concept), ("item", "label")), schema=kinds)

    def export(
        self,
        path: str | os.PathLike[str],
        format: str = "csv",  # noqa: A002
        *,
        concept: WhichConcept = None,
        log: bool = False,
    ) -> Path:
        """Write labels to a file, as ``closecall export`` does, and return its path.

        Parameters
        ----------
        path : path
            The new file.
        format : str
            "csv", "jsonl" or "label-studio".
        concept : Concept, int or str, optional
            By default, all questions.
        log : bool
            Whether to write all answers instead of the current labels.
        """
        which = None if concept is None else self._id(concept)
        target = Path(path)
        self._connection.download(self._path("export"), target, concept=which, format=format, log=log or None)
        return target

    def add_labels(
        self, concept: WhichConcept, labels: Any, *, annotator: str | None = None
    ) -> dict[str, Any]:
        """Import labels while the project is served.

        Labels that are in force already are not stored again, so it is safe to repeat an import. A label that
        was replaced or undone since is stored again: the last import counts.

        Parameters
        ----------
        concept : Concept, int, str or None
            The question.
        labels : pandas.DataFrame, pyarrow.Table, mapping or iterable
            With the columns `item` (id) or `name`, and `label`; `annotator` is optional. A mapping is from
            items to labels. An iterable has mappings, or pairs of an item and a label.
        annotator : str, optional
            The annotator of rows that name no annotator.

        Returns
        -------
        dict
            Numbers of labels. `new` labels were stored now. `known` labels had been stored by an earlier
            import of the same rows. `same` labels equal answers in the log. `contested` labels are the new
            labels that contradict another annotator. `unmatched` is the number of rows that match no item;
            `examples` has some of these rows.
        """
        path = self._of(concept, "labels")
        default = {"annotator": annotator} if annotator is not None else {}
        rows = [default | row for row in rows_of(labels, ("label",), ("annotator",))]
        total: dict[str, Any] = dict.fromkeys(("new", "known", "same", "contested", "unmatched"), 0)
        for chunk in chunks(rows, ROWS):
            for name, value in self._connection.send("POST", path, {"labels": chunk}).items():
                total[name] = total[name] + value if name in total else value
        return total

    def add_predictions(self, concept: WhichConcept, model: str, predictions: Any) -> dict[str, Any]:
        """Store the predictions of a model. They replace earlier predictions of a model with this name.

        Parameters
        ----------
        concept : Concept, int, str or None
            The question.
        model : str
            A name for the model.
        predictions : pandas.DataFrame, pyarrow.Table, mapping or iterable
            With the columns `item` (id) or `name`, and `score` or `label`. A mapping is from items to scores.
            An iterable has mappings, or pairs of an item and a score.

        Returns
        -------
        dict
            `stored` is the number of stored predictions. `unmatched` is the number of rows that match no
            item; `examples` has some of these rows.
        """
        rows = list(rows_of(predictions, ("score", "label")))
        body = {"model": model, "predictions": rows}
        return dict(self._connection.send("POST", self._of(concept, "predictions"), body))

    def predictions(self, concept: WhichConcept, model: str) -> list[Prediction]:
        """Return the predictions of a model, ordered by item.

        Raises
        ------
        NotFound
            If there are no predictions of this model.
        """
        pages = self._pages(self._of(concept, "predictions"), "predictions", model=model)
        return [Prediction.from_json(one) for one in pages]

    def predictions_frame(self, concept: WhichConcept, model: str) -> pd.DataFrame:
        """Return the predictions of a model as a pandas frame: `item`, `score` and `label`."""
        import pandas as pd

        return pd.DataFrame(columns(self.predictions(concept, model), ("item", "score", "label")))

    def progress(self, concept: WhichConcept = None) -> dict[str, Any]:
        """Return the content of the page Progress: advice, counts, learning curve and audit."""
        return dict(self._connection.get(self._of(concept, "progress")))

    def model(self, concept: WhichConcept = None) -> Model:
        """Return the classifier, trained on the current labels.

        Raises
        ------
        Conflict
            If there is no classifier yet, because a yes or a no is missing.
        """
        about = dict(self._connection.get(self._of(concept, "model")))
        return Model(tuple(about.pop("coef")), about.pop("intercept"), about)

    def search(self, name: str, *, limit: int = 100) -> list[Found]:
        """Return the first items whose names contain all words of `name`."""
        found = self._connection.get(self._path("items"), name=name, limit=limit)
        return [Found.from_json(one) for one in found["items"]]

    def image(self, item: int, size: str = "original") -> bytes:
        """Return an item's image file.

        Parameters
        ----------
        item : int
            The item's id.
        size : str
            "thumbnail", "tile", "card" or "original".
        """
        return self._connection.read(self._path("items", item, "image"), size=size)

    def _path(self, *parts: object) -> str:
        return path_of("projects", self.key, *parts)

    def _id(self, concept: WhichConcept) -> int:
        if isinstance(concept, int):
            return concept
        return concept.id if isinstance(concept, Concept) else self.concept(concept).id

    def _of(self, concept: WhichConcept, *parts: object) -> str:
        return self._path("concepts", self._id(concept), *parts)

    def _session(self, data: dict[str, Any]) -> Session:
        return Session(self._connection, self.key, data)

    def _pages(self, path: str, name: str, **query: object) -> Iterator[dict[str, Any]]:
        after, more = None, True
        while more:
            page = self._connection.get(path, after=after, limit=PAGE, **query)
            yield from page[name]
            after, more = page["cursor"], page["more"]
