"""The content of Label Studio tasks: the items' images or texts, and predictions as a start for labeling."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import quote

import click
import numpy as np

from closecall.app.display.phrases import counted
from closecall.app.display.thumbnails import CARD_SIZE, data_url
from closecall.app.exchange.model import train_model
from closecall.app.exchange.offline_project import names_of
from closecall.core.errors import InputError
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.pool.pool import Pool
from closecall.core.sources import Source
from closecall.core.sources.texts import Texts
from closecall.storage import Archive, ConceptRecord, Database, LabelLog
from closecall.storage.label_studio import Content, Guess, labeling_config
from closecall.storage.predictions import ModelRecord, Predictions
from closecall.storage.records import AnswerWord

LOCAL_FILES = "/data/local-files/?d="
"""Start of the address of a file below Label Studio's document root; the file's path follows."""

OURS = "closecall"
"""Name of the project's own classifier among the models whose predictions are exported."""


@dataclass(frozen=True)
class Wishes:
    """The requested content of tasks, apart from the answers.

    Parameters
    ----------
    image_url : str or None
        Prefix before an image's path; None for the address at which Label Studio serves local files.
    models : sequence of ModelRecord
        Imported predictions, at most one record per concept.
    classifier : bool
        Whether the predictions of the project's own classifiers are included.
    unlabeled : int
        Maximum number of items without an answer that are included.
    users : mapping
        Annotators by the number or e-mail address of a user in Label Studio.
    """

    image_url: str | None = None
    models: Sequence[ModelRecord] = ()
    classifier: bool = False
    unlabeled: int = 0
    users: Mapping[str, str] | None = None


def content_of(
    database: Database, pool: Pool, concepts: Sequence[ConceptRecord], wishes: Wishes, description: str
) -> Content:
    """Return the content of the tasks about these concepts, with the pool's set of features `description`.

    Raises
    ------
    InputError
        If a concept has no classifier although its predictions are wanted.
    """
    planes: dict[str, Hyperplane] = {}
    if wishes.classifier or wishes.unlabeled:
        planes = _trained(database, pool, concepts, description)
    if wishes.classifier:
        _require_classifiers(database, pool, concepts, planes, description)
    guesses = [_of_model(database, its) for its in wishes.models]
    if wishes.classifier:
        guesses.append(lambda items: _of_classifiers(pool, planes, items))
    users = {name: int(user) for user, name in (wishes.users or {}).items() if user.isdecimal()}
    return Content(
        _shows(pool, wishes.image_url),
        (lambda items: _joined([of(items) for of in guesses])) if guesses else None,
        _without_answer(database, pool, concepts, planes, wishes.unlabeled),
        users,
    )


def tell_how_images_are_served(pool: Pool, image_url: str | None) -> None:
    """Print how Label Studio must be set up in order to show the images, if they are files."""
    root = _folder(pool)
    if root is not None and image_url is None:
        click.echo(
            f"Label Studio shows the images if it runs with "
            f"LABEL_STUDIO_LOCAL_FILES_SERVING_ENABLED=true and "
            f"LABEL_STUDIO_LOCAL_FILES_DOCUMENT_ROOT={root.parent}, and if its project has the local storage "
            f"{root}."
        )


def interface(concepts: Sequence[ConceptRecord], pool: Pool | None) -> str:
    """Return the labeling interface for these concepts."""
    is_text = pool is not None and isinstance(pool.source, Texts)
    return labeling_config([(its.name, its.question) for its in concepts], is_text=is_text)


def _trained(
    database: Database, pool: Pool, concepts: Sequence[ConceptRecord], description: str
) -> dict[str, Hyperplane]:
    """Return the hyperplane of each concept that has a classifier, by the concept's name."""
    found = {}
    for concept in concepts:
        try:
            found[concept.name] = train_model(database, pool, concept, description).hyperplane
        except InputError:  # it has no classifier yet
            continue
    return found


def _require_classifiers(
    database: Database,
    pool: Pool,
    concepts: Sequence[ConceptRecord],
    planes: Mapping[str, Hyperplane],
    description: str,
) -> None:
    """Raise InputError if a concept has no hyperplane in `planes`. The message names those that have one."""
    for concept in concepts:
        if concept.name not in planes:
            try:
                train_model(database, pool, concept, description)
            except InputError as error:
                if not planes:
                    raise
                there = ", ".join(map(repr, planes))
                raise InputError(f"{error}; choose a concept that has one with --concept ({there})") from None


def _without_answer(
    database: Database,
    pool: Pool,
    concepts: Sequence[ConceptRecord],
    planes: Mapping[str, Hyperplane],
    n: int,
) -> list[int]:
    """Return up to n items without an answer about these concepts, nearest to a hyperplane first."""
    if not n:
        return []
    log = LabelLog(database)
    answered = np.unique(np.concatenate([log.answered_items(its.id) for its in concepts]))
    margins = np.zeros(len(pool), dtype=np.float32)
    if planes:
        margins = np.min([np.abs(pool.scores(plane)) for plane in planes.values()], axis=0)
    order = np.argsort(margins, kind="stable")
    order = order[~np.isin(pool.ids[order], answered)][:n]
    found: list[int] = pool.ids[order].tolist()
    return found


def _of_model(database: Database, model: ModelRecord) -> Callable[[Sequence[int]], dict[int, list[Guess]]]:
    """Return a function from items to the predictions of an imported model."""
    stored = Predictions(database)
    lowest, highest = stored.range_of(model.id)
    are_shares = lowest >= 0 and highest <= 1

    def guesses(items: Sequence[int]) -> dict[int, list[Guess]]:
        found: dict[int, list[Guess]] = {}
        for its in stored.among(model.id, items):
            if its.label in ("yes", "no"):
                share = its.score if are_shares or its.score is None else _share(its.score)
                word: AnswerWord = "yes" if its.label == "yes" else "no"
                found[its.item] = [Guess(model.concept, model.model, word, its.score, share)]
        return found

    return guesses


def _of_classifiers(
    pool: Pool, planes: Mapping[str, Hyperplane], items: Sequence[int]
) -> dict[int, list[Guess]]:
    there = [item for item in items if pool.has_row(item)]
    found: dict[int, list[Guess]] = {item: [] for item in there}
    if there:
        X = pool.rows_of(there)
        for concept, plane in planes.items():
            for item, score in zip(there, plane.scores(X).tolist(), strict=True):
                guess = Guess(concept, OURS, "yes" if score > 0 else "no", score, _share(abs(score)))
                found[item].append(guess)
    return found


def _joined(found: Sequence[dict[int, list[Guess]]]) -> dict[int, list[Guess]]:
    items = dict.fromkeys(item for each in found for item in each)
    return {item: [guess for each in found for guess in each.get(item, [])] for item in items}


def _share(score: float) -> float:
    """Return the logistic function of a score: a number from 0 to 1, as Label Studio wants it."""
    return 1 / (1 + math.exp(-score)) if score > -700 else 0.0


def _folder(pool: Pool) -> Path | None:
    """Return the folder of the image files, or None if the items are not image files below one folder."""
    source = pool.source
    if not len(pool) or isinstance(source, Texts):
        return None
    item = int(pool.ids[0])
    file, name = source.original(item), source.name(item)
    if file is None or not file.as_posix().endswith("/" + name):
        return None
    return Path(file.as_posix()[: -len(name)])


def _shows(pool: Pool, image_url: str | None) -> Callable[[Sequence[int]], list[dict[str, Any]]]:
    """Return a function from items to the data of their Label Studio tasks."""
    source = pool.source
    root = _folder(pool)
    before = image_url
    if before is None and root is not None:
        # Label Studio serves only folders below its document root, which is therefore the parent of `root`.
        before = LOCAL_FILES + quote(f"{root.name}/" if root.name else "")

    def shows(items: Sequence[int]) -> list[dict[str, Any]]:
        names = names_of(pool, items)
        if isinstance(source, Texts):
            texts = (source.text(i) if name else "" for i, name in zip(items, names, strict=True))
            return [{"text": text, "name": name} for text, name in zip(texts, names, strict=True)]
        if before is not None:
            return [{"image": before + quote(name), "name": name} for name in names]
        return [{"image": _picture(source, i), "name": name} for i, name in zip(items, names, strict=True)]

    return shows


def _picture(source: Source, item: int) -> str:
    """Return a ``data:`` URL of an image that has no file of its own, or "" if it can't be read."""
    try:
        return data_url(source.image(item, CARD_SIZE))
    except InputError:
        return ""


def concepts_of(database: Database, concept: ConceptRecord | None) -> list[ConceptRecord]:
    """Return the concept or, if it is None, the concepts that are exported together."""
    return [concept] if concept else Archive(database).exported()


def say_what_is_left_out(models: Sequence[ModelRecord], database: Database) -> None:
    """Print how many predictions are only scores, which Label Studio can't show."""
    for model in models:
        if bare := Predictions(database).without_label(model.id):
            click.echo(f"{counted(bare, 'prediction')} of {model.model} without yes or no left out.")
