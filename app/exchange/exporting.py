"""Export labels as tables, Label Studio tasks or folders of classes, and export predictions."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, get_args
from urllib.parse import quote

import click

from closecall.app.display.phrases import counted
from closecall.app.exchange.class_folders import export_folder
from closecall.app.exchange.offline_project import concept_named, names_of, open_labels, written_whole
from closecall.app.projects.config import ProjectFile
from closecall.core.errors import InputError
from closecall.core.pool.pool import Pool
from closecall.core.sources.texts import Texts
from closecall.storage import ConceptRecord, Concepts, Database, export
from closecall.storage.exports import NamesOf, export_predictions
from closecall.storage.label_studio import labeling_config
from closecall.storage.predictions import ModelRecord, Predictions
from closecall.storage.tabular import TableFormat, shown

FOLDER = "folder"

IMAGE_URL = "/data/local-files/?d="
"""Default prefix that Label Studio puts before an image's path."""


def export_labels(
    project: Path, *, form: str, concept: str | None, log: bool, out: Path | None, image_url: str
) -> None:
    """Write a project's labels to `out` atomically, or to stdout.

    Raises
    ------
    InputError
        If the format `form` needs `out`, if `log` is true and `form` can't hold the log, or if no concept has
        the name `concept`.
    """
    file = ProjectFile.read(project)
    if out is None and form in (FOLDER, "parquet"):
        raise InputError(f"--format {form} needs --out: it can't be written to the terminal")
    if log and form in (FOLDER, "label-studio"):
        raise InputError(
            f"--format {form} contains labels, not the log: use csv, jsonl or parquet with --log"
        )
    with open_labels(project) as database:
        its = concept_named(database, concept)
        if form == FOLDER:
            assert out is not None
            copied = export_folder(database, Pool.open(file.pool_path(project)), its, out)
            click.echo(f"{counted(sum(copied.values()), 'file')} in {out}: {_counts(copied)}")
            return
        pool = _pool(file.pool_path(project))
        if form == "label-studio" and pool is not None:
            _warn_without_images(pool)
        options = options_of(pool, its, form, log=log, image_url=image_url)
        if out is None:
            export(database, sys.stdout, **options)
            return
        with written_whole(out, binary=form == "parquet") as stream:
            rows = export(database, stream, **options)
        click.echo(f"{counted(rows, 'task' if form == 'label-studio' else 'row')} in {out}")
        if form == "label-studio":
            click.echo(
                f"Label Studio's labeling interface for it is in {_write_config(database, its, pool, out)}"
            )


def options_of(
    pool: Pool | None, concept: ConceptRecord | None, form: str, *, log: bool, image_url: str = IMAGE_URL
) -> dict[str, Any]:
    """Return the options of `storage.export` for a project with this pool.

    `image_url` is the prefix that Label Studio puts before an image's path.
    """
    return {
        "format": form,
        "concept_id": concept.id if concept else None,
        "log": log,
        "names_of": _names(pool),
        "data_of": None if pool is None else _shows(pool, image_url),
    }


def export_model_predictions(
    project: Path, *, form: str, concept: str | None, model: str, log: bool, out: Path | None
) -> None:
    """Write the imported predictions of a model to `out` atomically, or to stdout.

    ``closecall import`` can read the result.

    Raises
    ------
    InputError
        If there is no such model, if it has predictions for several concepts and `concept` is None, if the
        format `form` can't hold predictions or needs `out`, or if `log` is true.
    """
    if log or form not in get_args(TableFormat):
        option = "--log" if log else f"--format {form}"
        raise InputError(f"{option} contains labels, not predictions: use csv, jsonl or parquet")
    if out is None and form == "parquet":
        raise InputError("--format parquet needs --out: it can't be written to the terminal")
    with open_labels(project) as database:
        its = _model(database, concept, model)
        names = _names(_pool(ProjectFile.read(project).pool_path(project)))
        table: Any = {"format": form, "names_of": names}
        if out is None:
            export_predictions(database, its.id, sys.stdout, **table)
            return
        with written_whole(out, binary=form == "parquet") as stream:
            number = export_predictions(database, its.id, stream, **table)
    click.echo(f"{counted(number, 'prediction')} of {its.model} for {its.concept!r} in {out}")


def _model(database: Database, concept: str | None, model: str) -> ModelRecord:
    """Return the record of a model's predictions for a concept.

    If `concept` is None, the model must have predictions for only one concept.
    """
    only = concept_named(database, concept)
    there = [its for its in Predictions(database).all() if only is None or its.concept_id == only.id]
    found = [its for its in there if its.model == model.strip()]
    if not found:
        about = f" for {only.name!r}" if only else ""
        names = ", ".join(dict.fromkeys(shown(its.model) for its in there)) or "none"
        raise InputError(f"There are no predictions of {shown(model)}{about} in this project; it has {names}")
    if len(found) > 1:
        concepts = ", ".join(repr(its.concept) for its in found)
        raise InputError(
            f"{shown(model)} has predictions for {len(found)} concepts: "
            f"choose one with --concept ({concepts})"
        )
    return found[0]


def _names(pool: Pool | None) -> NamesOf | None:
    """Return a function from items to their names, or None without a pool."""
    return None if pool is None else lambda items: names_of(pool, items)


def _counts(copied: dict[str, int]) -> str:
    return ", ".join(f"{name} {n:,}" for name, n in sorted(copied.items())) or "nothing is labeled yes or no"


def _pool(path: Path) -> Pool | None:
    """Open the pool to read item names. If this fails, warn and return None; then no names are exported."""
    try:
        pool = Pool.open(path)
        pool.source  # noqa: B018 (opens the images' folder)
    except InputError as error:
        click.echo(f"Warning: item names are left out, since the pool can't be read: {error}", err=True)
        return None
    return pool


def _warn_without_images(pool: Pool) -> None:
    """Warn if the items are neither texts nor image files: Label Studio then finds nothing to show."""
    if len(pool) and not isinstance(pool.source, Texts) and pool.source.original(int(pool.ids[0])) is None:
        click.echo(
            "Warning: Label Studio can't show these items, which are not image files: the tasks have their "
            "names and answers only",
            err=True,
        )


def _shows(pool: Pool, image_url: str) -> Callable[[Sequence[int]], list[dict[str, Any]]]:
    """Return a function from items to the data of their Label Studio tasks."""
    source = pool.source

    def shows(items: Sequence[int]) -> list[dict[str, Any]]:
        names = names_of(pool, items)
        if isinstance(source, Texts):
            texts = (source.text(i) if name else "" for i, name in zip(items, names, strict=True))
            return [{"text": text, "name": name} for text, name in zip(texts, names, strict=True)]
        return [{"image": image_url + quote(name), "name": name} for name in names]

    return shows


def _write_config(database: Database, concept: Any, pool: Pool | None, out: Path) -> Path:
    concepts = [concept] if concept else Concepts(database).all()
    is_text = pool is not None and isinstance(pool.source, Texts)
    config = out.with_name(f"{out.stem}-interface.xml")
    with written_whole(config) as stream:
        stream.write(labeling_config([(its.name, its.question) for its in concepts], is_text=is_text))
    return config
