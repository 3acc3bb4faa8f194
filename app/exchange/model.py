"""Export a concept's classifier as weights, as an estimator, and as predictions for the pool."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import click
import numpy as np

from closecall.app.display.phrases import counted
from closecall.app.engine.training import accuracy, known_labels, train_concept
from closecall.app.exchange.offline_project import (
    folder_written_whole,
    names_of,
    one_concept,
    open_labels,
    open_pool,
    require_absent,
    require_csv,
    written_whole,
)
from closecall.app.exchange.scoring import COEF, INTERCEPT, MANIFEST, PROGRAM, SCRIPT, WEIGHTS, features_of
from closecall.app.projects.config import ProjectFile
from closecall.core.errors import InputError
from closecall.core.linear.hyperplane import Hyperplane
from closecall.core.pool.pool import Pool
from closecall.storage import ConceptRecord, Concepts, Database, LabelLog
from closecall.storage.tabular import Column, Row, TableFormat, write_table

ESTIMATOR = "svm.joblib"
FORMAT = 2
PICKLE = (
    "svm.joblib is a pickle: loading it runs any code that it contains, so load it only if you trust its "
    "author; weights.npz and model.json have the same content as plain data"
)

PREDICTIONS = (
    Column("item", "whole"),
    Column("name"),
    Column("score", "number"),
    Column("predicted"),
    Column("label"),
)
"""Columns of predictions: `score` is wᵀx + b, `predicted` is yes or no, `label` is the label, if any."""

FEATURES = {
    "gist": "GIST",
    "edges": "edge histograms",
    "sets": "the pyramid match embedding of the local edges",
}
"""Display names of features, by name of the extractor that computes them."""

_BLOCK = 10_000


@dataclass(frozen=True, eq=False)
class Model:
    """The classifier of a concept, and facts about its training.

    Parameters
    ----------
    concept : ConceptRecord
    hyperplane : Hyperplane
    yes, no : int
        Numbers of positive and negative labels, including the labels of example images.
    examples : int
        Number of example images.
    through : int
        Log position of the last answer that the labels include.
    """

    concept: ConceptRecord
    hyperplane: Hyperplane
    yes: int
    no: int
    examples: int
    through: int


def train_model(database: Database, pool: Pool, concept: ConceptRecord, description: str = "") -> Model:
    """Train a concept's classifier on its current labels, in the same way as during labeling.

    `description` names the features that the pool has; see `app.projects.descriptions`.

    Raises
    ------
    InputError
        If there is no positive or no negative label.
    """
    return model_of(Concepts(database, description=description), LabelLog(database), pool, concept)


def model_of(concepts: Concepts, log: LabelLog, pool: Pool, concept: ConceptRecord) -> Model:
    """Train a concept's classifier; see `train_model`."""
    labels = log.labels(concept.id, is_item=pool.has_row)
    examples = concepts.examples(concept.id)
    trained = train_concept(pool, labels, examples, concept, examples_through=0)
    known = known_labels(pool, labels, examples)
    yes = int(np.count_nonzero(known.y))
    if trained.hyperplane is None:
        raise InputError(
            f"{concept.name!r} has no classifier yet: at least one yes and one no are needed, "
            f"there are {yes} and {len(known) - yes}"
        )
    return Model(
        concept, trained.hyperplane, yes, len(known) - yes, len(known) - len(labels), trained.through
    )


def export_model(project: Path, concept: str | None, out: Path) -> None:
    """Write a concept's classifier into the new folder `out`: weights, manifest and estimator.

    Raises
    ------
    InputError
        If there is no classifier yet, or `out` exists and is not empty.
    """
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise InputError(f"{out} exists already and is not empty: choose a new folder")
    pool, description = open_pool(project), ProjectFile.read(project).description
    with open_labels(project) as database:
        model = train_model(database, pool, one_concept(database, concept), description)
    with folder_written_whole(out) as half:
        plane = model.hyperplane
        arrays: dict[str, Any] = {COEF: plane.normal, INTERCEPT: np.float64(plane.bias)}
        np.savez(half / WEIGHTS, **arrays)
        manifest = json.dumps(manifest_of(model, pool), indent=2, ensure_ascii=False)
        (half / MANIFEST).write_text(manifest + "\n", "utf-8")
        _save_estimator(model, half / ESTIMATOR)
        scores_images = features_of(pool.source) is not None
        if scores_images:
            (half / SCRIPT).write_text(PROGRAM, "utf-8")
    labels = counted(model.yes + model.no, "label")
    click.echo(f"The classifier of {model.concept.name!r}, trained on {labels}, is in {out}.")
    if scores_images:
        click.echo(f"It scores other images, too: python {out / SCRIPT} IMAGE ...")
    click.echo(f"Note: {PICKLE}.")


def manifest_of(model: Model, pool: Pool) -> dict[str, Any]:
    """Return the manifest as JSON, with all facts that are needed to use or check the weights elsewhere."""
    concept, plane = model.concept, model.hyperplane
    return {
        "format": FORMAT,
        "concept": concept.name,
        "question": concept.question,
        "classes": ["no", "yes"],
        "decision": "yes where coef · x + intercept > 0, x of unit norm",
        "digest": plane.digest,
        "features": {
            "name": _features(pool),
            "dimension": pool.n_features,
            "norm": "unit",
            **(features_of(pool.source) or {}),
        },
        "pool": {"title": pool.title, "items": len(pool), "digest": pool.digest, "version": pool.version},
        "svm": {"loss": "hinge", "C": concept.c, "class_weight": concept.class_weight, "bias": "regularized"},
        "labels": {
            "yes": model.yes,
            "no": model.no,
            "of_which_examples": model.examples,
            "through": model.through,
        },
        "accuracy_on_held_out": accuracy(pool, plane, concept.positive_class),
        "created": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {name: version(name) for name in ("closecall", "numpy", "scikit-learn")},
        "files": {WEIGHTS: f"numpy arrays {COEF} and {INTERCEPT}, float64", ESTIMATOR: PICKLE},
    }


def _features(pool: Pool) -> str:
    """Return words that name the pool's features."""
    if pool.source.n_features:
        return pool.source.own_features
    kind = FEATURES[pool.source.extractor]
    return f"{kind} of the 32 × 32 grey image"


def _save_estimator(model: Model, path: Path) -> None:
    """Save the classifier as scikit-learn's LinearSVC, which predicts "yes" and "no"."""
    import joblib
    from sklearn.svm import LinearSVC

    plane, concept = model.hyperplane, model.concept
    svm = LinearSVC(C=concept.c, loss="hinge", class_weight=concept.class_weight)
    svm.classes_ = np.array(["no", "yes"])
    svm.coef_, svm.intercept_ = plane.normal[None].copy(), np.array([plane.bias])
    svm.n_features_in_, svm.n_iter_ = len(plane.normal), 0
    joblib.dump(svm, path)


def predict(
    project: Path,
    concept: str | None,
    out: Path | None,
    form: TableFormat,
    *,
    bom: bool = False,
    force: bool = False,
) -> None:
    """Write the score and the predicted label of every item that is not held out, block by block.

    Raises
    ------
    InputError
        If there is no classifier yet, if `form` needs `out` or can't have a byte order mark, or if `out`
        exists and `force` is false.
    """
    if out is None and form == "parquet":
        raise InputError("--format parquet needs --out: it can't be written to the terminal")
    require_csv(form, bom)
    require_absent(out, force=force)
    pool, description = open_pool(project), ProjectFile.read(project).description
    with open_labels(project) as database:
        its = one_concept(database, concept)
        model = train_model(database, pool, its, description)
        labels = LabelLog(database).labels(its.id, is_item=pool.has_row)
    rows = predictions(
        pool, model.hyperplane, dict(zip(labels.items.tolist(), labels.yes.tolist(), strict=True))
    )
    if out is None:
        write_table(PREDICTIONS, rows, sys.stdout, form, bom=bom)
        return
    with written_whole(out, binary=form == "parquet") as stream:
        number = write_table(PREDICTIONS, rows, stream, form, bom=bom)
    click.echo(f"{counted(number, 'prediction')} of {its.name!r} in {out}")


def predictions(pool: Pool, hyperplane: Hyperplane, labels: dict[int, bool]) -> Iterator[Row]:
    """Yield a row of `PREDICTIONS` for each item of the pool, in order.

    `labels` maps labeled items to True for yes and False for no.
    """
    for first, (scores,) in pool.score_blocks([hyperplane]):
        for start in range(0, len(scores), _BLOCK):
            block = scores[start : start + _BLOCK]
            items = pool.ids[first + start : first + start + len(block)]
            for item, name, score in zip(items.tolist(), names_of(pool, items), block.tolist(), strict=True):
                label = labels.get(item)
                yield item, name, score, _WORD[score > 0], None if label is None else _WORD[label]


_WORD = {True: "yes", False: "no"}
